"""The schedule: due feeds, hosts and leases."""

import asyncio
import random

import pytest

from microsub.feeds.hosts import Schedule
from microsub.redis import keys
from tests.support.polling import next_time
from tests.support.posts import NOON
from tests.support.redis_wrappers import Between, once

LEASE = 60.0


@pytest.fixture
def schedule(redis):
    return Schedule(redis)


async def poll(schedule: Schedule, lease, now: float, interval: float = 3600.0) -> str | None:
    """Polls a host like a worker: one request, then the release."""
    feeds = (await schedule.due_feeds(lease, now, 1)).ids
    for feed_id in feeds:
        assert await schedule.finish(lease, feed_id, now + interval)
    assert await schedule.release(lease, now, 1.0)
    return feeds[0] if feeds else None


async def hosts(schedule: Schedule, now: float) -> list[str]:
    return [lease.member for lease in await schedule.take(now, 100, LEASE)]


async def test_each_feed_is_polled_once_by_many_workers(schedule):
    """Eight workers, 30 hosts, 180 feeds: every feed once, never two requests to a host at the same time."""
    feeds = {str(number): f"h{number % 30}" for number in range(180)}
    for feed_id, host in feeds.items():
        await schedule.add(feed_id, host, NOON)
    busy: set[str] = set()
    polled: list[str] = []
    now = NOON
    held = 0

    async def worker() -> None:
        nonlocal now, held
        while len(polled) < len(feeds):
            leases = await schedule.take(now, 3, LEASE)
            held += len(leases)
            for lease in leases:
                assert lease.member not in busy
                busy.add(lease.member)
                (feed_id,) = (await schedule.due_feeds(lease, now, 1)).ids or [None]
                await asyncio.sleep(0)
                if feed_id is not None:
                    polled.append(feed_id)
                    assert await schedule.finish(lease, feed_id, now + 7200)
                busy.remove(lease.member)
                assert await schedule.release(lease, now, 1.0)
                held -= 1
            if not held:  # the clock must not run ahead of a worker that waits on a slow machine
                now += 1.0

    await asyncio.gather(*(worker() for _ in range(8)))
    assert sorted(polled) == sorted(feeds)


async def test_hundreds_of_feeds_on_one_host_queue_fairly(real_redis):
    """600 feeds on a host, one request per second: each is polled before any is polled again, though half are due."""
    schedule, count = Schedule(real_redis), 600
    order = [str(number) for number in range(count)]
    random.Random(7).shuffle(order)
    for place, feed_id in enumerate(order):
        await schedule.add(feed_id, "farm.example", NOON - count + place)
    await schedule.add("other", "small.example", NOON + 0.5)
    polled: dict[str, list[str | None]] = {"farm.example": [], "small.example": []}
    for second in range(count):
        for lease in await schedule.take(NOON + second, 10, LEASE):
            interval = 300.0 if second % 2 else 7200.0
            polled[lease.member].append(await poll(schedule, lease, NOON + second, interval))
        if second == 1:
            assert polled["small.example"] == ["other"]
    assert polled["farm.example"] == order


async def test_a_clock_that_jumps_back_hands_nothing_out_twice(schedule, redis):
    """Until the clock catches up, leases hold; then all continues. New feeds are due at once."""
    await schedule.add("1", "h", NOON)
    (lease,) = await schedule.take(NOON, 10, LEASE)
    earlier = NOON - 1800
    assert await schedule.take(earlier, 10, LEASE) == []
    await schedule.add("2", "new.example", earlier)
    assert await hosts(schedule, earlier) == ["new.example"]
    assert await poll(schedule, lease, earlier) is None  # not due by this clock, but not lost
    assert await next_time(redis) == earlier + LEASE
    (lease, _) = sorted(await schedule.take(NOON, 10, LEASE), key=lambda lease: lease.member)
    assert await poll(schedule, lease, NOON) == "1"


async def test_tokens_grow_also_when_the_clock_jumps_back(schedule):
    """A lease that was lost before the jump isn't confused with one that is given after it."""
    await schedule.add("1", "h", NOON)
    (first,) = await schedule.take(NOON, 1, LEASE)
    (second,) = await schedule.take(NOON + LEASE, 1, LEASE)
    await schedule.release(second, NOON - 5000, 1.0)
    (third,) = await schedule.take(NOON, 1, LEASE)
    assert int(first.token) < int(second.token) < int(third.token)
    assert not await schedule.finish(first, "1", None)
    assert await schedule.finish(third, "1", None)


