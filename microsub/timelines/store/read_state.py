"""Read state: items are marked as read or unread, in one channel or in all (`global`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from microsub.identity.store.absent import absent
from microsub.model.reader import GLOBAL
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.scripts import BATCH, load
from microsub.timelines.store.timelinekeys import batch_for, distinct, set_patterns

ScoresOf = Callable[[Sequence[str]], Awaitable[list[str | None]]]
"""Scores of items as text, None where an item doesn't exist any more (`posts.store.items.Items.places`)."""


async def mark(
    redis: Redis, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float
) -> int:
    """Mark items as read or unread in one channel or (`global`) in all; how many changed.

    Ids that aren't there are ignored; an empty list still asks whether the channel exists. Raises NotFound.
    """
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


async def mark_before(redis: Redis, user: str, uid: str, item: str, scores_of: ScoresOf, now: float) -> int:
    """Mark an item and everything older in the channel or (`global`) in all as read; how many.

    An item that has left the timeline counts with its score, which `scores_of` looks up; an id that was never in it
    changes nothing. Raises NotFound.
    """
    most = _LOOK if uid == GLOBAL else BATCH
    reply = await _step(redis, user, uid, item, "", now, most)
    if reply[0] == b"gone":
        (score,) = await scores_of([item])
        if score is None:
            return 0
        reply = await _step(redis, user, uid, item, score, now, most)
    if reply[0] == b"unknown":
        return 0
    if reply[0] == b"channel":
        raise await absent(redis, user, uid)
    if uid == GLOBAL:
        return await _everywhere(redis, user, item, reply[2], now)
    return len(reply[1]) + len(await _rest(redis, user, uid, item, reply[2], now) if len(reply[1]) == BATCH else ())


async def mark_all(redis: Redis, user: str, uid: str, now: float) -> int:
    """Mark all that the channel or `global` shows as read; how many changed. Raises NotFound."""
    if (await _step(redis, user, uid, "", "", now, _LOOK))[0] == b"channel":
        raise await absent(redis, user, uid)
    if uid == GLOBAL:
        return await _everywhere(redis, user, "", "", now)
    return len(await _rest(redis, user, uid, "", "", now))


_LOOK = 0
"""An empty batch: only the score is looked up."""


async def _everywhere(redis: Redis, user: str, item: str, score: Arg, now: float) -> int:
    """Mark in each channel that has something unread; an item in several counts once."""
    uids = [uid.decode() for uid in await redis.command("ZRANGE", keys.channels(user), 0, -1)]
    unread = await redis.pipeline([("ZCARD", keys.unread(user, uid)) for uid in uids])
    changed: set[bytes] = set()
    for uid, count in zip(uids, unread, strict=True):
        if count:
            changed.update(await _rest(redis, user, uid, item, score, now))
    return len(changed)


async def _rest(redis: Redis, user: str, uid: str, item: str, score: Arg, now: float) -> list[bytes]:
    """Mark batch by batch in one channel; nothing where it was removed meanwhile."""
    changed: list[bytes] = []
    while True:
        reply = await _step(redis, user, uid, item, score, now, BATCH)
        if reply[0] != b"":
            return changed
        changed += reply[1]
        if len(reply[1]) < BATCH:
            return changed


async def _step(redis: Redis, user: str, uid: str, item: str, score: Arg, now: float, most: int) -> list[Any]:
    args: list[Arg] = [*set_patterns(user), uid, now, most, item, score]
    reply: list[Any] = await redis.script(load("timeline_mark_before"), [keys.channels(user)], args)
    return reply
