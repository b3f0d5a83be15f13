"""Everything that publishers do to us, through a real worker in a process of its own.

Each case: what the feed's health says, that the worker's memory grew by less than 40 MiB, that other feeds were polled
in time meanwhile, and that the feed is scheduled again, or never.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import redis as redis_py

from microsub.formats.identity import host_of
from microsub.store import keys
from microsub.store.embedded import EmbeddedRedis
from microsub.store.feeds import FeedRecord
from microsub.store.multiplexer import Multiplexed
from tests.hostile import bodies, documents, hops, replies
from tests.hostile.case import Case, Outcome
from tests.hostile.memory import MIB, children, forget_peak, peak, resident
from tests.hostile.publisher import Publisher, publisher
from tests.hostile.worker_process import CERTIFICATES
from tests.support.polling import World, dated, rss, world
from tests.support.waiting import wait_until

CASES = bodies.CASES | replies.CASES | hops.CASES | documents.CASES
GROWTH = 40 * MIB
HEAVY = 128 * MIB
"""What a parser may take for a document that is as large as documents may be. It gives all of it back."""

OTHERS = 3
IN_TIME = 2.0


@dataclass
class Machine:
    """The worker's process and the Redis that it works on. `parser` is what an idle parser holds, in bytes."""

    url: str
    process: subprocess.Popen[bytes]
    parser: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def parsers(self) -> int:
        return sum(resident(child) for child in children(self.pid))


@pytest.fixture(scope="module")
def machine(redis_server: EmbeddedRedis) -> Iterator[Machine]:
    """A worker that has seen ordinary feeds, a large one among them, so that what follows is measured from there."""
    url = f"{redis_server.url}?db=0"
    process = subprocess.Popen([sys.executable, "-m", "tests.hostile.worker_process", url], stderr=subprocess.DEVNULL)
    made = Machine(url, process)
    try:
        asyncio.run(_warm_up(made))
        yield made
    finally:
        process.terminate()
        assert process.wait(10) == 0
        with redis_py.Redis.from_url(url) as client:
            client.flushdb()


async def _warm_up(machine: Machine) -> None:
    large = rss([(f"w{n}", f"Warm {n} " + "word " * 200, None) for n in range(300)])
    async with publisher({}, good=large) as site, stores(machine) as it:
        feeds = [await it.follow(f"http://warm{n}.test:{site.port}/good{n}", uid="warm") for n in range(3)]
        await wait_until(lambda: _done(it, feeds, 0.0), timeout=30)
        machine.parser = machine.parsers()
        assert machine.parser


@asynccontextmanager
async def stores(machine: Machine) -> AsyncIterator[World]:
    """The stores that the worker works on; polling is left to it."""
    redis = Multiplexed(machine.url)
    try:
        async with world(redis) as it:
            yield it
    finally:
        await redis.aclose()


async def _done(it: World, feeds: list[FeedRecord], since: float) -> bool:
    records = await it.feeds.get_many([feed.id for feed in feeds])
    return all((record.last_poll or -1) >= since - 0.001 for record in records.values())


def certificate(name: str | None) -> ssl.SSLContext | None:
    if name is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / f"{name}.pem")
    return context


class Watch:
    """Looks at the memory of the worker and its parsers for as long as the block lasts."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._before = 0
        self._parsers = 0

    async def __aenter__(self) -> Watch:
        self._before = resident(self._machine.pid)
        self._parsers_before = max(self._machine.parser, self._machine.parsers())
        forget_peak(self._machine.pid)
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()

    async def _look(self) -> None:
        while True:
            self._parsers = max(self._parsers, self._machine.parsers())
            await asyncio.sleep(0.02)

    def check(self, heavy: bool) -> None:
        grown, more = peak(self._machine.pid) - self._before, self._parsers - self._parsers_before
        print(f"worker {grown / MIB:+.1f} MiB, parsers {more / MIB:+.1f} MiB")
        assert grown < GROWTH, f"the worker grew by {grown / MIB:.0f} MiB"
        assert more < (HEAVY if heavy else GROWTH), f"its parsers grew by {more / MIB:.0f} MiB"


@pytest.mark.parametrize("name", CASES)
async def test_a_hostile_publisher(machine: Machine, name: str) -> None:
    """The case does what it says to its own feed, and nothing to the server or to others."""
    case, uid = CASES[name], name.replace(".", "-")
    async with (
        publisher({case.path: case.act, **case.paths}, good=b"", tls=certificate(case.certificate)) as site,
        publisher({}, good=rss(dated(2))) as good,
        stores(machine) as it,
        Watch(machine) as watch,
    ):
        feed = await it.follow(address(case, name, site), uid=uid)
        for number in range(case.polls):
            asked, begun = len(site.visits), time.time()
            if number:
                await it.make_due(feed)
            since = begun if number else 0.0
            await wait_until(lambda a=asked, s=since: len(site.visits) > a or _done(it, [feed], s))
            await others_are_polled(it, name, number, good)
            await wait_until(lambda s=since: _done(it, [feed], s), timeout=20)
        outcome = Outcome(await it.record(feed), await it.texts(uid=uid), site, await wait_of(it, feed))
    watch.check(case.heavy)
    check(case, outcome)


def address(case: Case, name: str, site: Publisher) -> str:
    """A host for each case, unless a certificate names it."""
    user, at, host = case.host.rpartition("@")
    where = host if case.certificate else f"{name[:50]}.{host}"
    return f"{'https' if case.certificate or case.tls else 'http'}://{user}{at}{where}:{site.port}{case.path}"


async def others_are_polled(it: World, name: str, number: int, good: Publisher) -> None:
    """Feeds on other hosts that become due now aren't kept waiting."""
    begun = time.time()
    hosts = [f"other{number}-{other}.test" for other in range(OTHERS)]
    feeds = [await it.follow(f"http://{host}:{good.port}/good", uid="others") for host in hosts]
    await wait_until(lambda: _done(it, feeds, begun))
    took = time.time() - begun
    assert took < IN_TIME, f"other feeds waited for {took:.1f} s"


async def wait_of(it: World, feed: FeedRecord) -> float | None:
    """Seconds until the schedule lets the feed be polled again; None when it never will be."""
    key = keys.host_due(host_of(feed.url))

    async def settled() -> list[float | None]:
        record, due = await it.record(feed), await it.redis.command("ZSCORE", key, feed.id)
        if record.next_poll is None:
            return [None] if due is None else []
        planned = due is not None and abs(float(due) - record.next_poll) < 1
        return [record.next_poll - time.time()] if planned else []

    found: list[float | None] = await wait_until(settled)
    return found[0]


def check(case: Case, outcome: Outcome) -> None:
    """What the feed's record says, how many posts arrived, when the next poll is, and what else the case asks."""
    health = outcome.feed.last_error or ""
    assert health.startswith(case.health) if case.health else not health, health
    assert case.says in health, health
    assert len(health) < 500
    if case.posts is not None:
        assert len(outcome.posts) == case.posts
    if case.wait is None:
        assert outcome.wait is None
        assert outcome.feed.gone
    else:
        assert outcome.wait is not None
        assert not outcome.feed.gone
        assert case.wait[0] - 5 <= outcome.wait <= case.wait[1], outcome.wait
    if case.check is not None:
        case.check(outcome)
