"""Fills timelines that delivery has postponed, when their users request them.

If the user of a timeline is away, or many others come first, delivery only notes that posts wait for it
(`Adder.put_off`), in the user's slot: pages and lists of channels read the notes in their own round trip. One that
finds such a note waits until the timelines are filled (`CatchUp`).
Posts come from the post store: the newest `MOST_ITEMS` of a feed, none older than the instance's `warm_up_days`.
Filling twice, or in two processes at once, is harmless; after a crash the note is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import structlog

from microsub.base.clock import DAY
from microsub.base.errors import StoreError
from microsub.base.metrics import ITEMS_DELIVERED
from microsub.base.tasks import cancel_all
from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.model.settings import SettingsOf
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading
from microsub.redis.structures import Hash

if TYPE_CHECKING:
    from microsub.posts import Items
    from microsub.timelines.add import Adder

log = structlog.get_logger(__name__)


MOST_ITEMS = 300
"""Maximum number of posts added per feed, the newest; the store keeps no more posts that nobody reads."""

PATIENCE = 2.0
"""Seconds that a request waits for its timelines; longer fills continue in the background."""


@dataclass(eq=False, repr=False)
class CatchUp:
    """Adds posts that wait. Belongs to one event loop. `patience` is in seconds."""

    redis: Redis
    items: Items
    adder: Adder
    channel_settings: SettingsOf
    settings: Callable[[], Awaitable[InstanceSettings]]
    _: KW_ONLY
    patience: float = PATIENCE
    _running: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)

    async def fill(self, user: str, uid: str, now: float) -> bool:
        """Add posts that wait for any timeline of the user, for `uid` (which may be `global`) first.

        Returns within `patience`: True if everything that waited at the time of the call has been added, otherwise
        the fill continues in the background. Waits for a fill that an earlier request began, then looks again. Raises
        StoreError.
        """
        deadline = asyncio.get_running_loop().time() + self.patience
        while True:
            task = self._running.get(user)
            is_own = task is None
            if task is None:
                task = self._running[user] = asyncio.create_task(self._all(user, uid, now), name=f"catching up {user}")
                task.add_done_callback(lambda done: self._ended(user, done))
            ended, _ = await asyncio.wait([task], timeout=deadline - asyncio.get_running_loop().time())
            if not ended:
                return False
            task.result()
            if is_own:
                return True

    async def aclose(self) -> None:
        """Cancel the fills in progress; their notes remain."""
        await cancel_all(self._running.values())

    async def _all(self, user: str, uid: str, now: float) -> None:
        behind = Hash(self.redis, keys.behind(user))
        notes = (await behind.all()).items()
        for name, note in sorted(notes, key=lambda one: (not one[0].startswith(f"{uid} "), one[0])):
            channel, _, feed = name.partition(" ")
            with reading(f"{behind.key} {name}"):
                noted = float(note.split()[0])
            await self._one(user, channel, feed, noted, now)
            # Posts that were noted meanwhile have changed the note, which stays then.
            await behind.change((name, note, ""))

    async def _one(self, user: str, uid: str, feed: str, noted: float, now: float) -> None:
        """Add posts of a feed that wait for a channel; `noted` is the lowest of their scores."""
        since = max(noted, oldest((await self.settings()).delivery, now))
        ids = await self.items.newest(feed, MOST_ITEMS, since)
        if ids:
            settings = await self.channel_settings(user, uid)
            added = await self.adder.fill(user, uid, feed, ids, settings, now)
            ITEMS_DELIVERED.inc(added.taken)

    def _ended(self, user: str, task: asyncio.Task[None]) -> None:
        self._running.pop(user, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StoreError):
            log.warning("timelines couldn't be filled; the next request retries", user=user, error=str(error))
        else:
            log.error("timelines couldn't be filled", user=user, exc_info=error)


def oldest(delivery: DeliverySettings, now: float) -> float:
    """The Unix time before which posts are too old to be added; minus infinity if none are."""
    return now - delivery.warm_up_days * DAY if delivery.warm_up_days else float("-inf")
