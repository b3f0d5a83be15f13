"""The invariants of the store, one pure function each, over the data that a look has read.

1. `sets_agree`: posts = unread ⊎ read; hidden, posts and gone have nothing in common.
2. `post_enters_once`: a shown post is claimed by its guid and listed by its feed, and no second item has its guid.
3. `memory_lasts`: a feed's data is kept as long as the feed has followers, and 30 days longer.
4. `items_exist`: every item that a timeline, an index or an outbox names exists.
5. `keys_are_named`: every key is named in `redis.keys`, and has a time to live unless it may be permanent.
6. `copies_agree`: data that is stored twice, in two slots, agrees.
7. `rules_hold`: no muted item is shown, no blocked item is in a channel, and no item is hidden without a rule.
8. `arrivals_agree`: a user's order of arrival has the items that the user's channels show, each once.
9. `output_agrees`: an item of an output feed is published or imported and has an edition; no other item has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from microsub.admin.check.findings import Finding, InTimeline, Remedy
from microsub.admin.check.keynames import Kind, kinds, looks_like_ours
from microsub.admin.check.seen import CLAIMED, INDEXED, SHOWN, Seen
from microsub.base.digests import sha256_hex
from microsub.base.urls import canonical_feed_url
from microsub.feeds import KEEP_UNFOLLOWED
from microsub.model.reader import TimelineItem
from microsub.posts import duplicates
from microsub.redis import keys
from microsub.redis.protocol import Command
from microsub.timelines import disagreeing_arrivals, urls

Sets = Sequence[Mapping[str, float]]
"""posts, unread, read, hidden, hidden-read and gone of one channel, as `timelinekeys.set_keys` orders them."""

_LIVES = {"duplicates": duplicates.LIFETIME, "former_duplicates": duplicates.LIFETIME}
_OTHER_LIFE = 48 * 3600


def sets_agree(user: str, uid: str, sets: Sets) -> Iterator[Finding]:
    """Invariant 1, for one channel."""
    for what, ids in disagreeing(sets).items():
        for item in sorted(ids):
            yield Finding("timelines", f"{user}/{uid} {item}", what, InTimeline(user, uid, item))


def disagreeing(sets: Sets) -> dict[str, set[str]]:
    """The ids that violate each statement of invariant 1."""
    posts, unread, read, hidden, hidden_read, gone = sets
    return {
        "both unread and read": unread.keys() & read.keys(),
        "shown, but neither unread nor read": posts.keys() - unread.keys() - read.keys(),
        "unread, but not shown": unread.keys() - posts.keys(),
        "read, but not shown": read.keys() - posts.keys(),
        "shown and hidden": posts.keys() & hidden.keys(),
        "read as hidden, but not hidden": hidden_read.keys() - hidden.keys(),
        "gone and shown": gone.keys() & posts.keys(),
        "gone and hidden": gone.keys() & hidden.keys(),
    }


def post_enters_once(seen: Seen, item: str, guid: str, updated: str, owner: str | None) -> Iterator[Finding]:
    """Invariant 2, for one item that is shown, but not both claimed and indexed by its feed.

    `owner` is the item that the guid stands for in that feed.
    """
    feed = str(seen.items.feed(item))
    if owner in {None, item}:
        what = "without its guid's claim" if owner is None else "missing from its feed's index"
        claim = ("HSETNX", keys.feed_guids(feed), guid, item)
        yield Finding("items", keys.item(item), what, (claim, ("ZADD", keys.feed_items(feed), updated, item)))
    elif owner is not None and seen.items.marked(owner, SHOWN):
        what = f"the same post as item {owner}, and both are shown: remove one in a reader"
        yield Finding("items", keys.item(item), what)


def memory_lasts(seen: Seen, feed: str) -> Iterator[Finding]:
    """Invariant 3, for one feed: its keys expire together, unless it has followers or programs save posts into it."""
    lasting = {kind.name for kind in kinds() if kind.may_stay}
    stays = bool(seen.followers.get(feed)) or (feed in seen.records and seen.records[feed].kept)
    for kind, ttl in seen.feed_keys.get(feed, {}).items():
        key: str = getattr(keys, kind)(feed)
        if kind in lasting and stays and ttl >= 0:
            what = "has a time to live, though the feed is followed or kept"
            yield Finding("feeds", key, what, (("PERSIST", key),))
        elif kind in lasting and not stays and ttl == -1 and feed not in seen.followed:
            what = "has no time to live, though nobody follows the feed"
            yield Finding("feeds", key, what, (("EXPIRE", key, KEEP_UNFOLLOWED),))


def items_exist(seen: Seen, members: Collection[str]) -> list[str]:
    """Invariant 4: the given ids that have no item.

    Items that were added during the look are left out.
    """
    return sorted(item for item in members if int(item) <= seen.last_item and item not in seen.items)


def missing_in_channel(seen: Seen, user: str, uid: str, sets: Sets) -> Iterator[Finding]:
    """Invariant 4, for one channel."""
    posts, _, _, hidden, _, _ = sets
    for item in items_exist(seen, posts.keys() | hidden.keys()):
        remedy = InTimeline(user, uid, item, missing=True)
        yield Finding("timelines", f"{user}/{uid} {item}", "an id without an item", remedy)


def missing_in_feed(seen: Seen, feed: str, index: Collection[str], outbox: Collection[str]) -> Iterator[Finding]:
    """Invariant 4, for one feed."""
    for key, verb, members, what in (
        (keys.feed_items(feed), "ZREM", index, "lists an item that doesn't exist"),
        (keys.feed_outbox(feed), "SREM", outbox, "holds an item that doesn't exist"),
    ):
        for item in items_exist(seen, members):
            yield Finding("feeds", f"{key} {item}", what, ((verb, key, item),))


def keys_are_named(key: str, kind: Kind | None, ttl: int) -> Iterator[Finding]:
    """Invariant 5, for one key; `ttl` as the command TTL returns it."""
    if kind is None:
        if looks_like_ours(key):
            what = "unknown, though its name begins like a key of this server; inspect it and delete it by hand"
            yield Finding("keys", key, what)
    elif ttl == -1 and not kind.may_stay:
        remedy = (("EXPIRE", key, _LIVES.get(kind.name, _OTHER_LIFE)),)
        yield Finding("keys", key, "has no time to live, but needs one", remedy)
    elif ttl >= 0 and kind.stays:
        yield Finding("keys", key, "has a time to live, but must be permanent", (("PERSIST", key),))


def copies_agree(seen: Seen) -> Iterator[Finding]:
    """Invariant 6: the list of users and their records, followers and subscriptions, addresses and feeds, schedule and
    followed feeds, handles and passkeys.
    """
    yield from _users(seen)
    yield from _followers(seen)
    yield from _polled(seen)
    for handle, user in seen.handles.items():
        if seen.handle_index.get(handle) != user:
            # Without an entry, no passkey of that user is recognised.
            remedy: Remedy = (("HSET", keys.handles(), handle, user),)
            yield Finding("users", keys.credentials(user), "a handle that doesn't point to its user", remedy)
    for handle in seen.handle_index.keys() - seen.handles.keys():
        # A handle is never assigned again, so it can't stand for another user later.
        remedy = (("HDEL", keys.handles(), handle),)
        yield Finding("users", f"{keys.handles()} {handle}", "a handle without a user", remedy)


def counter_leads(key: str, first: int, last: int, newest: int) -> Iterator[Finding]:
    """Invariant 6: a counter of ids, read first and last, isn't lower than the newest id in use."""
    if newest > max(first, last):
        yield Finding("keys", key, "lower than an id already in use", (("INCRBY", key, newest - last),))


