"""What the processes of a server have counted together, so that each can show it (`metrics`)."""

from __future__ import annotations

from collections.abc import Mapping

from microsub.redis import keys
from microsub.redis.protocol import Redis

KEPT_SECONDS = 86_400


class ProcessCounts:
    """Sums by name. A name is a sample of a metric, as `metrics.counts` gives it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, more: Mapping[str, float]) -> None:
        """Add to the sums."""
        if more:
            key = keys.process_counts()
            adding = [("HINCRBYFLOAT", key, name, repr(value)) for name, value in more.items()]
            await self._redis.pipeline([*adding, ("EXPIRE", key, KEPT_SECONDS)])

    async def read(self) -> dict[str, float]:
        """All sums."""
        found = await self._redis.command("HGETALL", keys.process_counts())
        return {name.decode(): float(value) for name, value in zip(found[::2], found[1::2], strict=True)}
