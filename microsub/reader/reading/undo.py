"""What somebody marked as read at once, or a follow that they ended, kept for some minutes, so that it can be undone.

The last one of each user alone is kept, of at most `MOST` posts. It names what was the user's own: a form that brings
back a follow says nothing of the feed, whose id anybody could count up to.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import orjson

from microsub.model.reader import Subscription
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import raw_fields
from microsub.timelines.pages import mark_again

SECONDS = 600
MOST = 500_000
"""Posts that can be undone at once: 4 MB for ten minutes."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The name by which something can be undone, and how many posts it is about."""

    id: str
    count: int


async def remember(redis: Redis, user: str, marked: Mapping[str, Collection[str]]) -> UndoRecord | None:
    """Keep what was marked as read, by channel, instead of what was kept; None for nothing or too much."""
    count = sum(map(len, marked.values()))
    return await _keep(redis, user, count, _packed(marked)) if 0 < count <= MOST else None


async def remember_follow(
    redis: Redis, user: str, uid: str, ended: Subscription, unread: Collection[str]
) -> UndoRecord:
    """Keep a follow of the channel that is ended, with what was unread of it, unless that is too much."""
    kept = unread if len(unread) <= MOST else ()
    follow = orjson.dumps([ended.feed, ended.url, ended.followed_at, ended.name])
    return await _keep(redis, user, len(kept), [f"follow {uid}", follow, *_packed({uid: kept})])


def _packed(marked: Mapping[str, Collection[str]]) -> list[Arg]:
    return [part for uid, ids in marked.items() for part in (f"in {uid}", struct.pack(f"<{len(ids)}q", *map(int, ids)))]


async def _keep(redis: Redis, user: str, count: int, fields: list[Arg]) -> UndoRecord:
    record, key = UndoRecord(secrets.token_hex(8), count), keys.undo(user)
    await redis.pipeline(
        [("DEL", key), ("HSET", key, "id", record.id, "count", count, *fields), ("EXPIRE", key, SECONDS)]
    )
    return record


async def find(redis: Redis, user: str, id_: str) -> UndoRecord | None:
    """The undo record of that name, unless it has expired."""
    if not id_:
        return None
    kept, count = await redis.command("HMGET", keys.undo(user), "id", "count")
    return UndoRecord(id_, int(count)) if kept == id_.encode() else None


async def ended_follow(redis: Redis, user: str, uid: str, id_: str) -> Subscription | None:
    """The follow of that channel that can still be brought back by that name."""
    kept, follow = await redis.command("HMGET", keys.undo(user), "id", f"follow {uid}")
    return Subscription(*orjson.loads(follow)) if id_ and kept == id_.encode() and follow else None


async def undo(redis: Redis, user: str, id_: str, now: float) -> int:
    """Mark as unread what was marked as read by that name; how many posts. What has left meanwhile stays away."""
    kept = await _kept(redis, user, id_)
    if kept:
        await redis.command("DEL", keys.undo(user))
    ids = {uid: [str(item) for (item,) in struct.iter_unpack("<q", packed)] for uid, packed in kept.items()}
    return await mark_again(redis, user, ids, now)


async def _kept(redis: Redis, user: str, id_: str) -> dict[str, bytes]:
    """The ids of posts by channel; nothing where another record took its place."""
    kept = raw_fields(await redis.command("HGETALL", keys.undo(user)))
    if kept.pop("id", b"") != id_.encode():
        return {}
    return {name.removeprefix("in "): ids for name, ids in kept.items() if name.startswith("in ")}
