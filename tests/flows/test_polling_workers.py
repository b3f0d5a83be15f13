"""Several workers: politeness, slow hosts, stopping, polling on demand."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from microsub.base.errors import StoreUnreached
from microsub.configuration.model import HostPolicy, InstanceSettings, Polling
from microsub.polling.worker import GRACE_SECONDS, STAGES_END_SECONDS, Worker
from microsub.redis.protocol import Redis
from microsub.work import HAND_BACK_SECONDS, Claim
from tests.support.polling import FAST, World, dated, next_time, rss, world
from tests.support.waiting import wait_until
from tests.support.web import Answer, Asked, Publisher, publisher

FOR_EVER = {"total": 3600, "idle": 3600}
"""The fetch of a silent publisher never times out during a test."""


@asynccontextmanager
async def running(*workers: Worker, grace: float = 0.0) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(worker.run(grace)) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)


async def test_new_feeds_are_polled_before_overdue_ones(real_redis: Redis) -> None:
    """Within a worker's first polls, until whose end it doesn't give way to other processes."""
    async with publisher() as site, world(real_redis, settings=FAST) as it:
        feeds = [await it.follow(site.serve_document(f"/{n}", rss(dated(1)))) for n in range(4)]
        await it.worker.run_once()
        await it.make_due(*feeds)
        it.clock.advance(3600)
        site.asked.clear()
        site.serve_document("/new", rss(dated(1)))
        record, now = await it.follow_unscheduled(site.url("/new")), it.clock()
        await it.following.join("alice", "home", record, now)
        async with running(it.worker, grace=60.0):
            await it.worker.first_polls()
        assert site.asked[0].path == "/new"
        assert len(site.asked) == 5


async def test_hung_hosts_do_not_delay_the_others(real_redis: Redis) -> None:
    """While 20 hosts accept connections but never reply, 80 others are polled."""
    async with publisher() as site, world(real_redis, limits=FOR_EVER) as it:
        site.serve_document("/feed", rss(dated(1)))
        site.serve("/hung", Answer(hang=True, head_only_length=5))
        for number in range(20):
            await it.follow(site.url("/hung", f"hung{number}.test"))
        for number in range(80):
            await it.follow(site.url("/feed", f"blog{number}.test"))
        async with running(it.worker):
            await wait_until(lambda: site.count("/feed") == 80)
            assert site.count("/hung") == 20
            assert site.in_flight >= 20


async def test_two_workers_never_double_a_request(site: Publisher, real: World) -> None:
    """Sixty feeds on 20 hosts, three workers: each due feed is polled once, with one request at a time per host."""
    busy: Counter[str] = Counter()
    worst: Counter[str] = Counter()

    async def answer(asked: Asked) -> Answer:
        busy[asked.host] += 1
        worst[asked.host] = max(worst[asked.host], busy[asked.host])
        await asyncio.sleep(0.005)
        busy[asked.host] -= 1
        return Answer(rss(dated(2)), headers=[("Content-Type", "application/rss+xml")])

    feeds = []
    for number in range(60):
        site.serve(f"/feed{number}", answer)
        feeds.append(await real.follow(site.url(f"/feed{number}", f"blog{number % 20}.test")))
    workers = [real.make_worker() for _ in range(3)]
    async with running(*workers):
        await wait_until(lambda: len(site.asked) >= 60 and not any(worker.in_flight for worker in workers))
        await real.make_due(*feeds)
        await wait_until(lambda: len(site.asked) >= 120)
    assert set(Counter(asked.path for asked in site.asked).values()) == {2}
    assert set(worst.values()) == {1}


async def test_requests_to_a_host_are_spaced(real_redis: Redis) -> None:
    """`host_interval` separates the end of one request from the start of the next one, across all workers."""
    settings = InstanceSettings(polling=Polling(host_interval=0.15))
    async with publisher() as site, world(real_redis, settings=settings) as it:
        for number in range(4):
            site.serve_document(f"/feed{number}", rss(dated(1)))
            await it.follow(site.url(f"/feed{number}", "blog.test"))
        async with running(it.make_worker(), it.make_worker()):
            await wait_until(lambda: len(site.asked) == 4)
        times = [asked.at for asked in site.asked]
        assert all(later - earlier >= 0.15 for earlier, later in itertools.pairwise(times))


async def test_an_admin_may_raise_a_hosts_concurrency(real_redis: Redis) -> None:
    """With a concurrency of three for one host, at most three requests are in flight there."""
    settings = InstanceSettings(polling=FAST.polling, hosts={"blog.test": HostPolicy(0, 3)})
    async with publisher() as site, world(real_redis, settings=settings) as it:
        together = asyncio.Event()

        async def answer(_asked: Asked) -> Answer:
            if site.in_flight == 3:
                together.set()
            await together.wait()
            return Answer(rss(dated(1)))

        for number in range(7):
            site.serve(f"/feed{number}", answer)
            await it.follow(site.url(f"/feed{number}", "blog.test"))
        assert await it.worker.run_once() == 7
        assert site.most_in_flight == 3


async def test_a_worker_stops_soon_and_hands_its_hosts_back(real_redis: Redis) -> None:
    """A poll in flight at the end of the grace period is cancelled; another worker can take its host at once."""
    async with publisher() as site, world(real_redis, limits=FOR_EVER) as it:
        site.serve("/hung", Answer(hang=True, head_only_length=5))
        await it.follow(site.url("/hung", "hung.test"))
        async with running(it.worker, grace=0.05):
            await wait_until(lambda: site.count("/hung") == 1)
        leases = await it.schedule.take(it.clock(), 10, 60)
        assert [lease.member for lease in leases] == ["hung.test"]
        assert len((await it.schedule.due_feeds(leases[0], it.clock(), 10)).ids) == 1


class Hanging:
    """A Redis that accepts commands but doesn't reply while `hangs`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.hangs = False

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._redis, method)

        async def call(*args: Any) -> Any:
            if self.hangs:
                await asyncio.Event().wait()
            return await real(*args)

        return call


