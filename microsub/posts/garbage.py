"""Deletion of items that no timeline refers to, without deleting one that is just being added.

An item is condemned first, and deleted by a later sweep if still nothing refers to it. A process that adds an item to
a timeline spares it first (`Items.timeline_items` does); the deletion checks the mark in the same step. The guid
remains in the feed's map as a tombstone, for as long as the feed lists the post and more than a year beyond.

Deletion at once can't wait for processes that are just adding the item. The item is retired first, so that no process
begins to add it, then removed from all timelines, then erased. A process that has added an item then checks whether it
is retired: one of the two sees the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from microsub.base.urls import host_of
from microsub.feeds import KEEP_UNFOLLOWED
from microsub.posts import duplicates
from microsub.posts.values import FORMER_GUID
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import score_text
from microsub.redis.replies import text as text_of
from microsub.redis.scripts import load

TOMBSTONES = 400 * 86400.0
"""Seconds for which a deleted post is remembered after its feed has stopped listing it."""

_BATCH = 1000
_END, _BURY, _FORGET = load("item_end"), load("feed_bury"), load("feed_forget")
_FIELDS = ("feed", "guid", "twin", "link", "condemned", "updated", FORMER_GUID)


class Candidate(NamedTuple):
    """An item that apparently nothing refers to.

    `condemned` is the mark (a Unix time as text) or empty; `rank` its place among its feed's posts, counted from the
    latest at 0, None if it isn't among them.
    """

    id: str
    rank: int | None
    feed: str
    guid: str
    common: str
    link: str
    condemned: str
    updated: str
    former_guid: str = ""


async def newest_id(redis: Redis) -> int:
    """The last id that was assigned, 0 if unknown; items with greater ids are newer than this answer."""
    return int(await redis.command("GET", keys.item_ids()) or 0)


async def stored_ids(redis: Redis) -> AsyncIterator[list[int]]:
    """The ids of all items, in batches, possibly with repetitions."""
    prefix = len(keys.ITEM_PREFIX)
    async for names in redis.scan(_BATCH):
        ids = [name[prefix:] for name in names if name.startswith(keys.ITEM_PREFIX.encode())]
        # Another server's items may be here too, under names in hexadecimal.
        if found := [int(text) for text in ids if text.isdigit()]:
            yield found


async def candidates(redis: Redis, ids: Sequence[str]) -> list[Candidate]:
    """The facts that decide about these items; missing items are left out. Two round trips."""
    rows = await duplicates.fields_of(redis, ids, _FIELDS)
    texts = {
        item_id: [text_of(value) if value else "" for value in row]
        for item_id, row in zip(ids, rows, strict=True)
        if any(value is not None for value in row)
    }
    ranks = await redis.pipeline(
        [("ZREVRANK", keys.feed_items(feed), item_id) for item_id, (feed, *_) in texts.items()]
    )
    return [Candidate(item_id, rank, *row) for (item_id, row), rank in zip(texts.items(), ranks, strict=True)]


async def without_item(redis: Redis, ids: Sequence[str]) -> list[str]:
    """The given ids that have no item."""
    there = await redis.pipeline([("EXISTS", keys.item(item_id)) for item_id in ids])
    return [item_id for item_id, exists in zip(ids, there, strict=True) if not exists]


async def condemn(redis: Redis, ids: Sequence[str], now: float) -> None:
    """Mark items for a later sweep; marked ones keep their time."""
    await redis.scripts([_END(item_id, how="condemn", mark=score_text(now)) for item_id in ids])


async def spare(redis: Redis, ids: Sequence[str]) -> None:
    """Remove the mark: these items are needed."""
    await redis.pipeline([("HDEL", keys.item(item_id), "condemned") for item_id in ids])


async def delete(redis: Redis, doomed: Sequence[Candidate], now: float) -> int:
    """Delete condemned items that weren't spared meanwhile, and leave tombstones; returns their number.

    Their duplicates still know them: one that is added later stays out of timelines that they have left. They leave the
    feed's order first: a crash in between leaves items that no feed lists, and the next sweep finds those. An item that
    is spared at that moment gets its place back.
    """
    await _bury(redis, doomed, now)
    gone = await redis.scripts([_END(one.id, how="delete", mark=one.condemned or "-") for one in doomed])
    commands: list[Command] = [
        ("ZADD", keys.feed_items(one.feed), one.updated or "0", one.id)
        for one, is_gone in zip(doomed, gone, strict=True)
        if not is_gone and one.rank is not None
    ]
    if commands:
        await redis.pipeline(commands)
    return sum(gone)


async def retire(redis: Redis, doomed: Sequence[Candidate], now: float, *, wanted_too: bool) -> list[Candidate]:
    """The first half of deleting items at once: no timeline adds them any more, their feeds don't list them, and their
    guids become tombstones. Returns the retired ones; without `wanted_too`, condemned items that were spared meanwhile
    are left alone.

    A process that read an item before and adds it afterwards must check again, as `Adder.add` and delivery do: a
    retired item has no score.
    """
    marks = [""] * len(doomed) if wanted_too else [one.condemned for one in doomed]
    calls = [_END(one.id, how="retire", mark=mark) for one, mark in zip(doomed, marks, strict=True)]
    replies = await redis.scripts(calls)
    retired = [one for one, is_retired in zip(doomed, replies, strict=True) if is_retired]
    await _bury(redis, retired, now)
    return retired


async def erase(redis: Redis, retired: Sequence[Candidate]) -> None:
    """The second half, to be called when they have left all timelines. Both are idempotent."""
    for one in retired:
        await redis.pipeline([("DEL", keys.item(one.id)), *(await _duplicate_left(redis, one))])


async def _duplicate_left(redis: Redis, one: Candidate) -> list[Command]:
    if not one.common:
        return []
    feed_url = text_of(await redis.command("HGET", keys.feed(one.feed), "url") or b"")
    post = duplicates.PostOfFeed(one.id, one.feed, host_of(feed_url), host_of(one.link))
    return duplicates.unregister(redis, one.common, post)


async def _bury(redis: Redis, doomed: Sequence[Candidate], now: float) -> None:
    by_feed: dict[str, list[Arg]] = {}
    for one in doomed:
        if one.feed:
            args = by_feed.setdefault(one.feed, [])
            args += (one.id, one.guid)
            if one.former_guid:
                args += (one.id, one.former_guid)
    await redis.scripts(
        [_BURY(feed, now=score_text(now), life=KEEP_UNFOLLOWED, doomed=args) for feed, args in by_feed.items()]
    )


async def listed_again(redis: Redis, feed_id: str, tombstones: Mapping[str, str], now: float) -> None:
    """Note that the feed still lists these deleted posts (guid → former item)."""
    if tombstones:
        marks = [part for guid in tombstones for part in (score_text(now), guid)]
        await redis.command("ZADD", keys.feed_tombstones(feed_id), "GT", *marks)


async def forget_tombstones(redis: Redis, feed_ids: Sequence[str], now: float) -> int:
    """Forget deleted posts that their feeds hadn't listed for a year when they were last read; returns their number.

    A feed that doesn't change, or can't be fetched, for so long gives no information about its posts.
    """
    read = await redis.pipeline([("HGET", keys.feed(feed_id), "last_read") for feed_id in feed_ids])
    calls = [
        _FORGET(feed_id, before=score_text(min(float(last), now) - TOMBSTONES), most=_BATCH)
        for feed_id, last in zip(feed_ids, read, strict=True)
        if last
    ]
    return sum(await redis.scripts(calls))
