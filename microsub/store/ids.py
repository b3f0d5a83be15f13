"""The ids of items and feeds, as text: what the counters give out."""

from __future__ import annotations

import re

_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


def is_id(text: str) -> bool:
    """Whether `text` is an id, in the one form that ids have: a hand with redis-cli may have put in anything."""
    return _ID.fullmatch(text) is not None
