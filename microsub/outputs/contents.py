"""What stands in an output feed: items by hand, those of a channel, and the document that they make.

A feed is brought up to date when it is asked for: its channel's new items come in, and a post that was edited is
published afresh. Posts of a feed are kept in the store (`upkeep.sweep`), whatever leaves the timelines.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import orjson
import structlog

from microsub.configuration.model import encode
from microsub.errors import MicrosubError, NotFound
from microsub.feeds.record import Feeds
from microsub.formats.documents.values import FeedDocument, is_iri
from microsub.formats.wire import from_wire
from microsub.kit.digests import short_digest
from microsub.kit.rate_limits import FixedWindow
from microsub.model.filters import Filter, Searched
from microsub.model.jf2 import Card, Entry
from microsub.model.reader import GLOBAL
from microsub.outputs.store import ARCHIVE, OutputFeeds
from microsub.outputs.values import MOST_ITEMS, OutputFeed, OutputRow
from microsub.posts.items import Items
from microsub.posts.values import WRITTEN_GUID

SHOWN = 2 * ARCHIVE
"""Most items of a document."""

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of the posts in one document; those beyond are listed by their addresses alone."""

_WINDOW = 200
"""Newest items of a channel that are looked at for news, and items whose posts are looked at for edits."""

_MOST_REFUSED = 20_000
_SEARCHED = 30.0
"""Seconds in which a feed's search is asked once, however often its address is."""

MostItems = Callable[[str], Awaitable[int]]
"""User to how many items one of their output feeds may have; 0: as many as there can be."""


FindItems = Callable[[str, str, str, float], Awaitable[Sequence[str]]]
"""User, channel uid or `global`, query and time to the ids of the newest items that match. Raises MicrosubError."""

