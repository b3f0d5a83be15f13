"""Feed records, one per distinct feed URL, and their followers.

A feed without followers has a time to live of 30 days, for all keys in the feed's slot at once. The first follower
removes it and the last one sets it again.

A change of title, picture and so on, and its note, are written in one step. Announcing the change deletes the note;
until then anything may announce it: the next poll, the next program that describes the feed, or a round of upkeep.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal

from microsub.base.errors import StoreUnavailable
from microsub.base.urls import canonical_feed_url, host_of, normalise_profile
from microsub.feeds import url_index
from microsub.feeds.followers import Audience, as_places
from microsub.feeds.internal import InternalAddress
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis, ScriptCall
from microsub.redis.replies import fields as read_fields
from microsub.redis.replies import reading, text, texts, within_reach
from microsub.redis.scripts import batches, load
from microsub.work import calendar_of

KEEP_UNFOLLOWED = 30 * 86400
"""Seconds that a feed and its guid map outlive the last follower."""

_TRIES = 10
"""Batches of ids that `page` examines."""

_LAST_LEFT = 2
"""The script's reply when a feed with a WebSub subscription has lost its last follower."""

KEEP_FINGERPRINTS = 86400
"""Seconds after which all entries of a feed are read again, even with a known fingerprint."""

_CREATE = load("feed_create")
_READ = load("feed_read")
_WRITE = load("feed_write")
_FOLLOWERS = load("feed_followers")
_DESCRIBE, _ANNOUNCED = load("feed_describe"), load("compare_and_set")

COPIED = "copied"
"""Field of a feed: single users have their own copies of its posts, from imports (`keys.feed_imported`)."""

MERGED = "merged"
"""The record's field with the feeds that merged into it, the latest last; and the feed itself if an import knows posts
of it that have left timelines (`keys.feed_departed`).
"""

MOVED_FROM = "moved_from"
"""The record's field with its original address, after a redirect, or a page, led to one that no feed had."""

OTHERS = "others"
"""The record's field with the other feeds that a page named, best first."""

ICON = "icon"
"""The record's field with the address of the site's icon, for a feed that names no picture."""

PAGES = "pages"
"""The record's field with the addresses through which it was found."""

NEVER_POLLED: Mapping[str, str | None] = dict.fromkeys(
    ("last_poll", "next_poll", "interval", "failures", "hold_until", "last_error", "last_error_at", "answers", "gone")
)
"""The record's fields as they are in a feed that only programs write (`FeedRecord.is_written`)."""

UNANNOUNCED = "untold"
"""The record's field with a note of unannounced changes: a nonce, then the names of what changed."""


@dataclass(frozen=True, slots=True)
class FeedRecord:
    """A feed's record: Unix times, `interval` in seconds, validators as received.

    `gone`: the publisher answered 410; `moved_to` is a permanent redirect under observation, seen `moved_seen` times
    since `moved_since`. `reading` is the number of the last reading that has begun: about its time, and larger than
    that of any before. `kept`: the feed stays without followers, because programs save posts into it. `extra` has
    every other saved field.
    """

    id: str
    url: str
    title: str | None = None
    photo: str | None = None
    home: str | None = None
    description: str | None = None
    format: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    body_hash: str | None = None
    interval: float | None = None
    next_poll: float | None = None
    last_poll: float | None = None
    last_success: float | None = None
    failures: int = 0
    last_error: str | None = None
    last_error_at: float | None = None
    gone: bool = False
    hub: str | None = None
    self_url: str | None = None
    moved_to: str | None = None
    moved_seen: int = 0
    moved_since: float | None = None
    created: float | None = None
    reading: float | None = None
    kept: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def icon(self) -> str:
        """The address of a picture for the feed: its own, else its site's (`ICON`), else ''."""
        return self.photo or self.extra.get(ICON, "")

    @property
    def is_internal(self) -> bool:
        """Whether it is an internal feed, which is never polled."""
        return InternalAddress.of(self.url) is not None

    @property
    def is_written(self) -> bool:
        """Whether only programs write it: they save posts into it, and its address has never been read."""
        return self.kept and self.last_success is None

    @property
    def poll_host(self) -> str:
        """The host of whose feeds it is polled as one; '' if it is never polled."""
        return "" if self.is_internal or self.is_written else host_of(self.url)

    def due(self, now: float) -> float:
        """The due time for a new follower: a feed that was never planned precedes all overdue ones."""
        return now - NEW_FIRST if self.next_poll is None else self.next_poll


