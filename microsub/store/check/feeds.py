"""Feeds: their records and addresses, followers, guid maps, indexes, and the items that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from microsub.formats.identity import canonical_feed_url, host_of
from microsub.model.moments import number
from microsub.model.reader import NAME
from microsub.store import keys
from microsub.store.check.contents import NOTHING
from microsub.store.check.findings import Call, Commands, Findings, Follow, Remedy
from microsub.store.check.places import CLAIMED, INDEXED, SHOWN
from microsub.store.check.seen import FeedFacts, Reader, Seen, batched, pairs
from microsub.store.feeds import COUNTS, KEEP_UNFOLLOWED, TIMES, number_of
from microsub.store.ids import is_id
from microsub.store.keynames import kinds
from microsub.store.port import Command
from microsub.store.twins import Copy

AREA = "feeds"
_AT_ONCE = 100

LEFT_TO_THE_SWEEP = 86400.0
"""Seconds for which an item that nobody is shown may lack its guid: the sweep deletes it within hours."""


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """Addresses, records and followers."""
    async for flat in reader.stream("HSCAN", keys.feeds_by_url()):
        for url, entry in pairs(flat).items():
            # Behind the id may stand a time: the feed was found gone.
            feed, _, condemned = entry.partition(" ")
            if is_id(feed) and (not condemned or number(condemned) is not None):
                seen.urls[url] = feed
            else:
                remedy = Commands((("HDEL", keys.feeds_by_url(), url),))
                found.add(AREA, f"{keys.feeds_by_url()} {url}", "leads to no feed", remedy)
    by_feed: dict[str, str] = {}
    for url, feed in seen.urls.items():
        by_feed.setdefault(feed, url)
    for batch in batched(sorted(seen.feed_keys.keys() | seen.followed.keys()), _AT_ONCE):
        records = await reader.ask([("HGETALL", keys.feed(feed)) for feed in batch])
        followers = await reader.walk("SSCAN", [keys.feed_subscribers(feed) for feed in batch])
        found.examined["feeds"] += len(batch)
        for feed, flat in zip(batch, records, strict=True):
            if flat is not None:
                _record(seen, found, feed, pairs(flat), by_feed)
            if keys.feed_subscribers(feed) not in seen.wrong:
                _followers(seen, found, feed, followers[keys.feed_subscribers(feed)])
            _lifetimes(seen, found, feed, bool(followers[keys.feed_subscribers(feed)]))


def _record(seen: Seen, found: Findings, feed: str, record: Mapping[str, str], by_feed: Mapping[str, str]) -> None:
    key = keys.feed(feed)
    followed = feed in seen.followed
    if not record:
        if followed:
            found.add(AREA, key, "followed, but without a record", _again(seen, feed, by_feed))
        return
    if not host_of(record.get("url", "")):
        found.add(AREA, key, "without a URL", _again(seen, feed, by_feed))
        return
    broken = sorted(name for name in (TIMES | COUNTS) & record.keys() if number_of(name, record[name]) is None)
    if broken:
        found.add(AREA, key, f"not a number: {', '.join(broken)}", Commands((("HDEL", key, *broken),)))
    url = record["url"]
    owner = seen.urls.get(canonical_feed_url(url))
    if owner is None and (followed or seen.feed_keys[feed].get("feed", 0) == -1):
        remedy = Commands((("HSETNX", keys.feeds_by_url(), canonical_feed_url(url), feed),))
        found.add(AREA, key, "a feed that no URL leads to", remedy)
    elif owner != feed and followed and feed not in by_feed:
        found.add(AREA, key, f"followed, though its URL leads to feed {owner}: follow it anew")
    seen.records[feed] = FeedFacts(
        url,
        record.get("gone") == "1",
        number_of("created", record.get("created", "")) or 0.0,
        number_of("next_poll", record.get("next_poll", "")),
        kept="kept" in record,
    )


def _again(seen: Seen, feed: str, by_feed: Mapping[str, str]) -> Remedy | None:
    """Write a record anew, from the URL that led to it or that it was followed by."""
    url = by_feed.get(feed) or seen.wanted.get(feed)
    if url is None:
        return None
    followed = feed in seen.followed
    commands: list[Command] = [
        ("HSET", keys.feed(feed), "url", url),
        ("HSETNX", keys.feed(feed), "created", f"{seen.now:.6f}"),
    ]
    if followed:
        commands.append(("HSETNX", keys.feeds_by_url(), url, feed))
    else:
        commands.append(("EXPIRE", keys.feed(feed), KEEP_UNFOLLOWED))
    return Commands(tuple(commands))


def _followers(seen: Seen, found: Findings, feed: str, members: Sequence[bytes]) -> None:
    """Hold the feed's own list against the channels', which are the truth."""
    listed: set[tuple[str, str]] = set()
    key = keys.feed_subscribers(feed)
    for member in members:
        user, slash, uid = member.decode("utf-8", "replace").partition("/")
        if slash and NAME.match(user) and NAME.match(uid):
            listed.add((user, uid))
        else:
            remedy = Commands((("SREM", key, member),))
            found.add(AREA, f"{key} {user}", "no channel", remedy)
    found.examined["followers"] += len(listed)
    wanted = seen.followed.get(feed, {})
    for user, uid in sorted(wanted.keys() - listed):
        if (feed, user, uid) not in seen.fresh:
            found.add(AREA, f"{key} {user}/{uid}", "follows it, but isn't among its followers", Follow())
    for user, uid in sorted(listed - wanted.keys()):
        found.add(AREA, f"{key} {user}/{uid}", "among its followers, but doesn't follow it", Follow())


@cache
def _lasting() -> frozenset[str]:
    """The kinds of keys that live as long as their feed."""
    return frozenset(kind.name for kind in kinds() if kind.may_stay)


def _lifetimes(seen: Seen, found: Findings, feed: str, has_followers: bool) -> None:
    """A feed's keys end together, thirty days after its last follower, unless programs save posts into it."""
    kept = feed in seen.records and seen.records[feed].kept
    for kind, ttl in seen.feed_keys.get(feed, {}).items():
        key = getattr(keys, kind)(feed)
        if key in seen.wrong or kind not in _lasting():
            continue
        if ttl >= 0 and (kept or (has_followers and feed in seen.followed)):
            why = "kept" if kept else "followed"
            found.add(AREA, key, f"ends by itself, though the feed is {why}", Commands((("PERSIST", key),)))
        elif not kept and not has_followers and feed not in seen.followed and ttl == -1:
            remedy = Commands((("EXPIRE", key, KEEP_UNFOLLOWED),))
            found.add(AREA, key, "stays for ever, though nobody follows the feed", remedy)


