"""Whole timelines: reading them for an export, putting them back, and repairing damaged ones.

Items are exported with their state, and ids that must not come back with the reason. All times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from microsub.accounts import absent
from microsub.model.reader import TimelineItem
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import text
from microsub.redis.scan import members
from microsub.redis.scripts import batches, load
from microsub.timelines.channels.follows import every_channel, unread_ids
from microsub.timelines.gone import Absence
from microsub.timelines.readings import reading_times
from microsub.timelines.remove import take_back
from microsub.timelines.rules import settle
from microsub.timelines.timelinekeys import timeline_keys, url_lines

BATCH = 500


async def states(redis: Redis, user: str, uid: str) -> AsyncIterator[list[tuple[str, float | None]]]:
    """All items of a channel in batches, the oldest first, then the muted ones; each once, with the time of reading."""
    for key, read in (
        (keys.posts(user, uid), keys.read(user, uid)),
        (keys.hidden(user, uid), keys.hidden_read(user, uid)),
    ):
        (times,) = await reading_times(redis, [read])
        async for batch in _ascending(redis, key):
            yield [(item, times.get(item)) for item, _ in batch]


async def references(redis: Redis, user: str) -> AsyncIterator[list[str]]:
    """Ids that the user's channels, removed ones included, show or hide; in batches, possibly with repetitions."""
    for uid in await every_channel(redis, user):
        for key in (keys.posts(user, uid), keys.hidden(user, uid)):
            async for ids in members(redis, key):
                yield ids


async def restore_items(
    redis: Redis,
    items: Items,
    user: str,
    uid: str,
    back: Sequence[tuple[TimelineItem, float | None]],
    out: Sequence[Absence],
    now: float,
) -> int:
    """Put items, oldest first, back into a channel, and keep others out; returns the number of items added.

    Each item comes with the time when it was read, None for unread.
    Mutes and blocks apply, filters and limits don't. Repeating it changes nothing. Raises NotFound.
    """
    rows: list[Arg] = []
    for item, read_at in reversed(back):
        rows += [item.id, item.score, "" if read_at is None else read_at, url_lines(item)]
    for absence in out:
        rows += [absence.id, int(absence.reason)]
    where = {"timeline": timeline_keys(user, uid), "uid": uid}
    count = await redis.script(load("timeline_restore")(user, uid, **where, now=now, back=len(back), items=rows))
    if count < 0:
        raise await absent(redis, user, uid)
    dead = await take_back(redis, items, user, uid, [item.id for item, _ in back], now)
    return int(count) - len(dead)


async def put_unread(redis: Redis, items: Items, user: str, uid: str, ids: Sequence[str], now: float) -> int:
    """Put stored posts, which the user may see, unread into a channel; returns the number of items added.

    Raises NotFound.
    """
    known = await items.timeline_items(ids)
    oldest_first = sorted(known, key=lambda item: float(item.score))
    return await restore_items(redis, items, user, uid, [(item, None) for item in oldest_first], (), now)


async def _ascending(redis: Redis, key: str) -> AsyncIterator[list[tuple[str, str]]]:
    """A sorted set in ascending order, each member once, even if it changes meanwhile."""
    lowest, seen = "-inf", set[str]()
    while True:
        found = await redis.command(
            "ZRANGE", key, lowest, "+inf", "BYSCORE", "LIMIT", 0, BATCH + len(seen), "WITHSCORES"
        )
        pairs = [(text(item), text(score)) for item, score in zip(found[0::2], found[1::2], strict=True)]
        batch = [pair for pair in pairs if pair[0] not in seen]
        if not batch:
            return
        yield batch
        last = batch[-1][1]
        seen = {item for item, score in pairs if score == last}
        lowest = last


async def repair_items(redis: Redis, user: str, uid: str, ids: Sequence[str], now: float) -> None:
    """Restore the invariants of the channel for these ids; those that aren't damaged stay as they are."""
    for some in batches(ids):
        await redis.script(load("timeline_repair")(user, uid, uid=uid, now=int(now), ids=some))


async def restore_lost(redis: Redis, items: Items, user: str, uid: str, now: float) -> None:
    """Show items again that are read or unread but neither shown nor hidden. Rules apply."""
    (unread,) = await unread_ids(redis, [(user, uid)])
    await _restore(redis, items, user, uid, unread, now)
    (times,) = await reading_times(redis, [keys.read(user, uid)])
    await _restore(redis, items, user, uid, [*times], now)


async def _restore(redis: Redis, items: Items, user: str, uid: str, ids: Sequence[str], now: float) -> None:
    for batch in batches(ids):
        shown, hidden = await redis.pipeline(
            [("ZMSCORE", keys.posts(user, uid), *batch), ("ZMSCORE", keys.hidden(user, uid), *batch)]
        )
        stands = zip(batch, shown, hidden, strict=True)
        lost = await items.timeline_items([one for one, *scores in stands if scores == [None, None]])
        if lost:
            await settle(redis, user, uid, lost, now, lost=True)