async def test_a_feed_added_while_its_host_is_taken_is_found(schedule, redis):
    """The host keeps its lease, and is due for the new feed when it is released."""
    await schedule.add("1", "h", NOON)
    (lease,) = await schedule.take(NOON, 10, LEASE)
    await schedule.add("2", "h", NOON + 5)
    assert await schedule.take(NOON + 10, 10, LEASE) == []
    assert await poll(schedule, lease, NOON + 10) == "1"
    assert await next_time(redis) == NOON + 11
    (lease,) = await schedule.take(NOON + 11, 10, LEASE)
    assert await poll(schedule, lease, NOON + 11) == "2"


async def test_a_feed_added_during_a_release_is_found(schedule, redis):
    """At this moment, neither the release nor the addition alone would schedule the host correctly."""
    await schedule.add("1", "h", NOON)
    (lease,) = await schedule.take(NOON, 10, LEASE)
    assert await schedule.finish(lease, "1", None)

    interrupted = Between(redis, once("calendar_end", lambda: schedule.add("2", "h", NOON + 5)))
    assert await Schedule(interrupted).release(lease, NOON, 1.0)
    assert await next_time(redis) == NOON + 5


async def test_many_adds_and_polls_at_once_lose_no_feed(schedule, redis):
    """Whatever the order of steps, a due feed has a due host."""
    added: list[str] = []
    polled: list[str] = []

    async def adding(start: int) -> None:
        for number in range(start, start + 40):
            await schedule.add(str(number), f"h{number % 3}", NOON)
            added.append(str(number))

    async def polling() -> None:
        while len(polled) < 120:
            for lease in await schedule.take(NOON, 2, LEASE):
                feeds = (await schedule.due_feeds(lease, NOON, 2)).ids
                for feed_id in feeds:
                    assert await schedule.finish(lease, feed_id, None)
                polled.extend(feeds)
                assert await schedule.release(lease, NOON, 0.0)
            await asyncio.sleep(0)

    await asyncio.wait_for(
        asyncio.gather(*(adding(start) for start in (0, 40, 80)), *(polling() for _ in range(3))), timeout=60
    )
    assert sorted(polled) == sorted(added)
    assert await next_time(redis) is None


async def test_a_feed_that_is_gone_is_never_polled_again(schedule, redis):
    """After 410 nothing of it stays in the schedule, and a host without feeds is removed, too."""
    await schedule.add("1", "h", NOON)
    (lease,) = await schedule.take(NOON, 10, LEASE)
    assert await schedule.finish(lease, "1", None)
    assert await schedule.release(lease, NOON, 1.0)
    assert await next_time(redis) is None
    assert await redis.command("EXISTS", keys.host_due("h")) == 0


async def test_bump_makes_feeds_due_at_once_but_no_faster(schedule):
    """`poll now` for several feeds: a host that was just polled still gets its pause of a second."""
    await schedule.add("1", "a", NOON)
    (lease,) = await schedule.take(NOON, 10, LEASE)
    await poll(schedule, lease, NOON)
    await schedule.add("2", "b", NOON + 500)
    await schedule.bump([("1", "a"), ("2", "b"), ("3", "b")], NOON + 0.25)
    await schedule.bump([], NOON)
    assert await hosts(schedule, NOON + 0.25) == ["b"]
    assert await hosts(schedule, NOON + 1) == ["a"]


async def test_three_throttled_feeds_hold_their_host(schedule, redis):
    """The hold lasts until fewer than three wait; other hosts continue."""
    for number in range(5):
        await schedule.add(str(number), "h", NOON)
    (lease,) = await schedule.take(NOON, 10, LEASE)
    assert await schedule.hold("h", "1", NOON + 600, NOON) == 1
    assert await schedule.hold("h", "1", NOON + 700, NOON) == 1
    assert await schedule.hold("h", "2", NOON + 300, NOON) == 2
    assert await schedule.release(lease, NOON, 1.0)
    assert await next_time(redis) == NOON + 1
    (lease,) = await schedule.take(NOON + 1, 10, LEASE)
    assert await schedule.hold("h", "3", NOON + 900, NOON + 1) == 3
    assert await schedule.release(lease, NOON + 1, 1.0)
    assert await next_time(redis) == NOON + 300
    await schedule.bump([("4", "h")], NOON + 10)
    assert await hosts(schedule, NOON + 299) == []
    assert await hosts(schedule, NOON + 300) == ["h"]
