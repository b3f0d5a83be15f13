"""The feed cache: returns the parsed feed at a URL, without more requests than is polite.

`FeedCache` is for programs (`microsub.cache.blocking` without `await`). `CachingFetcher` is for the server, where
search, preview, discovery and polling fetch documents of any kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import cast

import orjson

from microsub import __version__, parsing
from microsub.base.errors import FetchError, ParseError
from microsub.base.tasks import cancel_all
from microsub.base.urls import canonical_feed_url, host_of, mask_credentials, without_credentials
from microsub.cache.copy import DEFAULT_TTL, PARSE, CachedDocument, Failure, age_of, is_feed, lifetime_of
from microsub.cache.shared_copies import Ask, CacheAnswer, SharedCopies, Source, body_of
from microsub.cache.storage import Mapping as Bytes
from microsub.cache.storage import MappingStorage, Opener, Storage, offered
from microsub.fetch import (
    Fetched,
    Fetcher,
    FetchFailed,
    Fetching,
    FetchRequest,
    FetchResult,
    FetchSettings,
    NotModified,
    Reason,
)
from microsub.formats.feed_links import BETTER_FEEDS, FeedLink
from microsub.formats.parse import PARSE as PARSE_FEED
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed
from microsub.parsing.pool import ParsePool

OFFLINE = "offline"
"""The reason of the FetchError for a URL without a copy in an offline call."""

MOST_NAMED = 3
"""Number of a page's feeds that are tried."""

Parse = Callable[[bytes, str, str | None], Feed]


@dataclass(frozen=True, slots=True)
class CachedFeed:
    """A feed and its origin.

    `age` is how many seconds ago the publisher last confirmed it. `source` is `network` for a document that arrived
    with this call, `not_modified` if the publisher confirmed the stored one, and `cache` if no request was sent or it
    failed; then `error` says why. `final_url` is where the document was found, after redirects. `fetched_at` is the
    Unix time when these bytes arrived. `page` is the page that names this feed, if `url` led to a page; otherwise
    None. `storage_error` is what the storage raised during this call, if anything: then the copy may be missing, and
    the next call sends a request again.
    """

    url: str
    feed: Feed
    age: float
    source: Source
    error: FetchError | ParseError | None
    final_url: str
    fetched_at: float
    etag: str | None = None
    last_modified: str | None = None
    page: str | None = None
    storage_error: Exception | None = None


