"""Adds items to timelines, and applies the filters of channels.

A call of lua/timeline_add.lua checks everything that keeps an item out of a timeline, and adds the others. Adding an
item twice has no effect. A filtered-out item leaves no trace, so a later edit of it can pass the filter; items in a
timeline aren't filtered again. All times are Unix seconds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import orjson

from microsub.accounts import absent
from microsub.base.bounded_cache import BoundedCache
from microsub.base.logs import LibraryLogger
from microsub.model.filters import Filter, Searched
from microsub.model.reader import NOTIFICATIONS, ChannelKey, TimelineItem
from microsub.model.settings import ChannelSettings
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis, ScriptCall
from microsub.redis.scripts import batches, load
from microsub.timelines.read_state import agree
from microsub.timelines.remove import take_back
from microsub.timelines.timelinekeys import shown_keys, split, url_lines

log = LibraryLogger(__name__)

_MOST_FILTERING = 10_000
"""Maximum number of channels whose filters a process caches."""

_REMEMBERED = 16 * 1024 * 1024
"""Bytes of posts that are kept while several channels filter them."""

_ADD, _PUT_OFF = load("timeline_add"), load("timeline_behind")


_OWN = "own"
"""Marks an item for the script that is added as read, as those of the user are."""

_TOGETHER, _FIELDS = 20, 4
"""Timelines to which one call adds a post, and the arguments for a post: Redis answers others between two calls."""

_Way = list[list[Arg]]
"""The arguments of the calls for one timeline."""

UNFILTERED = b"*"
"""In place of filters: the items pass any filter, and the given limits apply."""


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding items to one timeline, as ids.

    `added` are unread, `read` read (older than the follow, or the user's own), `hidden` muted. `subscribed` is False if
    the channel doesn't follow the feed, or doesn't exist (any more): then nothing happened.
    """

    added: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    subscribed: bool = True

    @property
    def taken(self) -> int:
        """The number of items that were taken, in any state."""
        return len(self.added) + len(self.read) + len(self.hidden)

    @property
    def all_taken(self) -> tuple[str, ...]:
        """The items that were taken, in any state."""
        return self.added + self.read + self.hidden

    def without(self, ids: Collection[str]) -> Added:
        """The same result without those items."""
        states = [tuple(one for one in state if one not in ids) for state in (self.added, self.read, self.hidden)]
        return replace(self, added=states[0], read=states[1], hidden=states[2])


class TimelineTarget(NamedTuple):
    """A timeline that items are added to.

    `limit` (0: none) and `fresh` are the defaults for channels without these settings: the number of items it holds,
    and the number of newest items of a first fill that are unread.
    """

    user: str
    uid: str
    limit: int
    fresh: int = 10


