"""Items leaving a timeline by name, moving to another one, or going with their feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from microsub.errors import NotFound
from microsub.identity.store.absent import absent
from microsub.model.reader import GLOBAL, Cursor, Reason
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import texts
from microsub.redis.scripts import load
from microsub.timelines.store.lookup import ItemLookup
from microsub.timelines.store.pages import Walk, read_walk
from microsub.timelines.store.timelinekeys import (
    BATCH,
    batch_for,
    batches,
    counted,
    distinct,
    rule_keys,
    set_keys,
    set_patterns,
    split,
    urls,
)

_MAY_RETURN = frozenset({Reason.UNFOLLOWED, Reason.TWIN})


@dataclass(frozen=True, slots=True)
class Leaving:
    """How items leave: for what reason, only those that are unread when it comes to it, only while the channel doesn't
    follow a feed, and whether a removed channel may be meant.
    """

    reason: Reason
    only_unread: bool = False
    unless_followed: str = ""
    removed_too: bool = True


async def leave(redis: Redis, user: str, uid: str, ids: Sequence[str], how: Leaving, now: float) -> list[str]:
    """Take items out of one channel or (`global`) of all; the ids that left. Raises NotFound."""
    left: list[str] = []
    rest = distinct(ids)
    script_keys = [keys.channels(user), *([keys.removed_channels(user)] if how.removed_too else [])]
    condition = ["unread" if how.only_unread else "", how.unless_followed, keys.channel_feeds(user, uid)]
    while True:
        args: list[Arg] = [*set_patterns(user), uid, int(now), int(how.reason), *condition, *rest[: batch_for(uid)]]
        reply = await redis.script(load("timeline_leave"), script_keys, args)
        if isinstance(reply, int):
            raise await absent(redis, user, uid)
        gone, done = reply
        left += split(gone)
        rest = rest[done:]
        if not rest:
            return left


async def take_back(redis: Redis, items: ItemLookup, user: str, uid: str, ids: Sequence[str], now: float) -> set[str]:
    """Let go of those of the ids, just added to a channel, whose items were deleted meanwhile; which these are."""
    rows = await items.fields(ids, ("score",)) if ids else []
    dead = {item_id for item_id, (score,) in zip(ids, rows, strict=True) if score is None}
    with suppress(NotFound):
        if dead:
            await leave(redis, user, uid, sorted(dead), Leaving(Reason.SWEPT), now)
    return dead


async def left_for_good(redis: Redis, user: str, uid: str, ids: Sequence[str]) -> set[str]:
    """See `Timelines.left_for_good`."""
    left: set[str] = set()
    for batch in batches(ids):
        times = await redis.command("ZMSCORE", keys.gone(user, uid), *batch)
        left.update(
            item
            for item, at in zip(batch, times, strict=True)
            if at is not None and float(at) % 1 * 16 not in _MAY_RETURN
        )
    return left


async def inherit(redis: Redis, user: str, source: str, target: str, ids: Sequence[str]) -> int:
    """See `Timelines.inherit`."""
    there = [keys.gone(user, target), keys.posts(user, target), keys.hidden(user, target)]
    script = load("timeline_inherit")
    return sum([await redis.script(script, [keys.gone(user, source), *there], batch) for batch in batches(ids)])


async def move(
    redis: Redis, items: ItemLookup, user: str, target: str, ids: Sequence[str], now: float, *, hidden_too: bool
) -> int:
    """See `Timelines.move`."""
    count = 0
    for batch in batches(distinct(ids), batch_for(GLOBAL)) if ids else [()]:
        known = {item.id: item for item in await items.timeline_items(batch)}
        args: list[Arg] = [*set_patterns(user), target, int(now), int(hidden_too)]
        for item_id in batch:
            args += [item_id, *counted(urls(known[item_id]) if item_id in known else [])]
        moved = await redis.script(load("timeline_move"), [keys.channels(user), *rule_keys(user, target)], args)
        if moved < 0:
            raise await absent(redis, user, target)
        count += moved
    return count


async def unfollow(redis: Redis, items: ItemLookup, user: str, uid: str, feed_id: str, now: float) -> int:
    """See `Timelines.unfollow`."""
    count = 0
    async for ids in _unread(redis, user, uid):
        mine = await items.in_feed(feed_id, ids)
        if mine:
            count += await _hand_over(redis, items, user, uid, feed_id, [one for one in ids if one in mine], now)
    return count


async def _unread(redis: Redis, user: str, uid: str) -> AsyncIterator[Sequence[str]]:
    """All unread items of a channel in batches, and then what is hidden, read or not."""
    cursor: Cursor | None = None
    while True:
        walk = Walk(BATCH, unread_only=True, direction="after" if cursor else "", cursor=cursor)
        _, page = await read_walk(redis, user, uid, walk, 0)
        if not page.rows:
            break
        cursor = Cursor(page.rows[-1].score, page.rows[-1].id)
        yield [row.id for row in page.rows]
    hidden = await redis.command("ZRANGE", keys.hidden(user, uid), 0, -1)
    for batch in batches(hidden):
        yield texts(batch)


async def _hand_over(
    redis: Redis, items: ItemLookup, user: str, uid: str, feed_id: str, ids: Sequence[str], now: float
) -> int:
    """Let unread items of the feed leave; where another feed's copy waits, it takes the place in the same step."""
    twins = {
        item.id: [twin for twin in item.twins if twin.feed != feed_id]
        for item in await items.timeline_items(ids)
        if item.twins
    }
    left: list[str] = []
    if twins:
        wanted = [twin.item for several in twins.values() for twin in several]
        copies = {item.id: item for item in await items.timeline_items(wanted)}
        args: list[Arg] = [int(now), feed_id]
        for item_id, several in twins.items():
            found = [(copies[twin.item], twin.feed) for twin in several if twin.item in copies]
            args += [item_id, len(found)]
            for copy, feed in found:
                args += [copy.id, copy.score, feed, *counted(urls(copy))]
        script_keys = [keys.channel_feeds(user, uid), *set_keys(user, uid), *rule_keys(user, uid)]
        left += split(await redis.script(load("timeline_swap"), script_keys, args))
        await take_back(redis, items, user, uid, list(copies), now)
    rest = [item_id for item_id in ids if item_id not in twins]
    how = Leaving(Reason.UNFOLLOWED, only_unread=True, unless_followed=feed_id)
    return len(left) + (len(await leave(redis, user, uid, rest, how, now)) if rest else 0)
