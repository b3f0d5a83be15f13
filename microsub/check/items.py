"""What a look must remember of every item, in a few bytes each: whether it exists, its feed, some marks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

_CHUNK = 4096
_NONE = -1

CLAIMED, INDEXED, SHOWN = 1, 2, 4
"""Marks: a guid leads to the item; it stands in its feed's index; a channel shows or hides it."""


class KnownItems:
    """Items by id (a small integer, as text). Nine bytes per item that could exist."""

    def __init__(self) -> None:
        self._feeds: dict[int, array[int]] = {}
        self._marks: dict[int, bytearray] = {}

    def note(self, item_id: str, feed: int) -> None:
        """This item exists. `feed` is 0 for a post of no feed."""
        chunk, place = divmod(int(item_id), _CHUNK)
        if chunk not in self._feeds:
            self._feeds[chunk] = array("q", [_NONE]) * _CHUNK
            self._marks[chunk] = bytearray(_CHUNK)
        self._feeds[chunk][place] = feed

    def __contains__(self, item_id: str) -> bool:
        return self.feed(item_id) is not None

    def feed(self, item_id: str) -> int | None:
        """The item's feed, 0 for a post of no feed; None where there is no such item."""
        chunk, place = divmod(int(item_id), _CHUNK)
        feeds = self._feeds.get(chunk)
        return None if feeds is None or feeds[place] == _NONE else feeds[place]

    def mark(self, item_id: str, mark: int) -> None:
        """Set a mark, where the item exists."""
        chunk, place = divmod(int(item_id), _CHUNK)
        if chunk in self._marks:
            self._marks[chunk][place] |= mark

    def marked(self, item_id: str, mark: int) -> bool:
        """Whether the item has all of these marks."""
        chunk, place = divmod(int(item_id), _CHUNK)
        return chunk in self._marks and self._marks[chunk][place] & mark == mark

    def __iter__(self) -> Iterator[str]:
        """The ids of all items, in order."""
        for chunk in sorted(self._feeds):
            for place, feed in enumerate(self._feeds[chunk]):
                if feed != _NONE:
                    yield str(chunk * _CHUNK + place)
