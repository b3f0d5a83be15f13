"""Counts of attempts in Redis."""

from __future__ import annotations

import asyncio

from microsub.identity.limits import ATTEMPTS
from microsub.identity.store.credentials import AttemptCounts
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys
from tests.support.one_reader import NOW

PAUSES = (0, 0, 2, 4, 8)


async def wait(counts: AttemptCounts, subject: str, now: float) -> int:
    """The seconds to wait for one more attempt."""
    return (await counts.take(subject, PAUSES, now))[0]


async def test_pauses_grow_and_the_last_one_stays(redis: Redis) -> None:
    """Each attempt that fails begins the pause of its place in the list."""
    counts = AttemptCounts(redis)
    now = NOW
    waited = []
    for _ in range(7):
        assert await wait(counts, "account ann", now) == 0
        seconds = await wait(counts, "account ann", now) if len(waited) >= 2 else 0
        waited.append(seconds)
        now += seconds
    assert waited == [0, 0, 2, 4, 8, 8, 8]


async def test_free_attempts_pass_at_the_same_moment(redis: Redis) -> None:
    """Whatever the fractions of a millisecond: times are kept in thousandths of a second."""
    counts = AttemptCounts(redis)
    for fraction in (0.0004, 0.0005, 0.0006, 0.15088158523):
        replies = [await wait(counts, f"x {fraction}", NOW + fraction) for _ in range(2)]
        assert replies == [0, 0]


async def test_what_is_refused_doesnt_count(redis: Redis) -> None:
    """Knocking during a pause neither prolongs it nor brings the next one nearer."""
    counts = AttemptCounts(redis)
    for _ in range(3):
        assert await wait(counts, "x", NOW) == 0
    assert [await counts.take("x", PAUSES, NOW + 1) for _ in range(5)] == [(1, 3)] * 5
    assert await wait(counts, "x", NOW + 2) == 0
    assert await wait(counts, "x", NOW + 2) == 4


async def test_attempts_side_by_side_share_no_place(redis: Redis) -> None:
    """Of many at the same moment no more pass than one after the other."""
    counts = AttemptCounts(redis)
    replies = await asyncio.gather(*(wait(counts, "x", NOW) for _ in range(20)))
    assert sorted(replies) == [0, 0, 0] + [2] * 17


async def test_an_attempt_is_given_back(redis: Redis) -> None:
    """Its place and its pause; the one before it stays."""
    counts = AttemptCounts(redis)
    for _ in range(3):
        await counts.take("x", PAUSES, NOW)
    await counts.give_back("x")
    assert await wait(counts, "x", NOW) == 0
    assert await wait(counts, "x", NOW) == 2
    await counts.forget("x")
    assert await wait(counts, "x", NOW) == 0
    await counts.give_back("x")
    await counts.give_back("x")
    assert await all_keys(redis) == []


async def test_counts_end_and_name_nobody(redis: Redis) -> None:
    """A key lives for a day after the last attempt, and holds neither a name nor an address."""
    await AttemptCounts(redis).take("address 192.0.2.7", PAUSES, NOW)
    (key,) = await all_keys(redis)
    assert b"192" not in key
    assert ATTEMPTS - 60 < await redis.command("TTL", key) <= ATTEMPTS
