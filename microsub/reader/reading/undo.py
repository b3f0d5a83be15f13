"""Undo records: the posts that the user last marked as read together, or an ended follow, kept for ten minutes.

Each user has only one record, with at most `MOST` posts. It stores a follow itself, so that a form can't bring back a
feed by an id that anybody could guess.
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
"""Maximum number of posts that can be undone together: 4 MB for ten minutes."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The name of an undo record, and the number of its posts."""

    id: str
    count: int


async def remember(redis: Redis, user: str, marked: Mapping[str, Collection[str]]) -> UndoRecord | None:
    """Record posts that were marked as read, by channel, replacing the previous record; None for none or too many."""
    count = sum(map(len, marked.values()))
    return await _keep(redis, user, count, _packed(marked)) if 0 < count <= MOST else None


async def remember_follow(
    redis: Redis, user: str, uid: str, ended: Subscription, unread: Collection[str]
) -> UndoRecord:
    """Record an ended follow of the channel, with its unread posts unless there are too many."""
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
    """The ended follow of that channel that this name can restore."""
    kept, follow = await redis.command("HMGET", keys.undo(user), "id", f"follow {uid}")
    return Subscription(*orjson.loads(follow)) if id_ and kept == id_.encode() and follow else None


async def undo(redis: Redis, user: str, id_: str, now: float) -> int:
    """Mark the record's posts as unread; returns their number. Posts that have left the channel meanwhile stay away."""
    kept = await _kept(redis, user, id_)
    if kept:
        await redis.command("DEL", keys.undo(user))
    ids = {uid: [str(item) for (item,) in struct.iter_unpack("<q", packed)] for uid, packed in kept.items()}
    return await mark_again(redis, user, ids, now)


async def _kept(redis: Redis, user: str, id_: str) -> dict[str, bytes]:
    """The ids of posts by channel; nothing if another record has replaced this one."""
    kept = raw_fields(await redis.command("HGETALL", keys.undo(user)))
    if kept.pop("id", b"") != id_.encode():
        return {}
    return {name.removeprefix("in "): ids for name, ids in kept.items() if name.startswith("in ")}
