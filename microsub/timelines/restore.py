"""Items coming back into a timeline: saved, restored, repaired; and a lost timeline. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum

from microsub.accounts import absent
from microsub.base.errors import NotFound, QuotaReached
from microsub.model.reader import SAVED, Reason, TimelineItem
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.readings import reading_times
from microsub.redis.scan import members_at
from microsub.redis.scripts import batches, load
from microsub.timelines.channels.follows import unread_ids
from microsub.timelines.gone import Absence
from microsub.timelines.pages import states
from microsub.timelines.remove import SAVED_POSTS, Leaving, take_back, take_out
from microsub.timelines.rules import settle
from microsub.timelines.timelinekeys import set_keys, split, timeline_keys, url_lines


async def save_items(redis: Redis, items: Items, user: str, ids: Sequence[str], now: float, most: int) -> int:
    """Put stored posts into `saved`, all or none; returns the number newly saved.

    Unknown and saved ones are ignored. Raises NotFound, and QuotaReached if `saved` would show more than `most` (0: any
    number).
    """
    rows = [part for item in await items.timeline_items(ids) for part in (item.id, item.score)]
    reply = await redis.script(load("timeline_save")(user, sets=set_keys(user, SAVED), now=now, most=most, items=rows))
    if isinstance(reply, int):
        raise await absent(redis, user)
    if len(reply) > 1:
        raise QuotaReached(SAVED_POSTS, reply[1], most)
    came = split(reply[0])
    return len(came) - len(await take_back(redis, items, user, SAVED, came, now))


async def restore_items(
    redis: Redis,
    items: Items,
    user: str,
    uid: str,
    back: Sequence[tuple[TimelineItem, float | None]],
    out: Sequence[Absence],
    now: float,
    *,
    moved: bool = False,
) -> int:
    """Put items, oldest first, back into a channel, and keep others out; returns the number of items added.

    Each item comes with the time when it was read, None for unread. If their move is taken back (`moved`), items
    that moved elsewhere return, and those that the channel has become unread if they were.

    Mutes and blocks apply, filters and limits don't. Repeating it changes nothing. Raises NotFound.
    """
    rows: list[Arg] = []
    for item, read_at in reversed(back):
        rows += [item.id, item.score, "" if read_at is None else read_at, url_lines(item)]
    for absence in out:
        rows += [absence.id, int(absence.reason)]
    where = {"timeline": timeline_keys(user, uid), "uid": uid, "moved": "back" if moved else ""}
    count = await redis.script(load("timeline_restore")(user, uid, **where, now=now, back=len(back), items=rows))
    if count < 0:
        raise await absent(redis, user, uid)
    dead = await take_back(redis, items, user, uid, [item.id for item, _ in back], now)
    return int(count) - len(dead)


States = Mapping[str, Mapping[str, float | None]]
"""By channel, when each of its items was read, None for unread ones."""


async def states_of(
    redis: Redis, items: Items, user: str, uids: Iterable[str], feeds: Sequence[str]
) -> dict[str, dict[str, dict[str, float | None]]]:
    """The states of the items of each of these feeds, muted ones included, in these channels."""
    found: dict[str, dict[str, dict[str, float | None]]] = {feed: {} for feed in feeds}
    for uid in uids:
        there = {item: at async for batch in states(redis, user, uid) for item, at in batch}
        mine = await items.by_feed(there.keys(), feeds, at_any_cost=True)
        for feed in feeds:
            found[feed][uid] = {item: there[item] for item in mine.get(feed, ())}
    return found


async def bring_back(redis: Redis, items: Items, user: str, former: States, present: States, now: float) -> None:
    """Give items that moved from several channels into one back to each of them.

    `present` are the states before anything of this move was taken back: an item that was read meanwhile is read
    everywhere, one that no channel had any more stays away.
    """
    meanwhile: dict[str, list[float | None]] = {}
    for uid, some in present.items():
        before = former.get(uid, {})
        for item, at in some.items():
            meanwhile.setdefault(item, []).append(None if before.get(item) == at else at)
    latest = {item: max((at for at in times if at), default=None) for item, times in meanwhile.items()}
    moved = {item for some in former.values() for item in some}
    first, *_ = former
    for uid in [uid for uid in former if uid != first] + [first]:  # the first one has them all until then
        wanted = {item: at if at is not None else latest[item] for item, at in former[uid].items() if item in latest}
        for ids in batches(sorted(wanted, key=int)):
            known = sorted(await items.timeline_items(ids), key=lambda item: float(item.score))
            await restore_items(redis, items, user, uid, [(one, wanted[one.id]) for one in known], (), now, moved=True)
    with suppress(NotFound):
        strange = sorted(moved - former[first].keys())
        await take_out(redis, user, first, strange, Leaving(Reason.MOVED), now)


async def put_unread(redis: Redis, items: Items, user: str, uid: str, ids: Sequence[str], now: float) -> int:
    """Put stored posts, which the user may see, unread into a channel; returns the number of items added.

    Raises NotFound.
    """
    known = await items.timeline_items(ids)
    oldest_first = sorted(known, key=lambda item: float(item.score))
    return await restore_items(redis, items, user, uid, [(item, None) for item in oldest_first], (), now)


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
        there = await members_at(redis, [keys.posts(user, uid), keys.hidden(user, uid)], batch)
        lost = await items.timeline_items([one for one in batch if one not in there])
        if lost:
            await settle(redis, user, uid, lost, now, lost=True)


# --- a lost timeline: `unread` and `read` outlive `posts`, and show what was in it ------------------------------------


class Left(Enum):
    """The remains of a timeline that may have been lost.

    BLANK: nothing. UNREAD: only the unread items, so all others were read or never added.
    """

    ENOUGH = 0
    BLANK = 1
    UNREAD = 2


async def left_of(redis: Redis, user: str, uid: str) -> Left:
    """The remains of a timeline."""
    sets = (keys.unread, keys.posts, keys.read, keys.hidden)
    unread, *others = await redis.pipeline([("EXISTS", key(user, uid)) for key in sets])
    return Left.ENOUGH if any(others) else Left.UNREAD if unread else Left.BLANK
