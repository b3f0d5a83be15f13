"""The only way for posts into the store: new and edited ones are stored once, passed to delivery, and announced.

An item's hash is written first. Then one script on the feed's slot claims its guid and puts the item into the feed's
outbox, where it remains until delivery and the stream of events have it. If two processes handle one document, the one
that doesn't get a guid deletes the hash that it wrote. After a crash before the claim, the sweep deletes that hash;
after a later crash, the item in the outbox is passed on by the feed's next reading, by the next program that saves
into it, or by upkeep.

A guid in the feed's map without an item is a tombstone: the post was deleted, and doesn't come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson
import structlog

from microsub.base.clock import DAY
from microsub.base.metrics import ITEMS_NEW, ITEMS_UPDATED
from microsub.base.urls import host_of, normalise_url
from microsub.feeds import COPIED, KEEP_UNFOLLOWED, MERGED, Event, FeedRecord, reading_text
from microsub.formats.entry_id import guid_digest, told_apart
from microsub.formats.wire import identified, redated
from microsub.model.moments import number
from microsub.posts import duplicates, thin
from microsub.posts.garbage import listed_again
from microsub.posts.guid_changes import changed_guids, window
from microsub.posts.items import Items
from microsub.posts.messages import ARTICLES, EntriesFound, ItemIncomplete, ItemsStored, articles_wanted, version_of
from microsub.posts.packing import packed
from microsub.posts.values import (
    ANY,
    FORMER_GUID,
    OWN,
    WRITTEN_GUID,
    ItemToStore,
    Listing,
    Stored,
    WrittenItem,
)
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis, ScriptCall
from microsub.redis.replies import score_text, text, texts
from microsub.redis.scripts import load
from microsub.work import Bounds, Stream

if TYPE_CHECKING:
    from microsub.feeds import Events, Feeds

log = structlog.get_logger(__name__)

LOOK_UPS = Bounds(messages=50_000)
"""Maximum number of waiting look-ups; beyond it, posts remain incomplete for now."""

NO_ARTICLES = "no_articles"
"""The record's field with the Unix time at which none of its followers wanted full texts; it holds for a day."""

_CLAIM, _UPDATE = load("item_claim"), load("item_update")
_CHANGED_IF, _HANDED_ON = load("compare_and_set"), load("feed_handed_on")

_KNOWN = (
    *("hash", "score", "author", "Published", "twin", "twin_at", "version", "confirmed", "untold"),
    *("guid", FORMER_GUID, OWN),
)


class _Known(NamedTuple):
    """The stored state of an item that a document lists again."""

    id: str
    hash: str
    author: str
    published: str
    common: str
    registered_at: float
    version: str
    note: str
    guid: str
    former: str
    own: str


@dataclass(frozen=True, slots=True)
class _Compared:
    """A document's posts, each guid once, compared with the store.

    `ids` has tombstones too. `last` is the last of as many new ids as there are posts, if these are already assigned.
    """

    listed: Mapping[str, ItemToStore]
    ids: Mapping[str, str]
    known: Mapping[str, _Known]
    last: int | None = None

    @property
    def new(self) -> list[ItemToStore]:
        return [candidate for guid, candidate in self.listed.items() if guid not in self.ids]

    @property
    def tombstones(self) -> dict[str, str]:
        return {guid: item_id for guid, item_id in self.ids.items() if guid not in self.known}

    @property
    def again(self) -> list[tuple[_Known, ItemToStore]]:
        return [(self.known[guid], candidate) for guid, candidate in self.listed.items() if guid in self.known]

    @property
    def edited(self) -> list[tuple[_Known, ItemToStore]]:
        return [(old, candidate) for old, candidate in self.again if old.hash != candidate.hash]

    @property
    def same(self) -> list[tuple[_Known, ItemToStore]]:
        return [(old, candidate) for old, candidate in self.again if old.hash == candidate.hash]


