"""Time from a hub's delivery to timelines and open event streams, for 500 subscriptions and polls once a day.

A hub in this process, which follows the spec, delivers to one server; that server's own hub distributes everything to
a second server. Both run as admins start them, with their own workers. A post has arrived when a reader's open stream
has announced it and a page of the timeline contains it. The benchmark also measures how often an idle worker asks for
messages.
"""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import redis.asyncio as redis_py

from benchmarks.latency import quantile
from benchmarks.report import aligned
from microsub.redis.embedded.server import start_embedded
from tests.support.event_stream import Heard, listening_by_http
from tests.support.hub import Hub, hub
from tests.support.process import PROGRAM, Installation, installation, reader
from tests.support.reader import Reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

SUBSCRIPTIONS = 500
BURSTS = (1, 5)
"""Numbers of posts that are delivered at once."""
MOST_WAITING = 1.0
"""Seconds within which 95 % of the posts must arrive."""
HUBS = ("a hub of the spec", "from there by our own")

_LONG = 900.0
_IDLE = 30.0
_BREATH = 0.5


@dataclass(frozen=True, slots=True)
class Line:
    """Deliveries of that many posts at once by a hub; times in seconds."""

    hub: str
    at_once: int
    posts: int
    p50: float
    p95: float
    longest: float

    @classmethod
    def of(cls, name: str, at_once: int, waits: Sequence[float]) -> Line:
        """The figures, given all waiting times."""
        return cls(name, at_once, len(waits), quantile(waits, 0.5), quantile(waits, 0.95), max(waits))

    @property
    def met(self) -> bool:
        """Whether posts arrive soon enough."""
        return self.p95 <= MOST_WAITING


@dataclass(frozen=True, slots=True)
class Found:
    """`idle`: how often per second a server with nothing to do asks Redis for messages of its streams."""

    subscriptions: int
    lines: tuple[Line, ...]
    idle: float

    @property
    def met(self) -> bool:
        """Whether all posts arrive soon enough."""
        return all(line.met for line in self.lines)


def measure(*, quick: bool) -> Found:
    """Measure everything, from an empty server."""
    with tempfile.TemporaryDirectory(prefix="microsub-push-") as folder:
        return asyncio.run(_measured(Path(folder), *(50, 10) if quick else (SUBSCRIPTIONS, 20)))


async def _measured(folder: Path, feeds: int, rounds: int) -> Found:
    first, second = _free_port(), _free_port()
    async with publisher() as site, hub(site) as one:
        urls = [site.url(f"/feed/{number}") for number in range(feeds)]
        passed_on = [f"http://127.0.0.1:{first}/topics/feed.json?url={quote(url, safe='')}" for url in urls]
        async with (
            _server(folder / "first", first, urls) as ours,
            _server(folder / "second", second, passed_on) as next_,
        ):
            pushing = _Pushing(site, one, urls)
            started = [await ours.serve()]
            await wait_until(lambda: len(one.subscriptions) == feeds, _LONG)
            started.append(await next_.serve())
            await wait_until(lambda: _subscribed(ours, feeds), _LONG)
            idle = await _idle(ours)
            async with (
                _Watcher.of(started[0], await ours.token("alice")) as direct,
                _Watcher.of(started[1], await next_.token("alice")) as behind,
            ):
                lines = await pushing.lines((direct, behind), rounds)
    return Found(feeds, lines, idle)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@asynccontextmanager
async def _server(folder: Path, port: int, feeds: Sequence[str]) -> AsyncIterator[Installation]:
    """Run a server whose user Alice follows these feeds."""
    environ = {
        "MICROSUB_BASE_URL": f"http://127.0.0.1:{port}",
        "MICROSUB_PORT": f"{port}",
        "MICROSUB_HUB_FEEDS": "on",
    }
    document = {
        "users": {"alice": {"channels": [{"uid": "home", "name": "Home", "feeds": list(feeds)}]}},
        "settings": {"polling": {"min_interval": 86_400, "host_interval": 0}},
    }
    async with installation(folder, document, program=PROGRAM, **environ) as made:
        yield made


