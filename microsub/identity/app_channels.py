"""The channels into which users let apps post, each app by a source of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from microsub.accounts import UserQuotas
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.identity.protocol.clients import App
from microsub.identity.provider import LONGEST_NAME, GrantedApp
from microsub.model.reader import NAME, NOTIFICATIONS, SAVED
from microsub.timelines import Channels

NEW_CHANNEL = "+"
"""The form value for a new channel, different from every uid."""


class AppSource(Protocol):
    """A source by which an app posts."""

    @property
    def id(self) -> str:
        """Unique among the user's sources."""


class AppSources(Protocol):
    """The sources of all users, as consent needs them."""

    async def create(self, user: str, uid: str, name: str, now: float, *, app: str, most: int) -> AppSource:
        """Create a source of the app that posts into the channel."""

    async def of_app(self, user: str, app: str, uid: str) -> AppSource | None:
        """The source with which that app already posts into the channel."""

    async def former_channel(self, user: str, app: str) -> str | None:
        """The channel into which that app last got a source, if it still leads there."""

    async def channels_of(self, user: str, sources: Collection[str]) -> dict[str, str | None]:
        """The channels into which these sources post; None for those whose user has ended that."""


class AppChannels:
    """Offers and gives channels to apps. `changed` is called after a change of declarations of backend.json."""

    def __init__(
        self, channels: Channels, sources: AppSources, quotas: UserQuotas, changed: Callable[[], None]
    ) -> None:
        self._channels = channels
        self._sources = sources
        self._quotas = quotas
        self._changed = changed

    async def names(self, user: str, apps: Sequence[GrantedApp]) -> dict[str, list[str]]:
        """The names of the channels into which each app can post, by its `client_id`."""
        used = await self._sources.channels_of(user, frozenset().union(*(app.sources for app in apps)))
        names = {channel.uid: channel.name for channel in await self._channels.list(user)} if used else {}
        return {
            app.client: sorted({names[uid] for one in app.sources if (uid := used.get(one)) in names}) for app in apps
        }

    async def offered(self, user: str) -> list[tuple[str, str]]:
        """Uid and name of each channel into which an app can post; the one for posts about the user comes last."""
        found = [channel for channel in await self._channels.list(user) if channel.uid != SAVED]
        found.sort(key=lambda channel: channel.uid == NOTIFICATIONS)
        return [(channel.uid, channel.name) for channel in found]

    async def choice(self, user: str, app: App) -> tuple[Sequence[tuple[str, str]], str, str]:
        """The channels into which the app can post: its former one is chosen, or a new one named after the app.

        Returns uid and name of each, the uid of the chosen one, and a name for a new one.
        """
        channels = await self.offered(user)
        taken = {name.casefold() for _, name in channels}
        title = app.title[: LONGEST_NAME - 4]
        names = (title if number == 1 else f"{title} {number}" for number in range(1, len(taken) + 2))
        chosen = await self._sources.former_channel(user, app.id) or NEW_CHANNEL
        return channels, chosen, next(name for name in names if name.casefold() not in taken)

    async def source(self, user: str, app: App, uid: str, name: str, now: float) -> str:
        """The id of the source with which the app posts into the channel `uid`, or a new one of that name.

        Empty if `uid` can't be one. Raises InvalidRequest without a name, QuotaReached.
        """
        quotas = await self._quotas.of(user)
        if uid == NEW_CHANNEL:
            if not name:
                raise InvalidRequest(N_("enter a name for the new channel to which the app posts"))
            uid = (await self._channels.create(user, name, now, most=quotas.channels or 0)).uid
        elif not NAME.match(uid):
            return ""
        client, shown_name = app.id, app.title[:LONGEST_NAME]
        known = await self._sources.of_app(user, client, uid)
        most = quotas.sources or 0
        made = known or await self._sources.create(user, uid, shown_name, now, app=client, most=most)
        self._changed()
        return made.id
