"""Counts of rate limits that all processes share: attempts, and requests in a minute."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.base.clock import DAY
from microsub.base.digests import sha256_hex
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.scripts import load

ATTEMPTS = 1 * DAY
"""Time without an attempt after which wrong passwords are counted from zero again."""


class AttemptCounts:
    """Counts of attempts in Redis, under digests of names and addresses."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def take(self, subject: str, pauses: Sequence[float], now: float, kept: int = ATTEMPTS) -> tuple[int, int]:
        """The seconds to wait, 0 if the attempt may proceed, and the current number of attempts.

        An attempt counts as failed until `give_back` or `forget`. `pauses` are the seconds that must pass after the
        first attempt, the second and so on; the last one applies to all later ones. `now` is Unix time, `kept` the
        lifetime of the count.
        """
        wait, count = await self._redis.script(
            load("attempts")(attempts=_key(subject), now=now, kept=kept, pauses=pauses)
        )
        return int(wait), int(count)

    async def give_back(self, subject: str) -> None:
        """Undo the count of an attempt, because it didn't fail."""
        await self._redis.script(load("attempts")(attempts=_key(subject)))

    async def in_minute(self, subject: str, now: float, more: int = 1) -> int:
        """Count `more` in the minute of `now`; returns the total in it."""
        key = keys.in_minute(sha256_hex(subject), str(int(now // 60)))
        total, _ = await self._redis.pipeline([("INCRBY", key, more), ("EXPIRE", key, 120)])
        return int(total)

    async def forget(self, subject: str) -> None:
        """Reset the count of attempts."""
        await self._redis.command("DEL", _key(subject))


def _key(subject: str) -> str:
    return keys.attempts(sha256_hex(subject))
