"""Serves output feeds at their addresses: `/feeds/<user>.<secret>.rss` and `/feeds/<user>/<name>.rss`.

An address without an ending serves the page.

An impression is an item sent in a 200 of RSS, Atom or JSON Feed, except to the feed's owner. A range request for a
limited feed gets the whole document. The impressions are reserved before the reply starts. Those of a piece of the body
are counted if the client is still connected, and then the piece is sent. So even if a process dies, nobody gets an item
more often than allowed, and an interrupted reply returns the impressions of the items that weren't sent.

RFC 9110: conditional requests (13), ranges (14). Shared caches must not store a limited feed, because they would show
its items without counting.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from starlette.requests import Request
from starlette.types import Scope, Send

from microsub.accounts import Accounts, Sessions
from microsub.base.bounded_cache import BoundedCache
from microsub.base.digests import sha256_hex, short_digest
from microsub.base.errors import (
    AddressRevoked,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestError,
    StoreError,
    TooManyRequests,
)
from microsub.base.locks import KeyedLocks
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter, network_of, public_network
from microsub.feeds import OutputAddress, OutputFeed, OutputRow
from microsub.formats.documents import FORMATS
from microsub.formats.documents.page import PAGE_POLICY
from microsub.formats.documents.values import FeedDocument, uri
from microsub.model.reader import Credential
from microsub.outputs.contents import OutputContents
from microsub.outputs.store import OutputFeeds
from microsub.web.cookies import PageCookies
from microsub.web.headers import PublicAddress, bearer, client_of, header, knows
from microsub.web.params import collect, urlencoded
from microsub.web.responses import (
    Header,
    HttpEndpoint,
    HttpExchange,
    HttpReply,
    client_left,
    error_reply,
    log_error,
)

OUTPUTS_OF_NETWORK = RateLimit("replies with output feeds", "network", 300)
OUTPUTS_OF_FEED = RateLimit("replies with output feeds", "output feed", 600)
OUTPUT_GUESSES_OF_NETWORK = RateLimit("addresses that lead to no output feed", "network", 30)
OUTPUTS_SENT_OF_FEED = RateLimit("replies with output feeds that are being sent", "output feed", 50, AT_ONCE)
OUTPUTS_SENT_TO_NETWORK = RateLimit("replies with output feeds that are being sent", "network", 10, AT_ONCE)
OUTPUTS_SENT_IN_ALL = RateLimit("replies with output feeds that are being sent", "all together", 100, AT_ONCE)

METHODS = "GET, HEAD, OPTIONS"
SENDING = 120.0
"""Time limit of a reply, in seconds; its impressions are reserved for longer (`store.HELD`)."""

_FRESH = 300
"""Seconds for which clients may reuse a feed."""
_ARCHIVE_FRESH = 86_400
_PIECE = 64 * 1024
_LOOK = 0.01
"""Seconds before the first item, to notice whether the client has disconnected."""

_KEPT_BYTES = 64 * 1024 * 1024
_KEPT = 60.0
"""Bytes and seconds of cached documents: authors' names and pictures change without a change of the feed."""

_HOST = re.compile(r"[A-Za-z0-9._~-]{1,255}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?")
_CORS: list[Header] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", b"Accept, Cache-Control, If-None-Match, If-Modified-Since, Range, If-Range"),
    (b"access-control-expose-headers", b"ETag, Last-Modified, Link, Retry-After"),
]
_PREFLIGHT: list[Header] = [*_CORS, (b"access-control-max-age", b"86400"), (b"allow", METHODS.encode())]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReply(HttpReply):
    """A reply with a document; `leave` is called once it is sent.

    `counted` are the items whose impressions it counts, each with the place in the body where it begins, in order.
    """

    feed: OutputFeed
    leave: Callable[[], None]
    reservation: str | None = None
    counted: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """The bytes of a document, where its entries begin, their rows, and the document without entries."""

    body: bytes
    starts: Sequence[int]
    rows: tuple[OutputRow, ...]
    document: FeedDocument
    tag: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", f'"{short_digest(self.body, 12)}"')


class _Documents:
    """Recently generated documents, by everything they depend on, because anybody may request them repeatedly."""

    def __init__(self) -> None:
        self._found: BoundedCache[Hashable, tuple[float, WrittenDocument]] = BoundedCache(
            _KEPT_BYTES, lambda found: _cost(found[1])
        )

    def get(self, key: Hashable, now: float) -> WrittenDocument | None:
        """The document, if it is recent."""
        found = self._found.get(key)
        return found[1] if found is not None and 0 <= now - found[0] < _KEPT else None

    def keep(self, key: Hashable, written: WrittenDocument, now: float) -> None:
        """Store a document; the oldest ones are dropped if there is no room."""
        self._found[key] = (now, written)


