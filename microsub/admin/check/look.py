"""One look: read everything once, part by part, and apply the invariants to it."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from typing import Any

from microsub.admin.check import invariants
from microsub.admin.check.findings import Finding
from microsub.admin.check.keynames import kind_of
from microsub.admin.check.seen import CLAIMED, INDEXED, SHOWN, Seen, batched, pairs, scores
from microsub.feeds import Feeds, Schedule, all_addresses, as_places
from microsub.model.reader import GLOBAL
from microsub.posts import COPY, Items
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.redis.replies import filled, text
from microsub.redis.scan import scanned, walked
from microsub.redis.structures import Hash, Request, Scores, Value, existing, rows, together
from microsub.timelines import ids_in, read_subscription, rule_keys, unread_ids

_AT_ONCE = 100
_ITEMS_AT_ONCE = 500
_UNCLAIMED = ("guid", "updated", "discovered", "score", "condemned")  # a sweep takes condemned items out of the index
_RULED = frozenset({"muted", "blocked", "hidden"})

_SETTLING = 300.0
"""Seconds after a follow during which the feed's own list may lack it: the timeline is filled first."""


async def look(redis: Redis, now: float) -> tuple[list[Finding], Mapping[str, int]]:
    """Examine everything once: the findings, and how much was examined. `now` is Unix time in seconds."""
    seen = Seen(now)
    counters = (keys.item_ids(), keys.feed_ids())
    first = [int(number or 0) for number in await together(*(Value(redis, key).get() for key in counters))]
    seen.last_item = first[0]
    newest = await _keys(redis, seen)
    await _users(redis, seen)
    await _feeds(redis, seen)
    await _channels(redis, seen)
    await _feed_items(redis, seen)
    await _outputs(redis, seen)
    await _media(redis, seen)
    last = [int(number or 0) for number in await together(*(Value(redis, key).get() for key in counters))]
    seen.found += invariants.copies_agree(seen)
    for key, before, after in zip(counters, first, last, strict=True):
        seen.found += invariants.counter_leads(key, before, after, newest[key])
    return seen.found, seen.examined


async def _keys(redis: Redis, seen: Seen) -> dict[str, int]:
    """Every key once; the newest ids by their counter's key."""
    newest = {keys.item_ids(): 0, keys.feed_ids(): 0}
    async for batch in redis.scan():
        names = [key.decode("utf-8", "replace") for key in sorted(set(batch))]  # another program's key may be any bytes
        lives = await together(*(Value(redis, name).left() for name in names))
        items = []
        for name, ttl in zip(names, lives, strict=True):
            match = kind_of(name)
            seen.examined["keys"] += 1
            if ttl == -2:  # it expired meanwhile
                continue
            seen.found += invariants.keys_are_named(name, match[0] if match else None, ttl)
            if match is None:
                seen.examined["keys of others"] += 1
                continue
            kind, values = match
            _note(seen, kind.name, values, ttl)
            if kind.name == "feed":
                newest[keys.feed_ids()] = max(newest[keys.feed_ids()], int(values["feed_id"]))
            elif kind.name == "item":
                items.append(values["item_id"])
        for several in batched(items, _ITEMS_AT_ONCE):
            ours = await _items(redis, seen, several)
            newest[keys.item_ids()] = max([newest[keys.item_ids()], *ours])
    return newest


def _note(seen: Seen, kind: str, values: Mapping[str, str], ttl: int) -> None:
    user = values.get("name")
    if "feed_id" in values:
        seen.feed_keys[values["feed_id"]][kind] = ttl
    elif user is not None and "feed" in values:
        if kind == "output":
            seen.output_feeds[user].add(values["feed"])
    elif user is not None and "token" in values:
        seen.media[user].add(values["token"])
    elif user is not None and "uid" in values:
        seen.channel_keys[user][values["uid"]].add(kind)
    elif user is not None:
        seen.user_keys[user].add(kind)


