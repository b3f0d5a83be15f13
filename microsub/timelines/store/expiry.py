"""Leaving by age and by number: what is due, and letting it go in batches. `timelines.retention` decides the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from microsub.model.reader import Reason
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import load
from microsub.timelines.store.timelinekeys import BATCH, set_keys


@dataclass(frozen=True, slots=True)
class Stock:
    """How many items a channel shows and hides, and how many of these were read before a given time."""

    posts: int
    hidden: int
    posts_read: int
    hidden_read: int


@dataclass(frozen=True, slots=True)
class OldItem:
    """An unread item of a timeline, old by its publication; `published` in Unix seconds."""

    id: str
    published: float


@dataclass(frozen=True, slots=True)
class OldBatch:
    """Old unread items, and how many items were looked at to find them."""

    items: tuple[OldItem, ...]
    size: int


async def stock(redis: Redis, user: str, uid: str, read_until: float) -> Stock:
    """Count a channel's items, and those read at `read_until` or before."""
    posts, hidden, posts_read, hidden_read = await redis.pipeline(
        [
            ("ZCARD", keys.posts(user, uid)),
            ("ZCARD", keys.hidden(user, uid)),
            ("ZCOUNT", keys.read(user, uid), "-inf", read_until),
            ("ZCOUNT", keys.hidden_read(user, uid), "-inf", read_until),
        ]
    )
    return Stock(posts, hidden, posts_read, hidden_read)


async def expire_read(redis: Redis, user: str, uid: str, read_until: float, now: float) -> int:
    """Let go what was read at `read_until` or before; how many."""
    return await _expire(redis, user, uid, "read", read_until, now, Reason.READ_EXPIRED)


async def trim(redis: Redis, user: str, uid: str, limit: int, now: float) -> int:
    """Let go the oldest items beyond `limit`, among those that are shown and among those that are hidden; how many."""
    return await _expire(redis, user, uid, "limit", limit, now, Reason.EVICTED)


async def _expire(redis: Redis, user: str, uid: str, what: str, value: float, now: float, reason: Reason) -> int:
    count = 0
    while True:
        args = (what, value, BATCH, int(now), int(reason))
        left: int = await redis.script(load("timeline_expire"), set_keys(user, uid), args)
        count += left
        if left < BATCH:
            return count


async def old_unread(redis: Redis, user: str, uid: str, published_until: float, skip: int, hidden: bool) -> OldBatch:
    """Items published at `published_until` or before, oldest first: one batch behind `skip` of them, of the unread ones
    or (`hidden`) of the muted ones, of which the read ones are left out.
    """
    key = keys.hidden(user, uid) if hidden else keys.unread(user, uid)
    reply = await redis.command("ZRANGEBYSCORE", key, "-inf", published_until, "WITHSCORES", "LIMIT", skip, BATCH)
    found = [OldItem(text(item), float(at)) for item, at in zip(reply[0::2], reply[1::2], strict=True)]
    size = len(found)
    if hidden and found:
        read = await redis.command("ZMSCORE", keys.hidden_read(user, uid), *(item.id for item in found))
        found = list(compress(found, (at is None for at in read)))
    return OldBatch(tuple(found), size)


async def left_count(redis: Redis, user: str, uid: str, until: float) -> int:
    """How many ids left the channel before a time in Unix seconds, and are remembered."""
    return int(await redis.command("ZCOUNT", keys.gone(user, uid), "-inf", int(until)))


async def left_before(redis: Redis, user: str, uid: str, until: float, skip: int) -> list[str]:
    """Ids that left the channel before a time in Unix seconds: one batch behind `skip` of them."""
    key = keys.gone(user, uid)
    reply = await redis.command("ZRANGEBYSCORE", key, "-inf", int(until), "LIMIT", skip, BATCH)
    return texts(reply)


async def forget(redis: Redis, user: str, uid: str, ids: Sequence[str]) -> int:
    """See `Timelines.forget`."""
    return int(await redis.command("ZREM", keys.gone(user, uid), *ids)) if ids else 0
