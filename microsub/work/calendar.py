"""Calendars: members by the time when they are due, each claimed by at most one process at a time.

A claim is a member and a token. When a process dies its claims run out; the next token is larger, and the end of a
claim with an older one is refused. A member that is planned while it is claimed is done again.

Most calendars are derived data: a daily pass over everything plans lost members again, and a needless member costs one
visit. A member is planned before the change that needs it, so no crash loses the work.
"""

from __future__ import annotations

import asyncio
import functools
import time
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from microsub.base.clock import DAY
from microsub.base.errors import StoreError
from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis, ScriptCall
from microsub.redis.replies import score_text, texts
from microsub.redis.scripts import BATCH, batches, load
from microsub.work.loop import Loop

SHARDS = 16

FARTHEST = 2 * DAY
"""Seconds ahead up to which work is planned. Members further ahead were planned by a wrong clock: they are due."""

LEASE = 60.0
"""Seconds after which another process takes over members without a heartbeat."""

RETRY = 600.0
"""Seconds after which failed work is retried."""

TICK, IDLE_TICK, IDLE_AFTER = 0.25, 2.0, 120.0
"""Seconds between two looks for due members; longer after seconds in which none was due."""

WAKE_DELAY = 0.1
"""Seconds in which several wakes count as one."""

_AT_ONCE = 100
"""Members that one visit claims together."""

_KEPT_TOGETHER = 250

BETWEEN_LOOKS = 600.0
"""Seconds between two checks whether a daily job is due."""

Planning = Literal["at", "sooner", "more", "missing"]
"""How a member is planned that has a time already: it gets the new one, only an earlier one, or keeps it.

`more` differs from `missing` for claimed members, which are done again.
"""

Ending = Literal["keep", "done", "release"]
"""What happens to a claim: it is kept, or ends; with `release`, what was planned during it is ignored."""

_NOTE = load("calendar_note")
_TAKE = load("calendar_take")
_END = load("calendar_end")


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to do the work of `member`, while `token` is its newest."""

    member: str
    token: str

    def __str__(self) -> str:
        """The member."""
        return self.member


class Calendar:
    """Members and their due times, Unix seconds, in a sorted set and a hash of claims for each shard.

    A member with several words is in the shard of the first one, as a user's name.
    """

    def __init__(self, redis: Redis, shards: Sequence[tuple[str, str]], farthest: float = FARTHEST) -> None:
        self._redis = redis
        self._shards = [list(pair) for pair in shards]
        self._farthest = farthest

    async def note(self, times: Mapping[str, float], how: Planning = "at") -> None:
        """Plan members for these times."""
        parts: defaultdict[int, list[Arg]] = defaultdict(list)
        for member, at in times.items():
            parts[self._shard(member)] += (member, score_text(at))
        calls = [
            _NOTE(shard=self._shards[n], how=how, times=some) for n, part in parts.items() for some in batches(part)
        ]
        if calls:
            await self._redis.scripts(calls)

    async def forget(self, member: str) -> None:
        """Plan no work for that member any more."""
        due, claims = self._shards[self._shard(member)]
        await self._redis.pipeline([("ZREM", due, member), ("HDEL", claims, member, f"again {member}")])

    async def take(self, now: float, most: int, lease: float, among: Sequence[str] = ()) -> tuple[list[Claim], float]:
        """Claim at most `most` due members for `lease` seconds, those that are due longest first in each shard.

        Also returns the latest time of a claim before, by any process. `among` limits it to these members, in their
        order. With several shards, one of them may have more.
        """
        shards = self._shards if len(self._shards) == 1 else await self._due(now)
        if not shards:
            return [], 0.0
        share = max(1, most // len(shards))
        ends = {"until": score_text(now + lease), "farthest": score_text(now + self._farthest)}
        claims, latest = [], 0.0
        for reply in await self._redis.scripts(
            [_TAKE(shard=shard, now=score_text(now), most=share, **ends, among=among) for shard in shards[:most]]
        ):
            before, token, *members = texts(reply)
            latest = max(latest, float(before))
            claims += [Claim(member, token) for member in members]
        return claims, latest

    async def keep(self, claims: Sequence[Claim], until: float) -> list[bool]:
        """Extend claims; False for lost ones. One round trip."""
        return await self._end_all(claims, "keep", until)

    async def hand_back(self, claims: Sequence[Claim], now: float) -> None:
        """End claims whose work wasn't done: their members are due now. One round trip."""
        await self._end_all(claims, "done", now)

    async def end(self, claim: Claim, again: float | None) -> None:
        """End a claim: the member is due `again`, None for never, or as it was planned during the claim."""
        await self._redis.script(self.ending(claim, again, "done"))

    def ending(self, claim: Claim, at: float | None, what: Ending) -> ScriptCall:
        """The call of `end`, to be sent with others.

        Its reply is one number: 0 if the claim was lost, 2 if the member was planned during it, else 1.
        """
        shard = self._shards[self._shard(claim.member)]
        return _END(shard=shard, ends=(claim.member, claim.token, what, "" if at is None else score_text(at)))

    async def visit(self, now: float, work: Callable[[str], Awaitable[float | None]], *, at_once: int = 1) -> int:
        """Run `work` for each due member; it returns the next due time, or None for never.

        Returns how often it ran. `at_once` members are worked on concurrently; if one fails, these are still done, and
        the visit ends with its error. It is retried ten minutes later, so that it doesn't block the members after it.
        """
        began = time.monotonic()

        async def one(claim: Claim) -> float | None:
            return await work(claim.member)

        visits = CalendarWork(
            *("visits", self, one),
            at_once=at_once,
            claimed=_AT_ONCE,
            trouble=RETRY,
            clock=lambda: now + time.monotonic() - began,
        )
        return await visits.run_until_idle(functools.partial(visits.take_at, now))

    async def _end_all(self, claims: Sequence[Claim], what: Ending, at: float) -> list[bool]:
        parts: defaultdict[int, list[Claim]] = defaultdict(list)
        for claim in claims:
            parts[self._shard(claim.member)].append(claim)
        sent = [(n, some) for n, part in parts.items() for some in batches(part, _KEPT_TOGETHER)]
        calls = []
        for n, some in sent:
            kept_until = [part for claim in some for part in (claim.member, claim.token, what, score_text(at))]
            calls.append(_END(shard=self._shards[n], ends=kept_until))
        ends = zip(sent, await self._redis.scripts(calls), strict=True)
        kept = {claim for (_, some), reply in ends for claim, end in zip(some, reply, strict=True) if end}
        return [claim in kept for claim in claims]

    async def _due(self, now: float) -> list[list[str]]:
        """The shards with due members. One round trip."""
        commands: list[Command] = []
        for due, _ in self._shards:
            commands.append(("ZRANGEBYSCORE", due, "-inf", score_text(now), "LIMIT", 0, 1))
            commands.append(("ZRANGEBYSCORE", due, f"({score_text(now + self._farthest)}", "+inf", "LIMIT", 0, 1))
        found = await self._redis.pipeline(commands)
        return [shard for n, shard in enumerate(self._shards) if found[2 * n] or found[2 * n + 1]]

    def _shard(self, member: str) -> int:
        return zlib.crc32(member.partition(" ")[0].encode()) % len(self._shards)


