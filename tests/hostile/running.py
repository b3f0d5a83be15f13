"""One case through a real worker in its own process.

Each case checks the feed's health, that worker and parsers together grew by less than 40 MiB, that the worker was busy
only for moments, that other feeds were polled while this publisher was slow, and that the feed has a next poll, or
none if it is gone.
"""

from __future__ import annotations

import ssl
import time

from microsub.base.urls import host_of
from microsub.feeds.record import FeedRecord
from microsub.redis import keys
from tests.hostile.case import Case, Outcome
from tests.hostile.machine import Machine, Watch, polled, stores
from tests.hostile.memory import processor_time
from tests.hostile.publisher import Publisher, publisher
from tests.hostile.worker_process import BRIEF, CERTIFICATES, SPINS
from tests.support.polling import World, dated, rss
from tests.support.waiting import wait_until

OTHERS = 3
BUSY = 20.0
"""Seconds of the worker's processor time that a case may take, while all feeds wait: a tenth of a second is usual."""


def certificate(name: str | None) -> ssl.SSLContext | None:
    if name is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / f"{name}.pem")
    return context


async def run(machine: Machine, name: str, case: Case) -> None:
    """Runs the case and compares the outcome with the expected one."""
    uid = name.replace(".", "-")
    async with (
        publisher({case.path: case.act, **case.paths}, good=b"", tls=certificate(case.certificate)) as site,
        publisher({}, good=rss(dated(2))) as good,
        stores(machine) as it,
        Watch(machine) as watch,
    ):
        used = processor_time(machine.pid)
        feed = await it.follow(address(case, name, site), uid=uid)
        for number in range(case.polls):
            asked, begun = len(site.asked), time.time()
            if not case.brief:
                site.open.clear()
            if number:
                await it.make_due(feed)
            since = begun if number else 0.0
            await wait_until(lambda a=asked, s=since: len(site.asked) > a or polled(it, [feed], s))
            await others_are_polled(it, name, number, good)
            site.open.set()
            await wait_until(lambda s=since: polled(it, [feed], s))
            wait = await wait_of(it, feed)
        used = processor_time(machine.pid) - used
        outcome = Outcome(await it.record(feed), await it.texts(uid=uid), site, wait)
    watch.check(case.growth)
    assert used < BUSY, f"the worker was busy for {used:.1f} s"
    check(case, outcome)


def address(case: Case, name: str, site: Publisher) -> str:
    """A host for each case, unless a certificate requires a certain name."""
    user, at, host = case.host.rpartition("@")
    where = host if case.certificate else f"{BRIEF * case.brief}{SPINS * case.spins}{name[:50]}.{host}"
    return f"{'https' if case.certificate or case.tls else 'http'}://{user}{at}{where}:{site.port}{case.path}"


async def others_are_polled(it: World, name: str, number: int, good: Publisher) -> None:
    """Makes feeds on other hosts due, and checks that they don't wait for the publisher of the case."""
    begun = time.time()
    hosts = [f"other{number}-{other}.test" for other in range(OTHERS)]
    feeds = [await it.follow(f"http://{host}:{good.port}/good", uid="others") for host in hosts]
    await wait_until(lambda: polled(it, feeds, begun))


async def wait_of(it: World, feed: FeedRecord) -> float | None:
    """Seconds from the last poll to the next one in record and schedule; None if there is no next poll."""
    key = keys.host_due(host_of(feed.url))

    async def settled() -> list[float | None]:
        record, due = await it.record(feed), await it.redis.command("ZSCORE", key, feed.id)
        if record.next_poll is None:
            return [None] if due is None else []
        planned = due is not None and abs(float(due) - record.next_poll) < 1
        return [record.next_poll - (record.last_poll or 0.0)] if planned else []

    found: list[float | None] = await wait_until(settled)
    return found[0]


def check(case: Case, outcome: Outcome) -> None:
    """Checks the feed's record, the number of posts, the time of the next poll, and the case's own check."""
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
        assert case.wait[0] - 60 <= outcome.wait <= case.wait[1], outcome.wait
    if case.check is not None:
        case.check(outcome)
