"""Fills timelines that delivery has postponed, when their users request them.

If the user of a timeline is away, or many others come first, delivery only notes that posts wait for it
(`TimelineBacklog`). A page or list of channels that finds such a note waits until the timelines are filled (`CatchUp`).
Posts come from the post store: the newest `MOST_ITEMS` of a feed, none older than the instance's `warm_up_days`.
Filling twice, or in two processes at once, is harmless; after a crash the note is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import structlog

from microsub.base.clock import DAY
from microsub.base.errors import StoreError
from microsub.base.metrics import ITEMS_DELIVERED
from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.model.reader import GLOBAL
from microsub.model.settings import SettingsOf
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import raw_fields, reading
from microsub.redis.scripts import load

if TYPE_CHECKING:
    from microsub.posts import Items
    from microsub.timelines.add import Adder

log = structlog.get_logger(__name__)


MOST_ITEMS = 300
"""Maximum number of posts added per feed, the newest; the store keeps no more posts that nobody reads."""

PATIENCE = 2.0
"""Seconds that a request waits for its timelines; longer fills continue in the background."""

_NOTE, _CAUGHT_UP = load("timeline_behind"), load("compare_and_set")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Posts of a feed that wait for a timeline of the channel `uid`.

    `since` (Unix seconds) is the lowest score of these posts. `value` is the note as it was read.
    """

    uid: str
    feed: str
    since: float
    value: bytes


class TimelineBacklog:
    """Notes of posts that wait for timelines, of all users.

    They are stored in the user's slot, so pages and lists of channels read them in their own round trip.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, feed_id: str, since: str, uids: Mapping[str, Sequence[str]]) -> int:
        """Note that posts of the feed wait for these channels (user → uids); returns the number of timelines.

        `since` is the earliest score. Channels that don't exist are skipped. One round trip.
        """
        calls = [_NOTE(user, feed=feed_id, since=since, uids=listed) for user, listed in uids.items()]
        return sum(await self._redis.scripts(calls))

    async def of(self, user: str) -> list[Waiting]:
        """All notes for the user's timelines, in a fixed order."""
        key = keys.behind(user)
        found = raw_fields(await self._redis.command("HGETALL", key))
        notes = (_waiting(key, field, value) for field, value in found.items())
        return sorted(notes, key=lambda one: (one.uid, one.feed))

    async def caught_up(self, user: str, waiting: Waiting) -> None:
        """Delete a note whose posts were added, unless it has changed since it was read."""
        change = (f"{waiting.uid} {waiting.feed}", waiting.value, "")
        await self._redis.script(_CAUGHT_UP(record=keys.behind(user), fields=change))


def _waiting(key: str, field: str, value: bytes) -> Waiting:
    uid, _, feed = field.partition(" ")
    with reading(f"{key} {field}"):
        return Waiting(uid, feed, float(value.split()[0]), value)


@dataclass(eq=False, repr=False)
class CatchUp:
    """Adds posts that wait. Belongs to one event loop. `patience` is in seconds."""

    backlog: TimelineBacklog
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
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _all(self, user: str, uid: str, now: float) -> None:
        waiting = await self.backlog.of(user)
        for one in sorted(waiting, key=lambda one: one.uid != uid) if uid != GLOBAL else waiting:
            await self._one(user, one, now)

    async def _one(self, user: str, waiting: Waiting, now: float) -> None:
        """Add the waiting posts, read after their note: posts that are noted from now on change the note."""
        since = max(waiting.since, oldest((await self.settings()).delivery, now))
        ids = await self.items.newest(waiting.feed, MOST_ITEMS, since)
        if ids:
            settings = await self.channel_settings(user, waiting.uid)
            added = await self.adder.fill(user, waiting.uid, waiting.feed, ids, settings, now)
            ITEMS_DELIVERED.inc(added.taken)
        await self.backlog.caught_up(user, waiting)

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
