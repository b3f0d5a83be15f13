"""The post store: every item once. Posts are added by `posts.ingest`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, Any

from microsub.base.errors import StoreUnavailable
from microsub.base.urls import host_of, normalise_profile
from microsub.model.reader import Cursor, Duplicate, TimelineItem
from microsub.posts import duplicates, thin
from microsub.posts.full_text import FULL, Texts, with_full
from microsub.posts.garbage import spare
from microsub.posts.guid_changes import has_posts_of
from microsub.posts.packing import packed, unpacked
from microsub.posts.values import ANY, BY_USER, FORMER_GUID, WRITTEN_GUID, ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import filled, reached, text, texts, within_reach
from microsub.redis.scan import scanned
from microsub.redis.scripts import batches, load
from microsub.redis.structures import One, Request

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord

_UPDATE = load("item_update")
_PAGE = load("feed_page")
_DATA = load("item_data")
_CHANGE_GUIDS = load("guid_change")

AWAY = b""
"""In place of an item's JSON: it can't be read at the moment, and isn't lost."""

PIECE = 4 * 1024 * 1024
"""Bytes of posts that are read at once; a page of large ones ends there. At least one is read."""
_AT_ONCE = 50
"""Posts that one script reads: Redis answers others between two."""
_IDS, _IDS_AT_ONCE, _COMMAND = 5000, 21_000, 20
"""Ids of a feed's posts that one command reads, and those of one round trip; a command costs as much as some ids."""
_SHORT = 16 * 1024
"""Bytes of a post that is read without asking for its size."""
_PACKED = (b"Data", FULL.encode())
"""Fields whose value is packed."""
_TIMELINE = ("feed", "score", "author", "twin", "link", "condemned", duplicates.WAS, BY_USER)


_Source = tuple[str, tuple[str, ...]]
"""A feed as the source of posts: its host, and the URLs by which it can be muted (its own and of its home)."""


