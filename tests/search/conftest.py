"""An instance whose posts are indexed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from microsub.base.errors import SearchUnavailable
from microsub.feeds.record import FeedRecord
from microsub.model.query import parsed
from microsub.redis.protocol import Redis
from microsub.search.index_follower import FollowTiming, IndexFollower
from microsub.search.post_search import PostSearch
from microsub.search.replica import IndexFolder, IndexReader
from microsub.search.words import expression
from tests.support.posts import NOON
from tests.support.reader import Reader
from tests.support.readers import instance
from tests.support.waiting import wait_until
from tests.support.world import World

QUICK = FollowTiming(pause=0.01, busy=0.01, compare=0.05, attempt=0.02, failure=0.02)
FEED = "https://blog.example/feed"


@dataclass
class Replica:
    """The index of one machine, with its writer and its reader."""

    server: World
    path: Path
    running: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = IndexFolder(self.path)
        self.index = IndexReader(self.folder)

    def follower(self, redis: Redis | None = None) -> IndexFollower:
        return IndexFollower(
            redis or self.server.redis, self.server.items, self.server.events, self.folder,
            self.server.applied.instance, timing=QUICK, clock=self.server.clock,
        )  # fmt: skip

    def follow(self) -> asyncio.Task[None]:
        """Starts to follow, as a worker does."""
        self.running.append(asyncio.create_task(self.follower().run_forever()))
        return self.running[-1]

    def reads_afresh(self) -> None:
        """Opens the file again, without remembered state."""
        self.index.close()
        self.index = IndexReader(self.folder)

    async def found(self, query: str) -> list[str]:
        """The ids of all matching posts, newest first; none without an index."""
        asked = parsed(query, NOON)
        words = expression(asked, {name: [name] for name in asked.feeds})
        with contextlib.suppress(SearchUnavailable):
            return [str(match.item) for match in (await self.index.matches(words, 1000))[0]]
        return []

    async def finds(self, query: str, *ids: str) -> None:
        """Waits until exactly these items are found."""

        async def there() -> bool:
            return await self.found(query) == list(ids)

        await wait_until(there)

    async def stop(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()

    async def aclose(self) -> None:
        await self.stop()
        self.index.close()


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application with empty stores on a real Redis."""
    async with instance(real_redis) as made:
        yield made


@pytest.fixture
async def replica(server: World, tmp_path: Path) -> AsyncIterator[Replica]:
    """The index that the server's searches use; no follower runs yet."""
    made = Replica(server, tmp_path / "search")
    search = PostSearch(server.redis, server.channels, server.feeds, server.parts.reading, made.index)
    server.use(post_search=search)
    yield made
    await made.aclose()


@pytest.fixture
def store(server: World) -> Callable[..., Any]:
    """`await store(post, …)` stores posts as a poll does, and returns their feed."""

    async def stored(*posts: Any, url: str = FEED) -> FeedRecord:
        feed = await server.feeds.ensure(url, server.now)
        await server.ingest.add(feed, posts, server.now, str(server.now))
        return feed

    return stored


@pytest.fixture
async def alice(server: World, replica: Replica) -> Reader:
    """A reader who follows one feed, in `home`."""
    server.now = NOON - 100_000  # so that no post is too old to be unread
    reader = await server.reader("alice", "home", "later")
    await reader.post(action="follow", channel="home", url=FEED)
    server.now = NOON + 10_000
    return reader
