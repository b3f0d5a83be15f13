"""Items come into timelines: adding, and the filters of channels.

An item enters a timeline once, in one script call per timeline (lua/timeline_add.lua) that asks everything that keeps
it out. What a channel filters out leaves no trace in its timeline, so that an edit, which may read otherwise, can bring
the item in; what stands in a timeline isn't filtered any more. All times are Unix seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import orjson

from microsub.identity.store import absent
from microsub.logs import LibraryLogger
from microsub.model.filters import Filter, Searched
from microsub.model.reader import TimelineItem
from microsub.model.settings import ChannelSettings
from microsub.posts.items import Items
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis, ScriptCall
from microsub.redis.scripts import batches, load
from microsub.timelines.remove import take_back
from microsub.timelines.timelinekeys import shown_keys, split, url_lines

log = LibraryLogger(__name__)

_MOST_FILTERING = 10_000
"""Channels of which a process remembers the filters."""

_ADD = load("timeline_add")


UNFILTERED = b"*"
"""Instead of filters: these items come in whatever the channel filters, with the limits that are given."""


@dataclass(frozen=True, slots=True)
class Added:
    """What came of the items given to one timeline into it, as ids.

    `added` are unread, `read` read (found older than the follow), `hidden` muted. `subscribed` is False where the
    channel doesn't follow the feed (any more), or doesn't exist (any more): then nothing happened.
    """

    added: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    subscribed: bool = True

    @property
    def taken(self) -> int:
        """How many came in, in whatever state."""
        return len(self.added) + len(self.read) + len(self.hidden)

    @property
    def all_taken(self) -> tuple[str, ...]:
        """What came in, in whatever state."""
        return self.added + self.read + self.hidden

    def without(self, ids: Collection[str]) -> Added:
        """The same as if those items had stayed out."""
        states = [tuple(one for one in state if one not in ids) for state in (self.added, self.read, self.hidden)]
        return replace(self, added=states[0], read=states[1], hidden=states[2])


@dataclass(frozen=True, slots=True)
class TimelineTarget:
    """A timeline that items go to.

    Where its channel's settings say nothing else, it holds `limit` items (0: all) and takes the `fresh` newest of a
    first fill as unread.
    """

    user: str
    uid: str
    limit: int
    fresh: int = 10


class Adder:
    """Adds items to timelines.

    Remembers which channels filter, so that most calls take one round trip. `items` answers what ids stand for.
    """

    def __init__(self, redis: Redis, items: Items) -> None:
        self._redis = redis
        self._items = items
        self._filtering: dict[tuple[str, str], bytes] = {}

    async def add(
        self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], *, now: float, limit: int,
        fresh: int = 10, unfiltered: bool = False,
    ) -> Added:  # fmt: skip
        """Add a feed's items to one timeline. Idempotent.

        The first items of a feed after a follow are its first fill: give them in one call. They decide from which score
        on the feed's items are unread, then and later: that of the `fresh`-th newest, or the time of following where
        that is earlier. The channel's own settings take precedence over `limit` (0: none) and `fresh`, and its filters
        choose, unless the items are to come in `unfiltered`. Doesn't raise for a channel that is gone. Items that were
        deleted meanwhile are taken out again.
        """
        incoming = Incoming(self._items, feed_id, items, now, unfiltered=unfiltered)
        added = (await self.add_to([TimelineTarget(user, uid, limit, fresh)], incoming))[0]
        dead = await take_back(self._redis, self._items, user, uid, added.all_taken, now)
        return added.without(dead) if dead else added

    async def fill(
        self, user: str, uid: str, feed_id: str, ids: Sequence[str], settings: ChannelSettings, now: float
    ) -> Added:
        """`add` those of a feed's stored posts, with the limits that hold in the channel."""
        items = await self._items.timeline_items(ids)
        limit, fresh = settings.max_items or 0, settings.first_fetch_unread or 0
        return await self.add(user, uid, feed_id, items, now=now, limit=limit, fresh=fresh) if items else Added()

    async def add_to(self, targets: Sequence[TimelineTarget], incoming: Incoming) -> list[Added]:
        """`add` to several timelines, of several users; results in the order of `targets`.

        One round trip, and another one for channels whose filters this process doesn't know yet. Items that were
        deleted meanwhile are left to the caller.
        """
        remembered = self._filtering
        addings = [
            Adding(one, UNFILTERED if incoming.unfiltered else remembered.get((one.user, one.uid), b""))
            for one in targets
        ]
        due = addings
        while due:
            ways = [await incoming.args(one.chosen_by) for one in due]
            pairs = [(one, way) for one, way in zip(due, ways, strict=True) if way]
            replies = await self._redis.scripts(
                [one.call(incoming.feed, incoming.now, way[one.step]) for one, way in pairs]
            )
            due = [one for (one, way), reply in zip(pairs, replies, strict=True) if one.heard(reply, len(way))]
            for one in due:
                self._remember(one.target, one.chosen_by)
        return [one.result() for one in addings]

    def _remember(self, target: TimelineTarget, filters: bytes) -> None:
        """What a channel filters by, so that the next items are chosen by it at once."""
        if filters:
            if len(self._filtering) >= _MOST_FILTERING:
                self._filtering.clear()
            self._filtering[target.user, target.uid] = filters
        else:
            self._filtering.pop((target.user, target.uid), None)

    async def put(
        self, user: str, uid: str, item: TimelineItem, now: float, limit: int = 0, *, unfiltered: bool = False
    ) -> Added:
        """Add an item that comes from no feed; the rules of `add` hold. Raises NotFound."""
        result = await self.add(user, uid, "", [item], now=now, limit=limit, fresh=0, unfiltered=unfiltered)
        if not result.subscribed:
            raise await absent(self._redis, user, uid)
        return result