class Items:
    """The post store."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    # --- writing ---------------------------------------------------------------------------------------------------

    async def complete(self, item_id: str, version: str, digest: str, fields: Mapping[str, Arg]) -> bool:
        """Write the results of look-ups, with `Data` as JSON, for the version of an item with that hash. Idempotent.

        False if the item has another hash now, or no longer exists.
        """
        args = [part for name, value in fields.items() for part in (name, _stored(name, value))]
        call = _UPDATE(item_id, how="complete", version=version, hash=digest, fields=args)
        return bool(await self._redis.script(call))

    async def note(self, fields: Mapping[str, Mapping[str, Arg]]) -> None:
        """Set internal fields, by item; missing items stay missing."""
        calls = [
            _UPDATE(item_id, how="change", version=ANY, fields=[*chain(*values.items())])
            for item_id, values in fields.items()
        ]
        if calls:
            await self._redis.scripts(calls)

    async def change_guids(self, feed_id: str, changes: Sequence[tuple[str, ItemToStore, str, str]]) -> dict[str, str]:
        """Record new guids of a feed's items (id, entry with the new guid, present guid, the one before).

        Returns the items whose guids these are now (guid → id): a guid of another item isn't taken. Two round trips.
        """
        if not changes:
            return {}
        args = [part for item_id, one, _, former in changes for part in (one.guid, item_id, former)]
        owners = texts(await self._redis.script(_CHANGE_GUIDS(feed_id, changes=args)))
        changed = [change for change, owner in zip(changes, owners, strict=True) if owner == change[0]]
        written = ((item_id, one.guid, was, one.extra.get(WRITTEN_GUID, "")) for item_id, one, was, _ in changed)
        await self.note(
            {item_id: {"guid": new, FORMER_GUID: was, WRITTEN_GUID: own} for item_id, new, was, own in written}
        )
        return {one.guid: item_id for item_id, one, _, _ in changed}

    async def outbox(self, feed_id: str) -> list[str]:
        """Ids of stored items that may not be in all timelines yet, oldest first."""
        return _in_order(await self._redis.command("SMEMBERS", keys.feed_outbox(feed_id)))

    async def outboxes(self, feed_ids: Sequence[str]) -> dict[str, list[str]]:
        """The outboxes of several feeds in one round trip; empty ones are left out."""
        replies = await self._redis.pipeline([("SMEMBERS", keys.feed_outbox(feed_id)) for feed_id in feed_ids])
        found = zip(feed_ids, map(_in_order, replies), strict=True)
        return {feed_id: ids for feed_id, ids in found if ids}

    async def done(self, feed_id: str, ids: Sequence[str]) -> None:
        """Note that these items are in all timelines that they belong to."""
        if ids:
            await self._redis.command("SREM", keys.feed_outbox(feed_id), *ids)

    # --- reading ---------------------------------------------------------------------------------------------------

    async def timeline_items(self, ids: Sequence[str]) -> list[TimelineItem]:
        """The facts that timelines need about these items, in their order; missing items are left out.

        Spares them from the sweep, since the caller is about to add them to timelines.
        """
        return await self._timeline_items(ids, await self.fields(ids, _TIMELINE), {})

    async def timeline_items_of(
        self, feed_id: str, ids: Sequence[str], request: Request[One]
    ) -> tuple[list[TimelineItem], One]:
        """`timeline_items` for items of one feed, with one round trip less; and the value of a request."""
        commands = [("HMGET", keys.item(item_id), *thin.with_others(_TIMELINE)) for item_id in ids]
        *found, source, reply = await self._redis.pipeline([*commands, _asking_source(feed_id), *request.commands])
        rows = thin.completed(_TIMELINE, found)
        return await self._timeline_items(ids, rows, {feed_id: _source(source)}), request.read([reply])

    async def _timeline_items(
        self, ids: Sequence[str], found_rows: Sequence[list[bytes | None]], sources: dict[str, _Source]
    ) -> list[TimelineItem]:
        rows = dict(zip(ids, found_rows, strict=True))
        if condemned := [item_id for item_id, row in rows.items() if row[5] is not None]:
            await spare(self._redis, condemned)
            # An item deleted or retired at this moment is missing now.
            alive = await self._redis.pipeline([("HEXISTS", keys.item(item_id), "score") for item_id in condemned])
            dead = {item_id for item_id, exists in zip(condemned, alive, strict=True) if not exists}
            rows = {item_id: row for item_id, row in rows.items() if item_id not in dead}
        found = {item_id: filled(row[:5]) for item_id, row in rows.items() if row[1] is not None}
        sources = sources | await self._sources(feed for feed, *_ in found.values() if feed not in sources)
        asking = (
            (identity, duplicates.PostOfFeed(item_id, feed, sources[feed][0], host_of(link)))
            for item_id, (feed, _, _, identity, link) in found.items()
            if identity
        )
        others = await duplicates.look_up(self._redis, duplicates.by_identity(asking))
        return [
            TimelineItem(
                item_id,
                score,
                author,
                sources[feed][1],
                (*others.get(item_id, ()), *duplicates.was_of(text(rows[item_id][6] or b""))),
                rows[item_id][7] is not None,
            )
            for item_id, (feed, score, author, *_) in found.items()
        ]

    async def duplicates(self, ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the posts that are the same, for those of these that have some. Three round trips at most."""
        rows = await self.fields(ids, ("feed", "twin", "link", duplicates.WAS, duplicates.BECAME))
        found = {item_id: filled(row) for item_id, row in zip(ids, rows, strict=True) if row[1] or row[3] or row[4]}
        hosts = {identity: host_of(link) for _, identity, link, *_ in found.values() if identity}
        known = await duplicates.posts_with(self._redis, hosts) if hosts else {}
        # Most posts are the only one with their identity.
        shared = {
            item_id: (feed, identity)
            for item_id, (feed, identity, *_) in found.items()
            if identity and any(other.feed != feed for other in known[identity])
        }
        same = {
            item_id: {*(one.item for one in duplicates.was_of(was)), *became.split()}
            for item_id, (*_, was, became) in found.items()
        }
        if shared:
            sources = await self._sources(feed for feed, _ in shared.values())
            asking = (
                (identity, duplicates.PostOfFeed(item_id, feed, sources[feed][0], hosts[identity]))
                for item_id, (feed, identity) in shared.items()
            )
            for item_id, some in (await duplicates.among(self._redis, known, duplicates.by_identity(asking))).items():
                same[item_id].update(one.item for one in some)
        return {item_id: some for item_id, some in same.items() if some}

    async def succeed(self, feed_id: str, former: str, limit: int) -> int:
        """Note which of the feed's `limit` latest posts replace posts of a former feed; returns their number.

        Posts stored later are compared with those too, once the record has `feeds.record.MERGED`.
        """
        ids = await self.newest(feed_id, limit)
        rows = await self.fields(ids, ("guid", "link", duplicates.WAS))
        texts = {item_id: filled(row) for item_id, row in zip(ids, rows, strict=True) if row[0] is not None}
        posts = {item_id: (guid, link) for item_id, (guid, link, _) in texts.items()}
        found = await duplicates.predecessors(self._redis, former, posts)
        named = {item_id: f"{texts[item_id][2]} {was} {former}".strip() for item_id, was in found.items()}
        new = {
            item_id: was
            for item_id, was in named.items()
            if Duplicate(found[item_id], former) not in duplicates.was_of(texts[item_id][2])
        }
        await self.note({found[item_id]: {duplicates.BECAME: item_id} for item_id in new})
        await self.note({item_id: {duplicates.WAS: was} for item_id, was in new.items()})
        return len(found)

    async def has_posts_of(self, feed: FeedRecord, entries: Sequence[ItemToStore], limit: int) -> bool:
        """Whether at least half of another document's entries are the feed's `limit` latest posts. Two round trips."""
        return await has_posts_of(self, feed, entries, await self.newest(feed.id, limit))

    async def newest(self, feed_id: str, limit: int, since: float = float("-inf")) -> list[str]:
        """Ids of the feed's latest posts, latest first, by time of publishing or of the last edit.

        Posts before `since` (Unix time) are left out.
        """
        if limit < 1:
            return []
        found = ("ZRANGE", keys.feed_items(feed_id), "+inf", since, "BYSCORE", "REV", "LIMIT", 0, limit)
        return filled(await self._redis.command(*found))

    async def last_updates(self, feed_ids: Sequence[str]) -> dict[str, float]:
        """The Unix times of each feed's last new or edited post.

        Feeds without posts are left out, and those whose master of a cluster is away.
        """
        commands: list[Command] = [("ZRANGE", keys.feed_items(feed), -1, -1, "WITHSCORES") for feed in feed_ids]
        replies = await within_reach(self._redis, commands)
        found = zip(feed_ids, replies, strict=True)
        return {feed: float(reply[1]) for feed, reply in found if reply and not isinstance(reply, StoreUnavailable)}

    async def page(self, feed_id: str, limit: int, after: Cursor | None = None) -> list[Cursor]:
        """Up to `limit` of the feed's posts, in the order of `newest`, after the cursor `after`; each as a cursor.

        Following these cursors visits every post that existed at the start and isn't edited meanwhile exactly once.
        """
        cursor = (after.score, after.item) if after else ("", "")
        flat = filled(await self._redis.script(_PAGE(feed_id, limit=limit, cursor=cursor)))
        return [Cursor(score, item_id) for item_id, score in zip(flat[::2], flat[1::2], strict=True)]

    async def data(self, ids: Sequence[str]) -> list[bytes | None]:
        """The wire JSON of these items, without per-user fields; None for missing ones. One round trip."""
        return [data for (data,) in await self.fields(ids, ("Data",))]

    async def data_up_to(self, ids: Sequence[str], most: int) -> list[bytes | int | None]:
        """The same as `data`, but the size in bytes for items with more than `most`. One round trip."""
        if not ids:
            return []
        found = zip(ids, await self._read(ids, most), strict=True)
        return [unpacked(data, item_id) if isinstance(data, bytes) and data else data for item_id, data in found]

    async def texts_up_to(
        self, ids: Sequence[str], most: int, *, within_reach: bool = False
    ) -> list[Texts | bytes | int | None]:
        """The same as `data_up_to`, with the full text of those items that have one. One round trip.

        `within_reach`: `AWAY` for items that can't be read because their master of the cluster is away.
        """
        if not ids:
            return []
        found = zip(ids, await self._read(ids, most, within_reach=within_reach, full=True), strict=True)
        return [_texts_of(data, item_id) for item_id, data in found]

    async def pieces(self, ids: Sequence[str]) -> AsyncIterator[dict[str, bytes]]:
        """The `data` of those of the items that are stored, in any order, a few megabytes at a time."""
        async for piece in self.text_pieces(ids, full=False):
            yield {item_id: data for item_id, data in piece.items() if isinstance(data, bytes)}

    async def text_pieces(self, ids: Sequence[str], *, full: bool = True) -> AsyncIterator[dict[str, Texts | bytes]]:
        """The same as `pieces`, with the full text of those items that have one."""
        read = self.texts_up_to if full else self.data_up_to
        for part in batches(ids, PIECE // _SHORT):
            found = dict(zip(part, await read(part, _SHORT), strict=True))
            yield {item_id: data for item_id, data in found.items() if isinstance(data, (bytes, Texts))}
            large = [(item_id, size) for item_id, size in found.items() if isinstance(size, int)]
            while large:
                count = within((size for _, size in large), PIECE)
                some, large = [item_id for item_id, _ in large[:count]], large[count:]
                whole = zip(some, await read(some, sys.maxsize), strict=True)
                yield {item_id: data for item_id, data in whole if isinstance(data, (bytes, Texts))}

    async def sizes(self, ids: Sequence[str], name: str = "Data") -> list[int]:
        """The sizes in bytes of these items' `data` with their full text, or of another field; 0 for missing items.

        One round trip.
        """
        if name == "Data":
            return [size if isinstance(size, int) else 0 for size in await self._read(ids, -1)]
        sizes: list[int] = await self._redis.pipeline([("HSTRLEN", keys.item(item_id), name) for item_id in ids])
        return sizes

    async def _read(
        self, ids: Sequence[str], most: int, *, within_reach: bool = False, full: bool = False
    ) -> list[Any]:
        """The replies to `item_data`, of many items at once where they needn't share a slot."""
        parts = list(batches(ids, 1 if self._redis.is_cluster else _AT_ONCE))
        asked = self._redis.scripts([_DATA(items=[*map(keys.item, part)], most=most, full=int(full)) for part in parts])
        found: list[Any] = []
        for part, reply in zip(parts, await reached(asked) if within_reach else await asked, strict=True):
            found += [AWAY] * len(part) if isinstance(reply, StoreUnavailable) else reply
        return found

    async def get(self, item_id: str) -> dict[str, str] | None:
        """All fields of an item, `Data` as JSON; None for a missing item."""
        return (await self.get_many([item_id]))[0]

    async def get_many(self, ids: Sequence[str]) -> list[dict[str, str] | None]:
        """`get` for several items, in their order. One round trip."""
        rows = [(filled([*row]), filled([*row.values()])) for row in await self.raw(ids)]
        return [dict(zip(*row, strict=True)) or None for row in rows]

    async def raw(self, ids: Sequence[str]) -> list[dict[bytes, bytes]]:
        """All fields of several items as bytes, in their order; none for a missing item. One round trip."""
        replies = await self._redis.pipeline([("HGETALL", keys.item(item_id)) for item_id in ids])
        rows = [thin.whole(dict(zip(row[::2], row[1::2], strict=True))) for row in replies]
        for item_id, row in zip(ids, rows, strict=True):
            row.update({name: unpacked(row[name], item_id) for name in _PACKED if name in row})
        return rows

    async def id_of(self, feed_id: str, guid: str) -> str | None:
        """The item of that guid in the feed, which may be deleted; None for a guid that the feed never had."""
        item_id = await self._redis.command("HGET", keys.feed_guids(feed_id), guid)
        return text(item_id) if item_id is not None else None

    async def guids(self, feed_id: str) -> AsyncIterator[dict[str, int]]:
        """All guids of a feed with their items, deleted ones included, in batches, possibly with repetitions."""
        async for pairs in scanned(self._redis, "HSCAN", keys.feed_guids(feed_id)):
            yield {text(guid): int(item) for guid, item in zip(pairs[0::2], pairs[1::2], strict=True)}

    async def departed(self, feed_id: str) -> dict[str, int]:
        """Guids of posts that, as imports know, left timelines elsewhere and were never here, with ids in `gone`."""
        pairs = await self._redis.command("HGETALL", keys.feed_departed(feed_id))
        return {text(guid): int(item) for guid, item in zip(pairs[0::2], pairs[1::2], strict=True)}

    async def by_guid(self, feed_id: str, guid: str) -> dict[str, str] | None:
        """All fields of the feed's item with that guid; None if there is none (any more)."""
        item_id = await self.id_of(feed_id, guid)
        return await self.get(item_id) if item_id is not None else None

    async def scores(self, ids: Sequence[str]) -> list[str | None]:
        """The scores of these items, as decimal text; None for missing items."""
        rows = await self.fields(ids, ("score",))
        return [text(row[0]) if row[0] is not None else None for row in rows]

    async def in_feed(self, feed_id: str, ids: Sequence[str]) -> set[str]:
        """The given ids that are posts of the feed."""
        if not ids:
            return set()
        ranks = await self._redis.command("ZMSCORE", keys.feed_items(feed_id), *ids)
        return {item_id for item_id, rank in zip(ids, ranks, strict=True) if rank is not None}

    async def by_feed(self, ids: Set[str], feeds: Sequence[str], *, at_any_cost: bool = False) -> dict[str, list[str]]:
        """Those of the ids that are posts of the feeds, by feed; nothing of feeds whose master of the cluster is away.

        For many ids this takes a tenth of the time of `fields`, but not if the feeds have many other posts: then it
        finds nothing, unless `at_any_cost`, which is that of reading all their ids.
        """
        replies = await within_reach(self._redis, [("ZCARD", keys.feed_items(feed)) for feed in feeds])
        sizes = {feed: size for feed, size in zip(feeds, replies, strict=True) if isinstance(size, int)}
        if sum(sizes.values()) > 4 * len(ids) and not at_any_cost:
            return {}
        pieces = [(feed, at, min(size - at, _IDS)) for feed, size in sizes.items() for at in range(0, size, _IDS)]
        found: dict[str, dict[str, None]] = {feed: {} for feed in sizes}
        while pieces:
            count = within((_COMMAND + size for *_, size in pieces), _IDS_AT_ONCE)
            some, pieces = pieces[:count], pieces[count:]
            commands = [("ZRANGE", keys.feed_items(feed), at, at + _IDS - 1) for feed, at, _ in some]
            for (feed, *_), listed in zip(some, await within_reach(self._redis, commands), strict=True):
                if isinstance(listed, list):
                    found[feed].update(dict.fromkeys(filter(ids.__contains__, text(b" ".join(listed)).split())))
        return {feed: list(items) for feed, items in found.items() if items}

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        """Some fields of some items, row by row, `Data` as JSON. One round trip."""
        rows = await duplicates.fields_of(self._redis, ids, names)
        if "Data" in names:
            at = names.index("Data")
            for item_id, row in zip(ids, rows, strict=True):
                if (stored := row[at]) is not None:
                    row[at] = unpacked(stored, item_id)
        return rows

    async def _sources(self, feed_ids: Iterable[str]) -> dict[str, _Source]:
        """The sources of posts from these feeds."""
        ids = list(dict.fromkeys(feed_ids))
        rows = await self._redis.pipeline([_asking_source(feed_id) for feed_id in ids])
        return dict(zip(ids, map(_source, rows), strict=True))


def within(sizes: Iterable[int], most: int) -> int:
    """How many of the first of these sizes are together at most `most`; at least one, if there are any."""
    count = total = 0
    for size in sizes:
        total += size
        if count and total > most:
            break
        count += 1
    return count


def _stored(name: str, value: Arg) -> Arg:
    """The value of a field in the form in which it is stored."""
    return packed(value) if name == "Data" and isinstance(value, bytes) else value


def _texts_of(stored: Any, item_id: str) -> Texts | bytes | int | None:
    """The texts of an item from the reply to `item_data`."""
    if isinstance(stored, list):
        data, full, automatic = stored
        return with_full(unpacked(data, item_id), unpacked(full, item_id), automatic=bool(automatic))
    return unpacked(stored, item_id) if isinstance(stored, bytes) and stored else stored


def _asking_source(feed_id: str) -> Command:
    return "HMGET", keys.feed(feed_id), "url", "home"


def _source(reply: Sequence[bytes | None]) -> _Source:
    url, home = filled(reply)
    return host_of(url), tuple(dict.fromkeys(normalise_profile(u) for u in (url, home) if u))


def _in_order(members: Iterable[bytes]) -> list[str]:
    """The ids among the members of a set, the oldest first."""
    return sorted(filled(members), key=int)