class Adder:
    """Adds items to timelines.

    Remembers the filters of channels, so that most calls take one round trip. `items` looks items up by id.
    """

    def __init__(self, redis: Redis, items: Items) -> None:
        self._redis = redis
        self._items = items
        self._filtering: BoundedCache[tuple[str, str, str], bytes] = BoundedCache(_MOST_FILTERING)
        """By user, channel, and the feed if the follow has a filter of its own."""

    async def add(
        self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], *, now: float, limit: int,
        fresh: int = 10, unfiltered: bool = False,
    ) -> Added:  # fmt: skip
        """Add a feed's items to one timeline. Idempotent.

        The first items of a feed after a follow are its first fill: give them in one call. They set the score from
        which the feed's items are unread, then and later: that of the `fresh`-th newest, or the time of following if
        that is earlier. The channel's own settings take precedence over `limit` (0: none) and `fresh`. Its filters
        apply unless `unfiltered`. Doesn't raise for a channel that no longer exists. Items that are deleted at the
        same time are removed again.
        """
        incoming = Incoming(self._items, feed_id, items, now, unfiltered=unfiltered)
        # They may have been in another channel for long.
        (added,) = await self._add_agreeing([TimelineTarget(user, uid, limit, fresh)], incoming, items)
        dead = await take_back(self._redis, self._items, user, uid, added.all_taken, now)
        return added.without(dead) if dead else added

    async def fill(
        self, user: str, uid: str, feed_id: str, ids: Sequence[str], settings: ChannelSettings, now: float
    ) -> Added:
        """`add` these stored posts of a feed, with the limits that the channel's settings give."""
        items = await self._items.timeline_items(ids)
        limit, fresh = settings.max_items or 0, settings.first_fetch_unread or 0
        return await self.add(user, uid, feed_id, items, now=now, limit=limit, fresh=fresh) if items else Added()

    async def add_to(self, targets: Sequence[TimelineTarget], incoming: Incoming) -> list[Added]:
        """`add` new items to several timelines, of several users; results in the order of `targets`.

        One round trip, and another for channels whose filters this process doesn't know yet, and two for duplicates of
        posts that may have been read. Items that are deleted at the same time are left to the caller.
        """
        return await self._add_agreeing(targets, incoming, incoming.repeated)

    async def _add_agreeing(
        self, targets: Sequence[TimelineTarget], incoming: Incoming, asked: Sequence[TimelineItem]
    ) -> list[Added]:
        """Add the items, as read if they are among the `asked` ones and read elsewhere, for users to whom that counts.

        This is asked before, so that no crash leaves them unread, and again of new ones, which were perhaps read
        meanwhile. Items that were there before keep their state.
        """
        if not asked:
            return await self._add_to(targets, incoming, {})
        read = await agree(self._redis, {(one.user, one.uid): asked for one in targets})
        found = await self._add_to(targets, incoming, {at: incoming.with_read(ids) for at, ids in read.items() if ids})
        came = {(one.user, one.uid): {*added.added, *added.hidden} for one, added in zip(targets, found, strict=True)}
        new = {at: some for at, ids in came.items() if (some := [item for item in asked if item.id in ids])}
        await agree(self._redis, new, float(incoming.now))
        return found

    async def _add_to(
        self, targets: Sequence[TimelineTarget], incoming: Incoming, others: Mapping[ChannelKey, Incoming]
    ) -> list[Added]:
        """Add the items to timelines; some may get them from `others`."""
        addings = [
            AddProgress(one, UNFILTERED if incoming.unfiltered else self._remembered(one, incoming.feed))
            for one in targets
        ]
        due = addings
        while due:
            ways = [await others.get((one.target.user, one.target.uid), incoming).args(one.chosen_by) for one in due]
            groups = self._groups([(one, way) for one, way in zip(due, ways, strict=True) if way])
            replies = await self._redis.scripts([_call(incoming, some) for some in groups])
            answered = zip(chain(*groups), chain(*replies), strict=True)
            due = [one for (one, way), reply in answered if one.accept(reply, len(way))]
            for one in due:
                self._remember(one.target, incoming.feed, one.chosen_by)
        return [one.result() for one in addings]

    def _groups(self, pairs: Sequence[tuple[AddProgress, _Way]]) -> list[Sequence[tuple[AddProgress, _Way]]]:
        """The timelines by calls: those that get the same few items share one, unless they are on different nodes."""
        sharing = dict[int, list[tuple[AddProgress, _Way]]]()
        for one, way in pairs:
            sharing.setdefault(id(way[one.step]), []).append((one, way))
        found = list[Sequence[tuple[AddProgress, _Way]]]()
        for some in sharing.values():
            first, way = some[0]
            most = 1 if self._redis.is_cluster else _TOGETHER * _FIELDS // max(_FIELDS, len(way[first.step]) - 1)
            found += batches(some, max(1, most))
        return found

    def _remembered(self, target: TimelineTarget, feed: str) -> bytes:
        known, place = self._filtering, (target.user, target.uid)
        return known.get((*place, feed)) or known.get((*place, ""), b"")

    def _remember(self, target: TimelineTarget, feed: str, filters: bytes) -> None:
        """Remember filters, so that the next items are filtered without another round trip."""
        place = (target.user, target.uid)
        self._filtering.pop((*place, feed))
        if filters:
            self._filtering[*place, feed if b"\n" in filters else ""] = _shared(filters)
        else:
            self._filtering.pop((*place, ""))

    async def put_off(self, feed_id: str, since: str, places: Iterable[ChannelKey]) -> None:
        """Note that posts of the feed wait for these timelines until `CatchUp` adds them.

        `since` is the earliest of their scores. Channels that don't exist are skipped. One round trip.
        """
        uids: dict[str, list[str]] = {}
        for user, uid in places:
            uids.setdefault(user, []).append(uid)
        await self._redis.scripts(
            [_PUT_OFF(user, feed=feed_id, since=since, uids=listed) for user, listed in uids.items()]
        )

    async def put(
        self, user: str, uid: str, item: TimelineItem, now: float, limit: int = 0, *, unfiltered: bool = False
    ) -> Added:
        """Add an item without a feed; the rules of `add` apply. Raises NotFound."""
        result = await self.add(user, uid, "", [item], now=now, limit=limit, fresh=0, unfiltered=unfiltered)
        if not result.subscribed:
            raise await absent(self._redis, user, uid)
        return result


