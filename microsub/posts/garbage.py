"""Deletion of items that no timeline refers to, but never of one that is just being added.

An item is condemned first, and deleted by a later sweep that still finds nobody who refers to it. A process that adds
an item to a timeline spares it before (`Items.timeline_items` does); the deletion asks for the mark in the same step.
The guid stays in the feed's map as a tombstone, for as long as the feed lists the post and more than a year beyond.

What has to go at once can't wait for those who are just taking it in. It is retired first, by which nobody begins to
take it in, then withdrawn from all timelines, then erased; and a process that has added an item checks whether it is
retired by then. One of the two sees the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from microsub.feeds.record import KEEP_UNFOLLOWED
from microsub.kit.urls import host_of
from microsub.posts import duplicates
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis, ScriptCall
from microsub.redis.replies import score_text
from microsub.redis.replies import text as text_of
from microsub.redis.scripts import load

TOMBSTONES = 400 * 86400.0
"""Seconds that a post which its feed doesn't list any more is known not to be new."""

_BATCH = 1000
_END, _BURY, _FORGET = load("item_end"), load("feed_bury"), load("feed_forget")
_FIELDS = ("feed", "guid", "twin", "link", "condemned", "updated")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item that nobody seems to refer to.

    `condemned` is the mark (a Unix time as text) or empty; `rank` its place among its feed's posts, the latest first
    and from 0, None where the feed doesn't know it.
    """

    id: str
    rank: int | None
    feed: str
    guid: str
    common: str
    link: str
    condemned: str
    updated: str


async def newest_id(redis: Redis) -> int:
    """The last id that was given out, 0 where nobody knows; items with greater ones are younger than this answer."""
    return int(await redis.command("GET", keys.item_ids()) or 0)


async def stored_ids(redis: Redis) -> AsyncIterator[list[int]]:
    """The ids of all items, in batches; one may come repeatedly."""
    prefix = len(keys.ITEM_PREFIX)
    async for names in redis.scan(_BATCH):
        ids = [name[prefix:] for name in names if name.startswith(keys.ITEM_PREFIX.encode())]
        # Another server's items may lie here too, under names in hexadecimal.
        if found := [int(text) for text in ids if text.isdigit()]:
            yield found


async def candidates(redis: Redis, ids: Sequence[str]) -> list[Candidate]:
    """What decides about these items; those that are gone are left out. Two round trips."""
    rows = await redis.pipeline([("HMGET", keys.item(item_id), *_FIELDS) for item_id in ids])
    texts = {
        item_id: [text_of(value) if value else "" for value in row]
        for item_id, row in zip(ids, rows, strict=True)
        if any(value is not None for value in row)
    }
    ranks = await redis.pipeline(
        [("ZREVRANK", keys.feed_items(feed), item_id) for item_id, (feed, *_) in texts.items()]
    )
    return [Candidate(item_id, rank, *row) for (item_id, row), rank in zip(texts.items(), ranks, strict=True)]


async def missing(redis: Redis, ids: Sequence[str]) -> list[str]:
    """Those of the ids that no item has."""
    there = await redis.pipeline([("EXISTS", keys.item(item_id)) for item_id in ids])
    return [item_id for item_id, exists in zip(ids, there, strict=True) if not exists]


async def condemn(redis: Redis, ids: Sequence[str], now: float) -> None:
    """Mark items for a later sweep; those that are marked already keep their time."""
    await redis.scripts([(_END, [keys.item(item_id)], ["condemn", score_text(now)]) for item_id in ids])


async def spare(redis: Redis, ids: Sequence[str]) -> None:
    """Take the mark away: these items are wanted."""
    await redis.pipeline([("HDEL", keys.item(item_id), "condemned") for item_id in ids])


async def delete(redis: Redis, doomed: Sequence[Candidate], now: float) -> int:
    """Delete condemned items that nobody has spared meanwhile, and leave tombstones; how many.

    Their duplicates still know of them: one that comes in later stays away where they have left. The feed forgets them
    first: a crash in between leaves items that no feed lists, and the next sweep finds those. One that is spared in
    this very moment goes back into its place.
    """
    await _bury(redis, doomed, now)
    gone = await redis.scripts([(_END, [keys.item(one.id)], ["delete", one.condemned or "-"]) for one in doomed])
    commands: list[Command] = [
        ("ZADD", keys.feed_items(one.feed), one.updated or "0", one.id)
        for one, is_gone in zip(doomed, gone, strict=True)
        if not is_gone and one.rank is not None
    ]
    if commands:
        await redis.pipeline(commands)
    return sum(gone)


async def retire(redis: Redis, doomed: Sequence[Candidate], now: float, *, wanted_too: bool) -> list[Candidate]:
    """The first half of deleting items at once: no timeline takes them in any more, their feeds don't list them, and
    their guids are known not to be new. Those for which that holds now; without `wanted_too` condemned items that
    somebody has spared meanwhile stay.

    A process that read an item before and adds it after must check again (`Adder.add` and delivery do): it has
    no score.
    """
    marks = [""] * len(doomed) if wanted_too else [one.condemned for one in doomed]
    calls = [(_END, [keys.item(one.id)], ["retire", mark]) for one, mark in zip(doomed, marks, strict=True)]
    replies = await redis.scripts(calls)
    retired = [one for one, is_retired in zip(doomed, replies, strict=True) if is_retired]
    await _bury(redis, retired, now)
    return retired


async def erase(redis: Redis, retired: Sequence[Candidate]) -> None:
    """The second half, for when they have left all timelines. Both are idempotent."""
    for one in retired:
        await redis.pipeline([("DEL", keys.item(one.id)), *(await _duplicate_left(redis, one))])


async def _duplicate_left(redis: Redis, one: Candidate) -> list[Command]:
    if not one.common:
        return []
    feed_url = text_of(await redis.command("HGET", keys.feed(one.feed), "url") or b"")
    member = duplicates.PostOfFeed(one.id, one.feed, host_of(feed_url), host_of(one.link)).member()
    return [("SREM", keys.duplicates(one.common), member)]


async def _bury(redis: Redis, doomed: Sequence[Candidate], now: float) -> None:
    by_feed: dict[str, list[Arg]] = {}
    for one in doomed:
        if one.feed:
            by_feed.setdefault(one.feed, []).extend((one.id, one.guid))
    functions = (keys.feed, keys.feed_guids, keys.feed_items, keys.feed_tombstones, keys.feed_outbox)
    await redis.scripts(
        [
            (_BURY, [key(feed) for key in functions], [score_text(now), KEEP_UNFOLLOWED, *args])
            for feed, args in by_feed.items()
        ]
    )


async def listed_again(redis: Redis, feed_id: str, tombstones: Mapping[str, str], now: float) -> None:
    """The feed still lists these posts (guid → former item), whose items are gone."""
    if tombstones:
        marks = [part for guid in tombstones for part in (score_text(now), guid)]
        await redis.command("ZADD", keys.feed_tombstones(feed_id), "GT", *marks)


async def forget_tombstones(redis: Redis, feed_ids: Sequence[str], now: float) -> int:
    """Forget deleted posts that their feeds hadn't listed for a year when they were last read;
    how many. A feed that doesn't change, or can't be had, for so long says nothing about its posts.
    """
    read = await redis.pipeline([("HGET", keys.feed(feed_id), "last_read") for feed_id in feed_ids])
    calls: list[ScriptCall] = [
        (
            _FORGET,
            [keys.feed_guids(feed_id), keys.feed_tombstones(feed_id)],
            [score_text(min(float(last), now) - TOMBSTONES), _BATCH],
        )
        for feed_id, last in zip(feed_ids, read, strict=True)
        if last
    ]
    return sum(await redis.scripts(calls))
