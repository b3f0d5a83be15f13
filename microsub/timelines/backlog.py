"""Timelines that were left alone while their readers were away are filled when they read.

Delivery notes for which timelines posts wait, because their readers are away or many others come first
(`TimelineBacklog`). The page or list of channels that finds such a note waits until they are filled (`CatchUp`). What
is added comes from the post store, within its bounds: the newest `MOST_ITEMS` posts of a feed, none older than the
instance's `warm_up_days`. Doing it twice, or in two processes at once, changes nothing more; a crash leaves the note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import structlog

from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.errors import StoreError
from microsub.metrics import ITEMS_DELIVERED
from microsub.model.reader import GLOBAL
from microsub.model.settings import SettingsOf
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.replies import raw_fields, reading
from microsub.redis.scripts import load

if TYPE_CHECKING:
    from microsub.posts.items import Items
    from microsub.timelines.add import Adder

log = structlog.get_logger(__name__)

DAY = 86_400.0

MOST_ITEMS = 300
"""Newest posts of a feed that are added; the store keeps no more of those that nobody reads."""

PATIENCE = 2.0
"""Seconds that a request waits for its timelines; what takes longer goes on behind it."""

_NOTE, _CAUGHT_UP = load("timeline_behind"), load("compare_and_set")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Posts of a feed that wait for a timeline of the channel `uid`.

    They are those from the score `since` (Unix seconds) on. `value` is the note as it was read.
    """

    uid: str
    feed: str
    since: float
    value: bytes


class TimelineBacklog:
    """What waits for timelines, for all users.

    It is noted under the user's slot, where every page and list of channels sees it in its own round trip.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, feed_id: str, since: str, uids: Mapping[str, Sequence[str]]) -> int:
        """Note that posts of the feed wait for these channels (user → uids); for how many.

        `since` is the earliest score. Channels that don't exist are left out. One round trip.
        """
        calls: list[ScriptCall] = [
            (_NOTE, [keys.channels(user), keys.behind(user)], [feed_id, since, *listed])
            for user, listed in uids.items()
        ]
        return sum(await self._redis.scripts(calls))

    async def of(self, user: str) -> list[Waiting]:
        """Everything that waits for the user's timelines, in a fixed order."""
        key = keys.behind(user)
        found = raw_fields(await self._redis.command("HGETALL", key))
        notes = (_waiting(key, field, value) for field, value in found.items())
        return sorted(notes, key=lambda one: (one.uid, one.feed))

    async def caught_up(self, user: str, waiting: Waiting) -> None:
        """Take back the note of what was added; one that has grown since stays for the next time."""
        await self._redis.script(_CAUGHT_UP, [keys.behind(user)], [f"{waiting.uid} {waiting.feed}", waiting.value, ""])


def _waiting(key: str, field: str, value: bytes) -> Waiting:
    uid, _, feed = field.partition(" ")
    with reading(f"{key} {field}"):
        return Waiting(uid, feed, float(value.split()[0]), value)


@dataclass(eq=False, repr=False)
class CatchUp:
    """Brings in what waits. Belongs to one event loop. `patience` is in seconds."""

    backlog: TimelineBacklog
    items: Items
    adder: Adder
    channel_settings: SettingsOf
    settings: Callable[[], InstanceSettings]
    _: KW_ONLY
    patience: float = PATIENCE
    _running: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)

    async def fill(self, user: str, uid: str, now: float) -> bool:
        """Add what waits for any timeline of the user, for `uid` (which may be `global`) first.

        Returns within `patience`, and whether all is in by then; else the rest is still on its way. What waits when
        this is called is in when it returns True: work that began for an earlier request is waited for, and followed by
        a look of its own. Raises StoreError.
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
        """Break off what is under way; the notes stay."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _all(self, user: str, uid: str, now: float) -> None:
        waiting = await self.backlog.of(user)
        for one in sorted(waiting, key=lambda one: one.uid != uid) if uid != GLOBAL else waiting:
            await self._one(user, one, now)

    async def _one(self, user: str, waiting: Waiting, now: float) -> None:
        """Add what waits, read after its note: what is noted from now on changes the note."""
        since = max(waiting.since, oldest(self.settings().delivery, now))
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
            log.warning("timelines couldn't be filled; the next request tries again", user=user, error=str(error))
        else:
            log.error("timelines couldn't be filled", user=user, exc_info=error)


def oldest(delivery: DeliverySettings, now: float) -> float:
    """The Unix time before which posts are too old to be added; minus infinity: none are."""
    return now - delivery.warm_up_days * DAY if delivery.warm_up_days else float("-inf")
