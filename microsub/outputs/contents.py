"""The content of an output feed: items added by hand or from a channel, and the document made of them.

A feed is brought up to date when it is requested, so an unread one costs no writes: it reads what arrived in its
channel or search, and publishes edited posts again. The order of arrival shows what is new, so nothing is missed,
however much or old it is; each feed records its position in it. One request reads a limited number of items, and the
next one continues. Posts of a feed stay in the store (`admin.sweep`) even if they leave all timelines.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

import orjson
import structlog

from microsub.base.bounded_cache import BoundedCache
from microsub.base.digests import short_digest
from microsub.base.errors import MicrosubError, NotFound
from microsub.base.rate_limits import FixedWindow
from microsub.base.urls import canonical_feed_url
from microsub.configuration.model import OutputConfig, encode
from microsub.feeds import MOST_ITEMS, Feeds, OutputFeed, OutputRow, PostVersion
from microsub.formats.documents.values import FeedDocument, is_iri, permanent_id, title
from microsub.formats.wire import from_wire
from microsub.model.filters import Filter, Searched
from microsub.model.jf2 import Card, Content, Entry
from microsub.model.reader import GLOBAL
from microsub.outputs.store import ARCHIVE, OutputFeeds
from microsub.posts import OWN, WRITTEN_GUID, Items
from microsub.redis.scripts import batches
from microsub.timelines import OwnView

SHOWN = 2 * ARCHIVE
"""Maximum number of items in a document with a maximum of impressions."""

SHOWN_FOR_A_TIME = 500
"""Maximum number of items in a document whose items only get too old: it has no archives with the rest."""

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of the posts in one document; further posts are listed with their beginnings."""

_MOST_READ = 4 * MOST_BYTES
"""Bytes of further posts that are read for their beginnings; the rest is listed with addresses only."""

_BEGINNING = 500
"""Characters of a beginning."""

_WINDOW = 200
"""Items checked for edits, and new items read in one step."""

_STEPS = 10
"""Steps of one request, so that none takes long; the next request reads the remaining items."""

_FIRST = _STEPS * _WINDOW
"""Maximum number of newest items of a channel that a new feed starts with."""

_AHEAD = 60.0
"""Seconds by which the clocks of several machines may differ."""

_MOST_REFUSED = 20_000
_SEARCHED = 30.0
"""Seconds between two queries of a feed's search, however often the feed is requested."""

MostItems = Callable[[str], Awaitable[int]]
"""User to the maximum number of items in one of their output feeds; 0: no quota."""


T = TypeVar("T")


class ItemSearch(Protocol):
    """A search for output feeds, in a channel or `global`. Its methods raise MicrosubError."""

    async def newest(self, user: str, uid: str, text: str, now: float) -> Sequence[str]:
        """Ids of the newest items that match."""

    async def matching(
        self, user: str, uid: str, text: str, ids: Sequence[str], now: float
    ) -> tuple[Sequence[str], bool]:
        """The ids that match, and whether the index knew all of the ids."""


FillTimelines = Callable[[str, str, float], Awaitable[object]]
"""User, channel uid or `global`, and time: adds posts that wait for the timelines of an absent user."""

log = structlog.get_logger(__name__)

Edited = tuple[int, tuple[str, ...]]
"""How many items of an output feed changed, and which ids aren't items of the user or of the feed."""


