"""The sets of every channel: sound among each other, of items that exist, at their places, as the rules want them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from microsub.model.reader import GLOBAL, TimelineItem
from microsub.store import keys
from microsub.store.check.contents import marks
from microsub.store.check.findings import Call, ChannelSets, Commands, Findings, Remedy, Settle, TakeOut
from microsub.store.check.places import SHOWN
from microsub.store.check.seen import Reader, Seen, batched, pairs
from microsub.store.ids import is_id
from microsub.store.invariants import UNSHOWN, judge, scores
from microsub.store.items import Items
from microsub.store.timelinekeys import rule_keys, set_keys, urls

AREA = "timelines"
_AT_ONCE = 20
_ITEMS_AT_ONCE = 500
_RULED = frozenset({"muted", "blocked", "hidden"})

Sets = Sequence[Mapping[str, float]]


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """All channels of all users, removed ones included."""
    places = [(user, uid) for user, uids in seen.channels.items() for uid in uids]
    for batch in batched(places, _AT_ONCE):
        names = {place: set_keys(*place) for place in batch}
        flat = await reader.walk("ZSCAN", [key for listed in names.values() for key in listed])
        for (user, uid), listed in names.items():
            for key in listed:
                marks(found, key, flat[key])
            sets = [scores(flat[key]) for key in listed]
            _sound(seen, found, user, uid, sets)
            shown = _existing(seen, found, user, uid, sets)
            if _may_rule(seen, user, uid):
                await _obeyed(reader, found, user, uid, sets, shown)


def _sound(seen: Seen, found: Findings, user: str, uid: str, sets: Sets) -> None:
    found.examined["timeline entries"] += len(sets[0]) + len(sets[3])
    _, _, _, hidden, _, gone = sets
    for what, ids in judge(sets).items():
        for item in sorted(ids):
            remedy: Remedy = ChannelSets(user, uid, item)
            if what in UNSHOWN and item not in hidden and item not in gone and is_id(item):
                place = seen.places.score(item)
                if place is not None:
                    # Its place was lost, and what is left says whether it was read.
                    remedy = Call("timeline_restore", set_keys(user, uid), (item, repr(place)))
            found.add(AREA, _subject(user, uid, item), what, remedy)


def _existing(seen: Seen, found: Findings, user: str, uid: str, sets: Sets) -> list[str]:
    """Find ids without an item and items at another place than their own; the ids of the others."""
    posts, _, _, hidden, _, _ = sets
    good = []
    for item in sorted({item for part in sets for item in part}):
        if not is_id(item):
            remedy = Commands(tuple(("ZREM", key, item) for key in set_keys(user, uid)))
            found.add(AREA, _subject(user, uid, item), "no id of an item", remedy)
            continue
        seen.counters.items.mention(item)
        at = posts.get(item, hidden.get(item))
        if at is None or int(item) > seen.begun_at_item:
            continue
        place = seen.places.score(item)
        if place is None:
            found.add(AREA, _subject(user, uid, item), "an id without an item", TakeOut(user, uid, item))
            continue
        seen.places.mark(item, SHOWN)
        good.append(item)
        if place != at:
            remedy2 = Call("timeline_place", set_keys(user, uid), (item, repr(place)))
            found.add(AREA, _subject(user, uid, item), "at another place than its item's", remedy2)
    return good


def _may_rule(seen: Seen, user: str, uid: str) -> bool:
    """Whether a rule may hold for the channel, or have held, and its keys can be read."""
    kinds = seen.channel_keys.get(user, {})
    ruled = bool(_RULED & (kinds.get(uid, set()) | kinds.get(GLOBAL, set())))
    return ruled and not seen.wrong.intersection(rule_keys(user, uid)) and not _unreadable_feeds(seen)


def _unreadable_feeds(seen: Seen) -> bool:
    return any(key.startswith(keys.feed("")[:-1]) or key.startswith(keys.ITEM_PREFIX) for key in seen.wrong)


async def _obeyed(reader: Reader, found: Findings, user: str, uid: str, sets: Sets, shown: Sequence[str]) -> None:
    """A crash between writing a rule and moving what it touches leaves items where they were."""
    posts, _, _, hidden, _, _ = sets
    rules = await reader.ask([("HGETALL", key) for key in rule_keys(user, uid)])
    muted, muted_everywhere, blocked, blocked_everywhere = (pairs(flat).keys() for flat in rules)
    mutes, blocks = muted | muted_everywhere, blocked | blocked_everywhere
    items = Items(reader.redis)
    for batch in batched(shown, _ITEMS_AT_ONCE):
        for item in await items.timeline_items(batch):
            what = _disobeyed(item, item.id in posts, item.id in hidden, mutes, blocks)
            if what:
                found.add(AREA, _subject(user, uid, item.id), what, Settle(user, uid, item))


def _disobeyed(item: TimelineItem, is_shown: bool, is_hidden: bool, mutes: set[str], blocks: set[str]) -> str | None:
    """Which rule an item's place breaks."""
    if blocks.intersection(urls(item)):
        return "here, though blocked"
    if mutes.intersection(urls(item)):
        return "shown, though muted" if is_shown else None
    return "hidden, though nobody mutes it" if is_hidden and not is_shown else None


def _subject(user: str, uid: str, item: str) -> str:
    return f"{user}/{uid} {item}"
