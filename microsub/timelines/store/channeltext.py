"""Channel names as uids, and channel settings as hash fields: pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, get_type_hints

import orjson

from microsub.model.settings import Filters, OwnChannelSettings, UnreadStyle, stated
from microsub.redis.replies import reading

FIELDS: tuple[str, ...] = tuple(one.name for one in fields(OwnChannelSettings))
"""The fields of a channel's hash that hold its settings, each of them only where the channel has one of its own."""


def slug(name: str) -> str:
    """A uid made of a name: `[a-z0-9-]`, at most 64 characters, `channel` where nothing of the name is left."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_only).strip("-")[:64].rstrip("-") or "channel"


def write_settings(settings: OwnChannelSettings) -> list[bytes]:
    """Field and value, for all fields; an empty value where the channel has no setting of its own."""
    own = stated(settings)
    return [part for name in FIELDS for part in (name.encode(), _text(own[name]) if name in own else b"")]


def _text(value: Any) -> bytes:
    return orjson.dumps(stated(value)) if isinstance(value, Filters) else str(value).encode()


def _filters(text: bytes) -> Filters:
    return Filters.of(orjson.loads(text))


_READERS: Mapping[Any, Callable[[bytes], Any]] = {
    float | None: lambda text: float(text) if b"." in text else int(text),
    int | None: int,
    UnreadStyle | None: bytes.decode,
    Filters: _filters,
}
_READ = {name: _READERS[hint] for name, hint in get_type_hints(OwnChannelSettings).items() if name in FIELDS}


@lru_cache(maxsize=4096)
def _read(values: tuple[bytes | None, ...]) -> OwnChannelSettings:
    given = zip(FIELDS, values, strict=True)
    with reading(f"settings of a channel: {values!r}"):
        return OwnChannelSettings(**{name: _READ[name](value) for name, value in given if value})


def read_settings(values: Sequence[bytes | None]) -> OwnChannelSettings:
    """The settings in these values of `FIELDS`. Raises StoreDamaged."""
    return _read(tuple(values))
