"""Which items a stream has, in the order of their arrival at the user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TypeVar

from microsub.base.urls import mask_credentials
from microsub.feeds import Events
from microsub.greader.ids import StreamName
from microsub.model.reader import BUILT_IN, GLOBAL, SAVED, Channel, Subscription
from microsub.posts import Items
from microsub.redis.protocol import Redis
from microsub.timelines import (
    Arrival,
    ArrivalQuery,
    Channels,
    ReaderViews,
    arrivals_in,
    bare_arrivals,
    count_since,
    in_channels,
    places_of,
    read_arrivals,
    stateless,
)

_STEP = 1000
_SECOND = 1_000_000
_MOST_MERGES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The requested part of a stream: `within` and `without` are the tags that its items must and mustn't have.

    `since` and `before` are positions in the order of arrival, Unix times in microseconds; `after` is the position of
    the last item that the app knows.
    """

    stream: StreamName | None
    count: int
    oldest_first: bool = False
    since: int = 0
    before: int | None = None
    after: int | None = None
    within: tuple[StreamName, ...] = ()
    without: tuple[StreamName, ...] = ()


@dataclass(slots=True)
class _Selection:
    """The meaning of a query for this user: states, channels by uid, and feeds, each with those that it replaced.

    `is_read` and `is_saved` None: either. `not_of`: only items of other feeds than these.
    """

    is_read: bool | None = None
    is_saved: bool | None = None
    inside: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    feeds: list[list[str]] = field(default_factory=list)
    not_of: frozenset[str] | None = None
    is_empty: bool = False

    def want(self, name: str, value: bool) -> None:
        """Restrict a state."""
        if getattr(self, name) not in (None, value):
            self.is_empty = True
        setattr(self, name, value)

    @property
    def is_everything(self) -> bool:
        """Whether it has no condition."""
        return self == _Selection()

    @property
    def is_small(self) -> bool:
        """Whether a set of its own has its items, few beside all of the user's."""
        return bool(self.feeds or self.inside or self.is_saved or self.is_read is False)


def label_names(channels: Sequence[Channel]) -> dict[str, str]:
    """The channels that are labels, by name: all of the user's own; of equal names the first."""
    found: dict[str, str] = {}
    for channel in channels:
        if channel.uid not in BUILT_IN:
            found.setdefault(channel.name, channel.uid)
    return found


def pick_feed(subscriptions: Sequence[Subscription], value: str) -> str | None:
    """The id of the feed that an id or an address names. Proxies merge the slashes of an address."""
    plain = value.replace("//", "/")
    for one in subscriptions:
        if value in {one.id, one.feed} or plain in {url.replace("//", "/") for url in (one.url, shown_url(one))}:
            return one.feed
    return None


def with_replaced(followed: Mapping[str, T], former: Mapping[str, str]) -> dict[str, T]:
    """The values of followed feeds, also under the ids of those that they replaced: old items still have these."""
    found = dict(followed)
    for feed in former:
        current = feed
        for _ in range(_MOST_MERGES):
            if current in followed or current not in former:
                break
            current = former[current]
        if current in followed:
            found.setdefault(feed, followed[current])
    return found


def shown_url(subscription: Subscription) -> str:
    """The address of a feed as apps get it."""
    return mask_credentials(subscription.url)


