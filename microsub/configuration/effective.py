"""Which settings hold for a channel: its own, else its user's, else the instance's, else the defaults.

Asked for every page and every fan-out, so the answers are remembered for seconds; an edit of backend.json reaches
every process within that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from microsub.configuration.model import InstanceSettings, UserSettings
from microsub.configuration.store import Applied, InForce
from microsub.errors import NotFound, StoreDamaged, StoreError
from microsub.model.settings import USUAL, ChannelSettings, OwnChannelSettings, UnreadStyle

if TYPE_CHECKING:
    from microsub.timelines.store.channels import Channels

log = structlog.get_logger(__name__)

REMEMBERED = 1.0
"""Seconds for which an answer is used again."""
_MOST_CHANNELS = 10_000


class SettingsInForce:
    """The settings that hold now. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        settings: Applied,
        channels: Channels,
        *,
        remembered: float = REMEMBERED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._channels = channels
        self._remembered = remembered
        self._clock = clock
        self._all = InForce()
        self._is_known = False
        self._damage: str | None = None
        self._all_until = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[InForce] | None = None
        self._own: dict[tuple[str, str], tuple[float, OwnChannelSettings]] = {}
        self._of_users: tuple[InForce, Callable[[str], ChannelSettings]] | None = None

    async def instance(self) -> InstanceSettings:
        """The instance's settings."""
        return (await self._current()).instance

    async def everything(self) -> InForce:
        """All settings, those of users included."""
        return await self._current()

    def instance_now(self) -> InstanceSettings:
        """The instance's settings as they were last seen; the defaults before the first question.

        Doesn't wait: where the answer has become old, the next one is fetched meanwhile.
        """
        if self._all_until <= self._clock() and (self._asking is None or self._asking.done()):
            with contextlib.suppress(RuntimeError):  # no loop: a plan that is made outside of one
                self._asking = asyncio.get_running_loop().create_task(self._ask_quietly())
        return self._all.instance

    async def _ask_quietly(self) -> None:
        with contextlib.suppress(StoreError):
            await self._current()

    async def of(self, user: str, uid: str) -> ChannelSettings:
        """What holds for one channel; nothing in it is None. A channel that isn't there has those of its user."""
        everywhere = await self._current()
        key = (user, uid)
        until, own = self._own.get(key, (float("-inf"), OwnChannelSettings()))
        if until <= self._clock():
            try:
                own = (await self._channels.get(user, uid)).settings
            except NotFound:
                own = OwnChannelSettings()
            if len(self._own) >= _MOST_CHANNELS:
                self._own.clear()
            self._own[key] = (self._clock() + self._remembered, own)
        return resolved(own, user, everywhere)

    async def of_users(self) -> Callable[[str], ChannelSettings]:
        """User to what holds now for those of their channels that set nothing themselves; nothing in it is None."""
        everywhere = await self._current()
        if self._of_users is None or self._of_users[0] is not everywhere:
            common = everywhere.instance.limits().over(USUAL)
            special = {user: own.limits().over(common) for user, own in everywhere.users.items()}
            self._of_users = everywhere, lambda user: special.get(user, common)
        return self._of_users[1]

    async def unread_style(self, user: str) -> UnreadStyle:
        """The style of unread counts for channels of this user that don't set their own; costs next to nothing."""
        everywhere = await self._current()
        own = everywhere.users.get(user)
        style = (own.unread if own else None) or everywhere.instance.unread
        return style or "count"

    def forget(self) -> None:
        """Ask again next time: something was changed by this process."""
        self._all_until = float("-inf")
        self._reading = None
        self._own.clear()

    async def _current(self) -> InForce:
        if self._all_until <= self._clock():
            if self._reading is None:
                self._reading = asyncio.create_task(self._read(), name="settings")
                self._reading.add_done_callback(self._have_read)
            # One question for all who wait; who is cancelled doesn't take the answer away from the others.
            return await asyncio.shield(self._reading)
        return self._all

    async def _read(self) -> InForce:
        task = asyncio.current_task()
        found = self._all
        try:
            found = await self._settings.in_force()
        except StoreDamaged as error:
            if not self._is_known:
                raise
            # Settings that are corrupt don't undo those in force.
            if self._damage != error.key:
                log.warning("the settings of before stay in force", error=str(error))
            self._damage = error.key
        else:
            self._is_known, self._damage = True, None
        if self._reading is task:  # else something was changed since the question was sent
            self._all, self._all_until = found, self._clock() + self._remembered
        return found

    def _have_read(self, task: asyncio.Task[InForce]) -> None:
        if self._reading is task:
            self._reading = None
        if not task.cancelled():
            task.exception()  # also where every caller was cancelled, the error counts as seen


def resolved(own: ChannelSettings, user: str, everywhere: InForce) -> ChannelSettings:
    """A channel's settings over its user's, the instance's and the defaults."""
    above = everywhere.users.get(user, UserSettings()).over(everywhere.instance).over(USUAL)
    return own.limits().over(above)