class OutputContents:
    """Adds items to output feeds, and generates their documents. Times are Unix seconds."""

    def __init__(
        self,
        store: OutputFeeds,
        items: Items,
        feeds: Feeds,
        most: MostItems,
        *,
        own_view: OwnView,
        search: ItemSearch | None = None,
        fill: FillTimelines | None = None,
        hubs: Sequence[str] = (),
    ) -> None:
        """Documents show posts as their user sees them. Without `search`, searches add nothing. `hubs` are named in
        every document.
        """
        self._own_view = own_view
        self._search = search
        self._fill = fill
        self.hubs = tuple(hubs)
        self._store = store
        self._items = items
        self._feeds = feeds
        self._most = most
        self._refused: BoundedCache[tuple[str, str], None] = BoundedCache(_MOST_REFUSED)
        self._searches = FixedWindow(1, _SEARCHED)

    # --- by hand

    async def add(self, user: str, name: str, ids: Sequence[str], now: float, picked: Sequence[str] = ()) -> Edited:
        """Publish items that aren't in the feed: of the user's channels, and `picked` ones, in no channel.

        Raises NotFound, QuotaReached.
        """
        return await self._publish(user, name, ids, "add", now, picked)

    async def publish(self, user: str, name: str, ids: Sequence[str], now: float) -> Edited:
        """Publish items again, imported ones too; their impressions start at 0. Raises as `add` does."""
        return await self._publish(user, name, ids, "publish", now)

    async def remove(self, user: str, name: str, ids: Sequence[str], now: float) -> Edited:
        """Remove items from the feed; those that aren't in it are unknown. Raises NotFound."""
        feed = await self._store.get(user, name)
        there = await self._store.among(feed, list(dict.fromkeys(ids)))
        changed = await self._store.edit(feed, "remove", dict.fromkeys(there, PostVersion()), now)
        return changed, tuple(item for item in dict.fromkeys(ids) if item not in there)

    async def _publish(
        self, user: str, name: str, ids: Sequence[str], action: str, now: float, picked: Sequence[str] = ()
    ) -> Edited:
        feed = await self._store.get(user, name)
        distinct = list(dict.fromkeys([*ids, *picked]))
        known = {*picked, *await self._store.in_channels(user, distinct), *await self._store.among(feed, distinct)}
        versions = await self._wanted([item for item in distinct if item in known])
        changed = await self._store.edit(feed, action, versions, now, most=await self._room(user))
        return changed, tuple(item for item in distinct if item not in versions)

    async def _wanted(self, ids: Sequence[str]) -> dict[str, PostVersion]:
        """The versions of the stored items among these, which the sweep spares from now on."""
        return await self.versions([item.id for item in await self._items.timeline_items(ids)])

    async def versions(self, ids: Sequence[str]) -> dict[str, PostVersion]:
        """The versions of the stored items among these."""
        rows = await self._items.fields(ids, ("score", "hash", OWN))
        there = {item: row for item, (score, *row) in zip(ids, rows, strict=True) if score is not None}
        return {item: PostVersion(*((word or b"").decode() for word in row)) for item, row in there.items()}

    async def _room(self, user: str) -> int:
        return min(await self._most(user) or MOST_ITEMS, MOST_ITEMS)

    # --- from the source

    async def refresh(self, feed: OutputFeed, now: float) -> None:
        """Add what arrived in the feed's channel or search, and publish edited posts again if that is wanted."""
        if (feed.settings.search or feed.settings.channel) and await self._store.has_source(feed, now):
            if self._fill is not None:
                await self._fill(feed.user, feed.settings.channel or GLOBAL, now)
            await self._take_in(feed, now)  # if the source has ended, its earlier items stay
        rows = await self._store.rows(feed, now, _WINDOW)
        if ahead := [row.item for row in rows if row.published > now + _AHEAD]:
            await self._store.set_back(feed, ahead, now)
        known = {row.item: row.version for row in rows}
        known |= await self._store.imported(feed, _WINDOW)
        there = await self.versions(list(known))
        changed = {item: version for item, version in there.items() if version != known[item]}
        edited = {item: version for item, version in changed.items() if version.is_edit_of(known[item])}
        if not feed.settings.republishes:
            edited = {}
        if edited:
            await self._store.edit(feed, "edit", edited, now, most=await self._room(feed.user))
        if noted := {item: version for item, version in changed.items() if item not in edited}:
            await self._store.edit(feed, "note", noted, now)
        if gone := known.keys() - there.keys():
            await self._store.edit(feed, "drop", dict.fromkeys(gone, PostVersion()), now)

    async def _take_in(self, feed: OutputFeed, now: float) -> None:
        """Add what arrived after the feed's position; from a new source, its newest items.

        The position is recorded after each step, so the next request continues after a crash.
        """
        source, position = _source(feed.settings), feed.position
        if feed.settings.search is not None and not self._searches.allows(f"{feed.id} {source}", now):
            return
        if feed.taken_from != source or feed.settings.search is not None:
            last = await self._store.last_position(feed, self._items, now)
            newest = await self._newest(feed, now)
            if newest is None:
                return
            await self._offer(feed, newest, now)
            if feed.taken_from != source:
                position = position if _is_same(feed.taken_from, source) else last
                await self._store.note_taken(feed, source, position)
        for _ in range(_STEPS):
            channel = feed.settings.channel or GLOBAL
            ids, reached, more = await self._store.newcomers(feed, channel, position, _WINDOW)
            fitting, is_whole = await self._matching(feed, ids, now)
            await self._offer(feed, fitting, now)
            if not is_whole or reached == position:
                break
            position = reached
            await self._store.note_taken(feed, source, position)
            if not more:
                break
            await asyncio.sleep(0)

    async def _newest(self, feed: OutputFeed, now: float) -> Sequence[str] | None:
        """The newest items of the feed's source; None if it can't be searched now."""
        channel, query = feed.settings.channel, feed.settings.search
        if query is not None:
            return await self._searched(feed, lambda search: search.newest(feed.user, channel or GLOBAL, query, now))
        return await self._store.newest(feed, channel or GLOBAL, min(_FIRST, await self._room(feed.user)))

    async def _matching(self, feed: OutputFeed, ids: Sequence[str], now: float) -> tuple[Sequence[str], bool]:
        """The ids that the feed's search finds, and whether all of them could be checked."""
        channel, query = feed.settings.channel, feed.settings.search
        if query is None or not ids:
            return ids, True
        found = await self._searched(
            feed, lambda search: search.matching(feed.user, channel or GLOBAL, query, ids, now)
        )
        return found or ((), False)

    async def _searched(self, feed: OutputFeed, ask: Callable[[ItemSearch], Awaitable[T]]) -> T | None:
        if self._search is None:
            return None
        try:
            return await ask(self._search)
        except MicrosubError as error:
            log.info("the search of an output feed failed", user=feed.user, feed=feed.name, why=str(error))
            return None

    async def _offer(self, feed: OutputFeed, ids: Sequence[str], now: float) -> None:
        """Publish the items that were never in the feed and that its filters accept."""
        filters = sys.intern(orjson.dumps(encode(feed.settings.filters)).decode())
        offered = await self._store.never_in(feed, ids)
        versions = await self._wanted([item for item in offered if (filters, item) not in self._refused])
        if feed.settings.filters:
            chosen: dict[str, PostVersion] = {}
            for batch in batches(list(versions.items()), _WINDOW):
                chosen |= await self._fitting(filters, dict(batch))
            versions = chosen
        if not versions:
            return
        # The first items of a feed are in it by their own dates. Later ones follow in the order of their arrival, so
        # that archives don't change.
        by, last = "discovered", await self._store.latest(feed)
        if await self._store.is_new(feed):
            by, last = "score", 0.0
        rows = await self._items.fields(list(versions), (by, "score"))
        moments = {item: [float(value or now) for value in row] for item, row in zip(versions, rows, strict=True)}
        times = {}
        for item, (at, _) in sorted(moments.items(), key=lambda one: one[1]):
            last = times[item] = min(max(at, last + 1e-6), now)
        await self._store.edit(feed, "offer", versions, now, most=await self._room(feed.user), times=times)

    async def _fitting(self, filters: str, versions: Mapping[str, PostVersion]) -> dict[str, PostVersion]:
        """The items whose posts the filters accept; the process remembers a limited number of the others."""
        filter_, chosen = Filter.of(orjson.loads(filters)), set[str]()
        async for piece in self._items.pieces(list(versions)):
            chosen |= await asyncio.to_thread(lambda piece=piece: filter_.chosen(Searched.all_of(piece)))  # type: ignore[misc]
        self._refused.update({(filters, item): None for item in versions if item not in chosen})
        return {item: version for item, version in versions.items() if item in chosen}

    # --- the document

    async def listed(
        self,
        feed: OutputFeed,
        base: str,
        now: float,
        *,
        archive: str | None = None,
        stylesheet: str = "",
    ) -> tuple[FeedDocument, tuple[OutputRow, ...]]:
        """The feed's present document, or the archive with that name, without entries; and the rows that it will show.

        Raises NotFound for an unknown archive. A feed whose items expire is complete in one document (RFC 5005). In
        any other feed, all but the newest items are in archives. An archive's name is a digest of its items and of
        the archives before it, so the content at its address never changes.
        """
        settings = feed.settings
        most = SHOWN if settings.max_impressions else SHOWN_FOR_A_TIME if settings.max_age else MOST_ITEMS
        rows = await self._store.rows(feed, now, most)
        addresses = feed.addresses(base)
        whole = FeedDocument(
            id=f"urn:uuid:{feed.id}",
            title=feed.title,
            description=settings.description or "",
            image=settings.image or "",
            author=Card(name=settings.author) if settings.author else None,
            language=settings.language or "",
            addresses=addresses,
            updated=datetime.fromtimestamp(feed.modified, UTC),
            complete=feed.is_limited,
            hubs=self.hubs,
            stylesheet=stylesheet,
        )
        names = [] if feed.is_limited else archive_names(rows)
        if archive is None:
            linked = max(0, len(names) - 1)
            previous = _named(addresses, names[linked - 1]) if linked else {}
            shown = rows[: len(rows) - linked * ARCHIVE]
            return replace(whole, previous=previous), tuple(shown)
        if archive not in names:
            raise NotFound("there is no such archive, or not any more")
        position = names.index(archive)
        end = len(rows) - position * ARCHIVE
        of_archive = replace(
            whole,
            addresses=_named(addresses, archive),
            archive=True,
            hubs=(),
            updated=datetime.fromtimestamp(feed.created, UTC),
            previous=_named(addresses, names[position - 1]) if position else {},
            current=addresses,
        )
        return of_archive, tuple(rows[end - ARCHIVE : end])

    async def filled(
        self, user: str, document: FeedDocument, rows: Sequence[OutputRow]
    ) -> tuple[FeedDocument, tuple[OutputRow, ...]]:
        """The user's document with the entries of its rows that are still stored, and these rows."""
        entries = await self.entries([row.item for row in rows], user)
        listed = tuple(row for row in rows if row.item in entries)
        updated = max([document.updated.timestamp(), *(row.published for row in listed)])
        shown = tuple(_dated(entries[row.item], row) for row in listed)
        return replace(document, entries=shown, updated=datetime.fromtimestamp(updated, UTC)), listed

    async def whole(self, feed: OutputFeed, base: str, now: float, *, stylesheet: str) -> FeedDocument:
        """The newest document, as `listed` and then `filled`."""
        document, _ = await self.filled(feed.user, *await self.listed(feed, base, now, stylesheet=stylesheet))
        return document

    async def titles(self, ids: Sequence[str]) -> dict[str, str]:
        """The titles of the stored items among these, as in documents; ids where too much would be read for them."""
        there = [item for item, (score,) in zip(ids, await self._items.fields(ids, ("score",)), strict=True) if score]
        found = await self._posts(there)
        return {item: title(found[item]) if item in found else item for item in there}

    async def _posts(self, ids: Sequence[str], user: str = "") -> dict[str, Entry]:
        """The posts as far as there is room for them, then beginnings of posts, then none; and no corrupt ones.

        Whole ones have the texts that the user sees; without a user, those of their feeds.
        """
        room, rest, whole, further = MOST_BYTES, _MOST_READ, list[str](), list[str]()
        for item, size in zip(ids, await self._items.sizes(ids), strict=True):
            if size <= room:
                whole.append(item)
                room -= size
            elif size <= rest:
                further.append(item)
                rest -= size
        posts = dict[str, Entry]()
        async for both in self._items.text_pieces(whole, full=bool(user)):
            seen = await self._own_view.texts.of(user, list(both.values()))
            posts |= _readable({item: wire for item, wire in zip(both, seen, strict=True) if wire is not None})
        async for piece in self._items.pieces(further):
            posts |= await asyncio.to_thread(_beginnings, piece)
        return posts

    async def entries(self, ids: Sequence[str], user: str = "") -> dict[str, Entry]:
        """The items as entries with date, author, and a guid that is the same on every instance.

        They are as the user sees them, if there is one: with the chosen texts, and the user's names for feeds.
        """
        fields = await self._items.fields(ids, ("guid", WRITTEN_GUID, "feed", "link", "score"))
        posts = await self._posts(ids, user)
        names = (await self._own_view.names.of(user)).own if user else {}
        records = await self._feeds.get_many({row[2].decode() for row in fields if row[2]})
        found, identities = {}, set[str]()
        for item, (guid, written, source, link, score) in zip(ids, fields, strict=True):
            if score is None:
                continue
            published = datetime.fromtimestamp(float(score), UTC)
            entry = posts.get(item) or Entry(url=(link or b"").decode() or None)
            record = records.get((source or b"").decode())
            by_feed = Card(name=record.title, url=record.home) if record is not None else Card()
            author = entry.author if entry.author and (entry.author.name or entry.author.url) else by_feed
            if (own := names.get((source or b"").decode())) and author.name in {by_feed.name, None}:
                author = replace(author, name=own)  # as on pages: the feed stands for its author
            identity = (written or guid or b"").decode()
            if not is_iri(identity) or identity in identities:
                # Derived from facts that every instance has; copies of a post in two feeds may share the written guid.
                url = (source or b"").decode() if record is None else canonical_feed_url(record.url)
                identity = permanent_id((guid or b"").decode(), url)
            identities.add(identity)
            found[item] = replace(
                entry,
                guid=identity,
                published=entry.published or published,
                author=author,
            )
        return found


