"""Channel names as uids, and channel settings as JSON: pure functions."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict, fields
from functools import lru_cache

import orjson

from microsub.model.reader import ChannelSettings
from microsub.redis.replies import reading

_DEFAULTS = asdict(ChannelSettings())
_KNOWN = frozenset(field.name for field in fields(ChannelSettings))


def slug(name: str) -> str:
    """A uid made of a name: `[a-z0-9-]`, at most 64 characters, `channel` where nothing of the name is left."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_only).strip("-")[:64].rstrip("-") or "channel"


def write_settings(settings: ChannelSettings) -> bytes:
    """Compact JSON of what differs from the defaults; empty when nothing does."""
    changed = {key: value for key, value in asdict(settings).items() if value != _DEFAULTS[key]}
    return orjson.dumps(changed) if changed else b""


@lru_cache(maxsize=4096)
def read_settings(text: bytes) -> ChannelSettings:
    """The inverse of `write_settings`; settings of another version are left out. Raises StoreDamaged."""
    with reading(f"settings of a channel: {text[:80]!r}"):
        given = orjson.loads(text) if text else {}
        return ChannelSettings(**{key: value for key, value in given.items() if key in _KNOWN})
