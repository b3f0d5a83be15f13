"""The post store for programs that save and read posts.

It works on the server's own Redis, whether or not the server runs. Saved posts are handled like polled ones
(`posts.ingest`): a post is stored under its guid, a worker (`microsub serve`, `microsub work`) delivers it to the
timelines of all followers of its feed, and events announce it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest, PostDeleted
from microsub.base.locks import KeyedLocks
from microsub.base.urls import is_usable, mask_credentials, normalise_url
from microsub.feeds import NEVER_POLLED, Event, Events, FeedRecord, describe
from microsub.model.jf2 import Card, Feed
from microsub.post_store.posts import (
    Post,
    Posts,
    forms_of,
    identity_of,
    is_id,
    text,
    whole,
)
from microsub.post_store.saved import as_json, as_mapping, entry_of, loads, moment, unused, wrong
from microsub.posts import WRITTEN_GUID, ItemToStore, garbage, items_to_store, version_of
from microsub.redis.lease import leased_in_turn

if TYPE_CHECKING:
    from microsub.feeds import Feeds, Listener
    from microsub.posts import Ingest, Items
    from microsub.redis.protocol import Redis


_OWN = frozenset({"guid", "timestamp"})
"""Fields that every post has, in addition to `Post.fields`."""

_DERIVED = frozenset({"_id", "_source", "post-type", "published", "refs"})
_FEED_FIELDS = ("title", "home", "photo", "description")

_LEASE = 30.0
"""Seconds for which a feed waits after a program died while saving; longer than programs block their event loop."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of saving a post: whether it is new, otherwise its changed fields, saved or shown.

    `unused` are the given fields that are stored, but not shown to readers.
    """

    post: Post
    created: bool
    changed: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


class PostDeletion(Protocol):
    """Deletes posts from all timelines and the store, so that they don't come back under their guids."""

    async def erase(self, post: garbage.Candidate, now: float) -> None:
        """Delete a post. Repeat the call after an interruption."""

    async def expire(self, feed_id: str, limit: int, now: float) -> int:
        """Delete a feed's posts except its `limit` newest and those in any timeline; returns how many."""


