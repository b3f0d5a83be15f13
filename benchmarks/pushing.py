"""From a hub's delivery to the timeline: 500 subscriptions, polls that come once a day, posts one by one and in bursts.

The server runs as people start it, with the worker that it starts; hub and publisher are in this process. A post is
there when a page of the timeline has it. Beside the waits stands what an idle worker asks of Redis.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis.asyncio as redis_py

from benchmarks.latency import quantile
from benchmarks.report import aligned
from microsub.redis.embedded.server import start_embedded
from tests.support.hub import Hub, hub
from tests.support.process import PROGRAM, Installation, installation, reader
from tests.support.reader import Reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

SUBSCRIPTIONS = 500
BURSTS = (1, 5)
"""Posts that are delivered at once."""
MOST_WAITING = 1.0
"""Seconds within which nineteen of twenty posts are to be in the timeline."""

_LOOK = 0.01
_LONG = 900.0
_IDLE = 30.0


@dataclass(frozen=True, slots=True)
class Line:
    """Deliveries of so many posts at once; seconds."""

    at_once: int
    posts: int
    p50: float
    p95: float
    longest: float

    @classmethod
    def of(cls, at_once: int, waits: Sequence[float]) -> Line:
        """What single waits come to."""
        return cls(at_once, len(waits), quantile(waits, 0.5), quantile(waits, 0.95), max(waits))


@dataclass(frozen=True, slots=True)
class Found:
    """`idle` are commands per second that the streams of an idle server cost Redis, by their name."""

    subscriptions: int
    lines: tuple[Line, ...]
    idle: dict[str, float]

    @property
    def met(self) -> bool:
        """Whether posts come soon enough."""
        return all(line.p95 <= MOST_WAITING for line in self.lines)


def measure(*, quick: bool) -> Found:
    """All of it, from nothing."""
    with tempfile.TemporaryDirectory(prefix="microsub-push-") as folder:
        return asyncio.run(_measured(Path(folder), *(50, 10) if quick else (SUBSCRIPTIONS, 20)))


async def _measured(folder: Path, feeds: int, rounds: int) -> Found:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environ = {"MICROSUB_BASE_URL": f"http://127.0.0.1:{port}", "MICROSUB_PORT": port}
    async with publisher() as site:
        urls = [site.url(f"/feed/{number}") for number in range(feeds)]
        document = {
            "users": {"alice": {"channels": [{"uid": "home", "name": "Home", "feeds": urls}]}},
            "settings": {"polling": {"min_interval": 86_400, "host_interval": 0}},
        }
        async with installation(folder, document, program=PROGRAM, **environ) as made, hub(site) as one:
            there = _Pushing(made, site, one, urls)
            return await there.measured(rounds)


class _Pushing:
    """Feeds with their hub, and the server that follows them."""

    def __init__(self, made: Installation, site: Publisher, one: Hub, urls: list[str]) -> None:
        self._made = made
        self._hub = one
        self._urls = urls
        self._count = 0
        for url in urls:
            site.serve_document(url.removeprefix(site.url("")), self._document(url, "first"))

    def _document(self, url: str, *names: str) -> bytes:
        return self._hub.document(url, *names).replace(b"hub.test", b"127.0.0.1")

    async def measured(self, rounds: int) -> Found:
        server = await self._made.serve()
        await wait_until(lambda: len(self._hub.subscriptions) == len(self._urls), _LONG)
        idle = await self._idle()
        async with reader(server, await self._made.token("alice")) as alice:
            await self._delivered(alice, 1)
            lines = [Line.of(burst, await self._waits(alice, burst, rounds)) for burst in BURSTS]
        return Found(len(self._urls), tuple(lines), idle)

    async def _waits(self, alice: Reader, at_once: int, rounds: int) -> list[float]:
        waits: list[float] = []
        for _ in range(rounds):
            waits += await self._delivered(alice, at_once)
            await asyncio.sleep(0.5)
        return waits

    async def _delivered(self, alice: Reader, at_once: int) -> list[float]:
        """Seconds from the beginning of each delivery until its post is in the timeline."""
        posts = {}
        for _ in range(at_once):
            self._count += 1
            posts[f"post {self._count}"] = self._urls[self._count % len(self._urls)]
        began = time.perf_counter()
        sending = asyncio.gather(
            *(self._hub.publish(url, self._document(url, name, "first")) for name, url in posts.items())
        )
        waits: dict[str, float] = {}
        while len(waits) < at_once:
            names = set(await alice.names(limit=20))
            now = time.perf_counter()
            waits |= {name: now - began for name in posts if name in names and name not in waits}
            await asyncio.sleep(_LOOK)
        answers = await sending
        if any(answer != [202] for answer in answers):
            raise RuntimeError(f"the server refused deliveries: {answers}")
        return list(waits.values())

    async def _idle(self) -> dict[str, float]:
        """Commands per second of a server that has nothing to do."""
        server = await asyncio.to_thread(start_embedded, self._made.folder / "data")
        try:
            async with redis_py.Redis.from_url(server.url) as client:
                before = await client.info("commandstats")
                await asyncio.sleep(_IDLE)
                after = await client.info("commandstats")
        finally:
            await asyncio.to_thread(server.stop)
        calls = {name: row["calls"] - before.get(name, {"calls": 0})["calls"] for name, row in after.items()}
        rates = {name.removeprefix("cmdstat_"): count / _IDLE for name, count in calls.items() if count}
        return dict(sorted(rates.items(), key=lambda pair: -pair[1]))


def text(found: Found) -> str:
    """A table of waits, and what idleness costs."""
    rows: list[Sequence[str]] = [
        ("delivered at once", "posts", "p50 s", "p95 s", "longest s", f"p95 at most {MOST_WAITING:g} s")
    ]
    for one in found.lines:
        met = "met" if one.p95 <= MOST_WAITING else "MISSED"
        rows.append((f"{one.at_once}", f"{one.posts}", f"{one.p50:.2f}", f"{one.p95:.2f}", f"{one.longest:.2f}", met))
    idle = sum(found.idle.values())
    return f"{found.subscriptions} subscriptions\n\n{aligned(rows)}\n\nidle: {idle:.1f} commands a second"


def document(found: Found) -> dict[str, Any]:
    """The same for programs."""
    return asdict(found)
