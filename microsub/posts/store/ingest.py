"""Posts on their way into the store: which of a document's posts are news, and how they are written.

An item's hash is written first; then a script on the feed's slot claims its guid. The loser of that race (the same
document handled twice at once) deletes the hash it wrote. A crash before the claim leaves a hash that nobody refers to,
for the sweep; a crash after it finds the item in the feed's pending set, which is emptied when the next stage has it.

A guid that stands in the feed's map while its item is gone is a tombstone: the post was here, and it doesn't come back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from microsub.feeds.store.metadata import reading_text
from microsub.feeds.store.record import KEEP_UNFOLLOWED, FeedRecord, record_of
from microsub.formats.entry_id import host_of, normalise_url, told_apart
from microsub.formats.wire import identified, redated
from microsub.posts.store import duplicates
from microsub.posts.store.garbage import listed_again
from microsub.posts.values import ItemToStore, Sifted, Stored, StoredItem, UpdatedItem
from microsub.redis import counters, keys
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import text
from microsub.redis.scores import score_text
from microsub.redis.scripts import load

_CLAIM, _UPDATE, _CONFIRM, _TOLD = (
    load(name) for name in ("item_claim", "item_update", "item_confirm", "compare_and_set")
)

_SIFT = load("feed_sift")

_KNOWN = ("hash", "score", "author", "Published", "twin", "twin_at", "version", "confirmed", "untold")

FIRST = "first"
"""A field to save with posts of the first document that is read of a feed: they fill timelines that wait for it."""

_UNKNOWN = "?"
"""In place of the author before an edit that somebody else has made."""

ANY = ""
"""A version that is never refused, for what is written without an order."""


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
    version: str
    untold: str


@dataclass(frozen=True, slots=True)
class _Compared:
    """A document's posts, each guid once, beside what the store knows of them. `ids` holds tombstones too."""

    listed: Mapping[str, ItemToStore]
    ids: Mapping[str, str]
    known: Mapping[str, _Known]

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


_IdsOf = Callable[[Sequence[str], Sequence[str]], Awaitable[list[Any]]]
"""Asks for the ids that guids stand for: those of posts that are listed, and other names that they may have."""