class PostStore(Posts):
    """The post store, for reading and writing. A `feed` that is written to is given by its URL.

    Every method may raise StoreError; those that write raise InvalidRequest for invalid input.
    """

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        ingest: Ingest,
        events: Events,
        deletion: PostDeletion,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(feeds, items, events)
        self._redis = redis
        self._ingest = ingest
        self._deletion = deletion
        self._clock = clock
        self._locks = KeyedLocks()

    # --- posts -------------------------------------------------------------------------------------------------------

    async def save(self, feed: str, fields: Mapping[str, Any]) -> Saved:
        """Save a post with all of its fields, in place of the post saved before under its guid.

        `guid` (text) and `timestamp` (Unix seconds, aware datetime, or ISO 8601 with an offset) are required. Users see
        the fields that jf2 defines; all other fields are kept and returned as they were saved. The post keeps the place
        in timelines that its first timestamp gave it; a timestamp later than now counts as now. Raises PostDeleted for
        the guid of a post that was deleted or has left the store.
        """
        guid = _guid(as_mapping("fields", fields).get("guid"))
        async with self._alone(feed) as record:
            return await self._save(record, guid, fields)

    async def update_or_create(self, feed: str, guid: str, fields: Mapping[str, Any]) -> Saved:
        """Set these fields of the post and keep all others, or save it if it doesn't exist.

        A `timestamp` is required for a new post only. Simultaneous calls, in any processes, don't lose each other's
        changes. A post that was polled keeps its feed's values in all other fields.
        """
        guid = _guid(guid)
        if as_mapping("fields", fields).get("guid", guid) != guid:
            raise wrong("guid", fields["guid"], f"no guid, or the guid of the post: '{guid[:80]}'")
        async with self._alone(feed) as record:
            return await self._save(record, guid, fields, merge=True)

    async def delete(self, post_id: str) -> bool:
        """Delete a post from all timelines and the store; it never comes back under its guid.

        Returns whether the post existed. Repeat the call after an interruption.
        """
        found = await garbage.candidates(self._redis, [post_id]) if is_id(text("post_id", post_id)) else []
        if not found or not found[0].feed:
            return False
        now, one = self._clock(), found[0]
        ((written,),) = await self._items.fields([one.id], (WRITTEN_GUID,))
        await self._deletion.erase(one, now)
        guid = written.decode() if written else one.guid
        await self._events.announce([Event("post_deleted", one.feed, now, one.id, guid)])
        return True

    async def expire(self, feed: str, limit: int) -> int:
        """Delete all posts of a feed except the `limit` newest and those in any timeline.

        Returns how many left the store; their guids are remembered, so they don't come back.
        """
        limit = whole("limit", limit)
        feed_id = await self._id_of(feed)
        return await self._deletion.expire(feed_id, limit, self._clock()) if feed_id is not None else 0

    # --- feeds -------------------------------------------------------------------------------------------------------

    async def describe(self, feed: str, fields: Mapping[str, str]) -> tuple[str, ...]:
        """Set the description of a feed: `title`, `home`, `photo`, `description`; creates a missing feed.

        Returns the names of the fields that changed.
        """
        for name, value in as_mapping("fields", fields).items():
            if name not in _FEED_FIELDS or not isinstance(value, str):
                raise wrong(str(name), value, f"a text for one of {', '.join(_FEED_FIELDS)}")
            text(name, value)
        async with self._alone(feed) as record:
            said = {name: fields[name] for name in _FEED_FIELDS if name in fields}
            return await describe(self._feeds, self._events, record.id, said, self._clock())

    async def release(self, feed: str) -> bool:
        """Keep a feed only as long as it has followers: without any, it and its posts are deleted after 30 days.

        Saving a post into it undoes that. Returns whether the feed was kept until now.
        """
        feed_id = await self._id_of(feed)
        return feed_id is not None and await self._feeds.release(feed_id)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event that this object causes; the returned function ends that.

        `events` has those of all processes.
        """
        if not callable(listener):
            raise wrong("listener", listener, "an asynchronous function of one event")
        return self._events.listen(listener)

    # --- implementation ----------------------------------------------------------------------------------------------

    async def _save(self, feed: FeedRecord, guid: str, fields: Mapping[str, Any], *, merge: bool = False) -> Saved:
        now = self._clock()
        ids = {form: await self._items.id_of(feed.id, form) for form in forms_of(guid)}
        form = next((form for form in ids if ids[form]), identity_of(guid))
        before = await self._items.get(ids[form] or "") if ids[form] else None
        if ids[form] and not before:
            raise PostDeleted(guid)
        all_fields = {**(_fields_before(before) if merge and before else {}), **fields}
        item = replace(self._to_store(feed, guid, all_fields, now), guid=form)
        # Not older than the stored version, even if the clocks of machines differ.
        version = max(version_of(now), *((before or {}).get(name, "") for name in ("version", "confirmed")))
        added = await self._ingest.add(feed, [item], now, version, _changes(before, item))
        post = await self.get_by_guid(feed.id, form)
        if post is None:
            raise PostDeleted(guid)
        return Saved(post, bool(added.new), added.changed, unused(fields))

    @staticmethod
    def _to_store(feed: FeedRecord, guid: str, all_fields: Mapping[str, Any], now: float) -> ItemToStore:
        if all_fields.get("timestamp") is None:
            raise InvalidRequest("'timestamp' is missing: found nothing, expected the time when the post was published")
        at = moment("timestamp", all_fields["timestamp"])
        fields = {name: value for name, value in all_fields.items() if name not in _OWN}
        saved = orjson.dumps({"guid": guid, "timestamp": at.isoformat(), "fields": orjson.Fragment(as_json(fields))})
        owner = Card(name=feed.title, url=feed.home) if feed.title or feed.home else None
        entry = entry_of(fields, guid, at, feed.url, owner)
        item = items_to_store(Feed(feed.url, "saved", feed.title, entries=(entry,)), now)[0]
        digest = short_digest(item.hash.encode() + saved)
        return replace(item, hash=digest, extra={**item.extra, "saved": saved.decode()})

    @contextlib.asynccontextmanager
    async def _alone(self, feed: str) -> AsyncIterator[FeedRecord]:
        """The feed, created and kept if needed, locked against other savers in any process."""
        if not isinstance(feed, str) or not is_usable(feed):
            shown = mask_credentials(feed) if isinstance(feed, str) else feed
            raise wrong("feed", shown, "an absolute http or https URL")
        record = await self._feeds.ensure(feed, self._clock())
        async with (
            self._locks.of(record.id),
            leased_in_turn(self._redis, f"saving:{record.id}", _LEASE),
        ):
            if not record.kept and record.last_success is None:
                # Another process may have announced it meanwhile. If one dies here, the next one announces it again.
                latest = await self._feeds.get(record.id)
                if latest is not None and not latest.kept:
                    await self._events.announce([Event("feed_created", record.id, self._clock())])
            if await self._feeds.keep(record.id) and record.last_success is None and record.last_poll is not None:
                await self._feeds.update(record.id, NEVER_POLLED)
            yield record


def _guid(value: object) -> str:
    if value is None:
        raise InvalidRequest("'guid' is missing: found nothing, expected a text that identifies the post in its feed")
    if not isinstance(value, str) or not normalise_url(value):
        raise wrong("guid", value, "a text that identifies the post in its feed")
    as_json({"guid": value})
    return value


def _fields_before(row: Mapping[str, str]) -> dict[str, Any]:
    """The known fields of a post, in the form in which programs save them."""
    if "saved" in row:
        saved = loads(row["saved"])
        return {**saved["fields"], "timestamp": saved["timestamp"]}
    shown = orjson.loads(row["Data"])
    return {name: value for name, value in shown.items() if name not in _DERIVED} | {"timestamp": row["Published"]}


def _changes(before: Mapping[str, str] | None, item: ItemToStore) -> set[str]:
    """The names of the saved fields whose values differ."""
    old = loads(before.get("saved", "{}")) if before else {}
    new = loads(item.extra["saved"])
    names = {"timestamp"} if old.get("timestamp") != new["timestamp"] else set()
    was, now = old.get("fields", {}), new["fields"]
    return names | {
        name for name in was.keys() | now.keys() if name not in was or name not in now or was[name] != now[name]
    }
