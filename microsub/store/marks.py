"""Read state: the calls of lua/timeline_mark.lua and lua/timeline_mark_before.lua, in batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from microsub.store import keys
from microsub.store.absent import absent
from microsub.store.port import Arg, Redis
from microsub.store.scripts import load
from microsub.store.timelinekeys import batch_for, distinct, set_patterns

Places = Callable[[Sequence[str]], Awaitable[list[str | None]]]
"""Scores of items as text, None where an item doesn't exist any more (`store.items.Items.places`)."""


async def mark(
    redis: Redis, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float
) -> int:
    """See `Timelines.mark_read`. An empty list still asks whether the channel exists."""
    count, left = 0, distinct(ids)
    while True:
        args: list[Arg] = [*set_patterns(user), uid, state, now, *left[: batch_for(uid)]]
        reply = await redis.script(load("timeline_mark"), [keys.channels(user)], args)
        if reply == -1:
            raise await absent(redis, user, uid)
        count += int(reply[0])
        left = left[reply[1] :]
        if not left:
            return count


async def mark_before(redis: Redis, user: str, uid: str, item: str, place_of: Places, now: float) -> int:
    """See `Timelines.mark_read_before`."""
    reply = await _first(redis, user, uid, item, "", now)
    if reply[0] == b"gone":
        (place,) = await place_of([item])
        if place is None:
            return 0
        reply = await _first(redis, user, uid, item, place, now)
    if reply[0] == b"unknown":
        return 0
    return await _rest(redis, user, uid, item, reply, now)


async def mark_all(redis: Redis, user: str, uid: str, now: float) -> int:
    """See `Timelines.mark_all_read`."""
    return await _rest(redis, user, uid, "", await _first(redis, user, uid, "", "", now), now)


async def _first(redis: Redis, user: str, uid: str, item: str, score: Arg, now: float) -> list[Any]:
    args: list[Arg] = [*set_patterns(user), uid, now, batch_for(uid), item, score]
    reply: list[Any] = await redis.script(load("timeline_mark_before"), [keys.channels(user)], args)
    if reply[0] == b"channel":
        raise await absent(redis, user, uid)
    return reply


async def _rest(redis: Redis, user: str, uid: str, item: str, reply: list[Any], now: float) -> int:
    count = int(reply[1])
    while reply[2]:
        reply = await _first(redis, user, uid, item, reply[3], now)
        count += int(reply[1])
    return count
