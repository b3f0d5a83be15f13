"""Channel names as uids, and channel settings as JSON: pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache

import orjson

from microsub.model.reader import ChannelSettings

_DEFAULTS = asdict(ChannelSettings())
_KNOWN = frozenset(field.name for field in fields(ChannelSettings))


SPOILT = ChannelSettings(keep_read_days=0, keep_unread_days=0, max_items=0)
"""In place of settings that can't be read: until somebody looks, cleanup takes nothing there."""


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
    """The inverse of `write_settings`; settings of another version are left out. `SPOILT` where it can't be read."""
    found = settings_in(text)
    return SPOILT if found is None else found


def settings_in(text: bytes) -> ChannelSettings | None:
    """The same; None where the text can't be read, which `microsub check` finds."""
    try:
        given = orjson.loads(text) if text else {}
        found = ChannelSettings(**{key: value for key, value in given.items() if key in _KNOWN})
    except (ValueError, AttributeError, TypeError):
        return None
    numbers = (found.keep_read_days, found.keep_unread_days, found.max_items, found.first_fetch_unread)
    good = all(one is None or isinstance(one, int | float) for one in numbers) and isinstance(found.filters, Mapping)
    return found if good else None
