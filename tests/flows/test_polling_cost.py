"""The cost of polling in Redis: each round trip of a worker's poll, its cache and its stages is counted."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from microsub.base.settings import Settings
from microsub.base.urls import host_of
from microsub.polling.worker import Worker
from microsub.redis import keys
from microsub.redis.embedded.server import Watch
from microsub.redis.protocol import Redis
from microsub.server.poller import open_worker
from microsub.server.stores import Stores, following
from tests.support.polling import dated, rss
from tests.support.redis_wrappers import Wrapped
from tests.support.web import Publisher, publisher


class NamingRedis(Wrapped):
    """Records the name of each round trip, except reads of the stages that found nothing."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.trips: list[str] = []

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        reply = await run()
        if name and (reply or name not in {"XPENDING", "XREADGROUP"}):
            self.trips.append(f"{name} {args}"[:80])
        return reply


@dataclass
class Followed:
    """A worker with real wiring, and one feed with one follower."""

    redis: NamingRedis
    stores: Stores
    worker: Worker
    site: Publisher
    url: str
    feed: str

    async def poll(self) -> list[str]:
        """The round trips of the feed's next poll, until its posts are in the timeline."""
        host = host_of(self.url)
        await self.redis.command("HDEL", keys.host(host), "free")
        await self.stores.schedule.bump([(self.feed, host)], time.time())
        self.stores.effective.forget()  # or they may be read again, after a second, in the middle of the poll
        await self.stores.effective.instance()
        asked = len(self.site.asked)
        self.redis.trips.clear()
        assert await self.worker.run_once() == 1
        trips = list(self.redis.trips)
        assert len(self.site.asked) == asked + 1
        print(*(f"{number:3} {trip}" for number, trip in enumerate(trips, 1)), sep="\n")
        return trips

    async def names(self) -> int:
        return int(await self.stores.redis.command("ZCARD", keys.posts("ann", "home")))


def document(posts: int) -> bytes:
    """A feed without a link to an author's page, which would be looked up."""
    return rss(dated(posts)).replace(b"<link>http://posts.test/</link>", b"")


@asynccontextmanager
async def followed(redis: Redis, folder: Path) -> AsyncIterator[Followed]:
    """The state after the first poll and one without changes."""
    naming = NamingRedis(redis)
    stores = Stores(naming, "", "", Watch())
    settings = Settings(data_dir=folder, allow_private_networks=(ipaddress.ip_network("127.0.0.0/8"),))
    async with publisher() as site, open_worker(settings, stores) as worker:
        now = time.time()
        await stores.accounts.add_user("ann", "", now)
        await stores.channels.create("ann", "home", now, "home")
        url = site.serve_document("/feed", document(15), etag='"1"')
        await following(stores).follow("ann", "home", url, now)
        feed = await stores.feeds.find(url)
        assert feed is not None
        here = Followed(naming, stores, worker, site, url, feed)
        await here.poll()
        await here.poll()
        yield here


async def test_the_round_trips_of_a_poll(real_redis: Redis, tmp_path: Path) -> None:
    """A 304 takes six, from the due host to its next time; a new post takes 16, up to the timeline of the one follower,
    cache and stages included.
    """
    async with followed(real_redis, tmp_path) as here:
        assert len(await here.poll()) <= 6
        here.site.serve_document("/feed", document(16), etag='"2"')
        trips = await here.poll()
        assert await here.names() == 16
        assert len(trips) <= 16
