"""Numbers of users and feeds, and how feeds fare: for `/metrics`, and as a list."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.errors import StoreError
from microsub.feeds.push_health import push_health
from microsub.feeds.record import FeedRecord, Feeds
from microsub.identity.store.accounts import Accounts
from microsub.redis.presence import TO_COME, Presence, ProcessCounts

if TYPE_CHECKING:
    from microsub.feeds.events import Events
    from microsub.search import IndexReader

log = structlog.get_logger(__name__)

FRESH_SECONDS = 30.0
"""For how long figures are good: every feed is looked at for them."""

PUBLISH_SECONDS = 10.0
"""Between two times that a worker adds what it has counted to what all workers have."""

_BATCH = 500


@dataclass(frozen=True, slots=True)
class FollowedFeed:
    """A feed that somebody follows, with the number of users who do."""

    record: FeedRecord
    followers: int

    @property
    def state(self) -> str:
        """`ok`, `failing` (the last poll failed), `gone` (410: it isn't asked any more) or `new` (not polled yet)."""
        if self.record.gone:
            return "gone"
        if self.record.failures:
            return "failing"
        return "new" if self.record.last_success is None else "ok"


async def followed_feeds(feeds: Feeds) -> AsyncIterator[FollowedFeed]:
    """All feeds that somebody follows, by id; internal ones are left out."""
    ids = await feeds.all_ids()
    for start in range(0, len(ids), _BATCH):
        records = await feeds.get_many(ids[start : start + _BATCH])
        counts = await asyncio.gather(*(feeds.subscriber_count(feed_id) for feed_id in records))
        for record, followers in zip(records.values(), counts, strict=True):
            if followers and not record.is_internal:
                yield FollowedFeed(record, followers)


class Figures:
    """Sets the gauges of `metrics` from what is in Redis, and adds up what processes counted."""

    def __init__(
        self,
        feeds: Feeds,
        accounts: Accounts,
        presence: Presence,
        counts: ProcessCounts,
        index: IndexReader | None = None,
        events: Events | None = None,
    ) -> None:
        """With `index` and `events` it says as well how the index of posts fares."""
        self._feeds = feeds
        self._accounts = accounts
        self._presence = presence
        self._counts = counts
        self._index = index
        self._events = events
        self._looked_at: float | None = None
        self._looking = asyncio.Lock()

    async def exposition(self, now: float) -> tuple[bytes, str]:
        """All metrics in Prometheus' text format, and its Content-Type.

        Those of Redis are missing while it is away.
        """
        from microsub import metrics  # slow to load, and a list of feeds needs none

        published: Mapping[str, float] = {}
        with contextlib.suppress(StoreError):
            async with self._looking:
                if self._looked_at is None or not 0 <= now - self._looked_at < FRESH_SECONDS:
                    await self._look(now)
                    self._looked_at = now
            published = await self._counts.read()
        return metrics.exposition(published)

    async def _look(self, now: float) -> None:
        from microsub import metrics

        states = dict.fromkeys(("ok", "failing", "gone", "new"), 0)
        followers = 0
        ways = dict.fromkeys(("pushed", "subscribed", "polled"), 0)
        async for feed in followed_feeds(self._feeds):
            states[feed.state] += 1
            followers += feed.followers
            if feed.record.hub:
                health = push_health(feed.record, now)
                ways["pushed" if health.pushed else "subscribed" if health.subscribed else "polled"] += 1
        for state, count in states.items():
            metrics.FEEDS.labels(state).set(count)
        for way, count in ways.items():
            metrics.WEBSUB_FEEDS.labels(way).set(count)
        metrics.FOLLOWERS.set(followers)
        metrics.USERS.set(sum(user.disabled is None for user in await self._accounts.users()))
        metrics.DEAD_LETTERS.set(await self._presence.dead_letters())
        if self._index is not None and self._events is not None:
            index = await self._index.figures()
            metrics.SEARCH_POSTS.set(index.posts)
            metrics.SEARCH_BYTES.set(index.bytes)
            waiting = await self._events.since(index.cursor, 1)
            metrics.SEARCH_BEHIND.set(max(0.0, now - waiting[0].at) if waiting else 0.0)
        metrics.WORKERS.set(sum(not name.endswith(TO_COME) for name in await self._presence.alive(now)))

    async def publish_for_ever(self) -> None:
        """Add what this process counts to what all have counted, again and again.

        Processes that share a folder of metrics (`PROMETHEUS_MULTIPROC_DIR`) are added up there, and publish nothing.
        """
        from microsub import metrics

        if os.environ.get(metrics.FOLDER_VARIABLE):
            return
        said: dict[str, float] = {}
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            counted = metrics.counts()
            more = {name: value - said.get(name, 0.0) for name, value in counted.items()}
            try:
                await self._counts.add({name: value for name, value in more.items() if value})
            except StoreError as error:
                log.info("counts for /metrics wait for Redis", error=str(error))
            else:
                said = counted
