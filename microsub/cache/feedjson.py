"""A parsed feed as compressed JSON and back: every field of `model.jf2`, so that what comes out equals what went in.

The first line names the software and the fields it knows. What another version wrote is not read: its parser may have
understood, or sanitised, less.
"""

from __future__ import annotations

import zlib
from dataclasses import fields
from functools import cache

import orjson

from microsub import __version__
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed
from microsub.parsing.values import reader

_CLASSES = (Card, Content, Enclosure, Entry, Feed)


@cache
def _mark() -> bytes:
    names = ",".join(f"{cls.__name__}.{field.name}" for cls in _CLASSES for field in fields(cls))
    return f"{__version__} {zlib.crc32(names.encode()):08x}\n".encode()


def pack(feed: Feed) -> bytes | None:
    """`feed` as bytes; None for the rare one whose text has no UTF-8 form (it is parsed again then)."""
    try:
        return zlib.compress(_mark() + orjson.dumps(feed), 1)
    except orjson.JSONEncodeError:
        return None


def unpack(packed: bytes) -> Feed | None:
    """The feed, or None where these bytes were written by another version or can't be read."""
    try:
        data = zlib.decompress(packed)
        if not data.startswith(_mark()):
            return None
        feed = reader(Feed)(orjson.loads(data[len(_mark()) :]))
    except (zlib.error, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return feed if isinstance(feed, Feed) else None
