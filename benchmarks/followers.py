"""Readers who follow one feed, and the delivery of one new post to them: all of a worker's stages, or the last alone.

Every reader has one channel, with a realistic length, unread and read items; some are full.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from benchmarks.readings import pieces
from benchmarks.scale.model import Habits
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
from microsub.posts.messages import ItemsStored
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.server.poller import delivery
from microsub.server.stores import Stores
from microsub.work import Message, Stream

HOME = "home"
FULL = 10
"""One channel in this many is full: a new item pushes the oldest one out."""
CHUNK = 500
_FIRST_PLACE = 1_600_000_000_000_000
"""The first place in each order of arrival, a time long ago."""
SYNCING = Habits().syncing
"""The share of the readers whose apps sync, and who so have an order of arrival."""
_LATE = 120.0
_BREATH = 0.1
"""Seconds after which all stages of a new worker have looked for messages and wait."""
_SPACING = 0.001
"""Seconds between the dates of two posts."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One post to all followers: wall seconds, and seconds of processor time of the worker and of Redis. `stored`: the
    seconds until the last stage was notified; 0 if that stage is measured alone.
    """

    seconds: float
    worker: float
    redis: float
    stored: float = 0.0


class _Noting:
    """The last stage, with the times when it began and finished a message."""

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
    """The stores with all readers. A feed is identified by the number of its followers."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._redis: Redis = stores.redis
        self._stream = Stream(stores.redis, "stored")
        self._delivery = delivery(stores)
        self._feeds: dict[int, str] = {}
        self._numbers = iter(range(1, 1_000_000_000))
        self._now = time.time()

    async def fill(self, followers: Sequence[int]) -> tuple[int, int]:
        """Create feeds, users and timelines; returns the number of ids in timelines, and their bytes."""
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
        # Rewrite the append-only file now, because a rewrite during the measurement would disturb it.
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
        """A realistic timeline: newer items are mostly unread, older ones mostly read."""
        chance = random.Random(name)
        ids = sorted(chance.sample(range(1_000_000, 9_000_000), length_of(name)))
        posts: list[Any] = []
        unread: list[Any] = []
        read: list[Any] = []
        for place, number in enumerate(ids):
            # Most publishers give whole seconds, some more; a post without a date gets one from the server.
            score = f"{self._now - 9_000_000 + number:.{0 if number % 10 else 6}f}"
            posts += (score, number)
            if chance.random() < place / len(ids):
                unread.append(number)
            else:
                read.append((number, self._now - chance.random() * 600_000))
        made: list[Command] = [("ZADD", keys.posts(name, HOME), *posts)]
        if chance.random() < SYNCING:
            arrived = (part for place, number in enumerate(ids) for part in (_FIRST_PLACE + place, number))
            made.append(("ZADD", keys.arrivals(name), *arrived))
            made.append(("HSET", keys.arrivals_more(name), "last", _FIRST_PLACE + len(ids)))
        made += [("SADD", keys.unread(name, HOME), *unread)] if unread else []
        made += [("HSET", keys.read(name, HOME), at, piece) for at, piece in pieces(read).items()]
        return made

    async def whole(self, followers: int) -> Turn:
        """Pass a post to a worker without cached data about the feed or its followers, as a poll does.

        The measured time is from before the post is stored until the last timeline contains it.
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
        """Store a post and deliver it to all followers by a worker that has cached the list of followers. The measured
        time is from reading the message until it is acknowledged.

        Without `check`, the timelines aren't checked, so that the next delivery can begin at once.
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
        """The next post of the feed with that many followers, newer than all others; and the time."""
        feed = await self._stores.feeds.get(self._feeds[followers])
        if feed is None:
            raise RuntimeError("the feed is gone")
        number, now = next(self._numbers), time.time()
        [post] = items_to_store(Feed(feed.url, "atom", entries=(entry(number, self._now + number * _SPACING),)), now)
        return feed, post, now

    async def _check(self, feed: FeedRecord, post: ItemToStore, followers: int) -> None:
        """Check that the post is in all timelines."""
        item = await self._stores.items.id_of(feed.id, post.guid)
        for start in range(0, followers, CHUNK):
            places = range(start, min(start + CHUNK, followers))
            asked: list[Command] = [("SISMEMBER", keys.unread(f"reader{place}", HOME), item or "") for place in places]
            for place, there in zip(places, await self._redis.pipeline(asked), strict=True):
                if not there:
                    raise RuntimeError(f"reader{place} didn't get item {item}")

    async def token(self) -> str:
        """The token of a reader whose timeline isn't full and has posts that can be shown."""
        return await self._stores.accounts.create_token("reader1", ["read"], "bench", time.time())

    async def _memory(self) -> int:
        return int(_field(await self._redis.command("INFO", "memory"), "used_memory"))

    async def _redis_time(self) -> float:
        info = await self._redis.command("INFO", "cpu")
        return float(_field(info, "used_cpu_sys")) + float(_field(info, "used_cpu_user"))


def length_of(name: str) -> int:
    """The number of items in a reader's timeline: most are short, a few are long."""
    chance = random.Random(f"length {name}")
    low, high = chance.choices([(20, 120), (150, 300), (400, 1000)], [60, 30, 10])[0]
    return chance.randint(low, high)


def _field(info: bytes, name: str) -> str:
    return next(line.partition(":")[2] for line in info.decode().splitlines() if line.startswith(f"{name}:"))


def _own_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