class PostWriter:
    """Finds and writes the new and edited posts of a feed, in a few round trips.

    Announces nothing: `Ingest` does that, and everything except an import uses it.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._items = Items(redis)

    async def write(
        self,
        feed: FeedRecord,
        posts: Sequence[ItemToStore],
        now: float,
        version: str = ANY,
        *,
        reading: float | None = None,
        mostly_new: bool = False,
        listing: Listing | None = None,
    ) -> Stored:
        """Store new posts and update edited ones; repeated or simultaneous calls have no further effect.

        `version` orders writes: a post that a later version has changed or confirmed is left alone. New and edited
        posts are in the feed's outbox until they are passed on; an edit that was written but never announced is among
        the `updated` again. With a `reading`, nothing is written if a later one has begun. The ids of `mostly_new`
        posts are assigned at once, which saves a round trip. With the `listing` of the document that the posts are
        from, stored posts that it lists under new guids stay what they are (`guid_changes`). Raises StoreError.
        """
        posts = _of(feed, posts)
        compared = await self._compare(feed, posts, take_ids=mostly_new, listing=listing)
        await listed_again(self._redis, feed.id, compared.tombstones, now)
        edited = compared.edited
        if reading is None or feed.body_hash is None:
            # An earlier reading may be about to write; if it has claimed nothing yet, its number is refused.
            edited = [*edited, *await self._confirm(compared.same, version)]
        new: list[WrittenItem] = []
        updated: list[WrittenItem] = []
        outbox: frozenset[str] | None = None
        noted: frozenset[str] = frozenset()
        if compared.new or edited:
            claimed = await self._claim(feed, compared, edited, now, version, reading)
            if claimed is None:
                return Stored(outbox=frozenset())
            new, lost, outbox, noted = claimed
            if lost:
                # A post that another process has stored meanwhile may be from an earlier document.
                theirs = await self._compare(feed, lost)
                late = [*theirs.edited, *await self._confirm(theirs.same, version)]
                await self._note_in_outbox(feed, late)
                edited, outbox = [*edited, *late], None
            updated = await self._edit(feed, edited, now, version)
        if version:
            updated += [_edited(old, candidate, old.note) for old, candidate in compared.same if old.note]
        await self._prolong(feed, compared.again, now)
        return Stored(tuple(new), tuple(updated), version, outbox, noted)

    async def write_missing(self, feed: FeedRecord, posts: Sequence[ItemToStore], now: float) -> Mapping[str, str]:
        """Store posts that the feed doesn't know, without announcing them; returns the known items, by guid.

        Known items aren't changed: they come from the publisher, unlike these posts. Raises StoreError.
        """
        compared = await self._compare(feed, _of(feed, posts))
        if compared.new and (claimed := await self._claim(feed, compared, (), now, ANY, None)) and claimed[0]:
            await self._redis.command("SREM", keys.feed_outbox(feed.id), *(item.id for item in claimed[0]))
        return compared.ids

    async def announced(self, updated: Iterable[WrittenItem]) -> None:
        """Note that these edits have been announced; later edits are left to their writers."""
        calls = [
            _CHANGED_IF(record=keys.item(item.id), fields=("untold", item.note, "")) for item in updated if item.note
        ]
        if calls:
            await self._redis.scripts(calls)

    async def _compare(
        self,
        feed: FeedRecord,
        posts: Sequence[ItemToStore],
        *,
        take_ids: bool = False,
        listing: Listing | None = None,
    ) -> _Compared:
        feed_id = feed.id
        listed: dict[str, ItemToStore] = {}
        for candidate in posts:
            listed.setdefault(candidate.guid, candidate)
        if not listed:
            return _Compared({}, {}, {})
        # Posts stored together with others of their guid, and now listed without these, don't become the guid's item:
        # that may be any of the others next time.
        names = {
            guid: name
            for guid, one in listed.items()
            if not one.shared and (name := told_apart(guid, one.link, one.written_guid))
        }
        commands: list[Command] = [("HMGET", keys.feed_guids(feed_id), *listed, *names.values())]
        if take_ids:
            commands.append(("INCRBY", keys.item_ids(), len(listed)))
        if listing is not None:
            commands.append(("ZREVRANGE", keys.feed_items(feed_id), 0, window(listing) - 1))
        found, *others = await self._redis.pipeline(commands)
        latest = texts(others.pop()) if listing is not None else []
        there = [text(item_id) for item_id in found]
        ids = {guid: item_id for guid, item_id in zip(listed, there, strict=False) if item_id is not None}
        beside = dict(zip(names, there[len(listed) :], strict=True))
        ids |= await self._once_alone(feed_id, [one for guid, one in listed.items() if one.shared and guid not in ids])
        known = await self._known(ids) if ids else {}
        if listing is not None:
            if returned := [guid for guid, one in known.items() if _is_another(guid, one, listing)]:
                await self._release(feed_id, {guid: ids.pop(guid) for guid in returned})
                known = {guid: one for guid, one in known.items() if guid not in returned}
            # One that shared its guid with others, and is now listed without these, is known by its link.
            fresh = [one for guid, one in listed.items() if guid not in ids and beside.get(guid) is None]
            if fresh and (listing.left or 2 * len(fresh) > len(listing)):
                changed = await changed_guids(self._items, feed, fresh, latest, listing, frozenset(ids.values()))
                ids |= changed
                known |= await self._known(changed) if changed else {}
        apart = {
            guid: item_id
            for guid, item_id in beside.items()
            if item_id is not None and item_id != ids.get(guid) and _is_news(listed[guid], known.get(guid))
        }
        if apart:
            known = {guid: one for guid, one in known.items() if guid not in apart} | await self._known(apart)
        return _Compared(listed, ids | apart, known, others[0] if others else None)

    async def _once_alone(self, feed_id: str, candidates: Sequence[ItemToStore]) -> dict[str, str]:
        """Posts stored by an import, or when no other post of their feed had their guid (guid → item id).

        From now on they are also known by what distinguishes them.
        """
        if not candidates:
            return {}
        key = keys.feed_guids(feed_id)
        ids = await self._redis.command("HMGET", key, *(one.shared for one in candidates))
        pairs = [(one, text(item_id)) for one, item_id in zip(candidates, ids, strict=True) if item_id is not None]
        links = await duplicates.links_of(self._redis, [item_id for _, item_id in pairs])
        # The link of a deleted post isn't known any more; a post published after the deletion is another one.
        listed = await self._redis.pipeline([("ZSCORE", keys.feed_tombstones(feed_id), one.shared) for one, _ in pairs])
        same = [
            (one.guid, item_id)
            for (one, item_id), link, listed_at in zip(pairs, links, listed, strict=True)
            if (one.score < float(listed_at or 0) if link is None else _is_link(one.link, link))
        ]
        claimed = await self._redis.pipeline([("HSETNX", key, guid, item_id) for guid, item_id in same])
        return {guid: item_id for (guid, item_id), was_free in zip(same, claimed, strict=True) if was_free}

    async def _release(self, feed_id: str, ids: Mapping[str, str]) -> None:
        """Take from items (guid → id) a guid that they had before: it is another post's now."""
        guids = keys.feed_guids(feed_id)
        calls = [_CHANGED_IF(record=guids, fields=(guid, item_id, "")) for guid, item_id in ids.items()]
        await self._redis.scripts(calls)

    async def _known(self, ids: Mapping[str, str]) -> dict[str, _Known]:
        """The stored state of these items (guid → id), by guid; tombstones are left out."""
        rows = await duplicates.fields_of(self._redis, [*ids.values()], _KNOWN)
        known = {}
        for (guid, item_id), row in zip(ids.items(), rows, strict=True):
            texts = [text(value) if value else "" for value in row]
            digest, score, author, published, common, registered, version, confirmed, note, *names = texts
            if score:
                latest, since = max(version, confirmed), float(registered or 0)
                known[guid] = _Known(item_id, digest, author, published, common, since, latest, note, *names)
        return known

    async def _claim(
        self,
        feed: FeedRecord,
        compared: _Compared,
        edited: Sequence[tuple[_Known, ItemToStore]],
        now: float,
        version: str,
        reading: float | None,
    ) -> tuple[list[WrittenItem], list[ItemToStore], frozenset[str], frozenset[str]] | None:
        """Write new items and claim their guids.

        Returns the items stored now, those that another process has stored meanwhile, and the outbox as in `Stored`;
        None if a later reading has begun, so that nothing is written.
        """
        fresh = compared.new
        numbered = await self._write_new(feed, fresh, compared.last, now, version) if fresh else []
        rest: list[Arg] = [old.id for old, _ in edited]
        for item_id, candidate in numbered:
            rest += (candidate.guid, item_id, score_text(candidate.score))
        call = _CLAIM(feed.id, reading=reading_text(reading), life=KEEP_UNFOLLOWED, edited=len(edited), rest=rest)
        reply = await self._redis.script(call)
        owners = texts(reply[0]) if reply else [""] * len(numbered)
        won = [pair for pair, owner in zip(numbered, owners, strict=True) if owner == pair[0]]
        lost = [pair for pair, owner in zip(numbered, owners, strict=True) if owner != pair[0]]
        if lost:
            withdrawals = (_withdrawal(self._redis, feed, *pair) for pair in lost)
            await self._redis.pipeline([*chain(*withdrawals)])
        if not reply:
            return None
        stored = [WrittenItem(item_id, one.written_guid, one.incomplete, growth=len(one.wire)) for item_id, one in won]
        return stored, [candidate for _, candidate in lost], frozenset(texts(reply[1])), frozenset(texts(reply[2]))

    async def _write_new(
        self, feed: FeedRecord, fresh: Sequence[ItemToStore], last: int | None, now: float, version: str
    ) -> list[tuple[str, ItemToStore]]:
        """Write items with unclaimed guids, with their ids; `last` is the last id, if these are taken already."""
        was = await self._predecessors(feed, fresh)
        if last is None:
            last = int(await self._redis.command("INCRBY", keys.item_ids(), len(fresh)))
        # The document's first entry is its newest, so it gets the largest id.
        numbered = [(str(last - place), candidate) for place, candidate in enumerate(fresh)]
        became = {
            other.item: {duplicates.BECAME: item_id}
            for item_id, one in numbered
            for other in duplicates.was_of(was.get(one.guid, ""))
        }
        await self._items.note(became)
        commands: list[Command] = []
        for item_id, candidate in numbered:
            fields: dict[str, Arg] = {
                **_changing(feed, item_id, candidate, candidate.wire, now, version),
                "ID": item_id,
                "feed": feed.id,
                "guid": candidate.guid,
                "score": score_text(candidate.score),
                "discovered": score_text(now),
                "Published": candidate.published,
            }
            if not candidate.incomplete:
                del fields["incomplete"]
            if candidate.guid in was:
                fields[duplicates.WAS] = was[candidate.guid]
            commands.append(("HSET", keys.item(item_id), *_flat(thin.thinned(fields))))
        shared = [(one.common, _post_of(feed, item_id, one)) for item_id, one in numbered if one.common]
        await duplicates.register(self._redis, shared, now, commands)
        return numbered

    async def _predecessors(self, feed: FeedRecord, fresh: Sequence[ItemToStore]) -> dict[str, str]:
        """The items of merged feeds and from imports that new posts replace, by guid, as `duplicates.WAS`."""
        found: dict[str, str] = {}
        for former in feed.extra.get(MERGED, "").split():
            posts = {one.guid: (one.guid, one.link) for one in fresh}
            for guid, item in (await duplicates.predecessors(self._redis, former, posts)).items():
                found[guid] = f"{found.get(guid, '')} {item} {former}".strip()
        if COPIED in feed.extra:
            named = {one.guid: ([one.guid, *filter(None, [one.shared])], one.link) for one in fresh}
            for guid, some in (await duplicates.copies(self._redis, feed.id, named)).items():
                found[guid] = f"{found.get(guid, '')} {some}".strip()
        return found

    async def _note_in_outbox(self, feed: FeedRecord, edited: Sequence[tuple[_Known, ItemToStore]]) -> None:
        if edited:
            await self._redis.command("SADD", keys.feed_outbox(feed.id), *(old.id for old, _ in edited))

    async def _edit(
        self, feed: FeedRecord, edited: Sequence[tuple[_Known, ItemToStore]], now: float, version: str
    ) -> list[WrittenItem]:
        """Write edits, which are in the outbox already; score, id, time of discovery and the wire's `published`
        stay."""
        if not edited:
            return []
        before = [data or b"" for data in await self._items.data([old.id for old, _ in edited])]
        calls = []
        changed = []
        for (old, candidate), data in zip(edited, before, strict=True):
            wire = redated(candidate.wire, old.published)
            fields = _changing(feed, old.id, candidate, wire, now, version)
            if version:
                fields["untold"] = version
            changed.append(_differences(data, wire))
            calls.append(_UPDATE(old.id, how="change", version=version, fields=_flat(fields)))
        written = await self._redis.scripts(calls)
        updated = [
            replace(_edited(old, candidate, version, names), growth=len(candidate.wire) - len(data))
            for (old, candidate), names, data, was_written in zip(edited, changed, before, written, strict=True)
            if was_written
        ]
        if updated:
            ranks = [part for item in updated for part in (score_text(now), item.id)]
            await self._redis.command("ZADD", keys.feed_items(feed.id), "XX", *ranks)
        return updated

    async def _confirm(
        self, same: Sequence[tuple[_Known, ItemToStore]], version: str
    ) -> list[tuple[_Known, ItemToStore]]:
        """Note that a document confirms these items, so that no earlier one changes them; returns those that differ."""
        older = [(old, candidate) for old, candidate in same if old.version < version]
        calls = [_UPDATE(old.id, how="confirm", version=version, hash=candidate.hash) for old, candidate in older]
        replies = await self._redis.scripts(calls) if calls else []
        return [pair for pair, is_same in zip(older, replies, strict=True) if not is_same]

    async def _prolong(self, feed: FeedRecord, listed: Iterable[tuple[_Known, ItemToStore]], now: float) -> None:
        """Extend how long duplicates are remembered while a feed lists them; written at most once a month."""
        calls, shared = [], list[tuple[str, duplicates.PostOfFeed]]()
        for old, candidate in listed:
            if candidate.common and (
                now - old.registered_at > duplicates.REFRESH or old.common != duplicates.short(candidate.common)
            ):
                shared.append((candidate.common, _post_of(feed, old.id, candidate)))
                fields = ("twin", duplicates.short(candidate.common), "twin_at", score_text(now))
                calls.append(_UPDATE(old.id, how="change", version=ANY, fields=fields))
        if shared:
            await duplicates.register(self._redis, shared, now)
            await self._redis.scripts(calls)


