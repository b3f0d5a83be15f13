"""Which items a stream has, in the order of their arrival at the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from microsub.feeds import Events
from microsub.greader.ids import StreamName
from microsub.model.reader import BUILT_IN, GLOBAL, SAVED, Channel, Credential, Subscription
from microsub.posts import Items
from microsub.redis.protocol import Redis
from microsub.timelines import Arrival, ArrivalQuery, Channels, ReaderViews, arrivals_in, in_channels, places_of

_STEP = 1000
_SECOND = 1_000_000


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


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Items of a stream, and the position after which it continues, None at its end."""

    rows: Sequence[Arrival]
    more: int | None = None


@dataclass(slots=True)
class _Selection:
    """The meaning of a query for this user: states, channels by uid, and feeds by id.

    `is_read` and `is_saved` None: either. A feed None: none of the followed ones.
    """

    is_read: bool | None = None
    is_saved: bool | None = None
    inside: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    feeds: list[str | None] = field(default_factory=list)
    is_empty: bool = False

    def want(self, name: str, value: bool) -> None:
        """Restrict a state."""
        if getattr(self, name) not in (None, value):
            self.is_empty = True
        setattr(self, name, value)


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
        if value in {one.id, one.feed} or one.url.replace("//", "/") == plain:
            return one.feed
    return None


class Streams:
    """The streams of users."""

    def __init__(self, redis: Redis, channels: Channels, reading: ReaderViews, items: Items, events: Events) -> None:
        self._redis = redis
        self._channels = channels
        self._reading = reading
        self._items = items
        self._events = events

    async def page(
        self, credential: Credential, channels: Sequence[Channel], query: StreamQuery, now: float
    ) -> StreamPage:
        """A full page of a stream, unless it ends before; `channels` are the user's. Raises Unauthorized."""
        user = credential.user
        chosen = await self._selection(user, label_names(channels), query)
        if chosen.is_empty:
            return StreamPage(())
        if (chosen.is_read is False or chosen.is_saved or chosen.inside) and not query.since:
            return await self._from_sets(user, [channel.uid for channel in channels], query, chosen)
        found = await self._from_arrivals(credential, query, chosen, now)
        if query.since:
            found += await self._edited(user, [channel.uid for channel in channels], query, chosen)
            found.sort(key=lambda row: row.position, reverse=not query.oldest_first)
        return _page(found, query.count)

    async def _from_arrivals(
        self, credential: Credential, query: StreamQuery, chosen: _Selection, now: float
    ) -> list[Arrival]:
        """Walk the order of arrival. One round trip for each thousand items that are passed."""
        forward = query.oldest_first
        bounds = [query.since - 1 if query.since else None, query.after] if forward else [query.before, query.after]
        known = [at for at in bounds if at is not None]
        at: int | None = (max(known) if forward else min(known)) if known else None
        found: list[Arrival] = []
        while len(found) <= query.count:
            asked = ArrivalQuery(min(_STEP, query.count + 1), forward, "" if at is None else str(at))
            piece = await self._reading.arrivals_with_token(credential, GLOBAL, asked, now)
            rows = [row for row in piece[1].rows if _is_between(row.position, query)]
            ended = len(rows) < len(piece[1].rows)
            found += await self._kept(credential.user, rows, chosen)
            at = piece[1].resume
            if at is None or ended:
                break
        return found

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
        rows = [Arrival(item, place, False, False) for item, place in places.items() if place < query.since]
        rows = [row for row in rows if _is_after(row.position, query)]
        return await self._kept(user, await self._with_states(user, uids, rows, chosen), chosen)

    async def _from_sets(self, user: str, uids: Sequence[str], query: StreamQuery, chosen: _Selection) -> StreamPage:
        """Read the unread, the saved or a channel's items, and sort them by arrival: they are few beside all."""
        if chosen.is_read is False:
            known, places = "read", await arrivals_in(self._redis, user, uids, "unread")
        elif chosen.is_saved:
            known, places = "saved", await arrivals_in(self._redis, user, [SAVED], "posts")
        else:
            known, places = "", await arrivals_in(self._redis, user, chosen.inside[:1], "posts")
        rows = [Arrival(item, at, False, known == "saved") for item, at in places.items()]
        rows = await self._with_states(user, uids, rows, chosen, known)
        rows = [row for row in rows if _is_between(row.position, query) and _is_after(row.position, query)]
        rows.sort(key=lambda row: row.position, reverse=not query.oldest_first)
        found: list[Arrival] = []
        for at in range(0, len(rows), _STEP):
            found += await self._kept(user, rows[at : at + _STEP], chosen)
            if len(found) > query.count:
                break
        return _page(found, query.count)

    async def _with_states(
        self, user: str, uids: Sequence[str], rows: list[Arrival], chosen: _Selection, known: str = ""
    ) -> list[Arrival]:
        """The rows with those states that the selection asks for, except the one that is known already."""
        ids = [row.id for row in rows]
        if rows and chosen.is_read is not None and known != "read":
            unread = await in_channels(self._redis, user, uids, ids, "unread")
            rows = [row._replace(is_read=row.id not in unread) for row in rows]
        if rows and chosen.is_saved is not None and known != "saved":
            saved = await in_channels(self._redis, user, [SAVED], ids, "posts")
            rows = [row._replace(is_saved=row.id in saved) for row in rows]
        return rows

    async def _kept(self, user: str, rows: Sequence[Arrival], chosen: _Selection) -> list[Arrival]:
        """Those of the rows that are in the selection."""
        kept = [
            row for row in rows if chosen.is_read in (None, row.is_read) and chosen.is_saved in (None, row.is_saved)
        ]
        for uids, wanted in ((chosen.inside, True), (chosen.outside, False)):
            for uid in uids if kept else ():
                there = await in_channels(self._redis, user, [uid], [row.id for row in kept], "posts")
                kept = [row for row in kept if (row.id in there) == wanted]
        for feed in chosen.feeds if kept else ():
            if feed is not None:
                there = await self._items.in_feed(feed, [row.id for row in kept])
                kept = [row for row in kept if row.id in there]
            else:
                followed = set(await self._channels.followed_feeds(user))
                feeds = await self._reading.feeds_of([row.id for row in kept])
                kept = [row for row, one in zip(kept, feeds, strict=True) if one not in followed]
        return kept

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
                chosen.feeds.append(None)
            case StreamName("feed", value):
                feed = pick_feed(list((await self._channels.followed_feeds(user)).values()), value)
                chosen.feeds.append(feed)
                chosen.is_empty = chosen.is_empty or feed is None
            case _ if is_stream:
                chosen.is_empty = True


def _is_between(position: int, query: StreamQuery) -> bool:
    return position >= query.since and (query.before is None or position < query.before)


def _is_after(position: int, query: StreamQuery) -> bool:
    if query.after is None:
        return True
    return position > query.after if query.oldest_first else position < query.after


def _page(found: Sequence[Arrival], count: int) -> StreamPage:
    return StreamPage(found[:count], found[count - 1].position if len(found) > count else None)