NEW_FIRST = 86_400.0
"""Seconds by which new feeds count as overdue: somebody waits for them, also after an outage."""

FEW_FINGERPRINTS = 64 * 1024
"""Bytes of fingerprints that are read with the record: about 2,500 entries."""

FeedToRead = tuple[FeedRecord, frozenset[str], bytes | None]
"""A feed at the beginning of a reading, the users who follow it, and the fingerprints of its last document.

None if there are none or too many to be read along with the record (`Feeds.fingerprints`).
"""


_TIMES = frozenset(
    {"interval", "next_poll", "last_poll", "last_success", "last_error_at", "moved_since", "created", "reading"}
)
_COUNTS = frozenset({"failures", "moved_seen"})
"""Fields of a record that are numbers with and without a fraction."""

_NAMED = frozenset(field.name for field in fields(FeedRecord)) - {"id", "extra"}


FollowerChange = Literal["follow", "unfollow"]


class Feeds:
    """The feed records and their followers."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.audience = Audience(redis)
        self.on_follower: Callable[[str, str, str, FollowerChange], Awaitable[None]] | None = None
        """Called with a feed, and with user and uid of a channel that was noted as its follower or removed."""

    async def ensure(self, url: str, now: float) -> FeedRecord:
        """The feed of that URL in canonical form, created if there is none. Idempotent."""
        canonical = canonical_feed_url(url)
        address = await url_index.find(self._redis, canonical)
        if address is not None:
            if not await url_index.spare(self._redis, address):
                return await self.ensure(url, now)
            known = address.feed
            record = await self.get(known)
            if record is not None and _is_of_others(record, canonical):
                return await self._apart(record, address, now)
            if record is not None:
                return record
            # The record has expired, its URL hasn't: the feed is created again under the URL's id.
            await self._create(known, canonical, now)
            return await self.get(known) or FeedRecord(known, canonical)
        feed_id = str(await self._redis.command("INCRBY", keys.feed_ids(), 1))
        # The record before the claim: a crash in between leaves a record that expires, never a URL without a record.
        await self._create(feed_id, canonical, now)
        if not await self._redis.command("HSETNX", keys.feeds_by_url(), canonical, feed_id):
            await self._redis.command("DEL", keys.feed(feed_id))
            return await self.ensure(url, now)
        return await self.get(feed_id) or FeedRecord(feed_id, canonical)

    async def find(self, url: str) -> str | None:
        """The id of the feed of that URL, or None."""
        found = await url_index.find(self._redis, canonical_feed_url(url))
        return found.feed if found is not None else None

    async def find_many(self, urls: Iterable[str]) -> dict[str, str]:
        """The ids of the feeds of those URLs, by URL; unknown ones are left out. One round trip for a thousand."""
        known: dict[str, str] = {}
        for wanted in batches(list(dict.fromkeys(urls))):
            found = await url_index.find_many(self._redis, [canonical_feed_url(url) for url in wanted])
            known |= {url: address.feed for url, address in zip(wanted, found, strict=True) if address is not None}
        return known

    async def get(self, feed_id: str) -> FeedRecord | None:
        """The record of that id, or None."""
        return (await self.get_many([feed_id])).get(feed_id)

    async def get_many(self, feed_ids: Iterable[str]) -> dict[str, FeedRecord]:
        """The records of those ids, by id; missing ones are left out. One round trip for a thousand."""
        return await self._records(feed_ids, self._redis.pipeline)

    async def within_reach(self, feed_ids: Iterable[str]) -> dict[str, FeedRecord]:
        """The same without records that can't be read because their master of the cluster is away."""
        return await self._records(feed_ids, partial(within_reach, self._redis))

    async def _records(
        self, feed_ids: Iterable[str], run: Callable[[Sequence[Command]], Awaitable[list[Any]]]
    ) -> dict[str, FeedRecord]:
        found: dict[str, FeedRecord] = {}
        for ids in batches(list(dict.fromkeys(feed_ids))):
            replies = await run([("HGETALL", keys.feed(feed_id)) for feed_id in ids])
            found |= {
                one: record_of(one, reply)
                for one, reply in zip(ids, replies, strict=True)
                if reply and not isinstance(reply, StoreUnavailable)
            }
        return found

    async def descriptions(self, feed_ids: Sequence[str], names: Sequence[str]) -> list[list[str]]:
        """These fields of the feeds, '' for missing ones, and for feeds that can't be read now. One round trip."""
        rows = await within_reach(self._redis, [("HMGET", keys.feed(one), *names) for one in feed_ids])
        nothing = [b""] * len(names)
        return [[text(part or b"") for part in (nothing if isinstance(row, StoreUnavailable) else row)] for row in rows]

    async def begin_reading(self, feed_id: str) -> FeedToRead | None:
        """Begin a reading: the feed with the reading's number; None if there is no such feed.

        From now on writes of earlier readings are refused. One round trip, and another for a changed list of followers.
        """
        reply = await self._redis.script(_READ(feed_id, most=FEW_FINGERPRINTS))
        if not reply:
            return None
        return await self._to_read(feed_id, *reply[1:])

    async def to_read(self, feed_id: str) -> FeedToRead | None:
        """The same for a document that was fetched already, without beginning a reading."""
        slot = ("HGETALL", keys.feed(feed_id)), ("GET", keys.feed_edition(feed_id)), _asking_fingerprints(feed_id)
        fields, edition, fingerprints = await self._redis.pipeline(slot)
        return await self._to_read(feed_id, fields, edition, fingerprints) if fields else None

    async def _to_read(
        self, feed_id: str, fields: list[bytes], edition: bytes | None, fingerprints: bytes | None
    ) -> FeedToRead:
        feed = record_of(feed_id, fields)
        places = await self.audience.at(feed_id, edition)
        return feed, frozenset(user for user, _ in places), _fingerprints_of(feed, fingerprints)

    async def update(self, feed_id: str, fields: Mapping[str, str | None], reading: float | None = None) -> bool:
        """Set fields, or delete those whose value is None.

        False, and nothing is written, if the feed doesn't exist (any more), or a later reading than `reading` has
        begun.
        """
        written, _ = await self.settle(feed_id, fields, None, reading)
        return written

    async def describe(
        self,
        feed_id: str,
        said: Mapping[str, str | None],
        if_changed: Mapping[str, str | None] | None = None,
        reading: float | None = None,
    ) -> tuple[tuple[str, ...], str]:
        """Set fields of a feed's description, delete those that are None, and note what to announce (`announced`).

        Returns the changed fields, and the note of all that must be announced, or "".

        `if_changed` is written too if anything changed. Nothing happens if the feed doesn't exist (any more), or a
        later reading than `reading` has begun.
        """
        fields = [*set_or_deleted(said), *set_or_deleted(if_changed or {})]
        now = {"reading": reading_text(reading), "nonce": secrets.token_hex(8), "compared": len(said)}
        changed, note = await self._redis.script(_DESCRIBE(feed_id, **now, fields=fields))
        return tuple(text(changed).split()), text(note)

    async def announced(self, feed_id: str, note: str) -> None:
        """Note that the changes in this note have been announced; later ones have not."""
        await self._redis.script(_ANNOUNCED(record=keys.feed(feed_id), fields=(UNANNOUNCED, note, "")))

    async def unannounced(self, feed_ids: Sequence[str]) -> dict[str, str]:
        """The notes of these feeds, by feed, except those without changes, or whose creation was never announced.

        One round trip.
        """
        names = (UNANNOUNCED, "last_success", "kept")
        rows = await self._redis.pipeline([("HMGET", keys.feed(feed_id), *names) for feed_id in feed_ids])
        found = zip(feed_ids, rows, strict=True)
        return {feed_id: text(note) for feed_id, (note, read, kept) in found if note and (read or kept)}

    async def settle(
        self,
        feed_id: str,
        fields: Mapping[str, str | None],
        fingerprints: bytes | None = None,
        reading: float | None = None,
        then: Sequence[ScriptCall] = (),
    ) -> tuple[bool, list[Any]]:
        """Update fields at the end of a reading; `fingerprints` are of the document whose hash they contain.

        False as in `update`. The calls of `then` follow in the same round trip, whatever the update's result (on a
        cluster, at the same time); their replies are returned.
        """
        digest = fields.get("body_hash")
        remembered = b"" if fingerprints is None or digest is None else bytes.fromhex(digest) + fingerprints
        settle = _WRITE(
            feed_id,
            reading=reading_text(reading),
            fingerprints=remembered,
            life=KEEP_FINGERPRINTS,
            fields=set_or_deleted(fields),
        )
        written, *replies = await self._redis.scripts([settle, *then])
        return bool(written), replies

    async def fingerprints(self, feed: FeedRecord) -> bytes | None:
        """The fingerprints of the feed's last document; None if there are none."""
        return (
            None
            if feed.body_hash is None
            else _fingerprints_of(feed, await self._redis.command(*_asking_fingerprints(feed.id)))
        )

    async def rename(self, feed_id: str, url: str) -> str | None:
        """Change the feed's address to `url`; its former URLs still lead to it.

        If `url` is another feed's already, nothing changes and that feed's id is returned.
        """
        canonical = canonical_feed_url(url)
        if not await self._redis.command("HSETNX", keys.feeds_by_url(), canonical, feed_id):
            owner = await self.find(url)
            if owner != feed_id:
                return owner
        await self.update(feed_id, {"url": canonical})
        return None

    async def lead(self, url: str, feed_id: str, to: str) -> None:
        """Point `url` to another feed, or with '' to none, if it points to `feed_id`."""
        address = await url_index.find(self._redis, canonical_feed_url(url))
        if address is not None and address.feed == feed_id:
            await url_index.lead(self._redis, address, to)

    async def subscribe(self, feed_id: str, user: str, uid: str) -> None:
        """Note that this channel follows the feed. Idempotent."""
        await self._follower(feed_id, user, uid, "follow")

    async def unsubscribe(self, feed_id: str, user: str, uid: str) -> None:
        """Remove a follower; a feed without followers gets a time to live, and its hub is notified soon."""
        await self._follower(feed_id, user, uid, "unfollow")

    async def _follower(self, feed_id: str, user: str, uid: str, action: FollowerChange) -> None:
        follower = {"follower": f"{user}/{uid}", "new_edition": secrets.token_hex(8)}
        call = _FOLLOWERS(feed_id, action=action, life=KEEP_UNFOLLOWED, **follower)
        if await self._redis.script(call) == _LAST_LEFT:
            await calendar_of(self._redis, "websub").note({feed_id: 0.0})
        if self.on_follower is not None:
            await self.on_follower(feed_id, user, uid, action)

    async def keep(self, feed_id: str) -> bool:
        """Keep the feed even without followers; whether that is new."""
        return bool(await self._redis.script(_FOLLOWERS(feed_id, action="keep", life=KEEP_UNFOLLOWED)))

    async def release(self, feed_id: str) -> bool:
        """Undo `keep`: without followers the feed gets a time to live; whether it was kept."""
        return bool(await self._redis.script(_FOLLOWERS(feed_id, action="release", life=KEEP_UNFOLLOWED)))

    async def page(self, limit: int, after: int = 0) -> tuple[list[FeedRecord], int | None]:
        """Up to `limit` feeds with ids above `after`, and the id to continue from; None at the end.

        A page may be short though more follow. Records that their own URL doesn't lead to are left out: they have
        merged into another feed.
        """
        last = int(await self._redis.command("GET", keys.feed_ids()) or 0)
        found: list[FeedRecord] = []
        for _ in range(_TRIES):
            ids = range(after + 1, min(after + limit, last) + 1)
            records = list((await self.get_many(map(str, ids))).values())
            led = await self.find_many(record.url for record in records)
            for record in records:
                if led.get(record.url) == record.id:
                    found.append(record)
                    if len(found) == limit:
                        return found, int(record.id) if int(record.id) < last else None
            after = min(after + limit, last)
            if after == last:
                return found, None
        return found, after

    async def subscribers(self, feed_id: str) -> list[tuple[str, str]]:
        """User and channel uid of all followers of the feed, in a fixed order."""
        return list(as_places(await self._redis.command("SMEMBERS", keys.feed_subscribers(feed_id))))

    async def subscriber_count(self, feed_id: str) -> int:
        """The number of distinct users who follow the feed."""
        return len({user for user, _ in await self.subscribers(feed_id)})

    async def item_ids(self, feed_id: str, beyond: int = 0) -> list[str]:
        """Ids of the feed's posts except the `beyond` newest, the latest first."""
        return texts(await self._redis.command("ZRANGE", keys.feed_items(feed_id), beyond, -1, "REV"))

    async def all_ids(self) -> list[str]:
        """The ids of all feeds that a URL leads to, read in batches."""
        found = {address.feed async for batch in url_index.all_addresses(self._redis) for address in batch}
        return sorted(found, key=int)

    async def _apart(self, moved: FeedRecord, address: url_index.Address, now: float) -> FeedRecord:
        """A separate feed for an address to which `moved` has come, for users who follow that address itself.

        Posts of another publisher before its redirect aren't posts of this feed, and other feeds of a page are no
        replacement for it. `Mover` brings the followers of `moved` here; `MERGED` identifies the posts that they had.
        """
        if MOVED_FROM not in moved.extra:
            await self.update(moved.id, {MOVED_FROM: pages_of(moved)[0]})
        feed_id = str(await self._redis.command("INCRBY", keys.feed_ids(), 1))
        await self._create(feed_id, address.url, now)
        await self.update(feed_id, {MERGED: moved.id})
        if not await url_index.lead(self._redis, address, feed_id):
            await self._redis.command("DEL", keys.feed(feed_id))
            return await self.ensure(address.url, now)
        return await self.get(feed_id) or FeedRecord(feed_id, address.url)

    async def _create(self, feed_id: str, url: str, now: float) -> None:
        await self._redis.script(_CREATE(feed_id, url=url, now=f"{now:.6f}", life=KEEP_UNFOLLOWED))


