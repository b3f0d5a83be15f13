"""A parsed feed as compressed JSON and back: every field of `model.jf2`, so that what comes out equals what went in.

The first line names the software and the fields it knows. What another version wrote is not read: its parser may have
understood, or sanitised, less.
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import orjson

from microsub import __version__
from microsub.model import jf2
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed

_CLASSES = (Card, Content, Enclosure, Entry, Feed)
_ONLY_ENTRIES_HAVE = "guid"

Reader = Callable[[Any], Any]


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
        feed = _reader(Feed)(orjson.loads(data[len(_mark()) :]))
    except (zlib.error, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return feed if isinstance(feed, Feed) else None


@cache
def _reader(hint: Any) -> Reader:
    """A function that turns the JSON of a value of that type into the value."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _either(tuple(argument for argument in arguments if argument is not type(None)))
    if origin is tuple:
        member = _reader(arguments[0])
        return lambda values: tuple(map(member, values))
    if origin is Mapping:
        value = _reader(arguments[1])
        return lambda values: {key: value(each) for key, each in values.items()}
    if hint is datetime:
        return datetime.fromisoformat
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_reader(hint)
    return lambda value: value


def _either(choices: tuple[Any, ...]) -> Reader:
    if len(choices) == 1:
        reader = _reader(choices[0])
        return lambda value: None if value is None else reader(value)
    if set(choices) != {Entry, Card}:
        raise TypeError(f"no rule tells {choices} apart")
    return lambda value: _reader(Entry if _ONLY_ENTRIES_HAVE in value else Card)(value)


def _dataclass_reader(cls: type) -> Reader:
    hints = get_type_hints(cls, vars(jf2))
    readers: dict[str, Reader] = {}

    def read(values: dict[str, Any]) -> Any:
        # The readers of the fields are looked up late: an entry's refs hold entries.
        if not readers:
            readers.update({name: _reader(hint) for name, hint in hints.items()})
        return cls(**{name: readers[name](value) for name, value in values.items()})

    return read
