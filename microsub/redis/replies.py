"""Replies of Redis decoded, once and strictly: text is UTF-8, records are whole.

Data that can't be decoded was written by another program: StoreDamaged names it, and no caller ignores it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

from microsub.base.errors import StoreDamaged, StoreIncomplete, StoreUnavailable
from microsub.redis.protocol import Command, Redis


@overload
def text(value: bytes) -> str: ...


@overload
def text(value: None) -> None: ...


@overload
def text(value: bytes | None) -> str | None: ...


def text(value: bytes | None) -> str | None:
    """A reply as text; None stays None. Raises StoreDamaged."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise StoreDamaged(repr(value[:80])) from error


def texts(values: Iterable[bytes]) -> list[str]:
    """A reply of several texts. Raises StoreDamaged."""
    return [text(value) for value in values]


def filled(values: Iterable[bytes | None]) -> list[str]:
    """A reply of several texts, with '' for missing ones. Raises StoreDamaged."""
    return [text(value) or "" for value in values]


def fields(flat: Sequence[bytes]) -> dict[str, str]:
    """A flat reply of names and values, as from HGETALL. Raises StoreDamaged."""
    return dict(zip(texts(flat[0::2]), texts(flat[1::2]), strict=True))


def raw_fields(flat: Sequence[bytes]) -> dict[str, bytes]:
    """A flat reply of names and values, the values as bytes. Raises StoreDamaged."""
    return dict(zip(texts(flat[0::2]), flat[1::2], strict=True))


@contextmanager
def reading(key: str) -> Iterator[None]:
    """Raise StoreDamaged, naming `key`, for errors that the shape of its record causes."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise StoreDamaged(key) from error


async def within_reach(redis: Redis, commands: Sequence[Command]) -> list[Any]:
    """The replies as of `pipeline`; StoreUnavailable as a value for each command whose master is away.

    Raises StoreUnavailable if no master can be reached.
    """
    return await reached(redis.pipeline(commands))


async def reached(asked: Awaitable[list[Any]]) -> list[Any]:
    """The replies to commands or scripts, as of `within_reach`."""
    try:
        return await asked
    except StoreIncomplete as error:
        for reply in error.replies:
            if isinstance(reply, Exception) and not isinstance(reply, StoreUnavailable):
                raise reply from error
        return error.replies


def score_text(seconds: float) -> str:
    """Unix seconds as decimal text with microseconds, in the shortest form, and never in powers of ten."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
