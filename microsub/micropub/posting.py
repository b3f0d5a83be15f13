"""Posts of sources: create, update, delete and restore.

A post is stored by `posts.ingest` like any other, after a parsing process has parsed and sanitised its text as it does
with foreign documents. In its source's feed it is identified by the token in its address, which can't be guessed. The
request is stored with the post, because later updates need it.

Sending a post again doesn't duplicate it. A post with a `uid` or a `url` is recognised by that permanently; a post with
neither is recognised by its whole content for ten minutes. So a sender that got no reply may repeat the request.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import orjson

from microsub.base.digests import keyed_digest, sha256_hex, short_digest
from microsub.base.errors import Forbidden, InvalidRequest, NotFound, PostGone
from microsub.feeds import KIND, FeedRecord, Feeds, InternalAddress, Source
from microsub.formats.hfeed import POSTED_ENTRY
from microsub.formats.wire import dump, from_wire
from microsub.micropub.deleted import DeletedPosts
from microsub.micropub.media import Media
from microsub.micropub.properties import MOST_BYTES, PostedItem, updated
from microsub.model.jf2 import Card, Entry, Feed
from microsub.parsing.pool import ParsePool
from microsub.posts import BY_USER, Ingest, Items, ItemToStore, items_to_store, version_of
from microsub.redis.lease import Lease, leased_in_turn
from microsub.redis.protocol import Redis
from microsub.redis.replies import text

PATH = "/posts"
MOST_LISTED = 2 * MOST_BYTES
"""Maximum bytes of the posts in one list: reading and writing them blocks everything else."""

_LEASE = 3.0
"""Seconds for which a source waits after a process died while it stored a post; renewed by a living process."""

POSTED = "posted"
"""The field of a stored post that contains the request, as JSON."""

_ADDRESS = re.compile(rf"{PATH}/([0-9]{{1,19}})\.([A-Za-z0-9_-]{{22}})")


def path_of(feed: FeedRecord, token: str) -> str:
    """The path of a post's page."""
    return f"{PATH}/{feed.id}.{token}"