class FeedCache:
    """Feeds by URL. One instance serves any number of tasks, event loops and threads.

    `storage` is any mutable mapping of text to bytes, a function that opens one, or a `Storage`; by default this
    object's memory. `ttl` is the time without requests in seconds, `ttls` the same for single URLs; a publisher's
    `max-age` or `Expires` lengthens it. `keep`: seconds after its last check for which a copy may still be shown.
    `user_agent` names your program to publishers, ideally with a URL; or pass a whole `fetcher`, which you have to
    close yourself. `parse` takes body, URL and Content-Type, and raises ParseError; the default is the server's
    parser, with heavy documents in a process with a time limit. `clock` returns Unix seconds.
    """

    def __init__(
        self,
        storage: Storage | Bytes | Opener | None = None,
        *,
        ttl: float = DEFAULT_TTL,
        ttls: Mapping[str, float] | None = None,
        keep: float = math.inf,
        user_agent: str | None = None,
        fetcher: Fetching | None = None,
        parse: Parse | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._storage = as_storage({} if storage is None else storage)
        self._own: Fetcher | None = None
        if fetcher is None:
            fetcher = self._own = Fetcher(
                FetchSettings() if user_agent is None else FetchSettings(user_agent, about="")
            )
        self._copies = SharedCopies(self._storage, fetcher, keep=keep, clock=clock)
        self._ttl = ttl
        self._ttls = {canonical_feed_url(url): seconds for url, seconds in (ttls or {}).items()}
        self._parser = ParsePool((PARSE_FEED, BETTER_FEEDS))
        self._parse = parse if parse is not None else self._parse_in_process
        self._clock = clock

    async def __aenter__(self) -> FeedCache:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def fetch(
        self, url: str, force: bool = False, offline: bool = False, ttl: float | None = None, follow: bool = True
    ) -> CachedFeed:
        """The feed at `url`, an http(s) URL, international ones included.

        If `url` is a page that names feeds, the result is the first of them that can be fetched, as when a user
        follows the page on the server; without `follow` it is the page's own h-feed.

        A copy younger than its time to live is returned without a request; otherwise one is sent, with the copy's
        validators. `force` always sends one; `offline` never does; `ttl` (seconds) replaces this cache's. After a
        failure the copy is returned unchanged, with the failure as `error`. Without a copy it is raised: FetchError
        (with `offline`, of the reason `offline`) or ParseError. After a `Retry-After`, no request is sent until the
        pause is over; after a 410, none without `force`.
        """
        _require_text(url)
        own = self._ttls.get(canonical_feed_url(url), self._ttl) if ttl is None else ttl
        found = await self._copies.find(Ask(FetchRequest(url), own, force, offline), self._judge)
        error = None if found.failure is None else _error(url, found.failure)
        if found.document is None:
            raise error or FetchError(mask_credentials(url), OFFLINE, "there is no stored copy")
        for link in await self._named(found.document) if follow else ():
            with contextlib.suppress(FetchError, ParseError):
                named = await self.fetch(link, force, offline, ttl, follow=False)
                broken = named.storage_error or found.storage_error
                return replace(named, url=url, page=found.document.final_url, storage_error=broken)
        return self._result(url, found, await self._feed(url, found.document), error)

    async def fetch_many(
        self,
        urls: Iterable[str],
        force: bool = False,
        offline: bool = False,
        ttl: float | None = None,
        at_once: int = 20,
        follow: bool = True,
    ) -> AsyncIterator[tuple[str, CachedFeed | FetchError | ParseError]]:
        """The results for all `urls` as they arrive: the feed, or the error that `fetch` raises.

        At most `at_once` requests run at the same time, and one per host.
        """
        hosts: dict[str, asyncio.Semaphore] = {}
        turn = asyncio.Semaphore(at_once)

        async def one(url: str) -> tuple[str, CachedFeed | FetchError | ParseError]:
            # URLs that wait for a busy host must not take the slots of others.
            async with hosts.setdefault(host_of(url), asyncio.Semaphore(1)), turn:
                try:
                    return url, await self.fetch(url, force, offline, ttl, follow)
                except (FetchError, ParseError) as error:
                    return url, error

        distinct = dict.fromkeys(urls)
        for url in distinct:
            _require_text(url)
        tasks = [asyncio.ensure_future(one(url)) for url in distinct]
        try:
            for done in asyncio.as_completed(tasks):
                yield await done
        finally:
            await cancel_all(tasks)

    async def remove(self, url: str) -> None:
        """Forget everything about `url`, including its validators, failures and pauses."""
        _require_text(url)
        await self._copies.remove(url)

    async def purge(self, older_than: float) -> int:
        """Forget URLs without a reply for `older_than` seconds, and corrupt copies; returns how many."""
        return await self._copies.purge(older_than)

    async def aclose(self) -> None:
        """Close connections, threads and processes; a given storage or fetcher stays open."""
        self._parser.close()
        if self._own is not None:
            await self._own.aclose()
        if isinstance(self._storage, MappingStorage):
            await self._storage.aclose()

    async def _judge(self, reply: Fetched, _old: CachedDocument | None) -> bytes | None:
        document = reply.body, reply.final_url, reply.content_type
        try:
            return pack(await asyncio.to_thread(self._parse, *document))
        except ParseError:
            if await asyncio.to_thread(self._better_feeds, *document):
                return None  # a page without posts that names feeds: storing it saves the next request
            raise

    async def _named(self, document: CachedDocument) -> list[str]:
        """The URLs of the feeds to use instead of a page, best first; none for a feed."""
        kept = None if document.packed_feed is None else unpack(document.packed_feed)
        if kept is not None and kept.format != "h-feed":
            return []
        body = await body_of(document)
        try:
            links = await asyncio.to_thread(self._better_feeds, body, document.final_url, document.content_type)
        except ParseError:
            return []
        return [link.url for link in links[:MOST_NAMED]]

    def _parse_in_process(self, body: bytes, url: str, content_type: str | None) -> Feed:
        return self._parser.run_blocking(PARSE_FEED, url, body, url, content_type)

    def _better_feeds(self, body: bytes, url: str, content_type: str | None) -> list[FeedLink]:
        return self._parser.run_blocking(BETTER_FEEDS, url, body, url, content_type, None)

    async def _feed(self, url: str, document: CachedDocument) -> Feed:
        """The parsed form of a stored document; parsed again if another version stored it."""
        kept = None if document.packed_feed is None else unpack(document.packed_feed)
        if kept is not None:
            return kept
        body = await body_of(document)
        feed = await asyncio.to_thread(self._parse, body, document.final_url, document.content_type)
        await self._copies.improve(url, document, pack(feed))
        return feed

    def _result(self, url: str, found: CacheAnswer, feed: Feed, error: FetchError | ParseError | None) -> CachedFeed:
        document = found.document
        assert document is not None
        return CachedFeed(
            url=url,
            feed=feed,
            age=age_of(document, self._clock()),
            source=found.source,
            error=error,
            final_url=document.final_url,
            fetched_at=document.fetched_at,
            etag=document.etag,
            last_modified=document.last_modified,
            storage_error=found.storage_error,
        )


def _require_text(url: object) -> None:
    if not isinstance(url, str):
        raise TypeError(f"'url' is {url!r}: expected the http or https URL of a feed, as text")


def as_storage(storage: Storage | Bytes | Opener) -> Storage:
    """Convert any kind of storage to the form that the cache uses."""
    return storage if offered(storage, "urls") else MappingStorage(storage)  # type: ignore[return-value,arg-type]


def _error(url: str, failure: Failure) -> FetchError | ParseError:
    where = mask_credentials(url)
    if failure.reason == PARSE:
        return ParseError(where, failure.detail)
    return FetchError(where, failure.reason, failure.detail)


class CachingFetcher:
    """A fetcher that sends no second request for a URL within the time to live.

    A request without `since` gets any copy, after a failure also an older one. A request with `since` is a poll: it
    gets a copy only if that is newer than its last look, and it gets every failure.
    """

    def __init__(
        self,
        storage: Storage | Bytes,
        fetcher: Fetching,
        *,
        keep: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._copies = SharedCopies(as_storage(storage), fetcher, keep=keep, clock=clock)
        self._fetcher = fetcher
        self._clock = clock

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """The document at `request.url`. `accept` is ignored: each address has one copy.

        Of a document that is asked for with credentials no copy is kept.
        """
        if without_credentials(request.url) != request.url:
            return await self._fetcher.fetch(request)
        found = await self._copies.find(Ask(request), _judge)
        if request.since is not None or found.document is None:
            return await self._for_poll(request, found)
        return await self._from(request, found.document)

    async def _for_poll(self, request: FetchRequest, found: CacheAnswer) -> FetchResult:
        match found.reply:
            case Fetched() | FetchFailed():
                return found.reply
            case NotModified() if request.etag or request.last_modified or found.document is None:
                return found.reply
        if found.failure is not None:
            return self._failed(request, found.failure)
        if found.document is not None:
            return await self._from(request, found.document)
        return FetchFailed(mask_credentials(request.url), "protocol", "another request for this URL had no result")

    async def _from(self, request: FetchRequest, document: CachedDocument) -> Fetched:
        """The stored document as if it had arrived now, with the rest of its freshness."""
        left = document.checked_at + lifetime_of(document, 0.0) - self._clock()
        fields = {"content-type": document.content_type, "link": document.link}
        return Fetched(
            url=request.url,
            final_url=document.final_url,
            status=200,
            headers={name: value for name, value in fields.items() if value is not None},
            body=await body_of(document),
            content_type=document.content_type,
            etag=document.etag,
            last_modified=document.last_modified,
            max_age=None if document.max_age is None else max(0.0, left),
            moved_to=document.moved_to,
        )

    def _failed(self, request: FetchRequest, failure: Failure) -> FetchFailed:
        wait = None if failure.retry_at is None else max(0.0, failure.retry_at - self._clock())
        # Copies are written with a fetcher's reasons.
        reason = cast("Reason", "protocol" if failure.reason == PARSE else failure.reason)
        return FetchFailed(mask_credentials(request.url), reason, failure.detail, failure.status, wait)


async def _judge(reply: Fetched, old: CachedDocument | None) -> bytes | None:
    """Refuse to replace a feed by something else; the callers parse the documents."""
    if old is not None and old.is_feed and not is_feed(reply.body, reply.content_type):
        raise ParseError(mask_credentials(reply.url), "the document isn't a feed any more")
    return None


# --- parsed feeds as bytes -------------------------------------------------------------------------------------------
#
# Compressed JSON with all fields of `model.jf2`, so decoding returns an equal feed. The first line names the software's
# version and the fields it knows. Feeds of other versions aren't read, because their parser may have understood or
# sanitised less.

_CLASSES = (Card, Content, Enclosure, Entry, Feed)


@cache
def _mark() -> bytes:
    names = ",".join(f"{cls.__name__}.{field.name}" for cls in _CLASSES for field in fields(cls))
    return f"{__version__} {zlib.crc32(names.encode()):08x}\n".encode()


def pack(feed: Feed) -> bytes:
    """Encode a feed."""
    return zlib.compress(_mark() + orjson.dumps(feed), 1)


def unpack(packed: bytes) -> Feed | None:
    """Decode a feed; None if another version wrote it or it can't be read."""
    try:
        data = zlib.decompress(packed)
        if not data.startswith(_mark()):
            return None
        feed: Feed = parsing.reader(Feed)(data[len(_mark()) :])
    except (zlib.error, ValueError):
        return None
    return feed