async def _items(redis: Redis, seen: Seen, ids: Sequence[str]) -> list[int]:
    """Note the items; returns their ids. Another server's items may be here too, without a score."""
    found_rows = await rows(redis, map(keys.item, ids), ("score", "feed", "guid", COPY))
    ours = []
    for item, (score, feed, guid, copy) in zip(ids, found_rows, strict=True):
        if score is None:
            seen.examined["items of others"] += 1
            continue
        seen.examined["items"] += 1
        ours.append(int(item))
        seen.items.note(item, int(feed) if feed and guid and not copy else 0)
    return ours


async def _users(redis: Redis, seen: Seen) -> None:
    """Users, their channels and their follows."""
    seen.listed = {name.decode() async for names in scanned(redis, "SSCAN", keys.users()) for name in names}
    seen.handle_index = pairs((await walked(redis, "HSCAN", [keys.handles()]))[keys.handles()])
    for batch in batched(sorted(seen.listed | seen.user_keys.keys()), _AT_ONCE):
        requests: list[Request[Any]] = []
        for user in batch:
            requests += [
                existing(redis, keys.user(user)),
                Hash(redis, keys.user(user)).has("disabled"),
                Scores(redis, keys.channels(user)).names(),
                Scores(redis, keys.removed_channels(user)).names(),
                Hash(redis, keys.credentials(user)).get("handle"),
            ]
        replies = await together(*requests)
        for place, user in enumerate(batch):
            exists, disabled, active, removed, handle = replies[5 * place : 5 * place + 5]
            if exists:
                seen.recorded.add(user)
                seen.examined["users"] += 1
            if handle is not None:
                seen.handles[handle.decode()] = user
            seen.channels[user] = sorted((*active, *removed))
            seen.examined["channels"] += len(seen.channels[user])
            await _follows(redis, seen, user, active if not disabled else [])


async def _follows(redis: Redis, seen: Seen, user: str, uids: Sequence[str]) -> None:
    follows = await walked(redis, "HSCAN", [keys.channel_feeds(user, uid) for uid in uids])
    for uid in uids:
        flat = follows[keys.channel_feeds(user, uid)]
        for feed, value in zip(flat[0::2], flat[1::2], strict=True):
            one = read_subscription(keys.channel_feeds(user, uid), feed.decode(), value)
            seen.examined["subscriptions"] += 1
            seen.followed[one.feed][user, uid] = one
            if seen.now - _SETTLING < one.followed_at <= seen.now:
                seen.fresh.add((one.feed, user, uid))


async def _feeds(redis: Redis, seen: Seen) -> None:
    """Addresses, records, followers, and the feeds in the schedule."""
    async for batch in all_addresses(redis):
        seen.urls |= {one.url: one.feed for one in batch}
    store, schedule = Feeds(redis), Schedule(redis)
    for ids in batched(sorted(seen.feed_keys.keys() | seen.followed.keys()), _AT_ONCE):
        seen.records |= await store.get_many(ids)
        followers = await walked(redis, "SSCAN", [keys.feed_subscribers(feed) for feed in ids])
        for feed in ids:
            seen.followers[feed] = set(as_places(followers[keys.feed_subscribers(feed)]))
            seen.examined["feeds"] += 1
            seen.examined["followers"] += len(seen.followers[feed])
            seen.found += invariants.memory_lasts(seen, feed)
        known = [feed for feed in ids if feed in seen.records]
        turns = await schedule.holds([(feed, seen.records[feed].poll_host) for feed in known])
        seen.polled |= {feed for feed, has_turn in zip(known, turns, strict=True) if has_turn}


