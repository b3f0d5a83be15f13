"""Copies as plain bytes, in a versioned format that says when it is damaged.

One line of ASCII, `microsub-copy 1 <CRC-32 of the rest, hex> <length of the head> <length of the feed>`, then the head
as JSON, the parsed feed and the body, both compressed with zlib. Nothing is ever unpickled.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import asdict, fields
from typing import Any

import orjson

from microsub.cache.copy import Copy, Document, Failure

VERSION = 1
_FIRST_LINE = re.compile(rb"microsub-copy (\d+) ([0-9a-f]{8}) (\d+) (-?\d+)\n")
_LONGEST_FIRST_LINE = 80
_NO_FEED = -1
_PACKED = ("packed_body", "packed_feed")
_IN_HEAD = tuple(field.name for field in fields(Document) if field.name not in _PACKED)


class DamagedCopy(ValueError):
    """Bytes that are no copy, or not all of one, or one of another version."""


def encode(copy: Copy) -> bytes:
    """`copy` as bytes. Raises `orjson.JSONEncodeError` for text that has no UTF-8 form."""
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


def decode(data: bytes, url: str) -> Copy:
    """The copy of `url` that `data` is. Raises DamagedCopy."""
    first = _FIRST_LINE.match(data[:_LONGEST_FIRST_LINE])
    if first is None:
        raise DamagedCopy("it doesn't begin like a copy")
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
        return Copy(
            url,
            _document(head["document"], rest[body:], feed),
            None if head["failure"] is None else Failure(**head["failure"]),
            head["revision"],
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise DamagedCopy(f"its head can't be read ({type(error).__name__})") from error


def _document(head: dict[str, Any] | None, body: bytes, feed: bytes | None) -> Document | None:
    return None if head is None else Document(packed_body=body, packed_feed=feed, **head)