def _users(seen: Seen) -> Iterator[Finding]:
    for user in sorted(seen.recorded - seen.listed):
        yield Finding("users", keys.user(user), "a user who isn't listed", (("SADD", keys.users(), user),))
    for user in sorted(seen.listed - seen.recorded):
        there = [getattr(keys, kind) for kind in sorted(seen.user_keys.get(user, ()))]
        remains = [key(user) for key in there if key in keys.USER_KEYS]
        commands = [("SREM", keys.users(), user), *(("DEL", key) for key in remains)]
        yield Finding("users", keys.user(user), "a listed user without a record", tuple(commands))


def _followers(seen: Seen) -> Iterator[Finding]:
    for feed in sorted(seen.followed.keys() | seen.followers.keys()):
        wanted, listed = seen.followed.get(feed, {}), seen.followers.get(feed, set())
        for user, uid in sorted(wanted.keys() ^ listed):
            is_listed = (user, uid) in listed
            if is_listed or (feed, user, uid) not in seen.fresh:
                what = "among its followers, but doesn't follow it" if is_listed else (
                    "follows it, but isn't among its followers"
                )  # fmt: skip
                yield Finding("feeds", f"{keys.feed_subscribers(feed)} {user}/{uid}", what, "derive")
    for feed in sorted(seen.followed.keys() & seen.records.keys()):
        url = canonical_feed_url(seen.records[feed].url)
        if url not in seen.urls:
            remedy = (("HSETNX", keys.feeds_by_url(), url, feed),)
            yield Finding("feeds", keys.feed(feed), "a feed that no URL points to", remedy)


def _polled(seen: Seen) -> Iterator[Finding]:
    for feed, followers in seen.followed.items():
        settled = [one for one in followers if (feed, *one) not in seen.fresh]
        if feed in seen.records and not seen.records[feed].gone and settled and feed not in seen.polled:
            yield Finding("schedule", keys.feed(feed), "followed, but never polled", "derive")


