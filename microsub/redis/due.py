"""Due times: work planned per user, and when it is due.

There is a sorted set per shard of users, so that a cluster spreads them.

The sets are derived data: a daily pass over everything writes lost entries again, and a needless entry costs one
visit. An entry is written before the change that needs it, so no crash loses the work.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from microsub.base.clock import DAY
from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.redis import keys
from microsub.redis.lease import leased
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import texts

T = TypeVar("T")

SHARDS = 16

FARTHEST = 2 * 86_400.0
"""Seconds ahead up to which work is planned. Entries further ahead come from a wrong clock: they are due."""

_RETRY = 600.0
"""Seconds after which failed work is retried."""

_AT_ONCE = 100


BETWEEN_LOOKS = 600.0
"""Seconds between two checks whether a daily job is due."""


class DueTimes:
    """The due times of one kind of work, `what`.

    Members begin with a user's name; a blank and more text may follow.
    """

    def __init__(self, redis: Redis, what: str, shards: int = SHARDS, *, at_once: int = 1) -> None:
        """`at_once` members are worked on concurrently; if one fails, the others are still done."""
        self._redis = redis
        self._what = what
        self._shards = shards
        self._places = asyncio.Semaphore(at_once)
        self._shards_at_once = asyncio.Semaphore(at_once)

    async def note(self, times: Mapping[str, float]) -> None:
        """Plan work (member to Unix time), replacing the time planned before."""
        await self._add(times, ())

    async def note_missing(self, times: Mapping[str, float]) -> None:
        """Plan work for members that have none planned."""
        await self._add(times, ("NX",))

    async def forget(self, member: str) -> None:
        """Plan no work for that member any more."""
        await self._redis.command("ZREM", self._key(member), member)

    async def visit(self, now: float, work: Callable[[str], Awaitable[float | None]]) -> int:
        """Run `work` for each due member; it returns the next due time, or None for never.

        Returns how often it ran.

        One process at a time works on a shard, under a lease. Failed work ends the visit; it is retried ten minutes
        later, so that it doesn't block the entries after it.
        """
        commands = [self._asking(shard, now, 1, part) for shard in range(self._shards) for part in (0, 1)]
        replies = await self._redis.pipeline(commands)
        due = [shard for shard in range(self._shards) if replies[2 * shard] or replies[2 * shard + 1]]
        return sum(await _all(self._shard(shard, now, work) for shard in due))

    async def _shard(self, shard: int, now: float, work: Callable[[str], Awaitable[float | None]]) -> int:
        async with self._shards_at_once, leased(self._redis, f"{self._what}:{shard}") as mine:
            return await self._visit(shard, now, work) if mine else 0

    async def _visit(self, shard: int, now: float, work: Callable[[str], Awaitable[float | None]]) -> int:
        key, count = keys.due(self._what, str(shard)), 0
        while True:
            early, ahead = await self._redis.pipeline([self._asking(shard, now, _AT_ONCE, part) for part in (0, 1)])
            # Each gets a time of its own, which shows whether the entry was planned again during the work.
            begun = {member: now + _RETRY + at / 1000 for at, member in enumerate(dict.fromkeys(texts(early + ahead)))}
            if not begun:
                return count
            await self._redis.command("ZADD", key, *_pairs(begun))
            await _all(self._one(key, member, mark, work) for member, mark in begun.items())
            count += len(begun)

    async def _one(self, key: str, member: str, mark: float, work: Callable[[str], Awaitable[float | None]]) -> None:
        async with self._places:
            again = await work(member)
            done: list[Command] = [("ZREMRANGEBYSCORE", key, f"{mark:.3f}", f"{mark:.3f}")]
            if again is not None:
                done.append(("ZADD", key, "NX", f"{again:.3f}", member))
            await self._redis.pipeline(done)

    def _asking(self, shard: int, now: float, most: int, ahead: int) -> Command:
        bounds: tuple[Arg, Arg] = (f"({now + FARTHEST:.3f}", "+inf") if ahead else ("-inf", f"{now:.3f}")
        return ("ZRANGEBYSCORE", keys.due(self._what, str(shard)), *bounds, "LIMIT", 0, most)

    async def _add(self, times: Mapping[str, float], options: tuple[Arg, ...]) -> None:
        shards: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for member, at in times.items():
            shards[self._key(member)][member] = at
        await self._redis.pipeline([("ZADD", key, *options, *_pairs(part)) for key, part in shards.items()])

    def _key(self, member: str) -> str:
        return keys.due(self._what, str(zlib.crc32(member.partition(" ")[0].encode()) % self._shards))


async def _all(parts: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order, after all have ended. Raises the first error among them."""
    ends = await asyncio.gather(*parts, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return [end for end in ends if not isinstance(end, BaseException)]


def _pairs(times: Mapping[str, float]) -> Iterable[Arg]:
    return [part for member, at in times.items() for part in (f"{at:.3f}", member)]


async def run_daily(
    redis: Redis, jobs: Mapping[str, Callable[[float], Awaitable[object]]], pace: RoundTiming = PACE
) -> None:
    """Run each job once a day, in one of all processes, until cancelled.

    Jobs get the Unix time.

    A job that has never run is due at once.
    """
    due = DueTimes(redis, "daily", shards=1)

    async def one_round(now: float) -> None:
        async def one(job: str) -> float | None:
            if job not in jobs:
                return None
            await jobs[job](pace.clock())
            return now + DAY

        await due.note_missing(dict.fromkeys(jobs, now))
        await due.visit(now, one)

    await run_periodically(one_round, "daily", pace, BETWEEN_LOOKS)
