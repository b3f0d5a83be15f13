"""`fetch.Fetcher` with copies behind it: for search, preview, discovery and polling, which take any document."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import cast

from microsub.cache.copy import DEFAULT_TTL, PARSE, Document, Failure, is_feed, lifetime_of
from microsub.cache.desk import Ask, Desk, Fetching, Found, body_of
from microsub.cache.feeds import as_storage
from microsub.cache.storage import Mapping, Storage
from microsub.errors import ParseError
from microsub.fetch import Fetched, FetchFailed, FetchRequest, FetchResult, NotModified, Reason
from microsub.formats.entry_id import mask_credentials


class CachingFetcher:
    """Answers like a fetcher, and asks no publisher twice within the time to live.

    A request without `since` gets whatever there is, beside an error the older copy. One with `since` is a poll: it
    gets a copy only if that came after its last look, and every failure as one.
    """

    def __init__(
        self,
        storage: Storage | Mapping,
        fetcher: Fetching,
        *,
        ttl: float = DEFAULT_TTL,
        keep: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._desk = Desk(as_storage(storage), fetcher, keep=keep, clock=clock)
        self._ttl = ttl
        self._clock = clock

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """The document at `request.url`. `accept` makes no difference: one address has one copy."""
        ask = Ask(
            request.url,
            self._ttl,
            since=request.since,
            etag=request.etag,
            last_modified=request.last_modified,
            subscribers=request.subscribers,
        )
        found = await self._desk.find(ask, _judge)
        if request.since is not None or found.document is None:
            return await self._for_poll(request, found)
        return await self._from(request, found.document)

    async def _for_poll(self, request: FetchRequest, found: Found) -> FetchResult:
        match found.reply:
            case Fetched() | FetchFailed():
                return found.reply
            case NotModified() if request.etag or request.last_modified or found.document is None:
                return found.reply
        if found.failure is not None:
            return self._failed(request, found.failure)
        if found.document is not None:
            return await self._from(request, found.document)
        return FetchFailed(mask_credentials(request.url), "protocol", "somebody else's request came to nothing")

    async def _from(self, request: FetchRequest, document: Document) -> Fetched:
        """The stored document, as if it came now; fresh for as long as is left of that."""
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
        # What stands in a copy came from a fetcher: its reason is one of theirs.
        reason = cast("Reason", "protocol" if failure.reason == PARSE else failure.reason)
        return FetchFailed(mask_credentials(request.url), reason, failure.detail, failure.status, wait)


async def _judge(reply: Fetched, old: Document | None) -> bytes | None:
    """A feed isn't replaced by what is none, an error page say; the documents are left to others to parse."""
    if old is not None and old.is_feed and not is_feed(reply.body, reply.content_type):
        raise ParseError(mask_credentials(reply.url), "the document isn't a feed any more")
    return None