async def filtering_channels(redis: Redis, feed_id: str, channels: Sequence[ChannelKey]) -> list[ChannelKey]:
    """The given channels that have filters, or one for that feed or all channels. One round trip."""
    found = await redis.pipeline(
        [
            *(("HGET", keys.channel(*one), "filters") for one in channels),
            *(("HGET", keys.user(user), "filters") for user, _ in channels),
            *(("HGET", keys.channel_feeds(*one), feed_id) for one in channels),
        ]
    )
    rows = zip(channels, *batches(found, max(1, len(channels))), strict=True)
    return [
        one
        for one, text, of_all, follow in rows
        if text or (of_all and one[1] != NOTIFICATIONS) or b'"filter"' in (follow or b"")
    ]


def filters_of(filters: bytes) -> list[Filter]:
    """The filters of all channels, of a channel and of a follow, as the script names them, without corrupt ones."""
    return [one for text in re.split(b"[\t\n]", filters) if (one := filter_of(text)) is not None]


_shared = lru_cache(maxsize=1024)(bytes)
"""Returns the same filters, in memory once for all channels of a user that have none of their own."""


@lru_cache(maxsize=1024)
def filter_of(filters: bytes) -> Filter | None:
    """The filter in a field `filters`; None if there is none, or it is corrupt."""
    if not filters:
        return None
    try:
        made = Filter.of(orjson.loads(filters))
    except (ValueError, KeyError, TypeError, AttributeError):  # one channel must not stop delivery to all others
        log.exception("a corrupt filter was ignored", filters=filters[:80])
        return None
    if made.broken:
        log.warning("an invalid expression in a filter is ignored", settings=made.broken)
    return made


class Incoming:
    """Items of one feed that are being added, and which of them each channel takes.

    Made once for any number of timelines: posts are read once, and only if a channel filters. `feed` is '' for items
    without a feed. `unfiltered` items pass any filter. `repeated` are those that have duplicates.
    """

    def __init__(
        self, lookup: Items, feed: str, items: Sequence[TimelineItem], now: float, *, unfiltered: bool = False
    ) -> None:
        self.feed = feed
        self.now = f"{now:.6f}"
        self.unfiltered = unfiltered
        self.repeated = [item for item in items if item.duplicates]
        self._lookup = lookup
        self._items = newest_first(items)
        self._posts: dict[str, Searched] | None = None
        self._args: dict[bytes, _Way] = {}

    def with_read(self, ids: Collection[str]) -> Incoming:
        """The same items; those of these ids are added as read."""
        items = [replace(one, is_own=True) if one.id in ids else one for one in self._items]
        return Incoming(self._lookup, self.feed, items, float(self.now), unfiltered=self.unfiltered)

    async def args(self, filters: bytes) -> _Way:
        """The items that a channel with these filters takes, as the arguments of its script calls."""
        known = self._args.get(filters)
        if known is None:
            rules = [] if self.unfiltered else filters_of(filters)
            chosen = self._items
            if rules:
                ids = set[str]()
                async for posts in self._searched():
                    # A slow expression takes tens of milliseconds for a long post.
                    ids.update(await asyncio.to_thread(_chosen, rules, posts))
                chosen = [item for item in self._items if item.id in ids]
            parts = [*batches(chosen)]
            known = [[_scores(parts[at + 1 :]), *item_args(part)] for at, part in enumerate(parts)]
            if not known and self._items:
                known = [[""]]  # an empty call: the script may find that the channel has other filters now
            self._args[filters] = known
        return known

    async def _searched(self) -> AsyncIterator[dict[str, Searched]]:
        """The posts as filters see them, in pieces; remembered for other channels unless they are large."""
        if self._posts is not None:
            yield self._posts
            return
        found: dict[str, Searched] = {}
        size = 0
        # A post deleted at this moment has no text any more, and is in no timeline either.
        async for piece in self._lookup.pieces([item.id for item in self._items]):
            posts = await asyncio.to_thread(Searched.all_of, piece)
            size += sum(map(len, piece.values()))
            found = found | posts if size <= _REMEMBERED else {}
            yield posts
        if size <= _REMEMBERED:
            self._posts = found


