"""Fills a separate Redis with a population and measures everything in it; derives unit costs from a small one."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.readings import pieces
from benchmarks.scale import filling, sample, work
from benchmarks.scale.bulk import bulk, command, part
from benchmarks.scale.costs import Costs, Memory, Polling, Reading, Upkeep, Work
from benchmarks.scale.filling import Population
from benchmarks.scale.meter import facts, used_memory
from benchmarks.scale.plan import Size, followers
from benchmarks.scale.polls import Handshake, Polled
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from microsub.redis.engine import Engine
from microsub.redis.migrations import migrate
from microsub.redis.protocol import Redis

T = TypeVar("T")

LONG = Size(users=1, per_user=20, channels=1, feeds=20, items=250)
"""Feeds with many posts."""
MANY = 21
"""Posts of a document with many new posts."""
FIRST = 3_000_000
"""The lowest id of a server that has run for a while."""
FEW_DIGITS = 100_000
"""Ids below take a fifth less in a long sorted set than longer ones."""
GONE = 2400
"""Ids that have left a timeline within a year."""
TURNS = 40
"""Feeds that post in turn."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The measurements of one population. `memory`: bytes that each step of filling added; `json`: bytes of a post;
    `id_short` and `id_long`: bytes of an id in a sorted set, as in `Memory`, for ids as long as those of its posts.
    """

    size: Size
    memory: dict[str, float]
    json: float
    id_short: float
    id_long: float
    resident: float
    reading: work.ReadersWork
    few: work.Delivered
    median: work.Delivered
    popular: work.Delivered
    most: work.Delivered
    many_posts: Work
    upkeep: work.UpkeepWork
    engine: str
    fill_seconds: float

    @property
    def used(self) -> float:
        """Bytes of the whole population."""
        return sum(self.memory.values())


def observe(size: Size, folder: Path) -> Observed:
    """Start a Redis in the folder, compare both ways of filling, fill it, measure, and end it."""
    folder.mkdir(parents=True, exist_ok=True)
    # Posts are stored feed by feed, the most popular feed first, so most places have low ids.
    low = sum(followers(size)[: FEW_DIGITS // size.items]) / size.subscriptions
    firsts = FEW_DIGITS // 2, FIRST
    ids = [on_a_server(folder / f"ids {first}", functools.partial(_ids, first=first)) for first in firsts]
    _, short, long = (low * few + (1 - low) * many for few, many in zip(*ids, strict=True))
    return on_a_server(folder / "data", lambda url: _observe(url, size, folder, short, long))


def on_a_server(folder: Path, measure: Callable[[str], Coroutine[Any, Any, T]]) -> T:
    """The result of `measure` for the URL of a new Redis in the folder."""
    server = start_embedded(folder)
    try:
        return asyncio.run(measure(server.url))
    finally:
        server.stop()


async def _observe(url: str, size: Size, folder: Path, id_short: float, id_long: float) -> Observed:
    redis = await connect(url)
    try:
        # A rewrite of the append-only file during the measurement would disturb it.
        await redis.command("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
        now = float(int(time.time()))
        # Now, so that Redis has all scripts already when the first users come.
        _say(f"{await sample.compare(url, now)} keys are the same, whether written by the stores or in bulk")
        await migrate(redis)
        began = time.perf_counter()
        there, memory = await fill(redis, url, size, now)
        seconds = time.perf_counter() - began
        gc.collect()
        gc.freeze()  # the population is large and contains no garbage
        resident = float((await facts(redis, "memory"))["used_memory_rss"])
        _say(f"{size.users:,} users: readers ask")
        read = await work.reading(redis, url, there, folder)
        async with work.workshop(url, folder) as (settings, stores, worker):
            _say(f"{size.users:,} users: feeds post")
            last, middle = size.feeds - 1, size.feeds // 2
            turns, deliver = min(TURNS, middle), functools.partial(work.delivering, stores, worker, there)
            few = await deliver(10, range(last, last - turns, -1))
            many = await deliver(20, range(last, last - turns // 2, -1), MANY)
            median = await deliver(30, range(middle, middle + turns))
            popular = await deliver(40, range(1, 1 + turns))
            most = await deliver(50, [0] * 11)
            _say(f"{size.users:,} users: upkeep")
            kept = await work.upkeep(settings, stores, there)
        return Observed(
            size=size,
            memory=memory,
            json=there.json[0],
            id_short=id_short,
            id_long=id_long,
            resident=resident,
            reading=read,
            few=few,
            median=median,
            popular=popular,
            most=most,
            many_posts=many.work,
            upkeep=kept,
            engine=str(Engine.of_info(await facts(redis, "server"))),
            fill_seconds=seconds,
        )
    finally:
        gc.unfreeze()
        await redis.aclose()


async def fill(redis: Redis, url: str, size: Size, now: float) -> tuple[Population, dict[str, float]]:
    """Load a population; returns it with the bytes that each step added."""
    there = filling.population(size, now)
    found: dict[str, float] = {}
    with bulk(url) as pipe:
        steps: dict[str, Callable[[], Awaitable[None] | None]] = {
            "users": lambda: filling.people(redis, there),
            "channels": lambda: filling.channels(redis, there),
            "feeds": lambda: filling.feeds(redis, pipe, there),
            "posts": lambda: filling.posts(redis, there),
            "subscriptions": lambda: filling.subscriptions(pipe, there),
            "timelines": lambda: filling.timelines(pipe, there),
            "newest unread posts": lambda: filling.newest(redis, there),
        }
        before = await used_memory(redis)
        for name, step in steps.items():
            _say(f"{size.users:,} users: {name}")
            doing = step()
            if doing is not None:
                await doing
            after = await used_memory(redis)
            found[name], before = float(after - before), after
    return there, found


def sets(folder: Path) -> tuple[float, ...]:
    """Bytes of a sorted set's key, of an id in a short and in a long set, of an id that has left a timeline, of a time
    of reading, and of a post of a feed with many posts.
    """
    key, short, long = on_a_server(folder / "ids", functools.partial(_ids, first=FIRST))
    return on_a_server(folder / "data", lambda url: _sets(url, key, short, long))


async def _ids(url: str, first: int) -> tuple[float, float, float]:
    """Bytes of a sorted set's key, and of an id in a short and in a long one; `first` is the lowest id."""
    redis = await connect(url)
    try:
        await migrate(redis)
        few, many, long = [await _sorted_sets(redis, url, number, first) for number in (40, 120, 1000)]
    finally:
        await redis.aclose()
    short = (many - few) / 80
    key = few - 40 * short
    return key, short, (long - key) / 1000