class Intake:
    """Decides what is news and writes it. Each method takes a handful of round trips, however many posts."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def sift(self, feed: FeedRecord, candidates: Sequence[ItemToStore], now: float) -> Sifted:
        """What of a document is news. The copies of the rest stay known of each other for as long as it is listed.

        Where anything is new, the feed has no validators any more: what is handed on must be found again if we die.
        """
        is_open = False

        async def ids_of(listed: Sequence[str], others: Sequence[str]) -> list[Any]:
            nonlocal is_open
            args: list[Arg] = [reading_text(feed.reading), len(listed), *listed, *others]
            reply: list[Any] = await self._redis.script(_SIFT, [keys.feed(feed.id), keys.feed_guids(feed.id)], args)
            is_open = bool(reply[0])
            return reply[1:]

        compared = await self._compare(feed.id, candidates, ids_of)
        await listed_again(self._redis, feed.id, compared.tombstones, now)
        await self._prolong_twins(feed, compared.again, now)
        return Sifted(tuple(compared.new), tuple(candidate for _, candidate in compared.edited), is_open)

    async def store(
        self, feed: FeedRecord, candidates: Sequence[ItemToStore], now: float, version: str = ANY
    ) -> Stored:
        """Store what is new and update what was edited; running it again, or twice at once, changes nothing more.

        `version` orders documents: an item that a later document has changed, or has confirmed, is left as it is. New
        and edited items stand in the feed's pending set until `Items.done`. An edit of this version that was written
        and not told is among the `updated` again.
        """
        return await self._store(feed, await self._compare(feed.id, candidates, self._asking(feed.id)), now, version)

    async def store_in(
        self, feed_id: str, candidates: Sequence[ItemToStore], now: float, version: str
    ) -> tuple[FeedRecord | None, Stored]:
        """`store` for who has yet to read the feed's record, which is returned; nothing is stored where there is none.

        All the candidates may be new, so they have their ids at once: what isn't needed of these, nobody gets.
        """
        fields: list[bytes] = []
        last: int | None = None

        async def ids_of(listed: Sequence[str], others: Sequence[str]) -> list[Any]:
            nonlocal fields, last
            reading = [("HGETALL", keys.feed(feed_id)), ("HMGET", keys.feed_guids(feed_id), *listed, *others)]
            counter = keys.item_ids()
            fields, ids, last = await self._redis.pipeline([*reading, counters.taking(counter, len(listed))])
            found: list[Any] = ids
            return found

        compared = await self._compare(feed_id, candidates, ids_of)
        if not fields:
            return None, Stored()
        feed = record_of(feed_id, fields)
        return feed, await self._store(feed, compared, now, version, last)

    def _asking(self, feed_id: str) -> _IdsOf:
        async def ids_of(listed: Sequence[str], others: Sequence[str]) -> list[Any]:
            found: list[Any] = await self._redis.command("HMGET", keys.feed_guids(feed_id), *listed, *others)
            return found

        return ids_of

    async def _store(
        self, feed: FeedRecord, compared: _Compared, now: float, version: str, last: int | None = None
    ) -> Stored:
        """`last` is the last of as many ids as there are candidates, where these are taken already."""
        if not compared.listed:
            return Stored()
        new, lost, pending = await self._add(feed, compared.new, now, version, last)
        # What somebody else stored meanwhile may be of an earlier document.
        theirs = await self._compare(feed.id, lost, self._asking(feed.id))
        edited = [*compared.edited, *theirs.edited, *await self._confirm([*compared.same, *theirs.same], version)]
        updated = await self._edit(feed, edited, now, version)
        if version:
            updated += [_untold(old, candidate) for old, candidate in compared.same if old.untold]
        await self._prolong_twins(feed, compared.again, now)
        unchanged = len(compared.listed) - len(new) - len(updated)
        return Stored(tuple(new), tuple(updated), unchanged, version, None if updated else pending)

    async def told(self, updated: Iterable[UpdatedItem]) -> None:
        """Note that these edits have been announced; later ones are left to their writers."""
        calls = [(_TOLD, [keys.item(item.id)], ["untold", item.untold, ""]) for item in updated if item.untold]
        if calls:
            await self._redis.scripts(calls)

    async def _compare(self, feed_id: str, candidates: Sequence[ItemToStore], ids_of: _IdsOf) -> _Compared:
        listed: dict[str, ItemToStore] = {}
        for candidate in candidates:
            listed.setdefault(candidate.guid, candidate)
        if not listed:
            return _Compared({}, {}, {})
        # Posts that were stored beside others of their guid, and are listed without these now, don't become what the
        # guid alone stands for: that may be any of the others in its turn.
        names = {
            guid: name
            for guid, one in listed.items()
            if not one.shared and (name := told_apart(guid, one.link, one.written_guid))
        }
        found = await ids_of(list(listed), list(names.values()))
        texts = [None if item_id is None else text(item_id) for item_id in found]
        ids = {guid: item_id for guid, item_id in zip(listed, texts, strict=False) if item_id is not None}
        beside = dict(zip(names, texts[len(listed) :], strict=True))
        ids |= await self._once_alone(feed_id, [one for guid, one in listed.items() if one.shared and guid not in ids])
        known = await self._known(ids) if ids else {}
        apart = {
            guid: item_id
            for guid, item_id in beside.items()
            if item_id is not None and item_id != ids.get(guid) and _is_news(listed[guid], known.get(guid))
        }
        if apart:
            known = {guid: one for guid, one in known.items() if guid not in apart} | await self._known(apart)
        return _Compared(listed, ids | apart, known)

    async def _once_alone(self, feed_id: str, candidates: Sequence[ItemToStore]) -> dict[str, str]:
        """Posts that were stored when no other post of their feed had their guid, or by an import (guid → item id).

        From now on they are known by what tells them apart, too.
        """
        if not candidates:
            return {}
        key = keys.feed_guids(feed_id)
        ids = await self._redis.command("HMGET", key, *(one.shared for one in candidates))
        pairs = [(one, text(item_id)) for one, item_id in zip(candidates, ids, strict=True) if item_id is not None]
        links = await self._redis.pipeline([("HGET", keys.item(item_id), "link") for _, item_id in pairs])
        # Of a post that is gone the link isn't known any more; what was published after it was deleted is another one.
        buried = await self._redis.pipeline([("ZSCORE", keys.feed_tombstones(feed_id), one.shared) for one, _ in pairs])
        same = [
            (one.guid, item_id)
            for (one, item_id), link, until in zip(pairs, links, buried, strict=True)
            if (one.score < float(until or 0) if link is None else _is_link(one.link, link))
        ]
        claimed = await self._redis.pipeline([("HSETNX", key, guid, item_id) for guid, item_id in same])
        return {guid: item_id for (guid, item_id), was_free in zip(same, claimed, strict=True) if was_free}

    async def _known(self, ids: Mapping[str, str]) -> dict[str, _Known]:
        """What is stored of these items (guid → id), by guid; tombstones are left out."""
        rows = await self._redis.pipeline([("HMGET", keys.item(item_id), *_KNOWN) for item_id in ids.values()])
        known = {}
        for (guid, item_id), row in zip(ids.items(), rows, strict=True):
            texts = [text(value) if value else "" for value in row]
            digest, score, author, published, twin, twin_at, version, confirmed, untold = texts
            if score:
                latest = max(version, confirmed)
                known[guid] = _Known(
                    item_id, digest, score, author, published, twin, float(twin_at or 0), latest, untold
                )
        return known

    async def _add(
        self, feed: FeedRecord, fresh: Sequence[ItemToStore], now: float, version: str, last: int | None
    ) -> tuple[list[StoredItem], list[ItemToStore], frozenset[str] | None]:
        """Write new items; what became of them, those that somebody else has stored meanwhile, and all that are pending
        by then.
        """
        if not fresh:
            return [], [], None
        was = await self._predecessors(feed, fresh)
        if last is None:
            last = await counters.take(self._redis, keys.item_ids(), len(fresh))
        # The document's first entry is its newest: it gets the largest id.
        numbered = [(str(last - place), candidate) for place, candidate in enumerate(fresh)]
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
            if candidate.guid in was:
                fields[duplicates.WAS] = was[candidate.guid]
            commands.append(("HSET", keys.item(item_id), *_flat(fields)))
            if candidate.twin:
                commands += duplicates.register(candidate.twin, _copy(feed, item_id, candidate))
        await self._redis.pipeline(commands)
        owners, pending = await self._claim(feed, numbered)
        lost = [(item_id, candidate) for item_id, candidate in numbered if owners[candidate.guid] != item_id]
        if lost:
            await self._redis.pipeline([command for pair in lost for command in _withdrawal(feed, *pair)])
        stored = [
            StoredItem(
                item_id, candidate.written_guid, score_text(candidate.score), candidate.author, candidate.incomplete
            )
            for item_id, candidate in numbered
            if owners[candidate.guid] == item_id
        ]
        return stored, [candidate for _, candidate in lost], pending

    async def _predecessors(self, feed: FeedRecord, fresh: Sequence[ItemToStore]) -> dict[str, str]:
        """What new posts were in feeds that gave this one their followers, by guid, as `twins.WAS` has it."""
        found: dict[str, str] = {}
        for former in feed.extra.get(duplicates.MERGED, "").split():
            posts = {one.guid: (one.guid, one.link) for one in fresh}
            for guid, item in (await duplicates.predecessors(self._redis, former, posts)).items():
                found[guid] = f"{found.get(guid, '')} {item} {former}".strip()
        return found

    async def _claim(
        self, feed: FeedRecord, numbered: Sequence[tuple[str, ItemToStore]]
    ) -> tuple[dict[str, str], frozenset[str]]:
        """Guid → the id that it belongs to from now on; and the ids that are pending."""
        args: list[Arg] = [KEEP_UNFOLLOWED]
        for item_id, candidate in numbered:
            args += (candidate.guid, item_id, score_text(candidate.score))
        feed_keys = [
            keys.feed(feed.id),
            keys.feed_guids(feed.id),
            keys.feed_items(feed.id),
            keys.feed_pending(feed.id),
        ]
        owners, pending = await self._redis.script(_CLAIM, feed_keys, args)
        belonging = {candidate.guid: text(owner) for (_, candidate), owner in zip(numbered, owners, strict=True)}
        return belonging, frozenset(one.decode() for one in pending)

    async def _edit(
        self, feed: FeedRecord, edited: Sequence[tuple[_Known, ItemToStore]], now: float, version: str
    ) -> list[UpdatedItem]:
        """Write edits in place; score, id, time of discovery and the `published` on the wire stay."""
        if not edited:
            return []
        before = await self._redis.pipeline([("HGET", keys.item(old.id), "Data") for old, _ in edited])
        calls = []
        changed = []
        for (old, candidate), data in zip(edited, before, strict=True):
            wire = redated(candidate.wire, old.published)
            fields = _changing(feed, old.id, candidate, wire, now, version)
            if version:
                fields["untold"] = version
            changed.append(_differences(data, wire))
            calls.append((_UPDATE, [keys.item(old.id)], [version, *_flat(fields)]))
        # What follows from an edit must be done even if we crash right behind it.
        await self._redis.command("SADD", keys.feed_pending(feed.id), *(old.id for old, _ in edited))
        written = await self._redis.scripts(calls)
        updated = [
            UpdatedItem(
                old.id,
                candidate.written_guid,
                old.score,
                candidate.author,
                _before(old),
                names,
                version,
                candidate.incomplete,
            )
            for (old, candidate), names, was_written in zip(edited, changed, written, strict=True)
            if was_written
        ]
        if updated:
            ranks = [part for item in updated for part in (score_text(now), item.id)]
            await self._redis.command("ZADD", keys.feed_items(feed.id), "XX", *ranks)
        return updated

    async def _confirm(
        self, same: Sequence[tuple[_Known, ItemToStore]], version: str
    ) -> list[tuple[_Known, ItemToStore]]:
        """Note that a document has these items as they are, so that no earlier one changes them; those that are
        otherwise by now.
        """
        older = [(old, candidate) for old, candidate in same if old.version < version]
        calls = [(_CONFIRM, [keys.item(old.id)], [version, candidate.hash]) for old, candidate in older]
        replies = await self._redis.scripts(calls) if calls else []
        return [pair for pair, is_same in zip(older, replies, strict=True) if not is_same]

    async def _prolong_twins(self, feed: FeedRecord, listed: Iterable[tuple[_Known, ItemToStore]], now: float) -> None:
        """Copies stay known of each other for as long as a feed lists them; written once in a month at most."""
        commands: list[Command] = []
        calls = []
        for old, candidate in listed:
            if candidate.twin and (now - old.twin_at > duplicates.REFRESH or old.twin != candidate.twin):
                commands += duplicates.register(candidate.twin, _copy(feed, old.id, candidate))
                calls.append((_UPDATE, [keys.item(old.id)], [ANY, "twin", candidate.twin, "twin_at", score_text(now)]))
        if commands:
            await self._redis.pipeline(commands)
            await self._redis.scripts(calls)


def _is_link(link: str, stored: bytes) -> bool:
    return bool(stored) and normalise_url(text(stored)) == normalise_url(link)


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
        "Data": identified(wire, item_id, feed.id),
        "incomplete": "1" if candidate.incomplete else "",
    }
    if version:
        fields["version"] = version
    if candidate.twin:
        fields |= {"twin": candidate.twin, "twin_at": score_text(now)}
    return fields


def _untold(old: _Known, candidate: ItemToStore) -> UpdatedItem:
    """An edit that somebody wrote and didn't live to tell."""
    return UpdatedItem(
        old.id,
        candidate.written_guid,
        old.score,
        candidate.author,
        _UNKNOWN,
        untold=old.untold,
        incomplete=candidate.incomplete,
    )


def _before(old: _Known) -> str:
    """The author before an edit, as far as the timelines have heard."""
    return old.author if not old.untold else _UNKNOWN


def _differences(before: bytes | None, after: bytes) -> tuple[str, ...]:
    """The properties that two JSON objects don't share, but for ids."""
    old, new = orjson.loads(before or b"{}"), orjson.loads(after)
    names = (old.keys() | new.keys()) - {"_id", "_source"}
    return tuple(sorted(name for name in names if old.get(name) != new.get(name)))


def _copy(feed: FeedRecord, item_id: str, candidate: ItemToStore) -> duplicates.Copy:
    return duplicates.Copy(item_id, feed.id, host_of(feed.url), host_of(candidate.link))


def _withdrawal(feed: FeedRecord, item_id: str, candidate: ItemToStore) -> list[Command]:
    commands: list[Command] = [("DEL", keys.item(item_id))]
    if candidate.twin:
        commands.append(("SREM", keys.twins(candidate.twin), _copy(feed, item_id, candidate).member()))
    return commands


def _flat(fields: Mapping[str, Arg]) -> list[Arg]:
    return [part for pair in fields.items() for part in pair]