def _cost(written: WrittenDocument) -> int:
    """Approximate bytes of memory."""
    return len(written.body) + 500 * len(written.rows) + 4000


class OutputEndpoint(HttpEndpoint):
    """Answers every request below `/feeds`; `stylesheet` is the path of the pages' style."""

    preflight = _PREFLIGHT

    def __init__(
        self,
        outputs: OutputFeeds,
        contents: OutputContents,
        accounts: Accounts,
        sessions: Sessions,
        clock: Callable[[], float],
        address: PublicAddress,
        stylesheet: str,
    ) -> None:
        super().__init__()
        self._outputs = outputs
        self._contents = contents
        self._accounts = accounts
        self._sessions = sessions
        self._clock = clock
        self._address = address
        self._stylesheet = stylesheet
        self._limits = RateLimiter()
        self._documents = _Documents()
        self._turns = KeyedLocks()

    def logged_path(self, path: str) -> str:
        """The path without the secret in it."""
        return re.sub(r"\.[A-Za-z0-9_-]{8,}", ".…", path)

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        exchange.action = "feeds"
        scope = exchange.scope
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed(scope["method"], METHODS)
        feed, form = await self._found(scope)
        subject = f"{feed.user}/{feed.name}"
        self._limits.require(OUTPUTS_OF_FEED, subject)
        slots = [(OUTPUTS_SENT_OF_FEED, subject), (OUTPUTS_SENT_IN_ALL, "")]
        if network := public_network(client_of(scope)):
            slots.append((OUTPUTS_SENT_TO_NETWORK, network))
        if not all(self._limits.has_room(*slot) for slot in slots):
            raise TooManyRequests("too many replies with this feed are being sent: try again in a few seconds", 5)
        leave = self._limits.take(slots)
        try:
            reply = await self._answer(scope, feed, form, leave)
        except BaseException:
            leave()
            raise
        if not isinstance(reply, ShownReply):
            leave()
        return reply

    async def _answer(self, scope: Scope, feed: OutputFeed, form: str, leave: Callable[[], None]) -> HttpReply:
        now = self._clock()
        await self._contents.refresh(feed, now)
        feed = await self._outputs.get(feed.user, feed.name)
        if feed.stem is None:  # revoked a moment ago
            raise AddressRevoked
        archive = collect(urlencoded(scope["query_string"])).text("archive")
        written = await self._written(scope, feed, form, archive, now)
        reply = _reply(scope, feed, form, written, archive, now)
        if reply.status != 200 or scope["method"] == "HEAD":
            return reply
        if form == "html" or not written.rows or await self._is_owner(scope, feed, now):
            return ShownReply(reply.body, reply.headers, feed=feed, leave=leave)
        reservation, left = await self._outputs.reserve(feed, written.rows, now)
        if left != {row.item for row in written.rows}:
            # Other replies took the last impression of some of them in between.
            try:
                written = await self._without(written, left, feed, form)
            except BaseException:
                await self._give_back(feed, reservation)
                raise
            reply = _reply(scope, feed, form, written, archive, now, whole=True)
        counted = [(start, row.item) for start, row in zip(written.starts, written.rows, strict=True)]
        return ShownReply(reply.body, reply.headers, feed=feed, leave=leave, reservation=reservation, counted=counted)

    async def _is_owner(self, scope: Scope, feed: OutputFeed, now: float) -> bool:
        """Whether the feed's user asks, signed in or with a token."""
        if (token := bearer(scope)) is not None:
            with suppress(RequestError):
                await self._accounts.verify(Credential(feed.user, sha256_hex(token)), now)
                return True
        cookie = PageCookies(self._address, header(scope, b"host")).read(Request(scope), "session")
        session = await self._sessions.find(cookie, now) if cookie else None
        return session is not None and session.user == feed.user

    async def _without(
        self, written: WrittenDocument, items: frozenset[str], feed: OutputFeed, form: str
    ) -> WrittenDocument:
        """The document with only these items of it."""
        async with self._turns.of(feed.user):
            rows = tuple(row for row in written.rows if row.item in items)
            return await self._fill(feed.user, written.document, rows, form)

    async def _fill(self, user: str, document: FeedDocument, rows: Sequence[OutputRow], form: str) -> WrittenDocument:
        """Write a user's document with the entries of its rows."""
        made, shown = await self._contents.filled(user, document, rows)
        one = FORMATS[form]
        body = await asyncio.to_thread(one.write, made)
        return WrittenDocument(body, one.starts(body), shown, replace(made, entries=()))

    async def _written(
        self, scope: Scope, feed: OutputFeed, form: str, archive: str | None, now: float
    ) -> WrittenDocument:
        """The document, generated again if something in it has changed or it is old."""
        contents, base = self._contents, self._base(scope)
        state = (feed.id, feed.editions, feed.modified, feed.changed, feed.stem, contents.hubs, base, form, archive)
        listed, rows = None, None
        if feed.is_limited:  # items can expire without any change of the feed
            listed = await contents.listed(feed, base, now, archive=archive, stylesheet=self._stylesheet)
            _, rows = listed
        key = (*state, rows)
        if (known := self._documents.get(key, now)) is not None:
            return known
        # Megabytes take tenths of a second, so one document per user at a time is generated in a thread.
        async with self._turns.of(feed.user):
            if (known := self._documents.get(key, now)) is not None:  # generated while this request waited
                return known
            if listed is None:
                listed = await contents.listed(feed, base, now, archive=archive, stylesheet=self._stylesheet)
            written = await self._fill(feed.user, *listed, form)
            self._documents.keep(key, written, now)
            return written

    def _base(self, scope: Scope) -> str:
        host = header(scope, b"host")
        base = self._address.base(host)
        if base is None and not _HOST.fullmatch(host):
            raise InvalidRequest("the 'Host' header can't be used: expected a name or address, optionally with a port")
        return base or f"{scope['scheme']}://{host}"

    async def _found(self, scope: Scope) -> tuple[OutputFeed, str]:
        """The feed and format that the path names, within the limits of the client's network."""
        client = client_of(scope)
        self._limits.require(OUTPUTS_OF_NETWORK, public_network(client))
        try:
            address = OutputAddress.of(scope["path"])
            if address is None:
                raise NotFound("there is no such feed")
            outputs = self._outputs
            if address.secret:
                return await outputs.find(address.user, address.secret), address.form
            return await outputs.find_public(address.user, address.name), address.form
        except RequestError:
            self._limits.require(OUTPUT_GUESSES_OF_NETWORK, network_of(client))
            raise

    async def deliver(self, exchange: HttpExchange, send: Send, reply: HttpReply) -> None:
        """Send a reply, and count its impressions; those of items that weren't sent are returned."""
        if not isinstance(reply, ShownReply):
            await super().deliver(exchange, send, reply)
            return
        gone = asyncio.ensure_future(client_left(exchange.receive))
        settled = False
        try:
            async with asyncio.timeout(SENDING):
                settled = await self._send(send, reply, gone)
        except TimeoutError:
            pass  # too slow, or disconnected: the connection is closed with an incomplete body
        except StoreError as error:
            log_error(error, error_reply(error), self.logged_path(exchange.scope["path"]), "GET", exchange.action)
        finally:
            reply.leave()
            gone.cancel()
            if not settled and reply.reservation is not None:
                await self._give_back(reply.feed, reply.reservation)

    async def _send(self, send: Send, reply: ShownReply, gone: asyncio.Future[None]) -> bool:
        """Send the body while the client is connected; returns whether all of it was sent."""
        size = len(reply.body)
        length = (b"content-length", str(size).encode())
        await send({"type": "http.response.start", "status": reply.status, "headers": [*reply.headers, length]})
        start, counted = 0, deque(reply.counted)
        if counted:
            start, _ = counted[0]
            await send({"type": "http.response.body", "body": reply.body[:start], "more_body": True})
            await asyncio.wait([gone], timeout=_LOOK)
        while True:
            end = min(size, start + _PIECE)
            shown = []
            while counted and counted[0][0] < end:
                shown.append(counted.popleft()[1])
            if gone.done() or (shown and not await self._count(reply, shown)):
                return False
            await send({"type": "http.response.body", "body": reply.body[start:end], "more_body": end < size})
            if end == size:
                return True
            start = end

    async def _count(self, reply: ShownReply, items: Sequence[str]) -> bool:
        """Count the impressions of items that are sent next; False if the reservation has expired."""
        outputs, now = self._outputs, self._clock()
        return reply.reservation is not None and await outputs.settle(reply.feed, reply.reservation, now, shown=items)

    async def _give_back(self, feed: OutputFeed, reservation: str) -> None:
        """Return the impressions of items that weren't sent; if that fails, they expire by themselves."""
        now = self._clock()
        with suppress(StoreError):
            await asyncio.shield(self._outputs.settle(feed, reservation, now))


