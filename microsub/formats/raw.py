"""What a format module hands to `parse`: values as found, bodies not yet cleaned.

`feed` and `entry` carry everything but bodies. `html` or `text` is the body, `base` what its links are relative to
(`xml:base` may differ from entry to entry). `photos_in_body` says that the pictures of the entry are those of its body,
marked up there, so that a reader who shows both would show them twice. `collected` says that the author is the feed
which a planet took the entry from: what the planet says of itself isn't true of that one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

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


MAX_ENTRIES = 300

T = TypeVar("T")


class Newest(Generic[T]):
    """Takes entries in document order and keeps at most `most`, in that order.

    Where all entries have a date, the newest are kept, the earlier ones in the document where dates agree; else the
    first ones: documents without dates are taken for newest first, as nearly all are.
    """

    def __init__(self, when: Callable[[T], datetime | None], most: int = MAX_ENTRIES) -> None:
        self._when = when
        self._most = most
        self._count = 0
        self._first: list[T] = []
        self._dated: list[tuple[float, int, T]] | None = []

    def add(self, entry: T) -> None:
        """The next entry of the document."""
        self._count += 1
        if self._count <= self._most:
            self._first.append(entry)
            return
        if self._count == self._most + 1:
            for place, earlier in enumerate(self._first):
                self._rank(earlier, place)
        self._rank(entry, self._count - 1)

    def kept(self) -> list[T]:
        """What is left of all entries so far."""
        if self._count <= self._most or self._dated is None:
            return self._first
        return [entry for _, _, entry in sorted(self._dated, key=lambda ranked: -ranked[1])]

    def _rank(self, entry: T, place: int) -> None:
        if self._dated is None:
            return
        moment = self._when(entry)
        if moment is None:
            self._dated = None
        elif len(self._dated) < self._most:
            heapq.heappush(self._dated, (moment.timestamp(), -place, entry))
        else:
            heapq.heappushpop(self._dated, (moment.timestamp(), -place, entry))
