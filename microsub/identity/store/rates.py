"""How many requests users have made this minute, of which all processes tell each other here in steps."""

from __future__ import annotations

from microsub.redis import identitykeys
from microsub.redis.protocol import Redis

_KEPT = 120


class Rates:
    """Counts of requests in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, user: str, minute: int, count: int) -> int:
        """Count that many more for the user in that minute (Unix time divided by 60); all that are counted now."""
        key = identitykeys.requests(user, str(minute))
        total, _ = await self._redis.pipeline([("INCRBY", key, count), ("EXPIRE", key, _KEPT)])
        return int(total)
