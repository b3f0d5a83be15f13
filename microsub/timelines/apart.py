"""Items of feeds that their user hides in *All*: which ones, by channel.

New items are noted as they are added (lua/timeline_add.lua). An item that another channel shows, too, stays in *All*.
"""

from __future__ import annotations

from collections.abc import Iterable

from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import texts
from microsub.redis.scan import members
from microsub.redis.scripts import batches, load
from microsub.timelines.pages import walk_rows


async def set_apart(redis: Redis, items: Items, user: str, uid: str, feed_id: str, *, hides: bool) -> None:
    """Hide the feed's items of this channel in *All*, or show them there again. Raises NotFound."""
    action = "hide" if hides else "show"
    await _note(redis, user, uid, action, [])
    async for rows in walk_rows(redis, user, uid):
        await _note(redis, user, uid, action, await items.in_feed(feed_id, [row.id for row in rows]))
    async for ids in members(redis, keys.hidden(user, uid)):
        await _note(redis, user, uid, action, await items.in_feed(feed_id, ids))


async def tidy_apart(redis: Redis, user: str, uid: str) -> None:
    """Forget notes of items that have left the channel."""
    for ids in batches(texts(await redis.command("SMEMBERS", keys.apart(user, uid)))):
        await _note(redis, user, uid, "tidy", ids)


async def _note(redis: Redis, user: str, uid: str, action: str, ids: Iterable[str]) -> None:
    await redis.script(load("timeline_apart")(user, uid, action=action, ids=list(ids)))
