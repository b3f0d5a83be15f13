"""The counters that give out ids of items and feeds."""

from __future__ import annotations

from redis.exceptions import ResponseError

from microsub.errors import StoreDamaged
from microsub.store.ids import is_id
from microsub.store.port import Redis

MOST = 10**15
"""No store comes that far: a counter beyond it was set by a hand, and `microsub check --repair` sets it back."""


async def take(redis: Redis, counter: str, count: int = 1) -> int:
    """Take the next `count` ids of that counter (a key); the last of them.

    Raises StoreDamaged where what stands there can't be counted on: ids would be given out that nothing can read.
    """
    try:
        last = int(await redis.command("INCRBY", counter, count))
    except ResponseError as error:
        raise StoreDamaged(counter) from error
    if not is_id(str(last - count + 1)) or not is_id(str(last)):
        raise StoreDamaged(counter)
    return last


async def last(redis: Redis, counter: str) -> int:
    """The last id that was given out, 0 where nobody knows."""
    found = await redis.command("GET", counter)
    text = found.decode("utf-8", "replace") if found is not None else ""
    return int(text) if is_id(text) and int(text) <= MOST else 0