class AddProgress:
    """The progress of adding items to one timeline.

    `chosen_by` names the filters that chose them (see the script); the results so far are collected.
    """

    __slots__ = ("chosen_by", "parts", "step", "target")

    def __init__(self, target: TimelineTarget, chosen_by: bytes) -> None:
        self.target = target
        self.chosen_by = chosen_by
        self.step = 0
        self.parts: list[Added] = []

    def accept(self, reply: list[bytes], steps: int) -> bool:
        """Collect the reply to the last of `steps` calls; returns whether another call is needed."""
        if reply[0] == b"filters":
            # Start over with the channel's filters: the script recognises items that are already in.
            self.step = 0
            self.chosen_by = reply[1]
            return True
        self.parts.append(added(reply))
        if reply[0]:
            return False
        self.step += 1
        return self.step < steps

    def result(self) -> Added:
        """The collected results."""
        return together(self.parts) if self.parts else Added()


def _call(incoming: Incoming, adding: Sequence[tuple[AddProgress, _Way]]) -> ScriptCall:
    """The next call for timelines that get the same items."""
    first, way = adding[0]
    further, *items = way[first.step]
    script_keys, facts = list[str](), list[Arg]()
    for one, _ in adding:
        target = one.target
        script_keys += _KEYS.replace(_USER, target.user).replace(_UID, target.uid).split("\n")
        facts += (target.uid, target.limit, target.fresh, one.chosen_by)
    return _ADD(
        timelines=script_keys,
        feed=incoming.feed,
        now=incoming.now,
        further=further,
        count=len(adding),
        targets=[*facts, *items],
    )


# One text with all keys of the script: two replacements make the keys of a timeline.
_USER, _UID = "\1", "\2"
_KEYS = "\n".join(
    [
        *(
            key(_USER, _UID)
            for key in (
                *(keys.channel, keys.channel_feeds, keys.posts, keys.unread, keys.read, keys.gone),
                *(keys.hidden, keys.hidden_read),
            )
        ),
        *(
            keys.muted(_USER, _UID),
            keys.muted(_USER, "global"),
            keys.blocked(_USER, _UID),
            keys.blocked(_USER, "global"),
            keys.apart(_USER, _UID),
        ),
        *shown_keys(_USER),
        keys.user(_USER),
    ]
)


def _chosen(rules: Sequence[Filter], posts: Mapping[str, Searched]) -> set[str]:
    """The ids of the posts that pass all these filters."""
    for rule in rules:
        posts = {id_: posts[id_] for id_ in rule.chosen(posts)}
    return {*posts}


def newest_first(items: Sequence[TimelineItem]) -> list[TimelineItem]:
    """Sort items as the script expects them and the timeline orders them."""
    return sorted(items, key=lambda item: (float(item.score), item.id), reverse=True)


def item_args(items: Sequence[TimelineItem]) -> list[Arg]:
    """The items as arguments of the script."""
    args: list[Arg] = []
    for item in items:
        further = [f"{other.item} {other.feed} {int(other.wins)}" for other in item.duplicates]
        further += [_OWN] * item.is_own
        args += (item.id, item.score, url_lines(item), " ".join(further))
    return args


def _scores(parts: Sequence[Sequence[TimelineItem]]) -> str:
    return " ".join(item.score for part in parts for item in part)


def added(reply: list[bytes]) -> Added:
    """The script's reply as a value; `{'channel'}` and `{'feed'}` mean that it isn't followed."""
    if reply[0]:
        return Added(subscribed=False)
    came, read, hidden = (split(ids) if ids else () for ids in reply[1:])
    return Added(came, read, hidden)


def together(parts: Sequence[Added]) -> Added:
    """The combined results of several batches for one timeline."""
    if len(parts) == 1:
        return parts[0]
    ids = {state: tuple(item for one in parts for item in getattr(one, state)) for state in ("added", "read", "hidden")}
    return Added(**ids, subscribed=all(one.subscribed for one in parts))
