"""Ids of items and streams, and times, in the forms that native apps send. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from microsub.base.errors import InvalidRequest

FIRST = 10**15
"""Added to our ids: Readrops needs sixteen decimal digits, and the hexadecimal form then begins with three zeros."""
_LONG = "tag:google.com,2005:reader/item/"
_HEX = re.compile(r"[0-9a-fA-F]{16}")
_DECIMAL = re.compile(r"[0-9]{16,19}")

LABEL = "user/-/label/"
STATE = "user/-/state/com.google/"
READING_LIST, READ, STARRED = f"{STATE}reading-list", f"{STATE}read", f"{STATE}starred"
MOST_STREAMS = 50
"""Maximum number of streams that one parameter may name: each costs round trips, and each new label a channel."""
OTHER = "other"
"""The feed of all items whose own feed isn't followed: apps tie every item to a feed."""

_STATE_OR_LABEL = re.compile(r"user/[^/]*/(?:state/com\.google/(?P<state>[a-z-]+)|label/(?P<label>.+))", re.DOTALL)
_SECONDS = re.compile(r"[0-9]{1,20}")
_LATEST = 10**12


def decimal(item: str) -> str:
    """An item's id in decimal, as lists of ids have it."""
    return str(FIRST + int(item))


def long_form(item: str) -> str:
    """An item's id as its contents have it."""
    return f"{_LONG}{FIRST + int(item):016x}"


def item_of(text: str) -> str | None:
    """Our id of an item in any of the three forms; None if it can't be one."""
    short = text.removeprefix(_LONG)
    if _HEX.fullmatch(short) and (short is not text or short.startswith("000") or not short.isdecimal()):
        value = int(short, 16) - FIRST
    elif _DECIMAL.fullmatch(short):
        value = int(short) - FIRST
    else:
        return None
    return str(value) if 0 < value < 10**15 else None


def items_of(texts: Iterable[str]) -> list[str]:
    """Our ids of items, each once and in their order, without texts that can't be ids."""
    return list(dict.fromkeys(item for text in texts if (item := item_of(text)) is not None))


class StreamName(NamedTuple):
    """The subject of a stream: a state such as `read`, the name of a channel, or a feed by id or address."""

    kind: Literal["state", "label", "feed"]
    value: str


def stream_of(text: str) -> StreamName | None:
    """The stream that a text names; None for any other text."""
    if text.startswith("feed/"):
        return StreamName("feed", text[5:])
    found = _STATE_OR_LABEL.fullmatch(text)
    if found is None:
        return None
    return StreamName("state", found["state"]) if found["state"] else StreamName("label", found["label"])


def streams_of(name: str, texts: Sequence[str]) -> list[StreamName]:
    """The streams that the values of a parameter name, without other texts. Raises InvalidRequest for too many."""
    if len(texts) > MOST_STREAMS:
        raise InvalidRequest(f"'{name}' names too many streams: expected {MOST_STREAMS} at most")
    return [stream for text in texts if (stream := stream_of(text)) is not None]


def seconds(name: str, text: str | None) -> int | None:
    """A Unix time of a parameter in whole seconds; None if it is missing. Raises InvalidRequest."""
    if text is None:
        return None
    if not _SECONDS.fullmatch(text):
        raise InvalidRequest(f"'{name}' can't be used: expected a Unix time in seconds")
    return min(int(text), _LATEST)


def microseconds(text: str) -> int:
    """A Unix time in s, ms, µs or ns, told apart by its size, in microseconds. Raises InvalidRequest."""
    if not _SECONDS.fullmatch(text):
        raise InvalidRequest("'ts' can't be used: expected a Unix time")
    value = int(text)
    for below, times, by in ((10**11, 10**6, 1), (10**14, 10**3, 1), (10**17, 1, 1)):
        if value < below:
            return value * times // by
    return value // 1000


def count(text: str | None, usual: int, most: int) -> int:
    """The requested number of items, at most `most`; `usual` if there is none. Raises InvalidRequest."""
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal()):
        raise InvalidRequest("'n' can't be used: expected a whole number")
    return most if len(text) > len(str(most)) else max(1, min(int(text), most))