def _reply(
    scope: Scope,
    feed: OutputFeed,
    form: str,
    written: WrittenDocument,
    archive: str | None,
    now: float,
    *,
    whole: bool = False,
) -> HttpReply:
    """The document, a part of it, or 304 if the client has it; `whole`: always the document."""
    body, tag = written.body, written.tag
    # Items of a limited feed expire at times that aren't recorded, so clients compare only its tag.
    modified = None if feed.is_limited else datetime.fromtimestamp(int(feed.modified), UTC)
    # Not later than the reply's own `Date`, which the server renews once a second.
    stated = modified and min(modified, datetime.fromtimestamp(int(now) - 1, UTC))
    headers = [*_headers(feed, archive, tag, stated), *_hubs(written.document, form)]
    if not whole and _is_known(scope, tag, modified, now):
        return HttpReply(b"", headers, 304)
    kind: Header = (b"content-type", FORMATS[form].content_type.encode())
    may_part = scope["method"] == "GET" and not (whole or feed.is_limited)
    if may_part and (part := _range(scope, len(body), tag, modified)) is not None:
        first, last = part
        if first > last:
            return HttpReply(b"", [*headers, (b"content-range", f"bytes */{len(body)}".encode())], 416)
        where = (b"content-range", f"bytes {first}-{last}/{len(body)}".encode())
        return HttpReply(body[first : last + 1], [*headers, kind, where], 206)
    return HttpReply(body, [*headers, kind])