async def test_a_worker_stops_though_redis_has_fallen_silent(real_redis: Redis) -> None:
    """Neither stages nor polls wait for a reply that never comes."""
    redis = Hanging(real_redis)
    async with publisher() as site, world(redis) as it:
        site.serve("/slow", Answer(hang=True, head_only_length=5))
        await it.follow(site.url("/slow", "slow.test"))
        worker = it.make_worker()
        running_worker = asyncio.create_task(worker.run(0.1))
        await wait_until(lambda: worker.in_flight)
        redis.hangs = True
        worker.stop()
        await asyncio.wait_for(running_worker, 60)


class Failing:
    """A Redis that can't be reached while `fails`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.fails = False

    def __getattr__(self, method: str) -> Any:
        if self.fails:
            raise StoreUnreached("Redis is away")
        return getattr(self._redis, method)


async def test_a_host_is_handed_back_when_redis_comes_back(real_redis: Redis) -> None:
    """After a turn that ends while Redis is away, the host is handed back when Redis returns, before the lease expires.

    Until then it stays with its worker; its next request comes a few seconds later.
    """
    redis = Failing(real_redis)
    async with publisher() as site, world(redis) as it:

        async def answer(_asked: Asked) -> Answer:
            redis.fails = True
            return Answer(rss(dated(1)))

        site.serve("/feed", answer)
        feed = await it.follow(site.url("/feed", "blog.test"))
        async with running(it.worker):
            await wait_until(lambda: redis.fails and not it.worker.in_flight)
            redis.fails = False

            async def taken() -> list[Claim]:
                return await it.schedule.take(it.clock() + 10, 1, 60)

            (lease,) = await wait_until(taken)
            assert (await it.schedule.due_feeds(lease, it.clock() + 10, 1)).ids == (feed.id,)


def test_the_parts_of_a_stop_fit_into_ten_seconds() -> None:
    """The times for polls, handing hosts back, stages and removing the worker's name, in sequence."""
    parts = (GRACE_SECONDS, HAND_BACK_SECONDS, STAGES_END_SECONDS, HAND_BACK_SECONDS / 3)
    assert sum(parts) <= 10


