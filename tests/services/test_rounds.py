"""Upkeep in rounds: one worker's round is every worker's, and a round that fails ends nothing."""

from __future__ import annotations

import asyncio

import pytest
import structlog.testing

from microsub.errors import StoreUnavailable
from microsub.kit.periodic import RoundTiming, for_ever
from microsub.redis import keys
from microsub.redis.lease import take_turn
from tests.support.waiting import wait_until


async def test_a_part_has_its_turn_once_for_all_workers(redis):
    """While the turn holds nobody else begins; another part has a turn of its own."""
    assert [await take_turn(redis, "sweep", 60) for _ in range(3)] == [True, False, False]
    assert await take_turn(redis, "follow_repair", 60)


async def test_a_turn_that_was_taken_while_redis_clock_was_ahead_ends_all_the_same(redis) -> None:
    """It would last until that clock is there again."""
    await take_turn(redis, "sweep", 10 * 365 * 86400)
    assert not await take_turn(redis, "sweep", 60)
    assert await redis.command("TTL", keys.lease("upkeep:sweep")) <= 60


async def test_a_worker_that_has_no_turn_does_nothing(redis):
    """It asks again and again, and begins when the turn is free."""
    asked, rounds = [], []

    async def turn(part: str, seconds: float) -> bool:
        asked.append((part, seconds))
        return len(asked) > 3

    async def one_round(now: float) -> None:
        rounds.append(now)

    pace = RoundTiming(clock=lambda: 5.0, between=0.002, chance=lambda: 0.5, turn=turn)
    task = asyncio.create_task(for_ever(one_round, "sweep", pace))
    await wait_until(lambda: rounds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asked) >= 4
    assert asked[0] == ("sweep", 0.001)
    assert set(rounds) == {5.0}


async def test_a_round_that_fails_is_followed_by_another():
    """Redis away, then a bug, then all is well."""
    ends = iter([StoreUnavailable("away"), ValueError("a bug")])
    done = []

    async def one_round(_now: float) -> None:
        for error in ends:
            raise error
        done.append(True)

    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(for_ever(one_round, "follow_repair", RoundTiming(between=0.001)))
        await wait_until(lambda: done)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [entry["event"] for entry in logs] == ["a round of upkeep failed", "a round of upkeep broke off"]


async def test_a_round_is_left_out_when_the_clock_has_jumped_ahead():
    """What upkeep would let go at a wrong time doesn't come back; the next round believes the clock."""
    times = [0.0, 600.0, 600.0, 90_000.0, 1800.0, 1800.0]
    steady = [0.0, 600.0, 1200.0, 1800.0]
    rounds: list[float] = []

    async def one_round(now: float) -> None:
        rounds.append(now)
        if len(rounds) > 1:
            await asyncio.Event().wait()

    pace = RoundTiming(clock=lambda: times.pop(0), between=0.001, steady=lambda: steady.pop(0))
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(for_ever(one_round, "sweep", pace))
        await wait_until(lambda: len(rounds) > 1 or task.done())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert rounds == [600.0, 1800.0]
    assert [entry["event"] for entry in logs] == ["the clock jumped ahead; a round of upkeep is skipped"]