async def _channels(redis: Redis, seen: Seen) -> None:
    """The sets of all channels, removed ones included."""
    places = [(user, uid) for user, uids in seen.channels.items() for uid in uids]
    shown: Counts[str] = Counts()
    for batch in batched(places, _AT_ONCE // 5):
        for (user, uid), sets in (await sets_of(redis, batch)).items():
            seen.examined["timeline entries"] += len(sets[0]) + len(sets[3])
            seen.found += invariants.sets_agree(user, uid, sets)
            seen.found += invariants.missing_in_channel(seen, user, uid, sets)
            there = sorted(item for item in sets[0].keys() | sets[3].keys() if item in seen.items)
            for item in there:
                seen.items.mark(item, SHOWN)
            kinds = seen.channel_keys.get(user, {})
            if _RULED & (kinds.get(uid, set()) | kinds.get(GLOBAL, set())):
                await _rules(redis, seen, user, uid, sets, there)
            shown.update(sets[0].keys())
            if uid == seen.channels[user][-1]:
                await _arrivals(redis, seen, user, shown)
                shown.clear()


async def sets_of(redis: Redis, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], invariants.Sets]:
    """posts, unread, read, hidden, hidden-read and gone of these channels, given as user and uid."""
    sorted_sets = (keys.posts, keys.hidden, keys.gone_before)
    names = {place: [key(*place) for key in sorted_sets] for place in places}
    open_ids = await unread_ids(redis, places)
    flat = await walked(redis, "ZSCAN", [key for listed in names.values() for key in listed])
    # After the rest of an earlier version, from where numbers move to the set.
    left = await walked(redis, "SSCAN", [keys.gone(*place) for place in places])
    was_read = iter(
        await reading_times(redis, [key(*place) for place in places for key in (keys.read, keys.hidden_read)])
    )
    found: dict[tuple[str, str], invariants.Sets] = {}
    for (place, listed), unread in zip(names.items(), open_ids, strict=True):
        posts, hidden, old = [scores(flat[key]) for key in listed]
        gone = old | dict.fromkeys(ids_in(left[keys.gone(*place)]), 0.0)
        found[place] = [posts, dict.fromkeys(unread, 0.0), next(was_read), hidden, next(was_read), gone]
    return found


async def _arrivals(redis: Redis, seen: Seen, user: str, shown: Mapping[str, int]) -> None:
    """A user's order of arrival, if all of that user's channels were read."""
    counts = pairs((await walked(redis, "HSCAN", [keys.arrivals_more(user)]))[keys.arrivals_more(user)])
    if "last" not in counts or "building" in counts:  # it isn't kept, or hasn't got all items yet
        return
    places = (await walked(redis, "ZSCAN", [keys.arrivals(user)]))[keys.arrivals(user)]
    more = {item: int(count) for item, count in counts.items() if item != "last"}
    seen.found += invariants.arrivals_agree(user, shown, scores(places), more)


async def _rules(redis: Redis, seen: Seen, user: str, uid: str, sets: invariants.Sets, there: Sequence[str]) -> None:
    rules = await together(*(Hash(redis, key).names() for key in rule_keys(user, uid)))
    muted, muted_everywhere, blocked, blocked_everywhere = map(set, rules)
    mutes, blocks = muted | muted_everywhere, blocked | blocked_everywhere
    seen.examined["rules"] += len(mutes) + len(blocks)
    items = Items(redis)
    for batch in batched(there, _ITEMS_AT_ONCE):
        for item in await items.timeline_items(batch):
            seen.found += invariants.rules_hold(user, uid, item, sets, mutes, blocks)


async def _feed_items(redis: Redis, seen: Seen) -> None:
    """Guid maps, indexes and outboxes, compared with the items; the channels have marked the items that they show."""
    for batch in batched(sorted(seen.feed_keys), _AT_ONCE):
        guids = await walked(redis, "HSCAN", [keys.feed_guids(feed) for feed in batch])
        indexes = await walked(redis, "ZSCAN", [keys.feed_items(feed) for feed in batch])
        outboxes = await walked(redis, "SSCAN", [keys.feed_outbox(feed) for feed in batch])
        for feed in batch:
            claims, index = pairs(guids[keys.feed_guids(feed)]), scores(indexes[keys.feed_items(feed)])
            seen.examined["guids"] += len(claims)
            for members, mark in ((claims.values(), CLAIMED), (index.keys(), INDEXED)):
                for item in members:
                    if seen.items.feed(item) == int(feed):
                        seen.items.mark(item, mark)
            waiting = [item.decode() for item in outboxes[keys.feed_outbox(feed)]]
            seen.found += invariants.missing_in_feed(seen, feed, index, waiting)
    unknown = (one for one in seen.items if str(seen.items.feed(one)) in seen.records)
    for batch in batched((one for one in unknown if invariants.is_unclaimed(seen, one, 0, 0)), _AT_ONCE):
        await _unclaimed(redis, seen, batch)