async def test_a_lost_lease_ends_the_poll(site: Publisher, real: World) -> None:
    """A worker that finds its lease taken over stops: it neither stores nor plans anything."""
    go_on = asyncio.Event()

    async def answer(_asked: Asked) -> Answer:
        await go_on.wait()
        return Answer(rss(dated(1)))

    site.serve("/feed", answer)
    feed = await real.follow(site.url("/feed", "blog.test"))
    sleeper = real.make_worker(lease_seconds=0.3)
    turn = asyncio.create_task(sleeper.run_once())
    await wait_until(lambda: site.count("/feed") == 1)
    real.clock.advance(100)
    assert len(await real.schedule.take(real.clock(), 1, 60)) == 1
    assert await turn == 0
    assert (await real.record(feed)).last_poll is None
    go_on.set()


async def test_a_worker_that_comes_too_late_doubles_and_undoes_nothing(site: Publisher, real: World) -> None:
    """If it couldn't renew in time and another worker has polled the host, that worker's plan and posts stay."""
    go_on = asyncio.Event()

    async def answer(_asked: Asked) -> Answer:
        if site.count("/feed") == 1:
            await go_on.wait()
            return Answer(rss(dated(1)))
        return Answer(rss(dated(2)))

    site.serve("/feed", answer)
    feed = await real.follow(site.url("/feed", "blog.test"))
    late = asyncio.create_task(real.make_worker(lease_seconds=1000).run_once())
    await wait_until(lambda: site.count("/feed") == 1)
    real.clock.advance(1001)
    assert await real.make_worker().run_once() == 1
    planned = await next_time(real.redis)
    stored = await real.items.newest(feed.id, 10)
    go_on.set()
    await late
    assert await next_time(real.redis) == planned
    assert await real.items.newest(feed.id, 10) == stored
    assert len(stored) == 2


async def test_a_lease_is_renewed_while_a_publisher_is_slow(
    site: Publisher, real: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll that takes longer than the lease stays with its worker."""
    go_on, renew, renewed = asyncio.Event(), real.schedule.renew, []

    async def answer(_asked: Asked) -> Answer:
        await go_on.wait()
        return Answer(rss(dated(1)))

    async def noted(leases: Sequence[Claim], now: float, seconds: float) -> list[bool]:
        renewed.append(now)
        return await renew(leases, now, seconds)

    site.serve("/feed", answer)
    await real.follow(site.url("/feed", "blog.test"))
    monkeypatch.setattr(real.schedule, "renew", noted)
    began = real.clock()
    turn = asyncio.create_task(real.make_worker(lease_seconds=1.8).run_once())
    # Renewed every 0.6 s, at most 1.2 s late.
    await wait_until(lambda: renewed and renewed[-1] > began + 1.8)
    assert await real.schedule.take(real.clock(), 1, 60) == []
    go_on.set()
    assert await turn == 1
    assert site.count("/feed") == 1


async def test_poll_now_works_alone_and_says_why_not(site: Publisher, real: World) -> None:
    """Without a worker it polls on its own; for feeds that can't be polled it gives the reason."""
    site.serve_document("/good", rss(dated(2)))
    site.serve("/slow-down", Answer(status=429, headers=[("Retry-After", "3600")]))
    good = await real.follow(site.url("/good", "good.test"))
    bad = await real.follow(site.url("/bad", "bad.test"))
    held = await real.follow(site.url("/slow-down", "held.test"))
    gone = await real.follow(site.serve("/gone", Answer(status=410)), uid="other")
    orphan = await real.feeds.ensure("http://orphan.test/feed", real.clock())
    await real.poll(held)
    await real.poll(gone)
    ids = [good.id, bad.id, held.id, gone.id, orphan.id, "99999"]
    reports = await real.poll_now().poll(ids)
    outcomes = [reports[feed_id].outcome for feed_id in ids]
    assert outcomes == ["polled", "failed", "held", "gone", "unfollowed", "unknown"]
    assert "404" in reports[bad.id].detail
    assert site.count("/slow-down") == site.count("/gone") == 1


async def test_poll_now_has_a_time_limit(site: Publisher, real: World) -> None:
    """A publisher that hangs is reported as late."""
    site.serve("/hung", Answer(hang=True, head_only_length=5))
    feed = await real.follow(site.url("/hung", "hung.test"))
    reports = await real.poll_now().poll([feed.id], patience=0.3)
    assert reports[feed.id].outcome == "late"
