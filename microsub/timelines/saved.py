"""What a reader keeps: the channel `saved`, where items stand beside their place in other channels.

Nothing leaves it but by its reader: no limit of age or number, no rule, and no "mark all" of other channels reaches it.
All times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from microsub.errors import QuotaReached
from microsub.identity.store import absent
from microsub.model.reader import GLOBAL, SAVED, Reason
from microsub.posts.items import Items
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.scripts import batches, load
from microsub.timelines.pages import shown_among
from microsub.timelines.remove import SAVED_POSTS, Leaving, move_items, take_back, take_out
from microsub.timelines.timelinekeys import distinct, members_at, set_keys, shown_keys, split


async def save(
    redis: Redis, items: Items, user: str, ids: Sequence[str], now: float, *, uid: str = GLOBAL, most: int = 0
) -> int:
    """Save items that the channel or (`global`) any channel of the user shows; how many came in.

    They stay where they are. Ids that aren't there, and what is saved already, are ignored. All come in or, where the
    user would have more than `most` (0: any number), none: then raises QuotaReached. Raises NotFound.
    """
    shown = await shown_among(redis, user, uid, distinct(ids))
    return await save_posts(redis, items, user, shown, now, most=most)


async def save_posts(redis: Redis, items: Items, user: str, ids: Sequence[str], now: float, *, most: int = 0) -> int:
    """Save stored posts for a user, whether or not any channel shows them; how many came in.

    Not for what an app asks: the caller knows that the user may see these posts. Posts that don't exist,
    and what is saved already, are ignored. Of a thousand, all come in or none. Raises NotFound and QuotaReached.
    """
    count = 0
    for batch in batches(distinct(ids)):
        known = await items.timeline_items(batch)
        args: list[Arg] = [now, most]
        for item in known:
            args += [item.id, item.score]
        script_keys = [keys.channels(user), *set_keys(user, SAVED), *shown_keys(user)]
        reply = await redis.script(load("timeline_save"), script_keys, args)
        if isinstance(reply, int):
            raise await absent(redis, user)
        if len(reply) > 1:
            raise QuotaReached(SAVED_POSTS, reply[1], most)
        came = split(reply[0])
        dead = await take_back(redis, items, user, SAVED, came, now)
        count += len(came) - len(dead)
    return count


async def unsave(redis: Redis, user: str, ids: Sequence[str], now: float) -> int:
    """Take items out of `saved` alone; how many were there. Raises NotFound."""
    return len(await take_out(redis, user, SAVED, ids, Leaving(Reason.REMOVED), now))


async def move_to_saved(redis: Redis, items: Items, user: str, ids: Sequence[str], now: float, *, most: int) -> int:
    """Move items from all other channels into `saved`, as read or unread; how many.

    Ids that aren't there are ignored. All come in or, where the user would have more than `most` (0: any number), none;
    of hundreds those before the limit, where other requests fill it meanwhile. Raises NotFound and QuotaReached.
    """
    if most:  # move_items counts again with each batch, so that the limit holds; here none has moved yet
        new = set(await shown_among(redis, user, GLOBAL, distinct(ids))) - await saved_among(redis, user, ids)
        count = await count_saved(redis, user)
        if new and count + len(new) > most:
            raise QuotaReached(SAVED_POSTS, count, most)
    return await move_items(redis, items, user, SAVED, ids, now, most=most)


async def count_saved(redis: Redis, user: str) -> int:
    """How many items the user has saved."""
    return int(await redis.command("ZCARD", keys.posts(user, SAVED)))


async def saved_among(redis: Redis, user: str, ids: Sequence[str]) -> set[str]:
    """Those of the ids that the user has saved. One round trip."""
    return await members_at(redis, [keys.posts(user, SAVED)], distinct(ids))
