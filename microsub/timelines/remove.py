"""Items leaving a timeline: removed, moved, unfollowed, expired.

The channel's `gone` remembers which items left, and why, so that nothing adds them again. Everything that must
change together is one script on one user's slot. All times are Unix seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from microsub.accounts import absent
from microsub.base.errors import NotFound, QuotaReached
from microsub.model.reader import Reason
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis, ScriptCall
from microsub.redis.readings import reading_times, times_alone
from microsub.redis.replies import texts
from microsub.redis.scripts import BATCH, batches, load
from microsub.redis.structures import Scores
from microsub.timelines.channels.follows import is_there
from microsub.timelines.pages import walk_rows
from microsub.timelines.timelinekeys import (
    ID_BATCH,
    distinct,
    rule_keys,
    set_patterns,
    shown_keys,
    split,
    timeline_keys,
    url_lines,
)

SAVED_POSTS = "saved posts"
"""The name of the quota of saved items."""


class Leaving(NamedTuple):
    """The reason and conditions of a removal.

    `only_unread`: only items that are unread at that moment. `unless_followed`: only if the channel doesn't follow
    this feed. `removed_too`: also from a removed channel.
    """

    reason: Reason
    only_unread: bool = False
    unless_followed: str = ""
    removed_too: bool = True


async def take_out(redis: Redis, user: str, uid: str, ids: Sequence[str], how: Leaving, now: float) -> list[str]:
    """Remove items from one channel or (`global`) from all; returns the ids that left.

    Unknown ids are ignored. Raises NotFound for a user or channel that doesn't exist.
    """
    left: list[str] = []
    rest = distinct(ids)
    while True:
        which = "unread" if how.only_unread else ""
        gone, done = await _leave(redis, user, uid, how, which, rest[:ID_BATCH], now)
        left += gone
        rest = rest[done:]
        if not rest:
            return left


async def _leave(
    redis: Redis, user: str, uid: str, how: Leaving, which: str, args: Sequence[Arg], now: float
) -> tuple[tuple[str, ...], int]:
    """Call timeline_leave.lua: the ids that left, and how many were examined."""
    call = load("timeline_leave")(
        user,
        **{"removed": keys.removed_channels(user)} if how.removed_too else {},
        patterns=set_patterns(user),
        uid=uid,
        now=int(now),
        reason=int(how.reason),
        which=which,
        feed=how.unless_followed,
        feeds=keys.channel_feeds(user, uid),
        rest=args,
    )
    reply = await redis.script(call)
    if isinstance(reply, int):
        raise await absent(redis, user, uid)
    return split(reply[0]), reply[1]


async def take_back(redis: Redis, items: Items, user: str, uid: str, ids: Sequence[str], now: float) -> set[str]:
    """Remove items that were deleted while they were being added; returns their ids."""
    rows = await items.fields(ids, ("score",)) if ids else []
    dead = {item_id for item_id, (score,) in zip(ids, rows, strict=True) if score is None}
    with suppress(NotFound):
        if dead:
            await take_out(redis, user, uid, sorted(dead), Leaving(Reason.SWEPT), now)
    return dead


async def inherit_left(redis: Redis, user: str, source: str, target: str, ids: Sequence[str]) -> None:
    """Make ids that left the channel `source` permanently stay out of `target` too."""
    for some in batches(ids):
        await redis.script(_moving(user, target, 0, "left", source, some))


def _moving(user: str, target: str, now: int, which: str, most: Arg, rows: Sequence[str]) -> ScriptCall:
    lists = {"rules": rule_keys(user, target), "shown": shown_keys(user)}
    what = {"target": target, "now": now, "which": which, "most": most, "items": rows}
    return load("timeline_move")(user, **lists, patterns=set_patterns(user), **what)


async def move_items(
    redis: Redis, items: Items, user: str, target: str, ids: Sequence[str], now: float,
    *, hidden_too: bool = False, copies: bool = False, most: int = 0,
) -> int:  # fmt: skip
    """Move items from all channels that show them into `target`, with their read state; returns their number.

    With `hidden_too` also from channels that hide them; with `copies` they stay in the others as well. Items that the
    target blocks aren't moved; items that it mutes become hidden there. Raises NotFound, and QuotaReached if `saved`
    would show more than `most` (0: any number); earlier batches may have moved by then.
    """
    count, left = 0, distinct(ids)
    while True:
        batch = left[:ID_BATCH]
        known = {item.id: item for item in await items.timeline_items(batch)}
        which = "copy" if copies else "all" if hidden_too else "shown"
        rows = [part for one in batch for part in (one, url_lines(known[one]) if one in known else "")]
        reply = await redis.script(_moving(user, target, int(now), which, most, rows))
        if reply == -1:
            raise await absent(redis, user, target)
        if reply[0] == -1:
            raise QuotaReached(SAVED_POSTS, reply[1], most)
        count, left = count + int(reply[0]), left[reply[1] :]
        if not left:
            return count


async def take_out_feed(redis: Redis, items: Items, user: str, uid: str, feed_id: str, now: float) -> None:
    """Remove the unread items of a feed that the channel no longer follows.

    If another feed of the channel has the same post, that duplicate replaces it. Removes nothing if the channel
    follows the feed.
    """
    async for ids in _unread(redis, user, uid):
        mine = await items.in_feed(feed_id, ids)
        if mine:
            await _replace_feed(redis, items, user, uid, feed_id, [one for one in ids if one in mine], now)


async def _unread(redis: Redis, user: str, uid: str) -> AsyncIterator[Sequence[str]]:
    """All unread items of a channel in batches, then the hidden ones, read or not."""
    async for rows in walk_rows(redis, user, uid, unread_only=True):
        yield [row.id for row in rows]
    for batch in batches(await redis.command("ZRANGE", keys.hidden(user, uid), 0, -1)):
        yield texts(batch)


async def _replace_feed(
    redis: Redis, items: Items, user: str, uid: str, feed_id: str, ids: Sequence[str], now: float
) -> None:
    """Remove unread items of the feed; a duplicate is added in the same step."""
    duplicates = {
        item.id: [other for other in item.duplicates if other.feed != feed_id]
        for item in await items.timeline_items(ids)
        if item.duplicates
    }
    if duplicates:
        wanted = [other.item for several in duplicates.values() for other in several]
        others = {item.id: item for item in await items.timeline_items(wanted)}
        rows: list[Arg] = []
        for item_id, several in duplicates.items():
            found = [(others[other.item], other.feed) for other in several if other.item in others]
            rows += [item_id, len(found)]
            for one, feed in found:
                rows += [one.id, one.score, feed, url_lines(one)]
        where = {"feeds": keys.channel_feeds(user, uid), "timeline": timeline_keys(user, uid)}
        await redis.script(load("timeline_swap")(**where, now=int(now), feed=feed_id, uid=uid, items=rows))
        await take_back(redis, items, user, uid, list(others), now)
    rest = [item_id for item_id in ids if item_id not in duplicates]
    if rest:
        await take_out(
            redis, user, uid, rest, Leaving(Reason.UNFOLLOWED, only_unread=True, unless_followed=feed_id), now
        )


# --- by age and number: `timelines.retention` decides the limits. A missing channel raises nothing. -------------------


class Stock(NamedTuple):
    """The numbers of items in a channel, and when its next item expires (Unix seconds).

    `posts` are shown, `hidden` muted; `posts_read` and `hidden_read` of them were read by a given time. The `oldest`
    times are those of reading and publication; infinity: no such item. If any item is unread, `oldest_unread` is that
    of the oldest item, which may be read.
    """

    posts: int
    hidden: int
    posts_read: int
    hidden_read: int
    oldest_read: float
    oldest_unread: float
    oldest_hidden: float


async def stock_of(redis: Redis, user: str, uid: str, read_until: float) -> Stock | None:
    """A channel's stock; None if there is no such channel. One round trip."""
    sets = (keys.posts(user, uid), keys.hidden(user, uid))
    expiring = (keys.read(user, uid), keys.hidden_read(user, uid)) if read_until > -math.inf else ()
    ((name, removed), has_unread, posts, hidden, *first), times = await asyncio.gather(
        redis.pipeline(
            [
                is_there(user, uid),
                ("EXISTS", keys.unread(user, uid)),
                *(("ZCARD", key) for key in sets),
                *(("ZRANGE", key, 0, 0, "WITHSCORES") for key in sets),
            ]
        ),
        times_alone(redis, expiring),
    )
    if name is None or removed is not None:
        return None
    shown, muted = (float(one[1]) if one else math.inf for one in first)
    posts_read, hidden_read = [sum(at <= read_until for at in some) for some in times] or (0, 0)
    oldest_read = min((at for some in times for at in some), default=math.inf)
    return Stock(posts, hidden, posts_read, hidden_read, oldest_read, shown if has_unread else math.inf, muted)