def calendar_of(redis: Redis, what: str, shards: int = SHARDS) -> Calendar:
    """The calendar of one kind of work, in shards by user name, so that a cluster spreads them."""
    return Calendar(redis, [(keys.due(what, str(n)), keys.due_claims(what, str(n))) for n in range(shards)])


class CalendarWork(Loop[Claim]):
    """Runs `work` for due members of a calendar; it returns the next due time, or None for never.

    `at_once` members are worked on at a time; with `claimed`, more are claimed and wait. Failed work is put off for
    `retry` seconds, or `trouble` if Redis failed.
    """

    def __init__(
        self,
        name: str,
        calendar: Calendar,
        work: Callable[[Claim], Awaitable[float | None]],
        *,
        at_once: int,
        claimed: int | None = None,
        lease: float = LEASE,
        retry: float = RETRY,
        trouble: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        most = claimed or at_once
        super().__init__(
            name, at_once=most, lease=lease, batch=min(most, BATCH), trouble=trouble, wake_delay=WAKE_DELAY
        )
        self._calendar = calendar
        self._work = work
        self._places = asyncio.Semaphore(at_once)
        self._retry = retry
        self._clock = clock
        self._took = time.monotonic()

    def pause(self) -> float:
        """Seconds until the next look for due members."""
        return TICK if time.monotonic() - self._took < IDLE_AFTER else IDLE_TICK

    async def take(self, room: int) -> list[Claim]:
        """Claim members that are due."""
        return await self.take_at(self._clock(), room)

    async def take_at(self, now: float, room: int) -> list[Claim]:
        """Claim members that are due at that time."""
        claims, _ = await self._calendar.take(now, room, self.lease)
        if claims:
            self._took = time.monotonic()
        return claims

    async def keep(self, claims: Sequence[Claim]) -> list[bool]:
        """Extend claims."""
        return await self._calendar.keep(claims, self._clock() + self.lease)

    async def hand_back(self, claims: Sequence[Claim]) -> None:
        """Make members due at once."""
        await self._calendar.hand_back(claims, self._clock())

    async def do(self, claim: Claim) -> int:
        """Do the work of one member, and plan it again; returns 1. Raises what the work raises."""
        async with self._places:
            try:
                again = await self._work(claim)
            except Exception as error:
                is_passing = isinstance(error, StoreError) and error.passing
                with suppress(StoreError):  # otherwise it is due again when the claim ends
                    await self._calendar.end(claim, self._clock() + (self.trouble if is_passing else self._retry))
                raise
            await self._calendar.end(claim, again)
        return 1


async def run_daily(
    redis: Redis, jobs: Mapping[str, Callable[[float], Awaitable[object]]], pace: RoundTiming = PACE
) -> None:
    """Run each job once a day, in one of all processes, until cancelled.

    Jobs get the Unix time.

    A job that has never run is due at once.
    """
    due = calendar_of(redis, "daily", shards=1)

    async def one_round(now: float) -> None:
        async def one(job: str) -> float | None:
            if job not in jobs:
                return None
            await jobs[job](pace.clock())
            return now + DAY

        await due.note(dict.fromkeys(jobs, now), "missing")
        await due.visit(now, one)

    await run_periodically(one_round, "daily", pace, BETWEEN_LOOKS)
