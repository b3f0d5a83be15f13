"""Search in posts: the cost of indexing a post relative to storing it, and waiting times of readers with many follows.

The cost: a worker stores the first loads of feeds without an index; then the same posts are indexed, by the same steps
as in a worker. Both are measured as processor time, including that of Redis. The waiting times: a web process answers
readers' queries one after the other, over posts with realistic word frequencies.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from benchmarks.ingesting import place, spent, workers
from benchmarks.report import aligned
from benchmarks.world import SETTINGS, rewritten, web
from microsub import server
from microsub.base.settings import Settings
from microsub.feeds.events import Events
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Card, Content, Entry
from microsub.posts.ingest import PostWriter
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.replies import score_text
from microsub.search.index import Generation
from microsub.search.index_follower import FollowTiming
from microsub.search.replica import IndexFolder

INGESTED = 400
"""Feeds that are loaded, with 20 posts each: fewer posts than the stream of events keeps."""

POSTS, FEEDS = 100_000, 1000
FOLLOWED = (20, 200, 1000)
CHANNELS = 10
READERS = 3
"""Queries of each kind, within the rate limit of one user."""
QUESTIONS = 100

MOST_SHARE = 0.05
MOST_WAITING = 20.0
"""Milliseconds within which 95 % of the queries must be answered."""

_VOCABULARY = 40_000
_WORDS = 150


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time per post, in microseconds: of a worker and Redis without an index, and of the index."""

    ingest: float
    index: float

    @property
    def share(self) -> float:
        """The cost of the index, as a part of the cost without it."""
        return self.index / self.ingest


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting times of readers with that many feeds, in milliseconds, by kind of query: median and p95.

    `processor` is the time that the web process and Redis need for a query, on average.
    """

    feeds: int
    p50: float
    p95: float
    processor: float
    kinds: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Found:
    """All figures. `seconds` is the time to build the index of `posts` posts, `size` its bytes."""

    costs: tuple[Cost, ...]
    waits: tuple[Waiting, ...]
    posts: int
    seconds: float
    size: int

    @property
    def share(self) -> float:
        """The median over all turns."""
        return median(cost.share for cost in self.costs)

    def aims(self) -> list[tuple[str, str, bool]]:
        """Each aim with its result, and whether it was reached."""
        return [
            ("indexing, of taking in", f"{self.share:.1%} of {MOST_SHARE:.0%}", self.share <= MOST_SHARE),
            *(
                (f"p95, {one.feeds:,} feeds", f"{one.p95:.1f} ms of {MOST_WAITING:g}", one.p95 <= MOST_WAITING)
                for one in self.waits
            ),
        ]

    @property
    def met(self) -> bool:
        """Whether all aims were reached."""
        return all(met for *_, met in self.aims())


def measure(*, quick: bool) -> Found:
    """Measure the cost first, then waiting times, each from an empty server."""
    with tempfile.TemporaryDirectory(prefix="microsub-search-") as folder:
        feeds, turns = (100, 1) if quick else (INGESTED, 3)
        posts = POSTS // 10 if quick else POSTS
        costs = [asyncio.run(_cost(Path(folder) / f"cost-{turn}", feeds)) for turn in range(turns)]
        there = Path(folder) / "search"
        seconds, size, readers = asyncio.run(_filled(there, posts))
        with web(there) as (endpoint, process):
            redis = orjson.loads((there / "data" / "redis.json").read_bytes())["pid"]
            pids = (process.pid, redis)
            waits = [_waiting(endpoint, pids, feeds, tokens) for feeds, tokens in readers.items()]
        return Found(tuple(costs), tuple(waits), posts, seconds, size)


# --- what it costs ----------------------------------------------------------------------------------------------------


async def _cost(folder: Path, feeds: int) -> Cost:
    """Measure one first load, and its indexing."""
    async with place(folder, feeds, timeline=1) as there:
        settings = Settings(data_dir=folder / "data")
        follower = server.jobs.follower(settings, there.stores, FollowTiming(compare=3600))
        with workers(folder, 1, search="off") as (pid,):
            await there.workers(1)
            await follower.build()
            worker, redis = spent(pid), spent(there.redis_pid)
            await there.begin()
            await there.end()
            ingest = spent(pid) - worker + spent(there.redis_pid) - redis
        last = await Events(there.stores.redis).last()
        in_use = IndexFolder(settings.index).current()
        with closing(Generation.open(in_use or folder, read_only=True)) as index:
            own, redis = time.process_time(), spent(there.redis_pid)
            following = asyncio.create_task(follower.run_forever())
            while index.facts()["cursor"] != last:
                await asyncio.sleep(0.2)
            taken = time.process_time() - own + spent(there.redis_pid) - redis
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return Cost(ingest / there.entries * 1e6, taken / there.entries * 1e6)


# --- what readers wait ------------------------------------------------------------------------------------------------


class _Language:
    """Generated words, some far more frequent than others, as in real languages (Zipf)."""

    def __init__(self) -> None:
        self.chance = random.Random(12)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        weights = [1 / (place + 2) for place in range(len(letters))]
        made = ("".join(self.chance.choices(letters, weights, k=self.chance.randint(3, 10))) for _ in itertools.count())
        self.words = list(itertools.islice(dict.fromkeys(itertools.islice(made, 2 * _VOCABULARY)), _VOCABULARY))
        self._sums = list(itertools.accumulate(1 / (place + 8) for place in range(len(self.words))))
        self._signs = [chr(0x4E00 + number) for number in range(1200)]

    def text(self, words: int) -> str:
        """A text of that many words."""
        return " ".join(self.chance.choices(self.words, cum_weights=self._sums, k=words))

    def unspaced(self, signs: int) -> str:
        """That many characters of a script without spaces."""
        return "".join(self.chance.choices(self._signs, k=signs))

    def word(self, first: int, last: int) -> str:
        """A word whose frequency rank is between these two."""
        return self.words[self.chance.randrange(first, last)]


def _entry(language: _Language, number: int, feed: int, at: float) -> Entry:
    text = language.unspaced(400) if number % 20 == 0 else language.text(_WORDS)
    link = f"https://blog{feed}.example/{number}"
    return Entry(
        post_type="article",
        guid=link,
        url=link,
        name=language.text(6),
        content=Content(html=f"<p>{text}</p>", text=text),
        published=datetime.fromtimestamp(at, UTC),
        author=Card(name=f"Writer {feed}", url=f"https://blog{feed}.example/"),
    )


async def _filled(folder: Path, posts: int) -> tuple[float, int, dict[int, list[str]]]:
    """Create posts of many feeds, readers, and the index; returns its seconds, bytes, tokens by number of feeds."""
    folder.mkdir()
    (folder / "backend.json").write_text(SETTINGS)
    settings = Settings(data_dir=folder / "data", backend=folder / "backend.json")
    language, now = _Language(), float(int(time.time()))
    async with server.stores.open_stores(settings, create=True) as stores:
        writer, each = PostWriter(stores.redis), posts // FEEDS
        feeds = []
        for number in range(FEEDS):
            feed = await stores.feeds.ensure(f"https://blog{number}.example/feed", now)
            moments = [now - (place * FEEDS + number) * 300 for place in range(each)]
            entries = [_entry(language, place * FEEDS + number, number, at) for place, at in enumerate(moments)]
            pairs = zip(entries, moments, strict=True)
            candidates = [ItemToStore(one.guid or "", dump(to_wire(one)), "-", at) for one, at in pairs]
            stored = await writer.write(feed, candidates, now)
            await stores.items.done(feed.id, [item.id for item in stored.new])
            feeds.append([(score_text(at), item.id) for at, item in zip(moments, stored.new, strict=True)])
        readers = {
            count: [await _reader(stores, feeds, count, place, now) for place in range(READERS)] for count in FOLLOWED
        }
        await rewritten(stores.redis)
        await server.backend.configuration(settings, stores).watch_data()
        began = time.perf_counter()
        await server.jobs.follower(settings, stores).build()
        return time.perf_counter() - began, IndexFolder(settings.index).size(), readers


async def _reader(
    stores: server.stores.Stores, feeds: Sequence[Sequence[tuple[str, str]]], count: int, place: int, now: float
) -> str:
    """Create a user who follows one in so many feeds, in ten channels; returns the user's token."""
    user = f"reader{count}-{place}"
    await stores.accounts.add_user(user, "", now)
    followed = [feeds[(number * len(feeds) // count + place) % len(feeds)] for number in range(count)]
    for channel in range(CHANNELS):
        await stores.channels.create(user, f"c{channel}", now, f"c{channel}")
        for posts in followed[channel::CHANNELS]:
            flat = [part for row in posts for part in row]
            key = user, f"c{channel}"
            await stores.redis.pipeline([("ZADD", keys.posts(*key), *flat), ("SADD", keys.unread(*key), *flat[1::2])])
    return await stores.accounts.create_token(user, ["read"], "benchmarks", now)


def _questions(language: _Language) -> Iterator[tuple[str, str]]:
    """Queries with their kind; the kinds alternate."""
    while True:
        frequent, usual, rare = language.word(0, 50), language.word(300, 3000), language.word(8000, _VOCABULARY)
        yield "a frequent word", frequent
        yield "a usual word", usual
        yield "a rare word", rare
        yield "two words", f"{frequent} {usual}"
        yield "without one", f"{usual} -{frequent}"
        yield "either", f"{rare} OR {usual}"
        yield "a phrase", f'"{frequent} {language.word(0, 50)}"'
        yield "a beginning", f"{usual[:4]}*" if len(usual) > 3 else f"{usual}*"
        yield "two characters", language.unspaced(2)
        yield "unread, in a month", f"{usual} is:unread after:30d"


def _waiting(endpoint: str, pids: Sequence[int], feeds: int, tokens: Sequence[str]) -> Waiting:
    took: dict[str, list[float]] = {}
    before = spent(*pids)
    questions = _questions(_Language())
    place = urlsplit(endpoint)
    for token in tokens:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        for number in range(QUESTIONS + 10):
            kind, query = next(questions)
            path = f"{place.path}?{urlencode({'action': 'search', 'channel': 'global', 'query': query})}"
            began = time.perf_counter()
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            reply = connection.getresponse()
            body = reply.read()
            if reply.status != 200 or "items" not in orjson.loads(body):
                raise RuntimeError(f"{query}: {reply.status} {body[:300]!r}")
            if number >= 10:  # the first query of each kind isn't counted
                took.setdefault(kind, []).append((time.perf_counter() - began) * 1e3)
        connection.close()
    print(f"  readers with {feeds:,} feeds were answered", file=sys.stderr)
    every = [one for several in took.values() for one in several]
    processor = (spent(*pids) - before) / len(tokens) / (QUESTIONS + 10) * 1e3
    kinds = {kind: (median(some), _p95(some)) for kind, some in took.items()}
    return Waiting(feeds, median(every), _p95(every), processor, kinds)


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1]


# --- what it says -----------------------------------------------------------------------------------------------------


def text(found: Found) -> str:
    """The tables, for the terminal and for pages."""
    cost = [("µs of processor time for a post", "taking it in", "indexing it", "share")]
    for number, one in enumerate(found.costs, 1):
        cost.append((f"turn {number}", f"{one.ingest:.0f}", f"{one.index:.0f}", f"{one.share:.1%}"))
    built = (
        f"{found.posts:,} posts were indexed from nothing in {found.seconds:.1f} s "
        f"({found.posts / found.seconds:,.0f} a second), {found.size / 1e6:.0f} MB."
    )
    kinds = list(found.waits[0].kinds)
    waits = [
        ("ms, p50 and p95", *(f"{one.feeds:,} feeds" for one in found.waits)),
        *((kind, *("{:.1f} {:.1f}".format(*one.kinds[kind]) for one in found.waits)) for kind in kinds),
        ("all", *(f"{one.p50:.1f} {one.p95:.1f}" for one in found.waits)),
        ("processor time of one, on average", *(f"{one.processor:.1f}" for one in found.waits)),
    ]
    aims = [("aim", "reached", ""), *((name, value, "met" if met else "MISSED") for name, value, met in found.aims())]
    return "\n\n".join([aligned(cost), built, aligned(waits), aligned(aims)])


def document(found: Found) -> dict[str, Any]:
    """The figures for programs."""
    return {**asdict(found), "share": found.share}
