"""A stored copy of a document, and all decisions about it. Pure: the time is an argument.

Freshness follows RFC 9111 as far as polite feed readers should: `max-age` and `Expires` lengthen the time without
requests, and never shorten it below the caller's own time to live.
"""

from __future__ import annotations

import math
import re
import secrets
import zlib
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import orjson

from microsub.base.digests import sha256_hex
from microsub.fetch import Fetched, FetchFailed, NotModified
from microsub.formats.encoding import decode
from microsub.formats.parse import sniff

DEFAULT_TTL = 300.0
LONGEST_FRESH = 48 * 3600.0
"""Maximum seconds of freshness that a publisher can ask for."""

LONGEST_PAUSE = 7 * 86400.0
"""A longer `Retry-After` is a mistake."""

SKEW = 60.0
"""Seconds by which clocks may differ. A copy from further in the future counts as old: the clock has jumped, so its age
is unknown.
"""

FAILURE_KEPT = 60.0
"""Seconds that a failure is stored without a document, for callers that waited for the request."""

PARSE = "parse"
"""The reason of a `Failure` for a document that can't be parsed."""

GONE = "gone"

_NO_STORE = re.compile(r"(?i)(?:\A|[\s,])no-store(?:\Z|[\s,;=])")
_KIND_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A document as its publisher served it. Times are Unix seconds.

    `checked_at` is when the publisher last confirmed it, `fetched_at` when these bytes arrived. `max_age` is the
    publisher's own time to live, in seconds from `checked_at`, or None; `no_store`: it must not be stored longer than
    the caller's time to live. `body` and `feed` (the parsed feed, by `cache.feeds`) are compressed; `digest` is the
    SHA-256 of the body as hex; `link` is the joined HTTP `Link` header.
    """

    final_url: str
    content_type: str | None
    link: str | None
    etag: str | None
    last_modified: str | None
    digest: str
    packed_body: bytes = field(repr=False)
    packed_feed: bytes | None = field(repr=False)
    is_feed: bool
    fetched_at: float
    checked_at: float
    max_age: float | None
    no_store: bool
    moved_to: str | None

    @property
    def body(self) -> bytes:
        """The bytes as served."""
        return zlib.decompress(self.packed_body)


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure since the document was confirmed.

    `reason` is one of `fetch.REASONS` or `parse`; `retry_at` is the Unix time before which the publisher wants no
    request.
    """

    reason: str
    detail: str
    status: int | None
    at: float
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class CachedCopy:
    """The stored copy of one URL. `revision` differs with every write, whatever the clock."""

    url: str
    document: CachedDocument | None = None
    failure: Failure | None = None
    revision: str = field(default_factory=lambda: secrets.token_hex(6))


# --- freshness -----------------------------------------------------------------------------------------------------


def age_of(document: CachedDocument, now: float) -> float:
    """Seconds since the publisher last confirmed it."""
    return max(0.0, now - document.checked_at)


def lifetime_of(document: CachedDocument, ttl: float) -> float:
    """Seconds from `checked_at` in which a caller with that time to live sends no request."""
    if document.no_store:
        return ttl
    return max(ttl, min(document.max_age or 0.0, LONGEST_FRESH))


def is_fresh(document: CachedDocument, ttl: float, now: float) -> bool:
    """Whether the document can be used without a request to the publisher."""
    age = now - document.checked_at
    return -SKEW <= age < lifetime_of(document, ttl)


def usable(copy: CachedCopy | None, ttl: float, keep: float, now: float) -> CachedDocument | None:
    """The document that may be shown with an error, or offline; None if it is too old.

    A `no_store` document is usable as long as it is fresh; others for `keep` seconds after the last check, or as long
    as they are fresh.
    """
    document = None if copy is None else copy.document
    if document is None or is_fresh(document, ttl, now):
        return document
    return None if document.no_store or now - document.checked_at > keep else document


def is_paused(failure: Failure, now: float) -> bool:
    """Whether the publisher has asked for a pause that isn't over."""
    return failure.retry_at is not None and failure.at - SKEW <= now < failure.retry_at


def seconds_to_live(copy: CachedCopy, ttl: float, keep: float, now: float) -> float:
    """Seconds from `now` for which the copy can be useful; `inf` if forever."""
    left = 0.0
    if copy.document is not None:
        fresh = lifetime_of(copy.document, ttl)
        left = copy.document.checked_at - now + (fresh if copy.document.no_store else max(keep, fresh))
    if copy.failure is not None:
        end = max(copy.failure.at + FAILURE_KEPT, copy.failure.retry_at or 0.0)
        if copy.failure.reason == GONE:
            end = copy.failure.at + keep
        left = max(left, end - now)
    return max(left, 0.0) if math.isfinite(left) else math.inf


def last_touched(copy: CachedCopy) -> float:
    """The time of the last reply or failure for the URL."""
    document = copy.document.checked_at if copy.document else 0.0
    failure = copy.failure.at if copy.failure else 0.0
    return max(document, failure)


# --- changes -------------------------------------------------------------------------------------------------------