async def expire_read(redis: Redis, user: str, uid: str, read_until: float, now: float) -> int:
    """Remove items that were read at `read_until` or before; returns their number. Works in batches."""
    times = await reading_times(redis, [keys.read(user, uid), keys.hidden_read(user, uid)])
    due = distinct(item for some in times for item, at in some.items() if at <= read_until)
    count = 0
    with suppress(NotFound):
        for ids in batches(due, ID_BATCH):
            gone, _ = await _leave(redis, user, uid, Leaving(Reason.READ_EXPIRED), "read", (read_until, *ids), now)
            count += len(gone)
    return count


async def trim(redis: Redis, user: str, uid: str, limit: int, now: float) -> int:
    """Remove the oldest items beyond `limit`, shown and hidden ones separately, in batches; returns their number."""
    count, left = 0, ID_BATCH
    with suppress(NotFound):
        while left == ID_BATCH:
            gone, _ = await _leave(redis, user, uid, Leaving(Reason.EVICTED), "over", (limit, ID_BATCH), now)
            left = len(gone)
            count += left
    return count


async def old_unread(
    redis: Redis, user: str, uid: str, published_until: float, skip: int, hidden: bool
) -> tuple[list[tuple[str, float]], int]:
    """One batch of unread items published at `published_until` or before, oldest first.

    Returns their ids and times of publication, and how many items were examined to find them. The first `skip` are
    left out. With `hidden`, muted items. Read ones only count as examined.
    """
    key, key_of_read = (keys.hidden, keys.hidden_read) if hidden else (keys.posts, keys.read)
    found = await Scores(redis, key(user, uid)).between("-inf", str(published_until), BATCH, skip)
    size = len(found)
    if found:
        (times,) = await reading_times(redis, [key_of_read(user, uid)], [item for item, _ in found])
        found = [one for one in found if one[0] not in times]
    return found, size