def _headers(feed: OutputFeed, archive: str | None, tag: str, modified: datetime | None) -> list[Header]:
    if feed.is_limited:
        caching = "private, no-cache"
    else:
        shared = "public" if feed.settings.public else "private"
        caching = f"{shared}, max-age={_ARCHIVE_FRESH if archive else _FRESH}"
    found: list[Header] = [
        (b"etag", tag.encode()),
        *([] if modified is None else [(b"last-modified", format_datetime(modified, usegmt=True).encode())]),
        (b"cache-control", caching.encode()),
        (b"accept-ranges", b"none" if feed.is_limited else b"bytes"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),  # linked sites must not learn the address
        (b"content-security-policy", PAGE_POLICY.encode()),
        *_CORS,
    ]
    return found if feed.settings.public else [*found, (b"x-robots-tag", b"noindex")]


def _hubs(document: FeedDocument, form: str) -> list[Header]:
    """The `Link` headers for subscribers (WebSub, section 4): the hubs, and the topic's URL."""
    found = [*((hub, "hub") for hub in document.hubs), *([(document.addresses[form], "self")] if document.hubs else [])]
    return [(b"link", f'<{uri(address)}>; rel="{rel}"'.encode()) for address, rel in found]


def _is_known(scope: Scope, tag: str, modified: datetime | None, now: float) -> bool:
    """Whether the client already has this document (RFC 9110, 13.2.2)."""
    if header(scope, b"if-none-match"):
        return knows(scope, tag)
    if modified is None or (since := _date(header(scope, b"if-modified-since"))) is None:
        return False
    # A second change within the same second would be missed.
    return modified <= since and now - modified.timestamp() >= 1


def _range(scope: Scope, size: int, tag: str, modified: datetime | None) -> tuple[int, int] | None:
    """The requested first and last byte; first > last if the range is empty. None for the whole document."""
    found = re.fullmatch(r"bytes=(\d{0,15})-(\d{0,15})", header(scope, b"range").replace(" ", ""))
    if found is None or found[0] == "bytes=-":
        return None
    condition = header(scope, b"if-range")
    if condition and condition != tag and (modified is None or _date(condition) != modified):
        return None
    if not found[1]:
        length = min(int(found[2]), size)
        return (size - length, size - 1) if length else (1, 0)
    first, last = int(found[1]), min(int(found[2] or size), size - 1)
    if found[2] and int(found[2]) < first:
        return None
    return (first, last) if first < size else (1, 0)


def _date(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        found = parsedate_to_datetime(text) if text else None
        return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
    return None