async def filtering_channels(redis: Redis, channels: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the channels (user, uid) that filter. One round trip."""
    filters = await redis.pipeline([("HGET", keys.channel(*one), "filters") for one in channels])
    return [one for one, text in zip(channels, filters, strict=True) if text]


@lru_cache(maxsize=1024)
def filter_of(filters: bytes) -> Filter | None:
    """The filter in a channel's field `filters`; None where there is none, or none that can be read."""
    if not filters:
        return None
    try:
        made = Filter.of(orjson.loads(filters))
    except (ValueError, KeyError, TypeError, AttributeError):  # one channel stops no delivery to all others
        log.exception("filters of a channel are corrupt and ignored", filters=filters[:80])
        return None
    if made.broken:
        log.warning("an invalid expression in a filter is ignored", settings=made.broken)
    return made


class Incoming:
    """Items of one feed on their way to timelines, and which of them each channel takes.

    Made once, for any number of timelines: the posts are read once, and only if somebody filters. `feed` is '' for
    items of no feed. `unfiltered` items come in whatever a channel filters.
    """

    def __init__(
        self, lookup: Items, feed: str, items: Sequence[TimelineItem], now: float, *, unfiltered: bool = False
    ) -> None:
        self.feed = feed
        self.now = f"{now:.6f}"
        self.unfiltered = unfiltered
        self._lookup = lookup
        self._items = newest_first(items)
        self._posts: dict[str, Searched] | None = None
        self._args: dict[bytes, list[list[Arg]]] = {}

    async def args(self, filters: bytes) -> list[list[Arg]]:
        """What a channel with these filters takes, as arguments of one script call after the other."""
        known = self._args.get(filters)
        if known is None:
            rule = None if self.unfiltered else filter_of(filters)
            chosen = self._items
            if rule is not None:
                posts = await self._read()
                # A slow expression takes tens of milliseconds for a long post.
                ids = await asyncio.to_thread(rule.chosen, posts)
                chosen = [item for item in self._items if item.id in ids]
            parts = [*batches(chosen)]
            known = [[_scores(parts[at + 1 :]), *item_args(part)] for at, part in enumerate(parts)]
            if not known and self._items:
                known = [[""]]  # the channel may have other filters by now, as the script knows
            self._args[filters] = known
        return known

    async def _read(self) -> dict[str, Searched]:
        if self._posts is None:
            ids = [item.id for item in self._items]
            rows = await self._lookup.fields(ids, ("Data",))
            # One that was deleted in this moment has no text any more, and is in no timeline either.
            found = {item_id: data for item_id, (data,) in zip(ids, rows, strict=True) if data is not None}
            self._posts = await asyncio.to_thread(Searched.all_of, found)
        return self._posts


class Adding:
    """How far items have come into one timeline.

    By which filters they are chosen (`chosen_by`, see the script), and what has become of the items so far.
    """

    __slots__ = ("chosen_by", "parts", "step", "target")

    def __init__(self, target: TimelineTarget, chosen_by: bytes) -> None:
        self.target = target
        self.chosen_by = chosen_by
        self.step = 0
        self.parts: list[Added] = []

    def call(self, feed_id: str, now: str, items: Sequence[Arg]) -> ScriptCall:
        """The next call of the script; `items` as `Incoming.args` has them, `now` in decimals."""
        target = self.target
        script_keys = _KEYS.replace(_USER, target.user).replace(_UID, target.uid).split("\n")
        further, *rest = items
        return _ADD, script_keys, [feed_id, now, target.limit, target.fresh, further, self.chosen_by, target.uid, *rest]

    def heard(self, reply: list[bytes], steps: int) -> bool:
        """Take in the reply to the last call, of `steps` in all; whether another is due."""
        if reply[0] == b"filters":
            # All from the beginning, by other filters: what is in already is known there.
            self.step = 0
            self.chosen_by = reply[1]
            return True
        self.parts.append(added(reply))
        if reply[0]:
            return False
        self.step += 1
        return self.step < steps

    def result(self) -> Added:
        """What has become of the items."""
        return together(self.parts) if self.parts else Added()


# One text with all keys of the script, so that the keys of a timeline are made by two replacements.
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
        ),
        *shown_keys(_USER),
    ]
)


def newest_first(items: Sequence[TimelineItem]) -> list[TimelineItem]:
    """The order in which the script wants them, and in which the timeline will hold them."""
    return sorted(items, key=lambda item: (float(item.score), item.id), reverse=True)


def item_args(items: Sequence[TimelineItem]) -> list[Arg]:
    """The items as the script reads them."""
    args: list[Arg] = []
    for item in items:
        duplicates = " ".join(f"{other.item} {other.feed} {int(other.wins)}" for other in item.duplicates)
        args += (item.id, item.score, url_lines(item), duplicates)
    return args


def _scores(parts: Sequence[Sequence[TimelineItem]]) -> str:
    return " ".join(item.score for part in parts for item in part)


def added(reply: list[bytes]) -> Added:
    """The script's reply as a value; `{'channel'}` and `{'feed'}` mean: not followed."""
    if reply[0]:
        return Added(subscribed=False)
    came, read, hidden = (split(ids) if ids else () for ids in reply[1:])
    return Added(came, read, hidden)


def together(parts: Sequence[Added]) -> Added:
    """Several batches for one timeline as one result."""
    if len(parts) == 1:
        return parts[0]
    ids = {state: tuple(item for one in parts for item in getattr(one, state)) for state in ("added", "read", "hidden")}
    return Added(**ids, subscribed=all(one.subscribed for one in parts))
