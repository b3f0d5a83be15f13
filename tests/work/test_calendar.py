"""Upkeep of due members and in rounds: one worker does it for all, and a failure ends nothing."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
import structlog.testing

from microsub.base.errors import StoreUnavailable
from microsub.base.periodic import RoundTiming, run_periodically
from microsub.redis import keys
from microsub.redis.lease import take_turn
from microsub.work import SHARDS, Calendar, CalendarWork, Claim, Lanes, calendar_of, run_daily
from tests.support.waiting import wait_until


async def test_a_part_runs_once_for_all_workers(redis):
    """While the turn lasts, no other worker begins; another job has its own turn."""
    assert [await take_turn(redis, "sweep", 60) for _ in range(3)] == [True, False, False]
    assert await take_turn(redis, "follow_repair", 60)


async def test_a_turn_taken_in_the_future_ends(redis) -> None:
    """Otherwise it would last until the clock reaches that time again."""
    await take_turn(redis, "sweep", 10 * 365 * 86400)
    assert not await take_turn(redis, "sweep", 60)
    assert await redis.command("TTL", keys.lease("upkeep:sweep")) <= 60


async def test_a_worker_that_has_no_turn_does_nothing(redis):
    """It asks repeatedly, and begins when the turn is free."""
    asked, rounds = [], []

    async def turn(part: str, seconds: float) -> bool:
        asked.append((part, seconds))
        return len(asked) > 3

    async def one_round(now: float) -> None:
        rounds.append(now)

    pace = RoundTiming(clock=lambda: 5.0, between=0.002, chance=lambda: 0.5, turn=turn)
    task = asyncio.create_task(run_periodically(one_round, "sweep", pace))
    await wait_until(lambda: rounds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asked) >= 4
    assert asked[0] == ("sweep", 0.001)
    assert set(rounds) == {5.0}


async def test_a_round_that_fails_is_followed_by_another():
    """One round fails without Redis, the next with a bug, and the third succeeds."""
    ends = iter([StoreUnavailable("away"), ValueError("a bug")])
    done = []

    async def one_round(_now: float) -> None:
        for error in ends:
            raise error
        done.append(True)

    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(run_periodically(one_round, "follow_repair", RoundTiming(between=0.001)))
        await wait_until(lambda: done)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [entry["event"] for entry in logs] == ["a round of upkeep failed", "a round of upkeep broke off"]


async def test_a_round_is_left_out_when_the_clock_has_jumped_ahead():
    """Data that upkeep deletes too early is lost; the next round trusts the clock."""
    times = [0.0, 600.0, 600.0, 90_000.0, 1800.0, 1800.0]
    steady = [0.0, 600.0, 1200.0, 1800.0]
    rounds: list[float] = []

    async def one_round(now: float) -> None:
        rounds.append(now)
        if len(rounds) > 1:
            await asyncio.Event().wait()

    pace = RoundTiming(clock=lambda: times.pop(0), between=0.001, steady=lambda: steady.pop(0))
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(run_periodically(one_round, "sweep", pace))
        await wait_until(lambda: len(rounds) > 1 or task.done())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert rounds == [600.0, 1800.0]
    assert [entry["event"] for entry in logs] == ["the clock jumped ahead; a round of upkeep is skipped"]


async def visited(due: Calendar, now: float, again: float | None = None) -> list[str]:
    done = []

    async def work(member: str) -> float | None:
        done.append(member)
        return again

    await due.visit(now, work)
    return done


async def test_due_members_are_visited_once(redis):
    """All shards are visited, the earliest members first, including members planned by a clock that was ahead."""
    due = calendar_of(redis, "retention")
    await due.note({"ann home": 20.0, "ann work": 10.0, "bob home": 20.0, "eve home": 31.0, "cat home": 9e9})
    await due.note({"ann home": 999.0, "dan home": 15.0}, "missing")
    done = await visited(due, 30.0)
    assert sorted(done) == ["ann home", "ann work", "bob home", "cat home", "dan home"]
    assert done.index("ann work") < done.index("ann home")
    assert await visited(due, 30.0) == []
    assert await visited(due, 31.0, again=40.0) == await visited(due, 40.0) == ["eve home"]


async def test_a_slow_member_delays_no_other_shard(redis):
    """Members of all shards are worked on at the same time."""
    due, people = calendar_of(redis, "devices"), [f"user{number}" for number in range(3 * SHARDS)]
    await due.note(dict.fromkeys(people, 10.0))
    begun: set[str] = set()

    async def work(member: str) -> None:
        begun.add(member)
        await wait_until(lambda: len(begun) >= SHARDS)

    assert await due.visit(20.0, work, at_once=SHARDS) == len(people)


async def test_plans_made_during_the_work_are_kept(redis):
    """A user who follows a feed during the upkeep of their follows is visited again."""
    due = calendar_of(redis, "follows")
    await due.note({"ann": 10.0})

    async def work(member: str) -> None:
        await due.note({member: 50.0})

    assert await due.visit(20.0, work) == 1
    assert await visited(due, 50.0) == ["ann"]


async def test_failed_work_is_retried_and_blocks_nothing(redis):
    """It is retried after 10 minutes, after other members that are due."""
    due = calendar_of(redis, "follows", shards=1)
    await due.note({"ann": 10.0, "bob": 20.0})

    async def broken(_member: str) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await due.visit(10.0, broken)
    assert await visited(due, 20.0) == ["bob"]
    assert await visited(due, 609.0) == []
    assert await visited(due, 620.0) == ["ann"]


async def test_one_process_at_a_time_works_on_a_member(redis):
    """Another process works on the others meanwhile, and takes the member over only when its claim has run out."""
    due = calendar_of(redis, "follows", shards=1)
    await due.note({"ann": 10.0})
    ((claim,), _) = await due.take(20.0, 1, 60.0)
    await due.note({"bob": 10.0})
    assert await visited(due, 20.0) == ["bob"]
    assert await due.keep([claim], 90.0) == [True]
    assert await visited(due, 89.0) == []
    assert await visited(due, 90.0) == ["ann"]
    assert await due.keep([claim], 150.0) == [False]
    await due.end(claim, 91.0)
    assert await visited(due, 200.0) == []


@pytest.mark.parametrize(
    ("how", "planned", "claimed"), [("at", 15, 40), ("sooner", 10, 15), ("more", 10, 15), ("missing", 10, 30)]
)
async def test_a_member_that_has_a_time_is_planned_in_four_ways(redis, how, planned, claimed) -> None:
    """`planned`: its time if it was planned for 10 and is noted for 15; `claimed`: if it is noted during its work."""
    due = calendar_of(redis, "follows", shards=1)

    async def time() -> float:
        return float(await redis.command("ZSCORE", keys.due("follows", "0"), "ann"))

    await due.note({"ann": 10.0})
    await due.note({"ann": 15.0}, how)
    assert await time() == planned
    ((claim,), _) = await due.take(20.0, 1, 60.0)
    for noted in (15.0, 40.0):
        await due.note({"ann": noted}, how)
    await due.end(claim, 30.0)
    assert await time() == claimed


async def test_a_worker_that_stops_hands_its_members_back(redis) -> None:
    """Another one can take them at once."""
    due = calendar_of(redis, "follows", shards=1)
    await due.note({"ann": 10.0})

    async def endless(_claim: Claim) -> None:
        await asyncio.Event().wait()

    worker = CalendarWork("endless", due, endless, at_once=8, clock=lambda: 20.0)
    task = asyncio.create_task(worker.run())
    await wait_until(lambda: worker.in_flight)
    assert await visited(due, 20.0) == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await visited(due, 20.0) == ["ann"]


@pytest.mark.parametrize(("error", "again"), [(StoreUnavailable("away"), 22.0), (ValueError("a bug"), 620.0)])
async def test_failed_work_is_put_off(redis, error: Exception, again: float) -> None:
    """For two seconds if Redis failed, otherwise for ten minutes."""
    due = calendar_of(redis, "follows", shards=1)
    await due.note({"ann": 10.0})

    async def broken(_claim: Claim) -> None:
        raise error

    with pytest.raises(type(error)):
        await CalendarWork("broken", due, broken, at_once=8, clock=lambda: 20.0).run_until_idle()
    assert float(await redis.command("ZSCORE", keys.due("follows", "0"), "ann")) == again


async def test_a_lane_has_an_end() -> None:
    """One piece of work of a name has its turn, another one waits, and a third one is put off."""
    lanes, go_on, turns = Lanes(1, 2), asyncio.Event(), []

    async def work(name: str) -> None:
        async with lanes.turn(name) as has_turn:
            turns.append((name, has_turn))
            await go_on.wait()

    tasks = [asyncio.create_task(work(name)) for name in ("ann", "ann", "ann", "bob")]
    await wait_until(lambda: len(turns) == 3)
    assert turns == [("ann", True), ("ann", False), ("bob", True)]
    go_on.set()
    await asyncio.gather(*tasks)
    assert turns[3:] == [("ann", True)]


async def test_daily_jobs_are_done_once_a_day_by_one_of_all_workers(redis):
    """The first run is immediate. A job that fails doesn't stop the others, and is retried."""
    now, done = 1000.0, []

    async def job(name: str) -> None:
        done.append((name, now))
        if name == "sweep" and now < 2000:
            raise StoreUnavailable("away")

    jobs = {name: partial(lambda name, _now: job(name), name) for name in ("follows", "sweep")}
    with structlog.testing.capture_logs():
        workers = [
            asyncio.create_task(
                run_daily(redis, jobs, RoundTiming(clock=lambda: now, between=0.002, steady=lambda: now))
            )
            for _ in range(2)
        ]
        await wait_until(lambda: len(done) == 2)
        now = 2000.0
        await wait_until(lambda: len(done) == 3)
        now += 86_400
        await wait_until(lambda: len(done) == 5)
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    assert sorted(done) == [("follows", 1000), ("follows", 88_400), ("sweep", 1000), ("sweep", 2000), ("sweep", 88_400)]
