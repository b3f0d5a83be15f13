"""Heartbeats of workers, a trial write for /health, and sums over all processes."""

from __future__ import annotations

from collections.abc import Mapping

from microsub.model.moments import CLOCKS_DIFFER
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import texts

SIGN_SECONDS = 60
"""Seconds for which a heartbeat counts. Workers send them several times as often."""

TO_COME = "-to-come"
"""Suffix of the name of a worker that is about to start."""

_FORGET_AFTER = 24 * 3600.0
COUNTS_KEPT = 86_400


class Presence:
    """Writes and reads the workers' heartbeats; times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def beat(self, worker: str, now: float) -> None:
        """Write a heartbeat of `worker`."""
        await self._redis.pipeline(
            [
                ("ZADD", keys.workers(), f"{now:.3f}", worker),
                ("ZREMRANGEBYSCORE", keys.workers(), "-inf", f"({now - _FORGET_AFTER:.3f}"),
                # Heartbeats of a clock that was ahead: live workers send new ones.
                ("ZREMRANGEBYSCORE", keys.workers(), f"({now + CLOCKS_DIFFER:.3f}", "+inf"),
            ]
        )

    async def leave(self, worker: str) -> None:
        """Note that `worker` ended properly."""
        await self._redis.command("ZREM", keys.workers(), worker)

    async def last_sign(self) -> float | None:
        """The time of the newest heartbeat of any worker, or None."""
        found = await self._redis.command("ZREVRANGE", keys.workers(), 0, 0, "WITHSCORES")
        return float(found[1]) if found else None

    async def probe(self) -> None:
        """Write a few bytes to one node; raises StoreFull if Redis refuses writes."""
        await self._redis.command("SET", keys.probe(), "", "EX", SIGN_SECONDS)

    async def dead_letters(self) -> int:
        """The number of messages kept because all attempts to handle them failed."""
        return int(await self._redis.command("XLEN", keys.stream("dead")))

    async def alive(self, now: float) -> list[str]:
        """Names of the workers with a current heartbeat."""
        found = await self._redis.command("ZRANGEBYSCORE", keys.workers(), f"{now - SIGN_SECONDS:.3f}", "+inf")
        return texts(found)


class ProcessCounts:
    """Sums over all processes of a server; a name is a sample of a metric (`metrics.counts`)."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, more: Mapping[str, float]) -> None:
        """Add to the sums."""
        if more:
            key = keys.process_counts()
            adding = [("HINCRBYFLOAT", key, name, repr(value)) for name, value in more.items()]
            await self._redis.pipeline([*adding, ("EXPIRE", key, COUNTS_KEPT)])

    async def read(self) -> dict[str, float]:
        """All sums."""
        found = await self._redis.command("HGETALL", keys.process_counts())
        return {name.decode(): float(value) for name, value in zip(found[::2], found[1::2], strict=True)}