class Streams:
    """The streams of users."""

    def __init__(self, redis: Redis, channels: Channels, reading: ReaderViews, items: Items, events: Events) -> None:
        self._redis = redis
        self._channels = channels
        self._reading = reading
        self._items = items
        self._events = events

    async def page(
        self, user: str, channels: Sequence[Channel], query: StreamQuery, now: float
    ) -> tuple[list[Arrival], int | None]:
        """A full page of a stream, unless it ends before, and the position after which it continues, None at its end.

        `channels` are the user's.

        A stream with a set of its own is read from it, so that a feed of ten items costs no walk past all others.
        """
        uids = [channel.uid for channel in channels]
        chosen = await self._selection(user, label_names(channels), query)
        if chosen.is_empty:
            return [], None
        is_walk = not chosen.is_small or (query.since and await count_since(self._redis, user, query.since) <= _STEP)
        if is_walk:
            found = await self._from_arrivals(user, query, chosen, now)
        else:
            found = await self._from_sets(user, uids, query, chosen)
        if query.since:
            found += await self._edited(user, uids, query, chosen)
            found.sort(key=_place, reverse=not query.oldest_first)
        return found[: query.count], found[query.count - 1].position if len(found) > query.count else None

    async def _from_arrivals(self, user: str, query: StreamQuery, chosen: _Selection, now: float) -> list[Arrival]:
        """Walk the order of arrival."""
        forward = query.oldest_first
        bounds = [query.since - 1 if query.since else None, query.after] if forward else [query.before, query.after]
        known = [at for at in bounds if at is not None]
        at: int | None = (max(known) if forward else min(known)) if known else None
        found: list[Arrival] = []
        while len(found) <= query.count:
            asked = ArrivalQuery(query.count + 1 - len(found), forward, "" if at is None else str(at))
            piece, at = await self.piece(user, asked, now, states=not chosen.is_everything)
            rows = _between(piece, query)
            found += await self._kept(user, rows, chosen)
            if at is None or len(rows) < len(piece):
                break
        return found

    async def piece(
        self, user: str, asked: ArrivalQuery, now: float, *, states: bool
    ) -> tuple[Sequence[Arrival], int | None]:
        """Up to some thousand items of the order of arrival, and the position to continue after, None at the end.

        Without `states` they are unread and not saved, whatever they are. One round trip.
        """
        if not states:
            bare = await bare_arrivals(self._redis, user, asked)
            if bare is not None:
                rows, has_more = bare
                return rows, rows[-1].position if has_more else None
        _, piece = await read_arrivals(self._redis, user, GLOBAL, replace(asked, limit=_STEP), now)
        return piece.rows, piece.resume

    async def _edited(self, user: str, uids: Sequence[str], query: StreamQuery, chosen: _Selection) -> list[Arrival]:
        """Items that had arrived before the asked time and were edited since: apps keep old texts otherwise."""
        since, edited, at = query.since / _SECOND, dict[str, None](), f"{query.since // 1000}-0"
        while True:
            events = await self._events.since(at, _STEP)
            edited.update((one.post, None) for one in events if one.kind == "post_modified" and one.at >= since)
            if len(events) < _STEP:
                break
            at = events[-1].id
        places = await places_of(self._redis, user, list(edited)) if edited else {}
        rows = stateless((item, place) for item, place in places.items() if place < query.since)
        rows = sorted(_after(rows, query), key=_place, reverse=not query.oldest_first)
        return await self._among(user, uids, rows, query, chosen)

    async def _from_sets(self, user: str, uids: Sequence[str], query: StreamQuery, chosen: _Selection) -> list[Arrival]:
        """Read the items of a feed or channel, the saved or the unread ones, and sort them by arrival."""
        if chosen.feeds:
            places = await self.places_in(user, uids, chosen.feeds[0])
            chosen = replace(chosen, feeds=chosen.feeds[1:])
        elif chosen.is_read is False:
            places = await arrivals_in(self._redis, user, uids, "unread")
            chosen = replace(chosen, is_read=None)
        elif chosen.is_saved:
            places = await arrivals_in(self._redis, user, [SAVED], "posts")
            chosen = replace(chosen, is_saved=None)
        else:
            places = await arrivals_in(self._redis, user, chosen.inside[:1], "posts")
            chosen = replace(chosen, inside=chosen.inside[1:])
        rows = _after(_between(stateless(places.items()), query), query)
        await asyncio.sleep(0)
        rows = sorted(rows, key=_place, reverse=not query.oldest_first)
        await asyncio.sleep(0)
        return await self._among(user, uids, rows, query, chosen)

    async def _among(
        self, user: str, uids: Sequence[str], rows: Sequence[Arrival], query: StreamQuery, chosen: _Selection
    ) -> list[Arrival]:
        """The first of the rows that are in the selection, at least one more than the query asks for."""
        if chosen.is_everything:
            return [*rows]
        found: list[Arrival] = []
        for at in range(0, len(rows), _STEP):
            some = await self._with_states(user, uids, rows[at : at + _STEP], chosen)
            found += await self._kept(user, some, chosen)
            if len(found) > query.count:
                break
        return found

    async def places_in(self, user: str, uids: Sequence[str], feeds: Sequence[str]) -> dict[str, int]:
        """The items of these feeds that one of the channels shows, with their positions."""
        ids: list[str] = []
        for feed in feeds:
            page = await self._items.page(feed, _STEP)
            while page:
                ids += [one.item for one in page]
                page = await self._items.page(feed, _STEP, page[-1]) if len(page) == _STEP else []
        seen = await in_channels(self._redis, user, uids, ids, "posts") if ids else set()
        return await places_of(self._redis, user, list(seen)) if seen else {}

    async def _with_states(
        self, user: str, uids: Sequence[str], rows: Sequence[Arrival], chosen: _Selection
    ) -> Sequence[Arrival]:
        """The rows with those states that the selection asks for."""
        ids = [row.id for row in rows]
        if rows and chosen.is_read is not None:
            unread = await in_channels(self._redis, user, uids, ids, "unread")
            rows = [row._replace(is_read=row.id not in unread) for row in rows]
        if rows and chosen.is_saved is not None:
            saved = await in_channels(self._redis, user, [SAVED], ids, "posts")
            rows = [row._replace(is_saved=row.id in saved) for row in rows]
        return rows

    async def _kept(self, user: str, rows: Sequence[Arrival], chosen: _Selection) -> list[Arrival]:
        """Those of the rows that are in the selection."""
        kept = [*rows]
        if chosen.is_read is not None or chosen.is_saved is not None:
            kept = [
                one for one in rows if chosen.is_read in (None, one.is_read) and chosen.is_saved in (None, one.is_saved)
            ]
        for uids, wanted in ((chosen.inside, True), (chosen.outside, False)):
            for uid in uids if kept else ():
                there = await in_channels(self._redis, user, [uid], [row.id for row in kept], "posts")
                kept = [row for row in kept if (row.id in there) == wanted]
        for feeds in chosen.feeds if kept else ():
            ids = [row.id for row in kept]
            there = set().union(*[await self._items.in_feed(feed, ids) for feed in feeds])
            kept = [row for row in kept if row.id in there]
        if chosen.not_of is not None and kept:
            feeds_of = await self._reading.feeds_of([row.id for row in kept])
            kept = [row for row, one in zip(kept, feeds_of, strict=True) if one not in chosen.not_of]
        return kept

    async def _followed(self, user: str) -> dict[str, Subscription]:
        """The follows by feed, also by feeds that were replaced."""
        parts = (self._channels.followed_feeds(user), self._channels.former_feeds(user))
        return with_replaced(*await asyncio.gather(*parts))

    async def _selection(self, user: str, labels: Mapping[str, str], query: StreamQuery) -> _Selection:
        chosen = _Selection(is_empty=query.stream is None)
        for one in (query.stream, *query.within):
            if one is not None:
                await self._want(user, chosen, one, labels, is_stream=one is query.stream)
        for one in query.without:
            match one:
                case StreamName("state", "read"):
                    chosen.want("is_read", False)
                case StreamName("state", "unread" | "kept-unread"):
                    chosen.want("is_read", True)
                case StreamName("state", "starred"):
                    chosen.want("is_saved", False)
                case StreamName("state", "reading-list"):
                    chosen.is_empty = True
                case StreamName("label", name) if name in labels:
                    chosen.outside.append(labels[name])
        return chosen

    async def _want(
        self, user: str, chosen: _Selection, one: StreamName, labels: Mapping[str, str], *, is_stream: bool
    ) -> None:
        match one:
            case StreamName("state", "read"):
                chosen.want("is_read", True)
            case StreamName("state", "unread" | "kept-unread"):
                chosen.want("is_read", False)
            case StreamName("state", "starred"):
                chosen.want("is_saved", True)
            case StreamName("state", "reading-list"):
                pass
            case StreamName("label", name) if name in labels:
                chosen.inside.append(labels[name])
            case StreamName("feed", "other"):
                chosen.not_of = frozenset(await self._followed(user))
            case StreamName("feed", value):
                followed = await self._followed(user)
                feed = pick_feed(list(followed.values()), value)
                chosen.feeds.append([one for one, by in followed.items() if by.feed == feed])
                chosen.is_empty = chosen.is_empty or feed is None
            case _ if is_stream:
                chosen.is_empty = True


_place = itemgetter(1)
"""The position of a row: an account can have 200,000."""


def _between(rows: Sequence[Arrival], query: StreamQuery) -> Sequence[Arrival]:
    if not query.since and query.before is None:
        return rows
    return [
        row for row in rows if query.since <= row.position and (query.before is None or row.position < query.before)
    ]


def _after(rows: Sequence[Arrival], query: StreamQuery) -> Sequence[Arrival]:
    if query.after is None:
        return rows
    if query.oldest_first:
        return [row for row in rows if row.position > query.after]
    return [row for row in rows if row.position < query.after]