def rules_hold(
    user: str, uid: str, item: TimelineItem, sets: Sets, mutes: Collection[str], blocks: Collection[str]
) -> Iterator[Finding]:
    """Invariant 7, for one item of one channel."""
    posts, _, _, hidden, _, _ = sets
    what = None
    named = urls(item)
    if any(url in blocks for url in named):
        what = "present, though blocked"
    elif any(url in mutes for url in named):
        what = "shown, though muted" if item.id in posts else None
    elif item.id in hidden and item.id not in posts:
        what = "hidden, though not muted"
    if what:
        yield Finding("timelines", f"{user}/{uid} {item.id}", what, InTimeline(user, uid, item.id, ruled=item))


def outputs_listed(seen: Seen, user: str, listed: Collection[str]) -> Iterator[Finding]:
    """Invariant 6, for the list of a user's output feeds and their records."""
    there = seen.output_feeds.get(user, set())
    for name in sorted(there - set(listed)):
        remedy: Remedy = (("SADD", keys.outputs(user), name),)
        yield Finding("outputs", keys.output(user, name), "an output feed that isn't listed", remedy)
    for name in sorted(set(listed) - there):
        remains = [("DEL", key(user, name)) for key in keys.OUTPUT_KEYS]
        remedy = (("SREM", keys.outputs(user), name), *remains)
        yield Finding("outputs", keys.output(user, name), "a listed output feed without a record", remedy)


def media_listed(seen: Seen, user: str, listed: Collection[str]) -> Iterator[Finding]:
    """Invariant 6, for the list of files that a user's sources have sent, and these files."""
    there = seen.media.get(user, set())
    for token in sorted(there - set(listed)):
        remedy = (("SADD", keys.media(user), token),)
        yield Finding("media", keys.medium(user, token), "a file that isn't listed", remedy)
    for token in sorted(set(listed) - there):
        remedy = (("SREM", keys.media(user), token),)
        yield Finding("media", keys.medium(user, token), "a listed file that doesn't exist", remedy)


def address_leads(user: str, name: str, secret: str | None, known: Mapping[str, str]) -> Iterator[Finding]:
    """Invariant 6, for the address of an output feed."""
    if secret is not None and known.get(sha256_hex(secret)) != name:
        remedy = (("HSET", keys.output_addresses(user), sha256_hex(secret), name),)
        yield Finding("outputs", keys.output(user, name), "an address that doesn't point to its feed", remedy)


def output_agrees(
    user: str,
    name: str,
    sets: Sequence[Mapping[str, float]],
    impressions: Collection[str],
    editions: Collection[str],
    offered: Collection[str],
) -> Iterator[Finding]:
    """Invariant 9, for the published, imported and edited items of one output feed."""
    published, imported, edited = sets
    inside = published.keys() | imported.keys()
    of_user = (user, name)
    broken: dict[str, dict[str, Command]] = {
        "published and imported": {
            item: ("ZREM", keys.output_imported(*of_user), item) for item in published.keys() & imported.keys()
        },
        "in the feed, but without the time of its edition": {
            item: ("ZADD", keys.output_edited(*of_user), published.get(item, imported.get(item, 0.0)), item)
            for item in inside - edited.keys()
        },
        "in the feed without an edition": {
            item: ("HSETNX", keys.output_editions(*of_user), item, "0 - -") for item in inside - set(editions)
        },
        "an edition without an item": {
            item: ("HDEL", keys.output_editions(*of_user), item) for item in set(editions) - inside
        },
        "impressions without an item": {
            item: ("HDEL", keys.output_impressions(*of_user), item) for item in set(impressions) - edited.keys()
        },
        "added by the channel, but not in the feed": {
            item: ("SREM", keys.output_offered(*of_user), item) for item in set(offered) - inside
        },
    }
    for what, items in broken.items():
        for item, command in sorted(items.items()):
            yield Finding("outputs", f"{user}/{name} {item}", what, (command,))


def missing_in_output(seen: Seen, user: str, name: str, members: Collection[str]) -> Iterator[Finding]:
    """Invariant 4, for one output feed."""
    places = (keys.output_published, keys.output_imported, keys.output_edited)
    for item in items_exist(seen, members):
        commands = (*(("ZREM", key(user, name), item) for key in places),)
        yield Finding("outputs", f"{user}/{name} {item}", "an id without an item", commands)


def is_unclaimed(seen: Seen, item: str, created: float, discovered: float) -> bool:
    """Whether invariant 2 applies to an item: it is shown, and its feed doesn't know it.

    The sweep deletes items that aren't shown; a timeline has kept an older item than its feed's record beyond the feed.
    """
    known = seen.items.marked(item, CLAIMED | INDEXED)
    return not known and seen.items.marked(item, SHOWN) and discovered >= created


def arrivals_agree(
    user: str, shown: Mapping[str, int], places: Collection[str], more: Mapping[str, int]
) -> Iterator[Finding]:
    """Invariant 8, for one user: how many channels show each item, and the contents of the order."""
    for item, what in disagreeing_arrivals(shown, places, more):
        yield Finding("timelines", f"{user} {item}", what, InTimeline(user, None, item))