async def _outputs(redis: Redis, seen: Seen) -> None:
    """Output feeds: their list, their addresses, and their sets."""
    users = sorted(seen.listed | seen.output_feeds.keys())
    for batch in batched(users, _AT_ONCE):
        lists = await walked(redis, "SSCAN", [keys.outputs(user) for user in batch])
        addresses = await walked(redis, "HSCAN", [keys.output_addresses(user) for user in batch])
        for user in batch:
            listed = {name.decode() for name in lists[keys.outputs(user)]}
            seen.found += invariants.outputs_listed(seen, user, listed)
            known = pairs(addresses[keys.output_addresses(user)])
            for name in sorted(listed & seen.output_feeds[user]):
                seen.examined["output feeds"] += 1
                secret = await Hash(redis, keys.output(user, name)).get("secret")
                seen.found += invariants.address_leads(user, name, text(secret), known)
                await _output(redis, seen, user, name)


async def _media(redis: Redis, seen: Seen) -> None:
    """Files that sources have sent, and their lists."""
    for batch in batched(sorted(seen.listed | seen.media.keys()), _AT_ONCE):
        lists = await walked(redis, "SSCAN", [keys.media(user) for user in batch])
        for user in batch:
            seen.examined["files"] += len(seen.media.get(user, ()))
            seen.found += invariants.media_listed(seen, user, {token.decode() for token in lists[keys.media(user)]})


async def _output(redis: Redis, seen: Seen, user: str, name: str) -> None:
    sets = [key(user, name) for key in (keys.output_published, keys.output_imported, keys.output_edited)]
    maps = [keys.output_impressions(user, name), keys.output_editions(user, name), keys.output_held(user, name)]
    flat = await walked(redis, "ZSCAN", sets) | await walked(redis, "HSCAN", maps)
    offered = (await walked(redis, "SSCAN", [keys.output_offered(user, name)])).popitem()[1]
    published, imported, edited = (scores(flat[key]) for key in sets)
    impressions, editions, held = (pairs(flat[key]) for key in maps)
    seen.examined["output items"] += len(published) + len(imported)
    seen.examined["replies with output feeds"] += len(held)
    by_item = (impressions, editions, {item.decode() for item in offered})
    seen.found += invariants.output_agrees(user, name, (published, imported, edited), *by_item)
    seen.found += invariants.missing_in_output(seen, user, name, published.keys() | imported.keys())


async def _unclaimed(redis: Redis, seen: Seen, ids: Sequence[str]) -> None:
    found_rows = await rows(redis, map(keys.item, ids), _UNCLAIMED)
    there = ((item, row) for item, row in zip(ids, found_rows, strict=True) if row[0] is not None and row[4] is None)
    known = {item: filled(row) for item, row in there}
    guids = [Hash(redis, keys.feed_guids(str(seen.items.feed(item)))).get(row[0]) for item, row in known.items()]
    owners = await together(*guids)
    for (item, (guid, updated, discovered, score, _)), owner in zip(known.items(), owners, strict=True):
        created = seen.records[str(seen.items.feed(item))].created or 0.0
        if invariants.is_unclaimed(seen, item, created, float(discovered or 0)):
            first = updated or discovered or score
            seen.found += invariants.post_enters_once(seen, item, guid, first, text(owner))
