"""What is left of a timeline that was lost: `unread` and `read` outlive `posts`, and say what was in it."""

from __future__ import annotations

from enum import Enum

from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.scripts import load
from microsub.timelines.store.lookup import ItemLookup
from microsub.timelines.store.references import members
from microsub.timelines.store.settling import settle
from microsub.timelines.store.timelinekeys import batches, set_keys, split

_RESTORE, _UNFILL = load("timeline_restore"), load("channel_unfill")


class Left(Enum):
    """What there is of a timeline. BLANK: nothing, and what comes next counts as its first fill. UNREAD: only what is
    unread, so that everything else was read, or never came.
    """

    ENOUGH = 0
    BLANK = 1
    UNREAD = 2


async def begin(redis: Redis, user: str, uid: str, now: float) -> Left:
    """See what is left, and prepare a blank timeline for its first fill, at `now`."""
    own = [keys.channel_feeds(user, uid), keys.channel_unfilled(user, uid)]
    sets = [key(user, uid) for key in (keys.posts, keys.unread, keys.read, keys.hidden)]
    return Left(await redis.script(_UNFILL, own + sets, [f"{now:.6f}"]))


async def restore(redis: Redis, items: ItemLookup, user: str, uid: str, now: float) -> int:
    """Show again what is unread or read and stands nowhere, as far as its items exist; how many. Rules hold."""
    restored = 0
    for key in (keys.unread(user, uid), keys.read(user, uid)):
        async for ids in members(redis, key):
            for batch in batches(ids):
                shown, hidden = await redis.pipeline(
                    [("ZMSCORE", keys.posts(user, uid), *batch), ("ZMSCORE", keys.hidden(user, uid), *batch)]
                )
                places = zip(batch, shown, hidden, strict=True)
                lost = await items.timeline_items([one for one, *stands in places if stands == [None, None]])
                if not lost:
                    continue
                args: list[Arg] = [part for item in lost for part in (item.id, item.score)]
                back = set(split(await redis.script(_RESTORE, set_keys(user, uid), args)))
                await settle(redis, user, uid, [item for item in lost if item.id in back], now)
                restored += len(back)
    return restored
