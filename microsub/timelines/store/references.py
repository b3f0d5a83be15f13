"""Which items and feeds a user's channels refer to, which decides what garbage is.

`references` walks channel by channel, so an item that is moved during the walk may be missed: the sweep deletes what
two walks in turn have missed, an hour apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import BATCH
from microsub.timelines.store.timelinekeys import distinct


async def subscriptions(redis: Redis, user: str) -> set[str]:
    """Ids of the feeds that the user's channels follow, removed channels included."""
    uids = await _every_channel(redis, user)
    replies = await redis.pipeline([("HKEYS", keys.channel_feeds(user, uid)) for uid in uids])
    return {text(feed) for reply in replies for feed in reply}


async def references(redis: Redis, user: str) -> AsyncIterator[list[str]]:
    """Ids that the user's channels show or hide, in batches; an id may come repeatedly.

    Removed channels are included.
    """
    for uid in await _every_channel(redis, user):
        for key in (keys.posts(user, uid), keys.hidden(user, uid)):
            async for ids in members(redis, key):
                yield ids


async def _every_channel(redis: Redis, user: str) -> list[str]:
    lists = await redis.pipeline([("ZRANGE", key, 0, -1) for key in (keys.channels(user), keys.removed_channels(user))])
    return [text(uid) for reply in lists for uid in reply]


async def members(redis: Redis, key: str) -> AsyncIterator[list[str]]:
    """All ids that stand in a sorted set from the beginning to the end of the walk, in batches.

    SCAN promises exactly that, whatever else comes and goes meanwhile; an id may come repeatedly.
    """
    cursor = b"0"
    while True:
        cursor, found = await redis.command("ZSCAN", key, cursor, "COUNT", BATCH)
        ids = distinct(texts(found[0::2]))
        if ids:
            yield ids
        if cursor == b"0":
            return
