"""A look into the schedule, and a hand in it."""

from __future__ import annotations

from microsub.redis import keys
from microsub.redis.protocol import Redis


async def next_time(redis: Redis) -> float | None:
    """When the next host is due (or its lease runs out); None where nothing is scheduled."""
    reply = await redis.command("ZRANGE", keys.hosts_due(), 0, 0, "WITHSCORES")
    return float(reply[1]) if reply else None


async def unschedule(redis: Redis, feed_id: str, host: str) -> None:
    """The feed has no turn any more."""
    await redis.command("ZREM", keys.host_due(host), feed_id)
