"""Counts behind rate limits that all processes share: attempts to sign in, and requests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from microsub.identity.lifetimes import ATTEMPTS
from microsub.redis import identitykeys
from microsub.redis.protocol import Redis
from microsub.redis.scripts import load


class AttemptCounts:
    """Counts of attempts in Redis. Neither names nor addresses stand there, only their digests."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def take(self, subject: str, pauses: Sequence[float], now: float) -> tuple[int, int]:
        """The seconds to wait, 0 where the attempt may go on, and how many attempts count by then.

        An attempt counts as failed until `give_back` or `forget`. `pauses` are the seconds that must pass after the
        first attempt, the second and so on; the last one holds for all later ones. `now` is Unix time.
        """
        script = load("attempt_take")
        wait, count = await self._redis.script(script, [_key(subject)], [now, ATTEMPTS, *pauses])
        return int(wait), int(count)

    async def give_back(self, subject: str) -> None:
        """That attempt didn't fail."""
        await self._redis.script(load("attempt_return"), [_key(subject)])

    async def in_minute(self, subject: str, now: float, more: int = 1) -> int:
        """Count that many `more` in the minute of `now`; all that are counted in it then."""
        key = identitykeys.in_minute(_digest(subject), str(int(now // 60)))
        total, _ = await self._redis.pipeline([("INCRBY", key, more), ("EXPIRE", key, 120)])
        return int(total)

    async def forget(self, subject: str) -> None:
        """All attempts so far don't count."""
        await self._redis.command("DEL", _key(subject))


def _key(subject: str) -> str:
    return identitykeys.attempts(_digest(subject))


def _digest(subject: str) -> str:
    return hashlib.sha256(subject.encode()).hexdigest()


_COUNTED_SECONDS = 120


class RequestCounts:
    """Counts of requests in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, user: str, minute: int, count: int) -> int:
        """Count that many more for the user in that minute (Unix time divided by 60); all that are counted now."""
        key = identitykeys.requests(user, str(minute))
        total, _ = await self._redis.pipeline([("INCRBY", key, count), ("EXPIRE", key, _COUNTED_SECONDS)])
        return int(total)