async def _subscribed(made: Installation, feeds: int) -> bool:
    """Whether a server's own hub has a subscription to each feed."""
    await asyncio.sleep(1.0)
    _, out, _ = await made.run("push", "status", "--json")
    found: list[int] = [one["subscriptions"] for one in json.loads(out)["callbacks"].values()]
    return sum(found) >= feeds


class _Watcher:
    """A reader with an open stream, who records when each post arrives."""

    def __init__(self, alice: Reader, events: AsyncIterator[Heard]) -> None:
        self._alice = alice
        self._events = events
        self.times: dict[str, float] = {}

    @classmethod
    @asynccontextmanager
    async def of(cls, server: str, token: str) -> AsyncIterator[_Watcher]:
        """Open the stream of the reader with that token."""
        async with reader(server, token) as alice, listening_by_http(alice) as events:
            watcher = cls(alice, events)
            watching = asyncio.create_task(watcher._watch())
            try:
                yield watcher
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        async for heard in self._events:
            if heard.name == "new item":
                name = heard.data["item"]["name"]
                if name not in await self._alice.names(limit=20):
                    raise RuntimeError(f"the stream has {name} and the timeline hasn't")
                self.times[name] = time.perf_counter()


class _Pushing:
    """The feeds and their hub."""

    def __init__(self, site: Publisher, one: Hub, urls: list[str]) -> None:
        self._hub = one
        self._urls = urls
        self._count = 0
        for url in urls:
            site.serve_document(url.removeprefix(site.url("")), self._document(url, "first"))

    def _document(self, url: str, *names: str) -> bytes:
        return self._hub.document(url, *names).replace(b"hub.test", b"127.0.0.1")

    async def lines(self, watchers: Sequence[_Watcher], rounds: int) -> tuple[Line, ...]:
        """Readers' waiting times, for each burst and each hub."""
        found = []
        for at_once in BURSTS:
            waits: list[list[float]] = [[] for _ in watchers]
            for _ in range(rounds):
                for place, one in enumerate(await self._delivered(watchers, at_once)):
                    waits[place] += one
                await asyncio.sleep(_BREATH)
            found += [Line.of(name, at_once, one) for name, one in zip(HUBS, waits, strict=True)]
        return tuple(found)

    async def _delivered(self, watchers: Sequence[_Watcher], at_once: int) -> list[list[float]]:
        """Seconds from the beginning of the deliveries until each watcher has each post."""
        posts = {}
        for _ in range(at_once):
            self._count += 1
            posts[f"post {self._count}"] = self._urls[self._count % len(self._urls)]
        began = time.perf_counter()
        sending = (self._hub.publish(url, self._document(url, name, "first")) for name, url in posts.items())
        answers = await asyncio.gather(*sending)
        if any(answer != [202] for answer in answers):
            raise RuntimeError(f"the server refused deliveries: {answers}")
        await wait_until(lambda: all(posts.keys() <= one.times.keys() for one in watchers))
        return [[one.times[name] - began for name in posts] for one in watchers]


async def _idle(made: Installation) -> float:
    """How often per second an idle server asks for messages."""
    server = await asyncio.to_thread(start_embedded, made.folder / "data")
    try:
        async with redis_py.Redis.from_url(server.url) as client:
            before: int = (await client.info("commandstats"))["cmdstat_xreadgroup"]["calls"]
            await asyncio.sleep(_IDLE)
            after: int = (await client.info("commandstats"))["cmdstat_xreadgroup"]["calls"]
    finally:
        await asyncio.to_thread(server.stop)
    return (after - before) / _IDLE


def text(found: Found) -> str:
    """A table of waiting times, and the costs of an idle server."""
    aim = f"p95 at most {MOST_WAITING:g} s"
    rows: list[Sequence[str]] = [("delivered by", "at once", "posts", "p50 s", "p95 s", "longest s", aim)]
    for one in found.lines:
        waits = (f"{one.p50:.2f}", f"{one.p95:.2f}", f"{one.longest:.2f}")
        rows.append((one.hub, f"{one.at_once}", f"{one.posts}", *waits, "met" if one.met else "MISSED"))
    idle = f"An idle worker asks its three streams for messages {found.idle:.1f} times a second."
    return f"{found.subscriptions} subscriptions\n\n{aligned(rows)}\n\n{idle}"


def document(found: Found) -> dict[str, Any]:
    """The same for programs."""
    return asdict(found)
