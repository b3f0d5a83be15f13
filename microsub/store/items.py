"""The post store: every item once, whoever reads it.

An item's hash is written first; then a script on the feed's slot claims its guid. Whoever loses that race (the same
feed polled twice at once) deletes the hash it wrote. A crash before the claim leaves a hash that nobody refers to, for
the sweep; a crash after it finds the item in the feed's pending set, which is emptied when all timelines have it.

A guid that stands in the feed's map while its item is gone is a tombstone: the post was here, and it doesn't come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from microsub.formats.identity import host_of, normalise_profile
from microsub.formats.wire import encode
from microsub.model.jf2 import Entry
from microsub.model.reader import TimelineItem, Twin
from microsub.store import keys, twins
from microsub.store.feeds import KEEP_UNFOLLOWED, FeedRecord
from microsub.store.port import Arg, Command, Redis
from microsub.store.scripts import load

_CLAIM = load("item_claim")
_UPDATE = load("item_update")

_KNOWN = ("hash", "score", "author", "Published", "twin", "twin_at")
_TIMELINE = ("feed", "score", "author", "twin", "link")


@dataclass(frozen=True, slots=True)
class ItemToStore:
    """A post as a poll found it.

    `guid` is its identity in the feed, `hash` a digest of what readers see of it, `score` Unix seconds, `author` the
    normalised profile URL or empty, `twin` what it shares with copies in other feeds, `extra` further fields to save.
    """

    guid: str
    entry: Entry
    hash: str
    score: float
    author: str = ""
    link: str = ""
    twin: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item that is new; `score` is decimal text."""

    id: str
    score: str
    author: str
    twins: tuple[Twin, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdatedItem:
    """An item that was edited; place and id are as before. `author_before` differs where the author changed."""

    id: str
    score: str
    author: str
    author_before: str
    twins: tuple[Twin, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one document; `unchanged` counts tombstones too."""

    new: tuple[StoredItem, ...] = ()
    updated: tuple[UpdatedItem, ...] = ()
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store holds of an item that a document lists again."""

    id: str
    hash: str
    score: str
    author: str
    published: str
    twin: str
    twin_at: float


@dataclass(frozen=True, slots=True)
class _Source:
    """A feed as its posts' timelines see it: its host, and the normalised URLs by which it can be muted or blocked.

    Those are its own and that of its home page.
    """

    host: str
    urls: tuple[str, ...]


class Items:
    """The post store."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    # --- writing ---------------------------------------------------------------------------------------------------

    async def store(self, feed: FeedRecord, candidates: Sequence[ItemToStore], now: float) -> Stored:
        """Store what is new and update what was edited; running it again, or twice at once, changes nothing more.

        New items, and edited ones whose author changed, stand in the feed's pending set until `done`. Takes a handful
        of round trips, however many items.
        """
        by_guid = {candidate.guid: candidate for candidate in reversed(candidates)}
        listed = list(dict.fromkeys(candidate.guid for candidate in candidates))
        if not listed:
            return Stored()
        found = await self._redis.command("HMGET", keys.feed_guids(feed.id), *listed)
        ids = {guid: item_id.decode() for guid, item_id in zip(listed, found, strict=True) if item_id is not None}
        known = await self._known(ids)
        fresh = [by_guid[guid] for guid in listed if guid not in ids]
        edited = [
            (known[guid], by_guid[guid]) for guid in listed if guid in known and known[guid].hash != by_guid[guid].hash
        ]
        new = await self._add(feed, fresh, now)
        updated = await self._edit(feed, edited, now)
        await self._prolong_twins(feed, [(known[guid], by_guid[guid]) for guid in listed if guid in known], now)
        of = await twins.look_up(
            self._redis,
            twins.by_identity(
                (by_guid[guid].twin or "", _copy(feed, item.id, by_guid[guid]))
                for guid, item in (new | updated).items()
                if by_guid[guid].twin
            ),
        )
        return Stored(
            tuple(replace(item, twins=of.get(item.id, ())) for item in new.values()),
            tuple(replace(item, twins=of.get(item.id, ())) for item in updated.values()),
            len(listed) - len(new) - len(updated),
        )

    async def pending(self, feed_id: str) -> list[str]:
        """Ids that are stored but not in all timelines yet, the oldest first."""
        return sorted(_texts(await self._redis.command("SMEMBERS", keys.feed_pending(feed_id))), key=int)

    async def done(self, feed_id: str, ids: Sequence[str]) -> None:
        """These items are in all timelines that they belong to."""
        if ids:
            await self._redis.command("SREM", keys.feed_pending(feed_id), *ids)

    async def _known(self, ids: Mapping[str, str]) -> dict[str, _Known]:
        """What is stored of these items (guid → id), by guid; tombstones are left out."""
        rows = await self.fields(list(ids.values()), _KNOWN)
        known = {}
        for (guid, item_id), row in zip(ids.items(), rows, strict=True):
            digest, score, author, published, twin, twin_at = (value.decode() if value else "" for value in row)
            if score:
                known[guid] = _Known(item_id, digest, score, author, published, twin, float(twin_at or 0))
        return known

    async def _add(self, feed: FeedRecord, fresh: Sequence[ItemToStore], now: float) -> dict[str, StoredItem]:
        """Write new items; those that somebody else stored meanwhile are left to them. By guid."""
        if not fresh:
            return {}
        last = int(await self._redis.command("INCRBY", keys.item_ids(), len(fresh)))
        # The document's first entry is its newest: it gets the largest id.
        numbered = [(str(last - place), candidate) for place, candidate in enumerate(fresh)]
        commands: list[Command] = []
        for item_id, candidate in numbered:
            fields: dict[str, Arg] = {
                **_changing(feed, item_id, candidate, candidate.entry, now),
                "ID": item_id,
                "feed": feed.id,
                "guid": candidate.guid,
                "score": score_text(candidate.score),
                "discovered": score_text(now),
                "Published": _iso(candidate.entry.published),
            }
            commands.append(("HSET", keys.item(item_id), *_flat(fields)))
            if candidate.twin:
                commands += twins.register(candidate.twin, _copy(feed, item_id, candidate))
        await self._redis.pipeline(commands)
        owners = await self._claim(feed, numbered)
        lost = [(item_id, candidate) for item_id, candidate in numbered if owners[candidate.guid] != item_id]
        if lost:
            await self._redis.pipeline([command for pair in lost for command in _withdrawal(feed, *pair)])
        return {
            candidate.guid: StoredItem(item_id, score_text(candidate.score), candidate.author)
            for item_id, candidate in numbered
            if owners[candidate.guid] == item_id
        }

    async def _claim(self, feed: FeedRecord, numbered: Sequence[tuple[str, ItemToStore]]) -> dict[str, str]:
        """Guid → the id that it belongs to from now on."""
        args: list[Arg] = [KEEP_UNFOLLOWED]
        for item_id, candidate in numbered:
            args += (candidate.guid, item_id, score_text(candidate.score))
        feed_keys = [
            keys.feed(feed.id),
            keys.feed_guids(feed.id),
            keys.feed_items(feed.id),
            keys.feed_pending(feed.id),
        ]
        owners = await self._redis.script(_CLAIM, feed_keys, args)
        return {candidate.guid: owner.decode() for (_, candidate), owner in zip(numbered, owners, strict=True)}

    async def _edit(
        self, feed: FeedRecord, edited: Sequence[tuple[_Known, ItemToStore]], now: float
    ) -> dict[str, UpdatedItem]:
        """Write edits in place; score, id and time of discovery stay, and so does `published` on the wire. By guid."""
        if not edited:
            return {}
        calls = []
        for old, candidate in edited:
            published = datetime.fromisoformat(old.published) if old.published else None
            entry = replace(candidate.entry, published=published)
            calls.append((_UPDATE, [keys.item(old.id)], _flat(_changing(feed, old.id, candidate, entry, now))))
        again = [old.id for old, candidate in edited if old.author != candidate.author]
        if again:
            # Timelines must hold these against their rules again; a crash before that must not forget it.
            await self._redis.command("SADD", keys.feed_pending(feed.id), *again)
        written = await self._redis.scripts(calls)
        updated = {
            candidate.guid: UpdatedItem(old.id, old.score, candidate.author, old.author)
            for (old, candidate), exists in zip(edited, written, strict=True)
            if exists
        }
        if updated:
            ranks = [part for item in updated.values() for part in (score_text(now), item.id)]
            await self._redis.command("ZADD", keys.feed_items(feed.id), "XX", *ranks)
        return updated

    async def _prolong_twins(self, feed: FeedRecord, listed: Sequence[tuple[_Known, ItemToStore]], now: float) -> None:
        """Copies stay known of each other for as long as a feed lists them; written once in a month at most."""
        commands: list[Command] = []
        calls = []
        for old, candidate in listed:
            if candidate.twin and (now - old.twin_at > twins.REFRESH or old.twin != candidate.twin):
                commands += twins.register(candidate.twin, _copy(feed, old.id, candidate))
                calls.append((_UPDATE, [keys.item(old.id)], ["twin", candidate.twin, "twin_at", score_text(now)]))
        if commands:
            await self._redis.pipeline(commands)
            await self._redis.scripts(calls)

    # --- reading ---------------------------------------------------------------------------------------------------

    async def timeline_items(self, ids: Sequence[str]) -> list[TimelineItem]:
        """What timelines need to know of these items, in their order; those that are gone are left out."""
        rows = dict(zip(ids, await self.fields(ids, _TIMELINE), strict=True))
        found = {item_id: _texts(row) for item_id, row in rows.items() if row[1] is not None}
        sources = await self._sources(feed for feed, *_ in found.values())
        asking = (
            (twin, twins.Copy(item_id, feed, sources[feed].host, host_of(link)))
            for item_id, (feed, _, _, twin, link) in found.items()
            if twin
        )
        copies = await twins.look_up(self._redis, twins.by_identity(asking))
        return [
            TimelineItem(item_id, score, author, sources[feed].urls, copies.get(item_id, ()))
            for item_id, (feed, score, author, *_) in found.items()
        ]

    async def newest(self, feed_id: str, limit: int) -> list[str]:
        """Ids of the feed's latest posts, the latest first (by time of publishing, or of the last edit)."""
        if limit < 1:
            return []
        return _texts(await self._redis.command("ZRANGE", keys.feed_items(feed_id), 0, limit - 1, "REV"))

    async def data(self, ids: Sequence[str]) -> list[bytes | None]:
        """The wire JSON of these items, without per-user fields. One round trip."""
        return await self._redis.pipeline([("HGET", keys.item(item_id), "Data") for item_id in ids])

    async def get(self, item_id: str) -> dict[str, str] | None:
        """All fields of an item, as they were saved; None where there is none."""
        reply = await self._redis.command("HGETALL", keys.item(item_id))
        texts = _texts(reply)
        return dict(zip(texts[::2], texts[1::2], strict=True)) or None

    async def by_guid(self, feed_id: str, guid: str) -> dict[str, str] | None:
        """All fields of the feed's item with that guid; None where there is none (any more)."""
        item_id = await self._redis.command("HGET", keys.feed_guids(feed_id), guid)
        return await self.get(item_id.decode()) if item_id is not None else None

    async def places(self, ids: Sequence[str]) -> list[str | None]:
        """The scores of these items, as decimal text; None where an item is gone."""
        rows = await self.fields(ids, ("score",))
        return [row[0].decode() if row[0] is not None else None for row in rows]

    async def in_feed(self, feed_id: str, ids: Sequence[str]) -> set[str]:
        """Those of the ids that are posts of the feed."""
        if not ids:
            return set()
        ranks = await self._redis.command("ZMSCORE", keys.feed_items(feed_id), *ids)
        return {item_id for item_id, rank in zip(ids, ranks, strict=True) if rank is not None}

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        """Some fields of some items, row by row. One round trip."""
        return await self._redis.pipeline([("HMGET", keys.item(item_id), *names) for item_id in ids])

    async def _sources(self, feed_ids: Iterable[str]) -> dict[str, _Source]:
        """Where posts of these feeds come from."""
        ids = list(dict.fromkeys(feed_ids))
        rows = await self._redis.pipeline([("HMGET", keys.feed(feed_id), "url", "home") for feed_id in ids])
        return {
            feed_id: _Source(host_of(url), tuple(dict.fromkeys(normalise_profile(u) for u in (url, home) if u)))
            for feed_id, (url, home) in zip(ids, map(_texts, rows), strict=True)
        }


def score_text(seconds: float) -> str:
    """Unix seconds as decimal text with microseconds, in the shortest form."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _changing(feed: FeedRecord, item_id: str, candidate: ItemToStore, entry: Entry, now: float) -> dict[str, Arg]:
    """The fields that an edit replaces; `entry` has the publication time that the wire shall carry."""
    fields: dict[str, Arg] = {
        **candidate.extra,
        "hash": candidate.hash,
        "updated": score_text(now),
        "author": candidate.author,
        "link": candidate.link,
        "Data": encode(entry, item_id=item_id, source=feed.id),
    }
    if candidate.twin:
        fields |= {"twin": candidate.twin, "twin_at": score_text(now)}
    return fields


def _copy(feed: FeedRecord, item_id: str, candidate: ItemToStore) -> twins.Copy:
    return twins.Copy(item_id, feed.id, host_of(feed.url), host_of(candidate.link))


def _withdrawal(feed: FeedRecord, item_id: str, candidate: ItemToStore) -> list[Command]:
    commands: list[Command] = [("DEL", keys.item(item_id))]
    if candidate.twin:
        commands.append(("SREM", keys.twins(candidate.twin), _copy(feed, item_id, candidate).member()))
    return commands


def _iso(instant: datetime | None) -> str:
    return instant.isoformat() if instant is not None else ""


def _flat(fields: Mapping[str, Arg]) -> list[Arg]:
    return [part for pair in fields.items() for part in pair]


def _texts(values: Iterable[bytes | None]) -> list[str]:
    return [value.decode("utf-8", "replace") if value is not None else "" for value in values]
