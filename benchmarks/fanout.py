"""One new post to all who follow its feed: from the message in the stream to its acknowledgement.

Thousands of users have a channel each, of lengths as they occur, unread and read, some of them full. All of them follow
one feed, some of them two smaller ones too. What is measured is the worker's own handler with everything that belongs
to it: the item and its feed, the list of subscribers, limits, filters, the timelines, the end of the message.
"""

from __future__ import annotations

import asyncio
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.latency import Waiting, asking, pages
from benchmarks.report import aligned
from benchmarks.shelves import entry
from benchmarks.world import rewritten, web
from microsub.config.settings import Settings
from microsub.formats.wire import dump, to_wire
from microsub.model.reader import ChannelSettings
from microsub.store import keys
from microsub.store.arrivals import ItemToStore
from microsub.store.messages import ItemsStored
from microsub.store.port import Command, Redis
from microsub.store.streams import Stream
from microsub.wiring import Stores, fan_out, open_stores

HOME = "home"
FOLLOWERS = (100, 1_000, 10_000)
FULL = 10
"""Every so manieth channel is full: what comes in pushes the oldest out."""
CHUNK = 500

MOST_SECONDS = 0.5
MOST_GROWTH = 1.5
MOST_BYTES = 240
MOST_WAITING = 3.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One post to all followers: wall seconds, and seconds of processor time of the worker and of Redis."""

    seconds: float
    worker: float
    redis: float


@dataclass(frozen=True, slots=True)
class Line:
    """One feed: medians over the turns, in seconds; per channel in microseconds."""

    followers: int
    seconds: float
    lowest: float
    highest: float
    worker: float
    redis: float

    @property
    def each(self) -> float:
        """Microseconds of wall time per channel."""
        return self.seconds / self.followers * 1e6


@dataclass(frozen=True, slots=True)
class Found:
    """All figures. `bytes_per_id` is what an id costs in a timeline, in all its sets and with their keys; `waits` how
    long readers wait, in turns: while nothing happens, and during a fan-out.
    """

    lines: tuple[Line, ...]
    ids: int
    bytes_per_id: float
    waits: tuple[tuple[Waiting, Waiting], ...]

    @property
    def growth(self) -> float:
        """What a channel of the largest feed costs, of one of the smallest."""
        return self.lines[-1].each / self.lines[0].each

    @property
    def slower(self) -> float:
        """How many times longer the slowest hundredth of the readers wait during the fan-out: the median turn, since
        others work on the machine too.
        """
        return median(during.p99 / idle.p99 for idle, during in self.waits)

    def aims(self) -> list[tuple[str, str, bool]]:
        """What was to be reached, what was, and whether that is enough."""
        last = self.lines[-1]
        return [
            (
                f"{last.followers:,} channels, seconds",
                f"{last.seconds:.3f} of {MOST_SECONDS}",
                last.seconds < MOST_SECONDS,
            ),
            (
                f"a channel at {last.followers:,} followers, of one at {self.lines[0].followers:,}",
                f"{self.growth:.2f} of {MOST_GROWTH}",
                self.growth <= MOST_GROWTH,
            ),
            ("bytes per id and timeline", f"{self.bytes_per_id:.0f} of {MOST_BYTES}", self.bytes_per_id <= MOST_BYTES),
            (
                "p99 of a page during it, of an idle server's",
                f"{self.slower:.1f} of {MOST_WAITING:.0f}",
                self.slower <= MOST_WAITING,
            ),
        ]

    @property
    def met(self) -> bool:
        """Whether all aims were reached."""
        return all(met for *_, met in self.aims())


def measure(*, quick: bool) -> Found:
    """Fill a Redis, deliver, and throw everything away."""
    followers = tuple(number // 10 for number in FOLLOWERS) if quick else FOLLOWERS
    rounds, seconds = (2, 1.0) if quick else (5, 4.0)
    with tempfile.TemporaryDirectory(prefix="microsub-fanout-") as folder:
        return asyncio.run(_measured(Path(folder), followers, 5 if quick else 9, rounds, seconds))


async def _measured(folder: Path, followers: Sequence[int], turns: int, rounds: int, seconds: float) -> Found:
    (folder / "backend.json").write_text("{}")
    async with open_stores(Settings(data_dir=folder / "data", backend=folder / "backend.json")) as stores:
        bench = _Bench(stores)
        ids, size = await bench.fill(followers)
        lines = [await bench.line(feed, turns) for feed in followers]
        token = await bench.token()
        with web(folder) as (endpoint, _), asking() as others:
            url = f"{endpoint}?action=timeline&channel={HOME}"
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(others, pages, url, token, 1.0)
            waits = []
            for _ in range(rounds):
                idle = await loop.run_in_executor(others, pages, url, token, seconds)
                reader = loop.run_in_executor(others, pages, url, token, seconds)
                while not reader.done():
                    await bench.turn(followers[-1])
                waits.append((Waiting.of(idle), Waiting.of(await reader)))
        return Found(tuple(lines), ids, size / ids, tuple(waits))


class _Bench:
    """The stores with their readers. A feed is named by the number of its followers."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._redis: Redis = stores.redis
        self._stream = Stream(stores.redis, "stored")
        self._fan_out = fan_out(stores)
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
                await self._stores.feeds.subscribe(feed, name, HOME)
        await self._redis.command("DEL", keys.channel_unfilled(name, HOME))
        if place % FULL == 0:
            settings = ChannelSettings(max_items=length_of(name))
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
        made: list[Command] = [("ZADD", keys.posts(name, HOME), *posts)]
        made += [("ZADD", key(name, HOME), *part) for key, part in ((keys.unread, unread), (keys.read, read)) if part]
        return made

    async def line(self, followers: int, turns: int) -> Line:
        """So many posts of a feed, one after the other; the first one, for which the list is read, is not counted."""
        found = [await self.turn(followers) for _ in range(turns + 1)][1:]
        seconds = [turn.seconds for turn in found]
        return Line(
            followers,
            median(seconds),
            min(seconds),
            max(seconds),
            median(turn.worker for turn in found),
            median(turn.redis for turn in found),
        )

    async def turn(self, followers: int) -> Turn:
        """Store a post, and bring it to everybody."""
        feed = await self._stores.feeds.get(self._feeds[followers])
        if feed is None:
            raise RuntimeError("the feed is gone")
        number = next(self._numbers)
        published = float(int(self._now) + number)
        wire = dump(to_wire(entry(number, published)))
        stored = await self._stores.items.store(
            feed, [ItemToStore(f"{followers} {number}", wire, str(number), published)], self._now
        )
        await self._stores.items.done(feed.id, [item.id for item in stored.new])
        await self._stream.add([ItemsStored(feed.id, tuple(item.id for item in stored.new)).to_fields()])
        redis, worker, began = await self._redis_time(), _own_time(), time.perf_counter()
        [message] = await self._stream.take("bench", 1)
        await self._fan_out.handle(message)
        await self._stream.done([message])
        turn = Turn(time.perf_counter() - began, _own_time() - worker, await self._redis_time() - redis)
        await self._check(stored.new[0].id, followers)
        return turn

    async def _check(self, item: str, followers: int) -> None:
        """It must be in the first and in the last timeline."""
        for place in (0, followers - 1):
            if await self._redis.command("ZSCORE", keys.unread(f"reader{place}", HOME), item) is None:
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


