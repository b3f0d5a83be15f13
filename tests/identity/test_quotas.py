"""Rate limits for requests, in one process and in several with a shared Redis; the room for posts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microsub.accounts.post_room import PostRoom
from microsub.accounts.quotas import STEPS, RequestRate, step_of, too_many_requests
from microsub.base.errors import FollowersFull, QuotaReached, StoreIncomplete, StoreUnavailable, TooManyRequests
from microsub.configuration.effective import AllSettings
from microsub.configuration.model import InstanceSettings, Quotas
from microsub.redis.attempts import AttemptCounts
from microsub.redis.protocol import Redis, ScriptCall
from tests.support import examples

NOW = 1_700_000_040.0 - 1_700_000_040.0 % 60


class Shared:
    """The shared counts of all processes, and the number of messages."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, float], int] = {}
        self.told = 0
        self.away = False

    async def in_minute(self, subject: str, minute: float, count: int) -> int:
        if self.away:
            raise StoreUnavailable("away")
        self.told += 1
        self.counts[subject, minute] = self.counts.get((subject, minute), 0) + count
        await asyncio.sleep(0)
        return self.counts[subject, minute]


async def passes(limiting: RequestRate, limit: int, now: float) -> bool:
    try:
        await limiting.count("ann", limit, now)
    except TooManyRequests:
        return False
    return True


async def test_one_process_is_exact() -> None:
    """The limit is also exact for concurrent requests; the next minute begins at zero."""
    limiting = RequestRate(Shared())
    passed = await asyncio.gather(*(passes(limiting, 100, NOW) for _ in range(300)))
    assert sum(passed) == 100
    assert limiting.counted("ann", NOW) >= 100
    assert limiting.counted("bob", NOW) < 100
    assert limiting.counted("ann", NOW + 60) < 100
    assert await passes(limiting, 100, NOW + 60)


async def test_when_to_come_back() -> None:
    """`retry_after` is the time until the next minute begins."""
    assert [too_many_requests(9, NOW + later).retry_after for later in (0, 0.5, 59.5, 59.999)] == [60, 60, 1, 1]
    limiting = RequestRate(Shared())
    await limiting.count("ann", 1, NOW + 15)
    with pytest.raises(TooManyRequests) as refusal:
        await limiting.count("ann", 1, NOW + 15)
    assert refusal.value.retry_after == 45


async def test_every_tenth_of_the_limit_is_written() -> None:
    """The store gets the first request and every tenth of the limit; nothing once the limit is reached."""
    shared = Shared()
    limiting = RequestRate(shared)
    for _ in range(2000):
        await passes(limiting, 1000, NOW)
    assert shared.told <= STEPS + 1


async def test_a_store_that_is_away_lifts_no_limit() -> None:
    """Until it is back, the process counts alone."""
    shared = Shared()
    shared.away = True
    limiting = RequestRate(shared)
    assert sum([await passes(limiting, 100, NOW) for _ in range(200)]) == 100
    shared.away = False
    assert not await passes(limiting, 100, NOW)


TURNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.floats(0, 3)), max_size=40)


async def _played(limit: int, processes: int, turns: Iterable[tuple[int, int, float]]) -> None:
    shared = Shared()
    several = [RequestRate(shared) for _ in range(processes)]
    let_through: dict[int, int] = {}
    now = NOW
    for process, at_once, later in turns:
        now += later
        minute = int(now // 60)
        limiting = several[process % processes]
        passed = await asyncio.gather(*(passes(limiting, limit, now) for _ in range(at_once)))
        let_through[minute] = let_through.get(minute, 0) + sum(passed)
        if not all(passed):
            assert let_through[minute] >= limit, "refused below the limit"
    slack = 0 if processes == 1 else processes * step_of(limit)
    assert all(count <= limit + slack for count in let_through.values())


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 60), st.integers(1, 4), TURNS)
def test_limits_are_exceeded_by_little(limit: int, processes: int, turns: list[tuple[int, int, float]]) -> None:
    """Several processes exceed it by at most a tenth each."""
    asyncio.run(_played(limit, processes, turns))


async def test_processes_agree_through_redis(real_redis: Redis) -> None:
    """Four processes take turns, with a real store."""
    several = [RequestRate(AttemptCounts(real_redis)) for _ in range(4)]
    passed = 0
    for turn in range(400):
        passed += await passes(several[turn % 4], 100, NOW)
    assert 100 <= passed <= 100 + 4 * step_of(100)


# --- the room for posts ---------------------------------------------------------------------------------------------


class Counts:
    """Users' counts of bytes in Redis; the scripts' calls are `asked`. Those of users in `away` can't be reached."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.asked: list[list[str]] = []
        self.away: set[str] = set()

    async def scripts(self, calls: Sequence[ScriptCall]) -> list[Any]:
        users = [call_keys[0].removeprefix("user:{").removesuffix("}") for _, call_keys, _ in calls]
        self.asked.append(users)
        for user, (_, _, args) in zip(users, calls, strict=True):
            if user not in self.away:
                self.counts[user] += int(args[1])
        replies = [StoreUnavailable("away") if user in self.away else [0, self.counts[user]] for user in users]
        if self.away:
            raise StoreIncomplete("away", replies)
        return replies


class Limited:
    """Everybody may have 100 bytes of posts."""

    async def everything(self) -> AllSettings:
        return LIMITED


LIMITED = AllSettings(instance=InstanceSettings(quotas=Quotas(posts=100)))


async def test_room_is_looked_at_once_a_minute() -> None:
    """All followers of a feed in one round trip, those of large feeds only until one has room."""
    now = 0.0
    counts = Counts(**{f"u{number}": 100 for number in range(45)})
    counts.counts["u30"] = 0
    room = PostRoom(counts, Limited(), lambda: now)  # type: ignore[arg-type]
    await room.require(list(counts.counts))
    await room.require(list(counts.counts))
    assert [len(asked) for asked in counts.asked] == [20, 20]
    now = 61.0
    await room.require(["u30"])
    assert counts.asked[2:] == [["u30"]]
    with pytest.raises(QuotaReached, match="100 of 100"):
        await room.require(["u0"])
    with pytest.raises(FollowersFull):
        await room.require(["u0", "u1"])


async def test_counts_wait_for_a_missing_master() -> None:
    """A master of a cluster that is away delays nobody's posts, and its users' bytes are reported when it is back."""
    now = 0.0
    counts = Counts(ann=0, bob=0)
    room = PostRoom(counts, Limited(), lambda: now)  # type: ignore[arg-type]
    await room.require(["ann", "bob"])
    counts.away = {"bob"}
    for at in (61.0, 122.0):
        now = at
        room.count(["ann", "bob"], 60)
        await room.require(["ann", "bob"])
    assert counts.counts == {"ann": 60, "bob": 0}
    counts.away, now = set(), 183.0
    await room.require(["ann", "bob"])
    assert counts.counts == {"ann": 60, "bob": 60}
    room.count(["ann"], 40)
    with pytest.raises(QuotaReached, match="100 of 100"):
        await room.require(["ann"])