def is_feed(body: bytes, content_type: str | None) -> bool:
    """Whether a document starts like a feed, not like a web page with one."""
    return sniff(decode(body[:_KIND_BYTES], content_type), content_type) in {"syndication", "json"}


def taken(url: str, old: CachedDocument | None, reply: Fetched, feed: bytes | None, now: float) -> CachedCopy:
    """The copy after a 200. `feed` is the packed feed, if the document was parsed."""
    digest = sha256_hex(reply.body)
    same = old if old is not None and old.digest == digest else None
    document = CachedDocument(
        final_url=reply.final_url,
        content_type=reply.content_type,
        link=reply.headers.get("link"),
        etag=reply.etag,
        last_modified=reply.last_modified,
        digest=digest,
        packed_body=same.packed_body if same else zlib.compress(reply.body, 1),
        packed_feed=feed,
        is_feed=is_feed(reply.body, reply.content_type),
        fetched_at=now,
        checked_at=now,
        max_age=reply.max_age,
        no_store=bool(_NO_STORE.search(reply.headers.get("cache-control", ""))),
        moved_to=reply.moved_to,
    )
    return CachedCopy(url, document)


def refreshed(url: str, document: CachedDocument, reply: NotModified, now: float) -> CachedCopy:
    """The copy after a 304: age 0, with the freshness and validators of the reply."""
    changed = replace(
        document,
        etag=reply.etag,
        last_modified=reply.last_modified,
        checked_at=now,
        max_age=document.max_age if reply.max_age is None else reply.max_age,
        moved_to=reply.moved_to,
    )
    return CachedCopy(url, changed)


def failed(url: str, document: CachedDocument | None, reply: FetchFailed, now: float) -> CachedCopy:
    """The copy after a failed fetch: the document doesn't change."""
    pause = None if reply.retry_after is None else now + min(reply.retry_after, LONGEST_PAUSE)
    return CachedCopy(url, document, Failure(reply.reason, reply.detail, reply.status, now, pause))


def broken(url: str, document: CachedDocument | None, detail: str, now: float) -> CachedCopy:
    """The copy after a document that can't be parsed: the stored one stays, with its validators."""
    return CachedCopy(url, document, Failure(PARSE, detail, None, now))


# --- as bytes ------------------------------------------------------------------------------------------------------
#
# A line of ASCII, `microsub-copy 1 <CRC-32 of the rest, hex> <length of the head> <length of the feed>`, then the head
# as JSON, then the parsed feed and the body, both compressed with zlib. Nothing is ever unpickled.

VERSION = 1
_FIRST_LINE = re.compile(rb"microsub-copy (\d+) ([0-9a-f]{8}) (\d+) (-?\d+)\n")
_LONGEST_FIRST_LINE = 80
_NO_FEED = -1
_PACKED = ("packed_body", "packed_feed")
_IN_HEAD = tuple(field.name for field in fields(CachedDocument) if field.name not in _PACKED)


class DamagedCopy(ValueError):
    """Bytes that aren't a copy, are incomplete, or have another version."""


def to_bytes(copy: CachedCopy) -> bytes:
    """Encode `copy`. Raises `orjson.JSONEncodeError` for text without a UTF-8 form."""
    document = copy.document
    head = orjson.dumps(
        {
            "url": copy.url,
            "revision": copy.revision,
            "document": document and {name: getattr(document, name) for name in _IN_HEAD},
            "failure": copy.failure and asdict(copy.failure),
        }
    )
    feed = document.packed_feed if document else None
    parts = (head, feed or b"", document.packed_body if document else b"")
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    length = _NO_FEED if feed is None else len(feed)
    return b"".join((b"microsub-copy %d %08x %d %d\n" % (VERSION, crc, len(head), length), *parts))


def from_bytes(data: bytes, url: str) -> CachedCopy:
    """Decode the copy of `url`. Raises DamagedCopy."""
    first = _FIRST_LINE.match(data[:_LONGEST_FIRST_LINE])
    if first is None:
        raise DamagedCopy("it doesn't start like a copy")
    version, crc, head_length, feed_length = int(first[1]), int(first[2], 16), int(first[3]), int(first[4])
    if version != VERSION:
        raise DamagedCopy(f"it has version {version}, expected {VERSION}")
    rest = data[first.end() :]
    if zlib.crc32(rest) != crc:
        raise DamagedCopy("its checksum is wrong")
    body = head_length + max(feed_length, 0)
    try:
        head = orjson.loads(rest[:head_length])
        if head["url"] != url:
            raise DamagedCopy("it is the copy of another URL")
        feed = None if feed_length == _NO_FEED else rest[head_length:body]
        return CachedCopy(
            url,
            _document(head["document"], rest[body:], feed),
            None if head["failure"] is None else Failure(**head["failure"]),
            head["revision"],
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise DamagedCopy(f"its head can't be read ({type(error).__name__})") from error


def _document(head: dict[str, Any] | None, body: bytes, feed: bytes | None) -> CachedDocument | None:
    return None if head is None else CachedDocument(packed_body=body, packed_feed=feed, **head)
