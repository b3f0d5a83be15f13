"""The counters that give out ids of items and feeds."""

from __future__ import annotations

from microsub.redis.protocol import Command, Redis


async def take(redis: Redis, counter: str, count: int = 1) -> int:
    """Take the next `count` ids of that counter (a key); the last of them."""
    return int(await redis.command(*taking(counter, count)))


def taking(counter: str, count: int) -> Command:
    """The command that `take` is, to be sent with others."""
    return "INCRBY", counter, count


async def last(redis: Redis, counter: str) -> int:
    """The last id that was given out, 0 before the first."""
    return int(await redis.command("GET", counter) or 0)