def text(found: Found) -> str:
    """The tables, for the terminal and for pages."""
    head = ("followers", "seconds", "(min-max)", "µs per channel", "of it worker's CPU", "Redis' CPU")
    rows = [
        (
            f"{one.followers:,}",
            f"{one.seconds:.3f}",
            f"{one.lowest:.3f}-{one.highest:.3f}",
            f"{one.each:.0f}",
            f"{one.worker / one.followers * 1e6:.0f}",
            f"{one.redis / one.followers * 1e6:.0f}",
        )
        for one in found.lines
    ]
    aims = [("aim", "reached", ""), *((name, value, "met" if met else "MISSED") for name, value, met in found.aims())]
    waits = [
        (
            "a page of 20",
            "requests",
            "p50 ms",
            "p99 ms",
            "during fan-out: requests",
            "p50 ms",
            "p99 ms",
            "p99 during / idle",
        ),
        *(
            (
                f"turn {number}",
                *(f"{idle.requests:,}", f"{idle.p50:.1f}", f"{idle.p99:.1f}"),
                *(f"{during.requests:,}", f"{during.p50:.1f}", f"{during.p99:.1f}"),
                f"{during.p99 / idle.p99:.1f}",
            )
            for number, (idle, during) in enumerate(found.waits, 1)
        ),
    ]
    return "\n\n".join(aligned(rows) for rows in ([head, *rows], waits, aims))


def in_short(found: Found) -> str:
    """How long the most followers wait, as a Markdown list of one item."""
    most = found.lines[-1]
    return f"- A new post is in the timelines of {most.followers:,} followers after {most.seconds:.2f} s."


def document(found: Found) -> dict[str, Any]:
    """The figures for programs."""
    return {**asdict(found), "growth": found.growth, "slower": found.slower}