async def examine_items(reader: Reader, seen: Seen, found: Findings) -> None:
    """Guid maps, indexes and pending sets against the items, after the channels have marked what they show."""
    for batch in batched(sorted(seen.feed_keys), _AT_ONCE):
        guids = await reader.walk("HSCAN", [keys.feed_guids(feed) for feed in batch])
        indexes = await reader.walk("ZSCAN", [keys.feed_items(feed) for feed in batch])
        pending = await reader.walk("SSCAN", [keys.feed_pending(feed) for feed in batch])
        for feed in batch:
            _guids(seen, found, feed, pairs(guids[keys.feed_guids(feed)]))
            _index(seen, found, feed, indexes[keys.feed_items(feed)][0::2])
            _pending(seen, found, feed, pending[keys.feed_pending(feed)])
    for batch in batched((item for item in seen.places if _stray(seen, item)), _AT_ONCE):
        await _strays(reader, seen, found, batch)


def _guids(seen: Seen, found: Findings, feed: str, claims: Mapping[str, str]) -> None:
    found.examined["guids"] += len(claims)
    key = keys.feed_guids(feed)
    for guid, item in claims.items():
        seen.counters.items.mention(item)
        if item != NOTHING and not is_id(item):
            remedy = Call("guid_bury", (key,), (guid, item))
            found.add(AREA, f"{key} {guid}", f"stands for '{item[:40]}', which is no item", remedy)
        elif item == NOTHING or seen.places.score(item) is None:
            continue  # a tombstone: the post is listed by its feed, and shall not come back
        elif seen.places.feed(item) != int(feed):
            remedy = Call("guid_bury", (key,), (guid, item))
            found.add(AREA, f"{key} {guid}", f"stands for item {item}, which is another feed's", remedy)
        else:
            seen.places.mark(item, CLAIMED)