FillTimelines = Callable[[str, str, float], Awaitable[object]]
"""User, channel uid or `global` and time: adds what waits for the timelines of a user who is away."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Edited:
    """How many items of an output feed were changed, and which ids are no items of the user."""

    changed: int
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contents:
    """A document that is about to be written, and the rows that it shows, or is to show once it is `filled`."""

    document: FeedDocument
    rows: tuple[OutputRow, ...]


class OutputContents:
    """Puts items into output feeds, and makes documents of them. Times are Unix seconds."""

    def __init__(
        self,
        store: OutputFeeds,
        items: Items,
        feeds: Feeds,
        most: MostItems,
        *,
        find: FindItems | None = None,
        fill: FillTimelines | None = None,
        hubs: Sequence[str] = (),
    ) -> None:
        """Without `find` searches bring nothing in. `hubs` are named in every document."""
        self._find = find
        self._fill = fill
        self.hubs = tuple(hubs)
        self._store = store
        self._items = items
        self._feeds = feeds
        self._most = most
        self._refused: set[tuple[str, str]] = set()
        self._searches = FixedWindow(1, _SEARCHED)

    # --- by hand

    async def add(self, user: str, name: str, ids: Sequence[str], now: float) -> Edited:
        """Publish items of the user's channels that aren't in the feed. Raises NotFound, QuotaReached."""
        return await self._publish(user, name, ids, "add", now)

    async def publish(self, user: str, name: str, ids: Sequence[str], now: float) -> Edited:
        """Publish items afresh, imported ones too: their impressions begin at none. Raises as `add` does."""
        return await self._publish(user, name, ids, "publish", now)

    async def remove(self, user: str, name: str, ids: Sequence[str], now: float) -> Edited:
        """Take items out of the feed. Raises NotFound."""
        feed = await self._store.get(user, name)
        return Edited(await self._store.edit(feed, "remove", dict.fromkeys(ids, ""), now))

    async def _publish(self, user: str, name: str, ids: Sequence[str], action: str, now: float) -> Edited:
        feed = await self._store.get(user, name)
        distinct = list(dict.fromkeys(ids))
        known = {*await self._store.in_channels(user, distinct), *await self._store.among(feed, distinct)}
        hashes = await self._wanted([item for item in distinct if item in known])
        changed = await self._store.edit(feed, action, hashes, now, most=await self._room(user))
        return Edited(changed, tuple(item for item in distinct if item not in hashes))

    async def _wanted(self, ids: Sequence[str]) -> dict[str, str]:
        """The hashes of these items' posts, as far as they are there, which the sweep spares from now on."""
        there = [item.id for item in await self._items.timeline_items(ids)]
        rows = await self._items.fields(there, ("hash",))
        return {item: (hash_ or b"").decode() for item, (hash_,) in zip(there, rows, strict=True)}

    async def _room(self, user: str) -> int:
        return min(await self._most(user) or MOST_ITEMS, MOST_ITEMS)

    # --- by itself

    async def refresh(self, feed: OutputFeed, now: float) -> None:
        """Take in what came to the feed's channel or search, and publish afresh what was edited."""
        has_source = await self._store.has_source(feed, now)
        if has_source and self._fill is not None and (feed.settings.search or feed.settings.channel):
            await self._fill(feed.user, feed.settings.channel or GLOBAL, now)
        if has_source:  # else what the channel has brought in stays
            if feed.settings.search is not None:
                await self._take_in(feed, await self._found(feed, feed.settings.search, now), now)
            elif feed.settings.channel is not None:
                await self._take_in(feed, await self._store.newest(feed, feed.settings.channel, _WINDOW), now)
        known = {row.item: row.hash for row in await self._store.rows(feed, now, _WINDOW)}
        known |= await self._store.imported(feed, _WINDOW)
        found = await self._items.fields(list(known), ("hash",))
        there = {item: hash_.decode() for item, (hash_,) in zip(known, found, strict=True) if hash_ is not None}
        edited = {item: hash_ for item, hash_ in there.items() if hash_ != known[item]}
        if edited:
            await self._store.edit(feed, "edit", edited, now, most=await self._room(feed.user))
        if gone := known.keys() - there.keys():
            await self._store.edit(feed, "drop", dict.fromkeys(gone, ""), now)

    async def _found(self, feed: OutputFeed, query: str, now: float) -> Sequence[str]:
        """What the feed's search finds; where it can't be searched just now, what comes in comes in later."""
        if self._find is None or not self._searches.allows(f"{feed.id} {query}", now):
            return ()
        try:
            return await self._find(feed.user, feed.settings.channel or GLOBAL, query, now)
        except MicrosubError as error:
            log.info("an output feed's search found nothing", user=feed.user, feed=feed.name, why=str(error))
            return ()

    async def _take_in(self, feed: OutputFeed, ids: Sequence[str], now: float) -> None:
        filters = sys.intern(orjson.dumps(encode(feed.settings.filters)).decode())
        offered = await self._store.never_in(feed, ids)
        hashes = await self._wanted([item for item in offered if (filters, item) not in self._refused])
        if feed.settings.filters:
            hashes = await self._fitting(filters, hashes)
        if not hashes:
            return
        # What a feed begins with stands in it by its own date. What comes later stands behind that, as it came in, so
        # that archives stay as they are.
        by, last = "discovered", await self._store.latest(feed)
        if await self._store.is_new(feed):
            by, last = "score", 0.0
        rows = await self._items.fields(list(hashes), (by, "score"))
        moments = {item: [float(value or now) for value in row] for item, row in zip(hashes, rows, strict=True)}
        times = {}
        for item, (at, _) in sorted(moments.items(), key=lambda one: one[1]):
            last = times[item] = min(max(at, last + 1e-6), now)
        await self._store.edit(feed, "offer", hashes, now, most=await self._room(feed.user), times=times)

    async def _fitting(self, filters: str, hashes: Mapping[str, str]) -> dict[str, str]:
        """Those whose posts the filters let in; the process remembers the others, as long as there aren't too many."""
        takes = Filter.of(orjson.loads(filters)).takes
        fitting = {}
        if len(self._refused) > _MOST_REFUSED:
            self._refused.clear()
        for (item, hash_), data in zip(hashes.items(), await self._items.data(list(hashes)), strict=True):
            if data is not None and takes(Searched.of(orjson.loads(data))):
                fitting[item] = hash_
            else:
                self._refused.add((filters, item))
        return fitting

    # --- the document

    async def listed(
        self,
        feed: OutputFeed,
        base: str,
        now: float,
        *,
        archive: str | None = None,
        stylesheet: str = "",
        only: frozenset[str] | None = None,
    ) -> Contents:
        """What the feed shows now, or the archive of that name, without entries; `only` these items of it.

        Raises NotFound for an archive that isn't there.

        A feed whose items leave by themselves is complete as it stands (RFC 5005). Of any other, what is older than a
        hundred items stands in archives. An archive is named by what stands in it and in those before, so what its
        address shows never changes.
        """
        rows = await self._store.rows(feed, now, SHOWN if feed.is_limited else MOST_ITEMS)
        addresses = feed.addresses(base)
        whole = FeedDocument(
            id=f"urn:uuid:{feed.id}",
            title=feed.title,
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
            return Contents(replace(whole, previous=previous), _these(shown, only))
        if archive not in names:
            raise NotFound("there is no such archive, or not any more")
        place = names.index(archive)
        end = len(rows) - place * ARCHIVE
        of_archive = replace(
            whole,
            addresses=_named(addresses, archive),
            archive=True,
            updated=datetime.fromtimestamp(feed.created, UTC),
            previous=_named(addresses, names[place - 1]) if place else {},
            current=addresses,
        )
        return Contents(of_archive, _these(rows[end - ARCHIVE : end], only))

    async def filled(self, contents: Contents) -> Contents:
        """The document with the entries of its rows, as far as these are there."""
        document, rows = contents.document, contents.rows
        entries = await self._entries([row.item for row in rows])
        listed = tuple(row for row in rows if row.item in entries)
        updated = max([document.updated.timestamp(), *(row.published for row in listed)])
        shown = _distinct({row.item: entries[row.item] for row in listed})
        return Contents(replace(document, entries=shown, updated=datetime.fromtimestamp(updated, UTC)), listed)

    async def _entries(self, ids: Sequence[str]) -> dict[str, Entry]:
        """The items as entries with guid, date and author."""
        fields = await self._items.fields(ids, ("guid", WRITTEN_GUID, "feed", "link", "score"))
        sizes = await self._items.sizes(ids)
        room, whole = MOST_BYTES, []
        for item, size in zip(ids, sizes, strict=True):
            if size <= room:
                whole.append(item)
                room -= size
        data = dict(zip(whole, await self._items.data(whole), strict=True))
        records = await self._feeds.get_many({row[2].decode() for row in fields if row[2]})
        found = {}
        for item, (guid, written, source, link, score) in zip(ids, fields, strict=True):
            if score is None:
                continue
            wire = data.get(item)
            published = datetime.fromtimestamp(float(score), UTC)
            entry = Entry(url=(link or b"").decode() or None) if wire is None else from_wire(orjson.loads(wire))
            record = records.get((source or b"").decode())
            by_feed = Card(name=record.title, url=record.home) if record is not None else Card()
            named = entry.author is not None and (entry.author.name or entry.author.url)
            identity = (written or guid or b"").decode()
            found[item] = replace(
                entry,
                guid=identity if is_iri(identity) else _urn(f"{(source or b'').decode()} {identity}"),
                published=entry.published or published,
                author=entry.author if named else by_feed,
            )
        return found


def archive_names(rows: Sequence[OutputRow]) -> list[str]:
    """The names of the archives of a feed, the oldest first. `rows` are all that it shows, newest first. Pure.

    An archive takes in what is in it, and the name of the one before.
    """
    names: list[str] = []
    oldest_first = rows[::-1]
    for start in range(0, len(rows) - ARCHIVE + 1, ARCHIVE):
        inside = " ".join(f"{row.item}:{row.edition}" for row in oldest_first[start : start + ARCHIVE])
        names.append(short_digest(f"{names[-1] if names else ''} {inside}".encode(), 12))
    return names


def _these(rows: Sequence[OutputRow], only: frozenset[str] | None) -> tuple[OutputRow, ...]:
    return tuple(row for row in rows if only is None or row.item in only)


def _named(addresses: Mapping[str, str], archive: str) -> dict[str, str]:
    return {form: f"{address}?archive={archive}" for form, address in addresses.items()}


def _urn(text: str) -> str:
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"


def _distinct(entries: Mapping[str, Entry]) -> tuple[Entry, ...]:
    """The entries, each with a guid of its own: copies of one post from two feeds may share theirs."""
    found: dict[str | None, Entry] = {}
    for item, entry in entries.items():
        guid = entry.guid if entry.guid not in found else _urn(f"item {item}")
        found[guid] = replace(entry, guid=guid)
    return tuple(found.values())
