"""Readers who follow one feed, and one new post on its way to them: as a worker does it, and its last stage alone.

Every reader has a channel, of lengths as they occur, unread and read, some of them full.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from benchmarks.shelves import entry
from benchmarks.world import rewritten
from microsub.delivery.delivery import Delivery
from microsub.delivery.stage import Stages
from microsub.feeds.events import Events
from microsub.feeds.record import FeedRecord
from microsub.model.jf2 import Feed
from microsub.model.settings import OwnChannelSettings
from microsub.posts.entries import items_to_store
from microsub.posts.ingest import Ingest, PostWriter
from microsub.posts.values import ItemsStored, ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.streams import Message, Stream
from microsub.wiring.stores import Stores, delivery

HOME = "home"
FULL = 10
"""Every so manieth channel is full: what comes in pushes the oldest out."""
CHUNK = 500
_FIRST_PLACE = 1_600_000_000_000_000
"""The beginning of the orders of arrival: long ago."""
_LATE = 120.0
_BREATH = 0.1
"""Seconds in which the stages of a worker that begins have looked, and wait."""
_SPACING = 0.001
"""Seconds between two posts, by their dates."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One post to all followers: wall seconds, and seconds of processor time of the worker and of Redis. `stored` are
    the seconds until the stage behind had the news; 0 where that stage is looked at alone.
    """

    seconds: float
    worker: float
    redis: float
    stored: float = 0.0


class _Noting:
    """The last stage, and when it began and ended with the news."""

    def __init__(self, inner: Delivery) -> None:
        self._inner = inner
        self.began = self.ended = 0.0
        self.over = asyncio.Event()

    async def handle(self, message: Message) -> None:
        """See `Delivery.handle`."""
        self.began = time.perf_counter()
        await self._inner.handle(message)
        self.ended = time.perf_counter()
        self.over.set()


class Followers:
    """The stores with their readers. A feed is named by the number of its followers."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._redis: Redis = stores.redis
        self._stream = Stream(stores.redis, "stored")
        self._delivery = delivery(stores)
        self._feeds: dict[int, str] = {}
        self._numbers = iter(range(1, 1_000_000_000))
        self._now = time.time()

    async def fill(self, followers: Sequence[int]) -> tuple[int, int]:
        """Make feeds, users and timelines; how many ids stand in timelines, and the bytes that these take."""
        for number in followers:
            feed = await self._stores.feeds.ensure(f"https://blog.example/{number}.xml", self._now)
            self._feeds[number] = feed.id
        names = [f"reader{number}" for number in range(max(followers))]
        for start in range(0, len(names), CHUNK):
            await asyncio.gather(
                *(self._user(name, followers, start + at) for at, name in enumerate(names[start : start + CHUNK]))
            )
        before = await self._memory()
        count = 0
        for start in range(0, len(names), CHUNK):
            commands: list[Command] = []
            for name in names[start : start + CHUNK]:
                length = len(commands)
                commands += self._timeline(name)
                count += (len(commands[length]) - 2) // 2
            await self._redis.pipeline(commands)
        size = await self._memory() - before
        # What loading left to rewrite shall not be rewritten while something is measured.
        await rewritten(self._redis)
        await self._redis.command("BGREWRITEAOF")
        await rewritten(self._redis)
        return count, size

    async def _user(self, name: str, followers: Sequence[int], place: int) -> None:
        await self._stores.accounts.add_user(name, "", self._now)
        await self._stores.channels.create(name, "Home", self._now, HOME)
        for number in followers:
            if place < number:
                feed = self._feeds[number]
                await self._stores.channels.follow(name, HOME, feed, f"https://blog.example/{number}.xml", self._now)
                await self._stores.channels.set_unread_from(name, HOME, feed, 0.0)
                await self._stores.feeds.subscribe(feed, name, HOME)
        if place % FULL == 0:
            settings = OwnChannelSettings(max_items=length_of(name))
            await self._stores.channels.set_settings(name, HOME, settings, self._now)

    def _timeline(self, name: str) -> list[Command]:
        """Items in sets as a reader leaves them: newer ones mostly unread, older ones mostly read."""
        chance = random.Random(name)
        ids = sorted(chance.sample(range(1_000_000, 9_000_000), length_of(name)))
        posts: list[Any] = []
        unread: list[Any] = []
        read: list[Any] = []
        for place, number in enumerate(ids):
            # Publishers mostly say seconds; some say more, and what has no date is given one of ours.
            score = f"{self._now - 9_000_000 + number:.{0 if number % 10 else 6}f}"
            posts += (score, number)
            if chance.random() < place / len(ids):
                unread += (score, number)
            else:
                read += (f"{self._now - chance.random() * 600_000:.6f}", number)
        arrived = (part for place, number in enumerate(ids) for part in (_FIRST_PLACE + place, number))
        made: list[Command] = [("ZADD", keys.posts(name, HOME), *posts), ("ZADD", keys.arrivals(name), *arrived)]
        made.append(("HSET", keys.arrivals_more(name), "last", _FIRST_PLACE + len(ids)))
        made += [("ZADD", key(name, HOME), *part) for key, part in ((keys.unread, unread), (keys.read, read)) if part]
        return made

    async def whole(self, followers: int) -> Turn:
        """Hand a post to a worker that knows nothing of the feed or its followers, as a poll does that has found it.

        The clock runs from before the post is stored until the last timeline holds the post.
        """
        feed, post, now = await self._post(followers)
        stores = Stores(self._redis, self._stores.url, self._stores.where, self._stores.watch)
        last = _Noting(delivery(stores))
        events = Events(self._redis)
        stages = Stages(
            *(self._redis, stores.feeds, stores.items, cast(Delivery, last), events, None),
            consumer="bench",
        )
        running = asyncio.create_task(stages.run(1.0))
        await asyncio.sleep(_BREATH)
        redis, worker, began = await self._redis_time(), _own_time(), time.perf_counter()
        await Ingest(self._redis, stores.feeds, stores.items, events, notify=stages.wake).add(feed, [post], now, "")
        async with asyncio.timeout(_LATE):
            await last.over.wait()
        turn = Turn(
            last.ended - began, _own_time() - worker, await self._redis_time() - redis, stored=last.began - began
        )
        stages.stop()
        await running
        await self._check(feed, post, followers)
        return turn

    async def last_stage(self, followers: int, *, check: bool = True) -> Turn:
        """Store a post, and bring it to everybody, by a worker that has done so before: the list of followers is
        remembered. The clock runs from when the message is taken until it is acknowledged.

        Without `check` nobody looks whether it has arrived everywhere, so that delivering can go on at once.
        """
        feed, post, now = await self._post(followers)
        stored = await PostWriter(self._redis).write(feed, [post], now)
        await self._stores.items.done(feed.id, [item.id for item in stored.new])
        await self._stream.add([ItemsStored(feed.id, tuple(item.id for item in stored.new)).to_fields()])
        redis, worker, began = await self._redis_time(), _own_time(), time.perf_counter()
        [message] = await self._stream.take("bench", 1)
        await self._delivery.handle(message)
        await self._stream.done([message])
        turn = Turn(time.perf_counter() - began, _own_time() - worker, await self._redis_time() - redis)
        if check:
            await self._check(feed, post, followers)
        return turn

    async def _post(self, followers: int) -> tuple[FeedRecord, ItemToStore, float]:
        """The next post of the feed with so many followers, newer than all others; and the time."""
        feed = await self._stores.feeds.get(self._feeds[followers])
        if feed is None:
            raise RuntimeError("the feed is gone")
        number, now = next(self._numbers), time.time()
        [post] = items_to_store(Feed(feed.url, "atom", entries=(entry(number, self._now + number * _SPACING),)), now)
        return feed, post, now

    async def _check(self, feed: FeedRecord, post: ItemToStore, followers: int) -> None:
        """It must be in all timelines."""
        item = await self._stores.items.id_of(feed.id, post.guid)
        for start in range(0, followers, CHUNK):
            places = range(start, min(start + CHUNK, followers))
            asked: list[Command] = [("ZSCORE", keys.unread(f"reader{place}", HOME), item or "") for place in places]
            for place, score in zip(places, await self._redis.pipeline(asked), strict=True):
                if score is None:
                    raise RuntimeError(f"reader{place} didn't get item {item}")

    async def token(self) -> str:
        """A token of a reader whose timeline isn't full, with posts that can be shown."""
        return await self._stores.accounts.create_token("reader1", ["read"], "bench", time.time())

    async def _memory(self) -> int:
        return int(_field(await self._redis.command("INFO", "memory"), "used_memory"))

    async def _redis_time(self) -> float:
        info = await self._redis.command("INFO", "cpu")
        return float(_field(info, "used_cpu_sys")) + float(_field(info, "used_cpu_user"))


def length_of(name: str) -> int:
    """How many items a reader's timeline has: most are short, a few are long."""
    chance = random.Random(f"length {name}")
    low, high = chance.choices([(20, 120), (150, 300), (400, 1000)], [60, 30, 10])[0]
    return chance.randint(low, high)


def _field(info: bytes, name: str) -> str:
    return next(line.partition(":")[2] for line in info.decode().splitlines() if line.startswith(f"{name}:"))


def _own_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