def _index(seen: Seen, found: Findings, feed: str, members: Sequence[bytes]) -> None:
    key = keys.feed_items(feed)
    for member in members:
        item = member.decode("utf-8", "replace")
        if is_id(item) and int(item) > seen.begun_at_item:
            continue
        if not is_id(item) or seen.places.score(item) is None:
            found.add(AREA, f"{key} {item}", "lists an item that isn't there", Commands((("ZREM", key, item),)))
        elif seen.places.feed(item) != int(feed):
            found.add(AREA, f"{key} {item}", "lists another feed's item", Commands((("ZREM", key, item),)))
        else:
            seen.places.mark(item, INDEXED)


def _pending(seen: Seen, found: Findings, feed: str, members: Sequence[bytes]) -> None:
    key = keys.feed_pending(feed)
    for member in members:
        item = member.decode("utf-8", "replace")
        if not is_id(item) or (int(item) <= seen.begun_at_item and seen.places.score(item) is None):
            found.add(AREA, f"{key} {item}", "waits for an item that isn't there", Commands((("SREM", key, item),)))


def _stray(seen: Seen, item: str) -> bool:
    """Whether an item lacks its claim or its line in the index, of a feed that there is."""
    feed = str(seen.places.feed(item))
    if feed not in seen.records or {keys.feed_guids(feed), keys.feed_items(feed)} & seen.wrong:
        return False
    return not (seen.places.marked(item, CLAIMED) and seen.places.marked(item, INDEXED))


async def _strays(reader: Reader, seen: Seen, found: Findings, ids: Sequence[str]) -> None:
    fields = ("guid", "updated", "discovered", "twin", "link", "condemned")
    rows = await reader.ask([("HMGET", keys.item(item), *fields) for item in ids])
    # A sweep takes what it will delete out of the index first.
    known = [(item, row) for item, row in zip(ids, rows, strict=True) if row is not None and row[0] and not row[5]]
    owners = await reader.ask([("HGET", keys.feed_guids(str(seen.places.feed(item))), row[0]) for item, row in known])
    for (item, row), owner in zip(known, owners, strict=True):
        _stray_item(seen, found, item, row, owner)


def _stray_item(seen: Seen, found: Findings, item: str, row: Sequence[Any], claim: bytes | None) -> None:
    guid, updated, discovered, twin, link = (value.decode("utf-8", "replace") if value else "" for value in row[:5])
    feed = str(seen.places.feed(item))
    key = keys.item(item)
    owner = claim.decode() if claim is not None and is_id(claim.decode("utf-8", "replace")) else None
    if (number(discovered) or 0.0) < seen.records[feed].created:
        return  # the feed's keys had ended with its last follower; this item has been kept by a timeline
    if seen.now - (number(discovered) or 0.0) < LEFT_TO_THE_SWEEP and not seen.places.marked(item, SHOWN):
        return  # a worker died between writing it and claiming its guid
    script_keys = (keys.feed(feed), keys.feed_guids(feed), keys.feed_items(feed))
    if owner is None or owner == item:
        what = "without its guid's claim" if owner is None else "missing in its feed's index"
        args = (guid, item, str(number(updated) or seen.places.score(item)), claim or "")
        found.add("items", key, what, Call("item_reclaim", script_keys, args))
    elif not seen.places.marked(item, SHOWN):
        commands: list[Command] = [("DEL", key)]
        if twin:
            url = seen.records[feed].url
            commands.append(("SREM", keys.twins(twin), Copy(item, feed, host_of(url), host_of(link)).member()))
        what = f"its guid belongs to item {owner}, and nobody is shown it"
        found.add("items", key, what, Commands(tuple(commands)))
    elif not seen.places.marked(owner, SHOWN):
        taking = (guid, item, str(number(updated) or seen.places.score(item)), owner)
        found.add("items", key, f"its guid belongs to item {owner}, which nobody is shown",
                  Call("item_reclaim", script_keys, taking))  # fmt: skip
    else:
        found.add("items", key, f"the same post as item {owner}, and both are shown: remove one in a reader")
