"""Numbers of users and feeds, and the counts of all processes: for `/metrics`, and by the hour."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from microsub.accounts import Accounts
from microsub.admin.health import Health
from microsub.admin.survey import sums_of
from microsub.base import metrics
from microsub.base.errors import SearchUnavailable, StoreError
from microsub.feeds import Feeds
from microsub.redis.presence import TO_COME, Presence, ProcessCounts

if TYPE_CHECKING:
    from microsub.admin.hours import Hours
    from microsub.feeds import Events

log = structlog.get_logger(__name__)

FRESH_SECONDS = 30.0
"""Seconds for which figures are valid: computing them reads every feed."""

PATIENCE = 1.8
"""Seconds after which metrics are sent without Redis' outstanding replies."""

PUBLISH_SECONDS = 10.0
"""Seconds after which a worker adds its counts to the sums of all workers."""


class IndexSize(Protocol):
    """The size of an index of posts."""

    @property
    def posts(self) -> int:
        """Number of posts."""

    @property
    def bytes(self) -> int:
        """Bytes on disk."""


class Index(Protocol):
    """The index of posts, as far as its figures go."""

    async def figures(self) -> IndexSize:
        """Its size."""

    async def behind(self, events: Events, now: float) -> float:
        """The age in seconds of the oldest change that it lacks. Raises SearchUnavailable."""


class Figures:
    """Sets the gauges of `metrics` from the data in Redis, and adds up the counts of all processes."""

    def __init__(
        self,
        feeds: Feeds,
        accounts: Accounts,
        presence: Presence,
        counts: ProcessCounts,
        index: Index | None = None,
        events: Events | None = None,
    ) -> None:
        """With `index` and `events`, the figures include the state of the index of posts."""
        self._feeds = feeds
        self._accounts = accounts
        self._presence = presence
        self._counts = counts
        self._index = index
        self._events = events
        self._looked_at: float | None = None
        self._looking: asyncio.Task[None] | None = None
        self._published: Mapping[str, float] = {}

    async def exposition(self, now: float, health: Health | None = None) -> tuple[bytes, str]:
        """All metrics in Prometheus' text format, and its Content-Type, within two seconds.

        While Redis is unavailable or slow, metrics from it are those of the last look. `health`
        finds out the state of Redis.
        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_quietly(now), name="figures")
        asking: list[asyncio.Task[Any]] = [self._looking]
        if health is not None:
            asking.append(asyncio.create_task(health.check(now)))
        await asyncio.wait(asking, timeout=PATIENCE)
        if self._looking.done():
            self._looking.result()  # raises what is a bug
        for report in (task.result() for task in asking[1:] if task.done()):
            for state, holds in report.redis_is.items():
                metrics.REDIS.labels(state).set(holds)
        return metrics.exposition(self._published)

    async def _look_quietly(self, now: float) -> None:
        """Set the gauges if they are old, and read the counts of other processes."""
        try:
            if self._looked_at is None or not 0 <= now - self._looked_at < FRESH_SECONDS:
                await self._look(now)
                self._looked_at = now
            self._published = await self._counts.read()
        except StoreError:
            metrics.WORKERS.set(math.nan)  # an alarm for missing workers shouldn't see those of the last look
            self._looked_at = None

    async def _look(self, now: float) -> None:
        sums = await sums_of(self._feeds, now)
        for state, count in sums.states.items():
            metrics.FEEDS.labels(state).set(count)
        for way, count in sums.ways.items():
            metrics.WEBSUB_FEEDS.labels(way).set(count)
        metrics.FOLLOWERS.set(sums.followers)
        metrics.USERS.set(sum(user.disabled is None for user in await self._accounts.users()))
        metrics.DEAD_LETTERS.set(await self._presence.dead_letters())
        if self._index is not None and self._events is not None:
            index = await self._index.figures()
            metrics.SEARCH_POSTS.set(index.posts)
            metrics.SEARCH_BYTES.set(index.bytes)
            with contextlib.suppress(SearchUnavailable):
                metrics.SEARCH_BEHIND.set(await self._index.behind(self._events, now))
        metrics.WORKERS.set(sum(not name.endswith(TO_COME) for name in await self._presence.alive(now)))

    async def publish_forever(self, hours: Hours) -> None:
        """Repeatedly add the counts of this process to those of all processes, in total and by the hour.

        Processes that share a folder of metrics (`PROMETHEUS_MULTIPROC_DIR`) are added up there, except by the hour.
        """
        has_folder = bool(os.environ.get(metrics.FOLDER_VARIABLE))
        said: dict[str, float] = {}
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            counted = metrics.counts()
            grown = {name: value - said.get(name, 0.0) for name, value in counted.items()}
            more = {name: value for name, value in grown.items() if value}
            try:
                if not has_folder:
                    await self._counts.add(more)
            except StoreError as error:
                log.info("counts for /metrics are late: Redis is unavailable", error=str(error))
                continue
            said = counted
            with contextlib.suppress(StoreError):
                await hours.add(more, time.time())