class Ingested(NamedTuple):
    """The numbers of new and edited posts, and the properties that edits changed.

    `last` are calls for the caller's last round trip, which remove the posts that were passed on from the outbox.
    """

    new: int = 0
    updated: int = 0
    changed: tuple[str, ...] = ()
    last: Sequence[ScriptCall] = ()


class OwnRoom(Protocol):
    """The room for users' own posts."""

    async def require(self, users: Collection[str]) -> None:
        """Raise QuotaReached if none of a feed's followers has room."""

    def count(self, users: Collection[str], size: int) -> None:
        """Count so many more bytes of posts of a feed with these followers."""


class Ingest:
    """Takes posts of feeds from polls and programs; several processes may take the same posts."""

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        events: Events,
        *,
        clock: Callable[[], float] = time.time,
        notify: Callable[[], object] = lambda: None,
        room: OwnRoom | None = None,
    ) -> None:
        """`notify` is called when there is work for delivery or look-ups; `room` counts their bytes."""
        self._redis = redis
        self._feeds = feeds
        self._items = items
        self._writer = PostWriter(redis)
        self._stored, self._incomplete = Stream(redis, "stored"), Stream(redis, "incomplete")
        self._articles = Stream(redis, "articles")
        self._stream = events
        self._clock = clock
        self._notify = notify
        self._room = room

    async def add(
        self,
        feed: FeedRecord,
        posts: Sequence[ItemToStore],
        now: float,
        version: str,
        changed: Iterable[str] = (),
        *,
        mostly_new: bool = False,
        listing: Listing | None = None,
        followers: Collection[str] = (),
        ending: Callable[[], Sequence[ScriptCall]] = tuple,
    ) -> Ingested:
        """Store posts of a feed and pass on new and edited ones, and those in the outbox since a crash.

        `version`, `mostly_new` and `listing` as in `PostWriter.write`. `changed` are properties that an edit changes in
        addition to visible ones. For the users `followers`, the bytes count. `ending` returns calls for the last round
        trip. Raises StoreError; repeat the call after an interruption.
        """
        stored = await self._writer.write(feed, posts, now, version, mostly_new=mostly_new, listing=listing)
        added = await self._hand_on(feed, stored, followers, changed)
        await self._redis.scripts([*added.last, *ending()])
        return added

    async def add_found(self, found: EntriesFound) -> None:
        """`add` for posts that couldn't be stored before; does nothing if their feed no longer exists."""
        feed = (await self._feeds.get_many([found.feed])).get(found.feed)
        if feed is not None:
            await self.add(feed, found.items, found.found, found.version)

    async def add_read(
        self,
        feed: FeedRecord,
        posts: Sequence[ItemToStore],
        now: float,
        *,
        mostly_new: bool,
        listing: Listing | None = None,
        followers: Collection[str] = (),
    ) -> Ingested:
        """`add` for a reading of a feed; its number, `feed.reading`, is the version.

        Nothing is written if a later reading has begun. A feed with validators has an empty outbox, which isn't read.
        `last` is left to the end of the poll.
        """
        reading = feed.reading or 0.0
        version = version_of(reading)
        stored = await self._writer.write(
            feed, posts, now, version, reading=reading, mostly_new=mostly_new, listing=listing
        )
        if not stored.new and not stored.updated and feed.body_hash is not None:
            return Ingested()
        return await self._hand_on(feed, stored, followers)

    async def _hand_on(
        self, feed: FeedRecord, stored: Stored, followers: Collection[str], changed: Iterable[str] = ()
    ) -> Ingested:
        """Announce stored posts; `followers` and `changed` as in `add`."""
        if changed := set(changed):
            both = (tuple(sorted({*one.changed, *changed})) for one in stored.updated)
            edits = zip(stored.updated, both, strict=True)
            stored = replace(stored, updated=tuple(replace(one, changed=names, by_feed=False) for one, names in edits))
        ITEMS_NEW.inc(len(stored.new))
        ITEMS_UPDATED.inc(len(stored.updated))
        last = await self._announce(feed, stored)
        if self._room is not None:
            self._room.count(followers, sum(one.growth for one in (*stored.new, *stored.updated)))
        names = tuple(sorted({name for one in stored.updated for name in one.changed}))
        return Ingested(len(stored.new), len(stored.updated), names, last)

    async def _announce(self, feed: FeedRecord, stored: Stored) -> Sequence[ScriptCall]:
        """Announce newly stored posts and those in the outbox; the call that removes them all from it."""
        written = {item.id for item in (*stored.new, *stored.updated)}
        # Another process that stores posts of this feed at the same time may have announced ours with its own.
        found = await self._items.outbox(feed.id) if stored.outbox is None else stored.outbox
        outbox = sorted({*found, *written}, key=int)
        if not outbox:
            return ()
        new = [item.id for item in stored.new]
        edited = [item.id for item in stored.updated if item.author_changed]
        # Whether an earlier attempt left a new or an edited post isn't known any more, so both are announced. A post
        # that is edited now may have been left as new, too.
        left = sorted(set(outbox) - written, key=int)
        undelivered = sorted(set(found) - set(new) - stored.noted, key=int)
        reworded = tuple(item.id for item in stored.updated if not item.author_changed)
        news = ItemsStored(feed.id, (*new, *undelivered), (*edited, *left), reworded=reworded)
        calls = [self._stored.adding([news.to_fields()])]
        written_items = (*stored.new, *stored.updated)
        wanted = [ItemIncomplete(one.id, stored.version) for one in written_items if one.incomplete]
        if left:
            wanted += await look_ups_of(self._items, left)
        if wanted:
            calls.append(self._incomplete.adding_within(LOOK_UPS, [one.to_fields() for one in wanted]))
        has_links = new or undelivered or any("url" in one.changed for one in stored.updated)
        if has_links and may_want_articles(feed, self._clock()):
            calls.append(self._articles.adding_within(ARTICLES, [articles_wanted(feed.id)]))
        events = self._events(feed.id, stored, await self._guids_of(left))
        # In one round trip, and in this order: look-ups, for which no user waits, come last.
        replies = await self._redis.scripts([*calls, *self._stream.publishing(events)])
        self._notify()
        if wanted and not replies[1]:
            log.info("the queue of look-ups is full; look-ups are postponed", posts=len(wanted))
        await self._stream.published(events)
        await self._writer.announced(stored.updated)
        return [_HANDED_ON(feed.id, ids=outbox)]

    async def _guids_of(self, ids: Sequence[str]) -> dict[str, str]:
        """The guids of these items in their feed; missing items, which other messages report, are left out."""
        rows = await self._items.fields(ids, (WRITTEN_GUID, "guid")) if ids else []
        found = zip(ids, (written or guid for written, guid in rows), strict=True)
        return {item_id: text(guid) for item_id, guid in found if guid}

    def _events(self, feed_id: str, stored: Stored, left: Mapping[str, str]) -> list[Event]:
        now = self._clock()
        new = [Event("post_created", feed_id, now, item.id, item.guid) for item in stored.new]
        edited = [
            Event("post_modified", feed_id, now, item.id, item.guid, item.changed)
            for item in stored.updated
            if not item.by_feed
        ]
        unsaid = [Event("post_modified", feed_id, now, item_id, guid) for item_id, guid in left.items()]
        return new + edited + unsaid