def archive_names(rows: Sequence[OutputRow]) -> list[str]:
    """The names of a feed's archives, the oldest first. `rows` are all its rows, newest first. Pure.

    A name covers the archive's own items and the name of the archive before it.
    """
    names: list[str] = []
    oldest_first = rows[::-1]
    for start in range(0, len(rows) - ARCHIVE + 1, ARCHIVE):
        inside = " ".join(f"{row.item}:{row.edition}" for row in oldest_first[start : start + ARCHIVE])
        names.append(short_digest(f"{names[-1] if names else ''} {inside}".encode(), 12))
    return names


def _readable(wires: Mapping[str, bytes]) -> dict[str, Entry]:
    """The posts by id, without corrupt ones."""
    found = {}
    for item, wire in wires.items():
        try:
            found[item] = from_wire(orjson.loads(wire))
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("a post of an output feed is corrupt", item=item)
    return found


def _beginnings(wires: Mapping[str, bytes]) -> dict[str, Entry]:
    """Shortened posts by id: title, author, dates, first file and the beginning of the text."""
    found = {}
    for item, post in _readable(wires).items():
        text = (post.content and post.content.text) or post.summary or ""
        if len(text) > _BEGINNING:
            text = text[:_BEGINNING].rsplit(" ", 1)[0] + "…"
        found[item] = Entry(
            url=post.url,
            fallback_url=post.fallback_url,
            name=post.name,
            author=post.author,
            published=post.published,
            updated=post.updated,
            featured=post.featured,
            content=Content(text=text),
            enclosure=post.enclosure[:1],
        )
    return found


def _dated(entry: Entry, row: OutputRow) -> Entry:
    """The entry with the time of its publication in the feed, if it was published again or claims to be from later.

    Its guid stays, so that readers update it and don't show it twice. After an edit, only the time of the edit is new.
    """
    at = datetime.fromtimestamp(int(row.published), UTC)
    if entry.published is not None and entry.published > at + timedelta(seconds=_AHEAD):
        # The clock was ahead when the post came. This time is the same in each document, unlike that of a request.
        entry = replace(entry, published=at, updated=entry.updated and min(entry.updated, at))
    if not row.again:
        return entry
    return replace(entry, updated=at, published=at if row.again == "again" else entry.published)


def _named(addresses: Mapping[str, str], archive: str) -> dict[str, str]:
    return {form: f"{address}?archive={archive}" for form, address in addresses.items()}


def _source(settings: OutputConfig) -> str:
    """The identity of a feed's source: two digests, of its channel and search, and of its filters."""
    parts = ([settings.channel, settings.search], encode(settings.filters))
    return " ".join(short_digest(orjson.dumps(part), 12) for part in parts)


def _is_same(one: str, other: str) -> bool:
    """Whether two sources differ at most in their filters."""
    return one.partition(" ")[0] == other.partition(" ")[0]