def is_settled(feed: FeedRecord) -> bool:
    """Whether it has worked once, or programs save posts into it."""
    return feed.last_success is not None or feed.kept


def pages_of(feed: FeedRecord) -> list[str]:
    """The addresses through which a feed was found."""
    return feed.extra.get(PAGES, "").split()


def _is_of_others(feed: FeedRecord, url: str) -> bool:
    """Whether `url` leads to `feed` only because others claimed it."""
    if MOVED_FROM in feed.extra:
        own = (feed.extra[MOVED_FROM], *pages_of(feed)[:1])  # later ones may have been passed on the way
        return normalise_profile(url) not in map(normalise_profile, own)
    return feed.url == url and OTHERS in feed.extra and PAGES in feed.extra and not is_settled(feed)


def _asking_fingerprints(feed_id: str) -> Command:
    return "GET", keys.feed_fingerprints(feed_id)


def _fingerprints_of(feed: FeedRecord, stored: bytes | None) -> bytes | None:
    if feed.body_hash is None or not stored:
        return None
    digest = bytes.fromhex(feed.body_hash)
    return stored[len(digest) :] if stored.startswith(digest) else None


def set_or_deleted(fields: Mapping[str, str | None]) -> list[str]:
    """Fields as scripts expect them: name, '1' to set or '' to delete, value."""
    return [part for name, value in fields.items() for part in (name, "1" if value is not None else "", value or "")]


def reading_text(reading: float | None) -> str:
    """The number of a reading as scripts expect it; '' for writes outside a reading."""
    return "" if reading is None else f"{reading:.3f}"


def record_of(feed_id: str, reply: Sequence[bytes]) -> FeedRecord:
    """The record from a reply to HGETALL."""
    values: dict[str, Any] = {}
    extra: dict[str, str] = {}
    for name, value in read_fields(reply).items():
        if name not in _NAMED:
            extra[name] = value
        elif name in _TIMES | _COUNTS:
            with reading(f"{keys.feed(feed_id)} {name}"):
                values[name] = float(value) if name in _TIMES else int(value)
        elif name in {"gone", "kept"}:
            values[name] = value == "1"
        else:
            values[name] = value
    return FeedRecord(id=feed_id, **{"url": "", **values}, extra=extra)