async def look_ups_of(items: Items, ids: Sequence[str]) -> list[ItemIncomplete]:
    """The missing look-ups of these items; complete or missing items have none."""
    rows = await items.fields(ids, ("incomplete", "version", "asked"))
    found = []
    for item_id, row in zip(ids, rows, strict=True):
        incomplete, version, asked = (text(value) if value else "" for value in row)
        if incomplete:
            count, _, of_version = asked.partition(" ")
            times = int(count) if of_version == version else 0
            found.append(ItemIncomplete(item_id, version, times))
    return found


def may_want_articles(feed: FeedRecord, now: float) -> bool:
    """Whether a follower of the feed may want full texts, as far as its record says."""
    asked = number(feed.extra.get(NO_ARTICLES)) or 0.0
    return not feed.is_internal and not 0 <= now - asked < DAY


def _of(feed: FeedRecord, posts: Sequence[ItemToStore]) -> Sequence[ItemToStore]:
    """`posts`; those of an internal feed without duplicates, because nobody else has them."""
    return [replace(post, common=None) for post in posts] if feed.is_internal else posts


def _is_link(link: str, stored: bytes) -> bool:
    return bool(stored) and normalise_url(text(stored)) == normalise_url(link)


def _is_another(guid: str, known: _Known, listing: Listing) -> bool:
    """Whether a guid that an item had before is another post's: the document lists the item's present one too."""
    return known.former == guid != known.guid and guid_digest(known.guid) in listing.digests


