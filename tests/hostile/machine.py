"""The worker's process and its measurements."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

import redis as redis_py

from microsub.feeds.record import FeedRecord
from microsub.redis.embedded.server import EmbeddedEngine
from microsub.redis.multiplexer import Multiplexed
from microsub.work import backlogs
from tests.hostile.memory import MIB, forget_peak, parsers, peak, resident
from tests.hostile.publisher import publisher
from tests.support.polling import World, rss, world
from tests.support.waiting import wait_until

GROWTH = 40 * MIB
"""Includes a parser that starts while a document is read and loads its modules."""
GROWTH_OF_WIDE_TEXT = 128 * MIB
"""For the longest text of a document, in characters that take four bytes each, both in Python and as UTF-8.

A fresh parser holds the body and its text, 10 MiB each. The worker holds the body and the post of half a million
characters, which is 4 MiB in each of its forms on the way to Redis. Memory that the allocator keeps from earlier
cases adds up to 12 MiB: 70 to 84 were measured, and 98 once.
"""
GROWTH_OF_ENDED = 56 * MIB
"""For a parser that is ended at its limit: the next one loads its modules while the worker holds the body."""
GROWTH_OF_ALL = 80 * MIB
"""Memory that all cases of one process may leave in the allocator."""


@dataclass
class Machine:
    """The worker's process and the Redis that it works on.

    `rest` is the memory of the worker after ordinary work, `parser` that of an idle parser of the worker, in bytes.
    """

    url: str
    process: subprocess.Popen[bytes]
    rest: int = 0
    parser: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def parser_at_rest(self) -> int:
        return max(map(resident, parsers(self.pid)), default=0)


@contextmanager
def running_machine(redis_server: EmbeddedEngine) -> Iterator[Machine]:
    """A worker that has polled large feeds and a page, so that memory is measured from there."""
    url = f"{redis_server.url}?db=0"
    process = subprocess.Popen([sys.executable, "-m", "tests.hostile.worker_process", url], stderr=subprocess.DEVNULL)
    made = Machine(url, process)
    try:
        asyncio.run(_warm_up(made))
        yield made
    finally:
        process.terminate()
        assert process.wait(60) == 0
        with redis_py.Redis.from_url(url) as client:
            client.flushdb()


async def _warm_up(machine: Machine) -> None:
    large = rss([(f"w{n}", f"Warm {n} " + "word " * 200, None) for n in range(300)])
    entries = "".join(f"<div class=h-entry><a class=u-url href=/{n}>x</a><b>x</b></div>" for n in range(1500))
    page = f"<!doctype html><div class=h-feed>{entries}</div>".encode()
    async with publisher({}, good=large) as site, publisher({}, good=page) as pages, stores(machine) as it:
        ports = [site.port, site.port, site.port, pages.port]
        feeds = [await it.follow(f"http://warm{n}.test:{port}/good{n}", uid="warm") for n, port in enumerate(ports)]
        await wait_until(lambda: polled(it, feeds, 0.0))
        machine.rest, machine.parser = resident(machine.pid), machine.parser_at_rest()
        assert machine.parser


@asynccontextmanager
async def stores(machine: Machine) -> AsyncIterator[World]:
    """The stores of the worker; only the worker polls."""
    redis = Multiplexed(machine.url)
    try:
        async with world(redis) as it:
            yield it
    finally:
        await redis.aclose()


async def polled(it: World, feeds: list[FeedRecord], since: float) -> bool:
    records = await it.feeds.get_many([feed.id for feed in feeds])
    if any(waiting.messages for waiting in (await backlogs(it.redis, ["stored"])).values()):
        return False
    return all((record.last_poll or -1) >= since - 0.001 for record in records.values())


class Watch:
    """Measures the memory of the worker and its parsers until the block ends."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._before = 0
        self._parsers_before: dict[int, int] = {}
        self._parsers: dict[int, int] = {}

    async def __aenter__(self) -> Watch:
        self._before = max(resident(self._machine.pid), self._machine.rest)
        forget_peak(self._machine.pid)
        for parser in parsers(self._machine.pid):
            self._parsers_before[parser] = resident(parser)
            with suppress(OSError):
                forget_peak(parser)
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()
        self._see()

    async def _look(self) -> None:
        while True:
            self._see()
            await asyncio.sleep(0.01)

    def _see(self) -> None:
        for parser in parsers(self._machine.pid):
            self._parsers[parser] = max(peak(parser), self._parsers.get(parser, 0))

    def check(self, growth: int = GROWTH) -> None:
        """Worker and parsers together have grown by less than `growth` bytes, each compared with its idle state."""
        most = peak(self._machine.pid)
        grown = max(0, most - self._before)
        idle = self._machine.parser
        more = sum(max(0, seen - max(idle, self._parsers_before.get(p, 0))) for p, seen in self._parsers.items())
        print(f"worker {grown / MIB:+.1f} MiB, parsers {more / MIB:+.1f} MiB")
        assert grown + more < growth, f"the worker grew by {grown / MIB:.0f} MiB, its parsers by {more / MIB:.0f} MiB"
        assert most - self._machine.rest < GROWTH_OF_ALL