class Posting:
    """Posts of sources. `base` is the server's address, the prefix of all post addresses.

    Methods that take an address raise InvalidRequest if it isn't a post of the source.
    """

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        ingest: Ingest,
        parser: ParsePool,
        media: Media,
        erase: Callable[[str], Awaitable[bool]],
        *,
        clock: Callable[[], float] = time.time,
        require_room: Callable[[Collection[str]], Awaitable[None]] | None = None,
    ) -> None:
        """`erase` deletes a post from all timelines and the store, and returns whether it existed.

        `require_room` raises QuotaReached for users without room for further posts.
        """
        self._redis = redis
        self._feeds = feeds
        self._items = items
        self._ingest = ingest
        self._parser = parser
        self._media = media
        self._erase = erase
        self._deleted = DeletedPosts(redis, clock=clock)
        self._clock = clock
        self._require_room = require_room

    async def token(self, source: Source, item: PostedItem, files: Sequence[bytes] = ()) -> str:
        """The token that identifies the post: the same for a repeated request with the same `files`."""
        for name in item.own_names[:1]:
            return await self._deleted.latest(source, _derived(source, name))
        said = b"\0".join((item.encoded(), *(sha256_hex(data).encode() for data in files)))
        return await self._deleted.token_of(source, said)

    async def create(self, source: Source, item: PostedItem, token: str, base: str) -> str:
        """Store a post, or the changes to an existing one; returns its address.

        A post that left the store because of its age doesn't come back; one that its source deleted is restored.

        Raises Forbidden if no channel follows the source, and ParseError.
        """
        feed_id = await self._feed_id(source)
        async with leased_in_turn(self._redis, f"saving:{feed_id}", _LEASE) as lease:
            feed, item_id = await asyncio.gather(self._followed(source, feed_id), self._items.id_of(feed_id, token))
            before = await self._items.get(item_id) if item_id is not None else None
            if item_id is None or before is not None:
                await self._store(source, feed, item, token, base, before, lease)
            elif await self._deleted.has(source, token):
                token = await self._restore(source, feed, item, token, base)
        return base + path_of(feed, token)

    async def update(self, source: Source, address: str, document: Mapping[str, Any], base: str) -> str:
        """Change a post as `document` says (`properties.updated`); returns its address."""
        feed = await self._feed(source)
        token = await self._token_in(source, feed, address)
        async with leased_in_turn(self._redis, f"saving:{feed.id}", _LEASE) as lease:
            before = await self._items.by_guid(feed.id, token)
            item = _item_of(before)
            if before is None or item is None:
                raise _unknown(address)
            await self._store(source, feed, updated(item, document), token, base, before, lease)
        return base + path_of(feed, token)

    async def delete(self, source: Source, address: str) -> None:
        """Delete a post everywhere, restorable for 30 days. Deleting a deleted post is no error."""
        feed = await self._feed(source)
        token = await self._token_in(source, feed, address)
        row = await self._items.by_guid(feed.id, token)
        item = _item_of(row)
        if row is not None and item is not None:
            await self._deleted.keep(source, token, item, row["Published"])
            await self._erase(row["ID"])
        elif not await self._items.id_of(feed.id, token):
            raise _unknown(address)

    async def undelete(self, source: Source, address: str, base: str) -> str:
        """Restore a deleted post; returns its new address, or the present one if it wasn't deleted."""
        feed = await self._feed(source)
        token = await self._token_in(source, feed, address)
        if await self._items.by_guid(feed.id, token):
            return base + path_of(feed, token)
        kept = await self._deleted.item(source, token)
        if kept is None:
            raise _unknown(address)
        return base + path_of(feed, await self._restore(source, feed, kept, token, base))

    async def item(self, source: Source, address: str) -> PostedItem:
        """The post as it was sent, with all later updates."""
        feed = await self._feed(source)
        item = _item_of(await self._items.by_guid(feed.id, await self._token_in(source, feed, address)))
        if item is None:
            raise _unknown(address)
        return item

    async def newest(self, source: Source, limit: int, base: str) -> list[tuple[str, PostedItem]]:
        """The latest posts by address, most recently changed first; fewer if they are large."""
        feed = await self._feed(source)
        ids = await self._items.newest(feed.id, limit)
        sizes = accumulate(await self._items.sizes(ids, POSTED))
        listed = [item_id for item_id, so_far in zip(ids, sizes, strict=True) if so_far <= MOST_LISTED]
        rows = await self._items.fields(listed, ("guid", POSTED))
        return [(base + path_of(feed, text(guid)), PostedItem.read(said)) for guid, said in rows if guid and said]

    async def page(self, path: str) -> tuple[str, str, Entry]:
        """The owner of the source that sent the post at a path, the path of its page, and the post.

        Raises NotFound, and PostGone if it was deleted or has left the store."""
        feed_id, token = _parted(path) or ("", "")
        feed = await self._feeds.get(feed_id) if feed_id else None
        address = InternalAddress.of(feed.url) if feed is not None else None
        if feed is None or address is None or address.kind != KIND:
            raise NotFound("there is no such post")
        row = await self._items.by_guid(feed.id, token)
        if row is not None and POSTED in row:
            return address.user, path_of(feed, token), from_wire(orjson.loads(row["Data"]))
        if await self._items.id_of(feed.id, token):
            raise PostGone
        raise NotFound("there is no such post")

    async def _feed(self, source: Source) -> FeedRecord:
        """The source's feed. Raises Forbidden if no channel follows it."""
        return await self._followed(source, await self._feed_id(source))

    async def _feed_id(self, source: Source) -> str:
        feed_id = await self._feeds.find(source.address)
        if feed_id is None:
            raise _unfollowed(source)
        return feed_id

    async def _followed(self, source: Source, feed_id: str) -> FeedRecord:
        found, followers = await asyncio.gather(self._feeds.get(feed_id), self._feeds.subscribers(feed_id))
        if found is None or not followers:
            raise _unfollowed(source)
        return found

    async def _restore(self, source: Source, feed: FeedRecord, item: PostedItem, former: str, base: str) -> str:
        """Store a deleted post under a new token, and return that: a deleted token never comes back."""
        token = _derived(source, f"restored {former}")
        await self._store(source, feed, item, token, base, await self._items.by_guid(feed.id, token))
        await self._deleted.restored(source, former, token)
        return token

    async def _store(
        self,
        source: Source,
        feed: FeedRecord,
        item: PostedItem,
        token: str,
        base: str,
        before: Mapping[str, str] | None,
        lease: Lease | None = None,
    ) -> None:
        """Store a post in place of `before`; its `lease` ends with that."""
        if self._require_room is not None:
            await self._require_room([source.user])
        now, own = self._clock(), base + path_of(feed, token)
        entry = await self._parser.run(POSTED_ENTRY, own, item.encoded(), own, keys=(f"user {source.user}",))
        post = _to_store(entry, item, token, own, source, now)
        await self._media.shown(source.user, item.encoded(), feed.id, token)
        # Never older than the stored version, even if the clocks of other machines differ.
        version = max(version_of(now), *((before or {}).get(name, "") for name in ("version", "confirmed")))
        ending = (lambda: [lease.releasing()]) if lease is not None else tuple
        await self._ingest.add(
            feed, [post], now, version, mostly_new=before is None, followers=[source.user], ending=ending
        )

    async def _token_in(self, source: Source, feed: FeedRecord, address: str) -> str:
        """The present token of the post at an address, whatever its host. Raises InvalidRequest."""
        found = _parted(address[address.find(f"{PATH}/") :] if f"{PATH}/" in address else "")
        if found is None or found[0] != feed.id:
            raise _unknown(address)
        return await self._deleted.latest(source, found[1])


def _to_store(entry: Entry, item: PostedItem, token: str, own: str, source: Source, now: float) -> ItemToStore:
    """The post to store; `own` is the address of its page."""
    # What an app posts is written by its user, who knows it already.
    author = Card(name=source.user, url=source.me or None) if source.app else entry.author or Card(name=source.name)
    shown = replace(entry, guid=token, url=entry.url or own, author=author)
    post = items_to_store(Feed(source.address, "posted", entries=(shown,)), now)[0]
    said = item.encoded()
    extra = {**post.extra, POSTED: said.decode()}
    if source.app:
        wire = dump({**orjson.loads(post.wire), "_app": {"name": source.name, "url": source.app}})
        post, extra = replace(post, wire=wire), {**extra, BY_USER: "1"}
    return replace(post, hash=short_digest(post.hash.encode() + said), extra=extra)


def _item_of(row: Mapping[str, str] | None) -> PostedItem | None:
    return PostedItem.read(row[POSTED]) if row and POSTED in row else None


def _derived(source: Source, name: str) -> str:
    """The token of a post with that name; it can't be derived without the source's seed."""
    return keyed_digest(source.seed, name)[:22]


def _parted(path: str) -> tuple[str, str] | None:
    """The feed and the token that a path names."""
    match = _ADDRESS.fullmatch(path)
    return (match[1], match[2]) if match is not None else None


def _unfollowed(source: Source) -> Forbidden:
    return Forbidden(f"no channel follows the source '{source.id}' any more, so it can't post")


def _unknown(address: str) -> InvalidRequest:
    return InvalidRequest(f"'url' can't be '{address[:200]}': expected the address of a post of this source")
