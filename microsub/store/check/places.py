"""What a look must remember of every item, in a few bytes each: whether it exists, its place, its feed, some marks."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

_CHUNK = 4096

CLAIMED, INDEXED, SHOWN = 1, 2, 4
"""Marks: a guid leads to the item; it stands in its feed's index; a channel shows or hides it."""


class Places:
    """Items by id (a small integer, as text). Seventeen bytes per item that could exist."""

    def __init__(self) -> None:
        self._scores: dict[int, array[float]] = {}
        self._feeds: dict[int, array[int]] = {}
        self._marks: dict[int, bytearray] = {}

    def note(self, item_id: str, score: float, feed: int) -> None:
        """This item exists. `feed` is 0 for a post of no feed."""
        chunk, place = divmod(int(item_id), _CHUNK)
        if chunk not in self._scores:
            self._scores[chunk] = array("d", [math.nan]) * _CHUNK
            self._feeds[chunk] = array("q", [0]) * _CHUNK
            self._marks[chunk] = bytearray(_CHUNK)
        self._scores[chunk][place] = score
        self._feeds[chunk][place] = feed

    def score(self, item_id: str) -> float | None:
        """The item's place, None where there is no such item."""
        chunk, place = divmod(int(item_id), _CHUNK)
        scores = self._scores.get(chunk)
        return None if scores is None or math.isnan(scores[place]) else scores[place]

    def feed(self, item_id: str) -> int:
        """The item's feed."""
        chunk, place = divmod(int(item_id), _CHUNK)
        return self._feeds[chunk][place] if chunk in self._feeds else 0

    def mark(self, item_id: str, mark: int) -> None:
        """Set a mark, where the item exists."""
        chunk, place = divmod(int(item_id), _CHUNK)
        if chunk in self._marks:
            self._marks[chunk][place] |= mark

    def marked(self, item_id: str, mark: int) -> bool:
        """Whether the item has that mark."""
        chunk, place = divmod(int(item_id), _CHUNK)
        return chunk in self._marks and bool(self._marks[chunk][place] & mark)

    def __iter__(self) -> Iterator[str]:
        """The ids of all items, in order."""
        for chunk in sorted(self._scores):
            for place, score in enumerate(self._scores[chunk]):
                if not math.isnan(score):
                    yield str(chunk * _CHUNK + place)