async def _sets(url: str, key: float, short: float, long: float) -> tuple[float, ...]:
    redis = await connect(url)
    try:
        await migrate(redis)
        gone = (await _gone(redis, url, GONE) - key) / GONE
        there, found = await fill(redis, url, LONG, float(int(time.time())))
        read = (await _readings(redis, url, GONE) - key) / GONE
        return key, short, long, gone, read, found["posts"] / LONG.items / LONG.feeds - there.json[0]
    finally:
        await redis.aclose()


async def _sorted_sets(redis: Redis, url: str, length: int, first: int, number: int = 500) -> float:
    """Bytes of a timeline's set with that length."""
    pairs = [part(str(1_790_000_000 + place * 611)) + part(str(first + place)) for place in range(length)]
    before = await used_memory(redis)
    with bulk(url) as pipe:
        name = f"length-{length}"
        pipe.run(
            command(2 + 2 * length, part("ZADD"), part(keys.posts(name, f"channel-{at}")), *pairs)
            for at in range(number)
        )
    return (await used_memory(redis) - before) / number


async def _gone(redis: Redis, url: str, length: int, number: int = 500) -> float:
    """Bytes of a set of ids that have left a timeline, of a server with ten million posts."""
    numbers = [part(str(16 * (1_000_000 + place * 4096) + 1 + place % 3)) for place in range(length)]
    before = await used_memory(redis)
    with bulk(url) as pipe:
        add = part("SADD")
        pipe.run(command(2 + length, add, part(keys.gone("gone", f"channel-{at}")), *numbers) for at in range(number))
    return (await used_memory(redis) - before) / number


async def _readings(redis: Redis, url: str, length: int, number: int = 500) -> float:
    """Bytes of the times at which posts of a channel were read."""
    times = pieces((3_000_000 + place * 611, 1_790_000_000 + place * 611) for place in range(length))
    fields = [part(text) for at, piece in times.items() for text in (str(at), piece)]
    before = await used_memory(redis)
    with bulk(url) as pipe:
        add = part("HSET")
        pipe.run(
            command(2 + len(fields), add, part(keys.read("read", f"channel-{at}")), *fields) for at in range(number)
        )
    return (await used_memory(redis) - before) / number


def costs(found: Observed, asked: Polled, tls: Handshake, known: tuple[float, ...]) -> Costs:
    """Unit costs, from the measurements of a small population."""
    size, grown, read = found.size, found.memory, found.reading
    set_key, short, long, gone, id_read, long_item = known
    # Many feeds in turn, because the timelines of a single one would stay in the processor's cache.
    each = (found.popular.work - found.few.work) * (1 / (found.popular.followers - found.few.followers))
    return Costs(
        memory=Memory(
            user=grown["users"] / size.users,
            channel=grown["channels"] / size.users / size.channels,
            feed=grown["feeds"] / size.feeds,
            subscription=grown["subscriptions"] / size.subscriptions,
            item=grown["posts"] / size.feeds / size.items - found.json,
            item_long=long_item,
            set_key=set_key,
            id_short=short,
            id_long=long,
            id_number=gone,
            id_read=id_read,
        ),
        polling=Polling(
            not_modified=asked.not_modified,
            unchanged=asked.unchanged,
            news=asked.news,
            item=(found.many_posts - found.few.work) * (1 / (MANY - 1)),
            handshake=tls.work,
            not_modified_bytes=asked.not_modified_bytes,
            head_bytes=asked.head_bytes,
            handshake_bytes=tls.bytes,
        ),
        reading=Reading(
            page=read.page,
            miss=(read.cold - read.page) * (1 / max(1.0, read.misses)),
            channels=read.channels,
            mark=read.mark,
            page_bytes=read.page_bytes,
            channels_bytes=read.channels_bytes,
            mark_bytes=read.mark_bytes,
        ),
        delivery=each,
        upkeep=Upkeep(
            repair=found.upkeep.repair.each(size.subscriptions),
            plan=found.upkeep.plan.each(size.all_channels),
            clean=found.upkeep.clean.each(size.all_channels),
            sweep=found.upkeep.sweep.each(found.upkeep.ids),
            remind=found.upkeep.remind.each(size.feeds),
        ),
    )


def _say(text: str) -> None:
    print(f"\r  {text:<76}", end="", file=sys.stderr, flush=True)
