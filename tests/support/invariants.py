"""Invariant 1 of one channel, asked about a live store."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.check.findings import Finding, InChannel
from microsub.check.invariants import disagreeing
from microsub.check.repair import apply
from microsub.check.seen import Reader, scores
from microsub.redis.protocol import Redis
from microsub.timelines.store.timelinekeys import set_keys


@dataclass(frozen=True, slots=True)
class Violation:
    """An id whose sets disagree in one channel."""

    user: str
    uid: str
    item: str
    what: str


async def violations(redis: Redis, user: str, uid: str) -> list[Violation]:
    """Everything that is wrong with one channel's keys; empty when all is well."""
    script_keys = set_keys(user, uid)
    found = await Reader(redis).walk("ZSCAN", script_keys)
    wrong = disagreeing([scores(found[key]) for key in script_keys])
    return [Violation(user, uid, item, what) for what, items in wrong.items() for item in sorted(items)]


async def repair(redis: Redis, user: str, uid: str, now: float) -> list[Violation]:
    """Repair what `violations` finds, and return that."""
    found = await violations(redis, user, uid)
    await apply(redis, [Finding("timelines", "", one.what, InChannel(user, uid, one.item)) for one in found], now)
    return found
