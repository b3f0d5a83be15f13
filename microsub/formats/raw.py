"""What a format module hands to `parse`: values as found, bodies not yet cleaned.

`feed` and `entry` carry everything but bodies. `html` or `text` is the body, `base` what its links are relative to
(`xml:base` may differ from entry to entry). `photos_in_body` says that the pictures of the entry are those of its body,
marked up there, so that a reader who shows both would show them twice. `collected` says that the author is the feed
which a planet took the entry from: what the planet says of itself isn't true of that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from microsub.model.jf2 import Entry, Feed


@dataclass(slots=True)
class RawEntry:
    """One entry before cleaning."""

    entry: Entry
    base: str
    html: str | None = None
    text: str | None = None
    summary_html: str | None = None
    photos_in_body: bool = False
    collected: bool = False


@dataclass(slots=True)
class RawFeed:
    """A document before cleaning."""

    feed: Feed
    entries: list[RawEntry] = field(default_factory=list)