def _is_news(candidate: ItemToStore, known: _Known | None) -> bool:
    return known is None or known.hash != candidate.hash


def _changing(
    feed: FeedRecord, item_id: str, candidate: ItemToStore, wire: bytes, now: float, version: str
) -> dict[str, Arg]:
    """The fields that an edit replaces."""
    fields: dict[str, Arg] = {
        **candidate.extra,
        "hash": candidate.hash,
        "updated": score_text(now),
        "author": candidate.author,
        "link": candidate.link,
        "Data": packed(identified(wire, item_id, feed.id)),
        "incomplete": "1" if candidate.incomplete else "",
    }
    if version:
        fields["version"] = version
    if candidate.common:
        fields |= {"twin": duplicates.short(candidate.common), "twin_at": score_text(now)}
    return fields


def _edited(old: _Known, candidate: ItemToStore, note: str, changed: tuple[str, ...] = ()) -> WrittenItem:
    # If an earlier edit was never announced, the author before it isn't known.
    author_changed = bool(old.note) or candidate.author != old.author
    by_feed = changed == ("author",) and not old.note and old.own in {"", candidate.extra.get(OWN)}
    return WrittenItem(old.id, candidate.written_guid, candidate.incomplete, author_changed, changed, note, by_feed)


def _differences(before: bytes, after: bytes) -> tuple[str, ...]:
    """The properties that differ between two JSON objects, except ids; all of `after` if `before` is none."""
    old, new = dict[str, object](), orjson.loads(after)
    with suppress(ValueError):
        old = orjson.loads(before)
    names = (old.keys() | new.keys()) - {"_id", "_source"}
    return tuple(sorted(name for name in names if old.get(name) != new.get(name)))


def _post_of(feed: FeedRecord, item_id: str, candidate: ItemToStore) -> duplicates.PostOfFeed:
    return duplicates.PostOfFeed(item_id, feed.id, host_of(feed.url), host_of(candidate.link))


def _withdrawal(redis: Redis, feed: FeedRecord, item_id: str, candidate: ItemToStore) -> list[Command]:
    commands: list[Command] = [("DEL", keys.item(item_id))]
    if candidate.common:
        commands += duplicates.unregister(redis, candidate.common, _post_of(feed, item_id, candidate))
    return commands


def _flat(fields: Mapping[str, Arg]) -> list[Arg]:
    return [part for pair in fields.items() for part in pair]
