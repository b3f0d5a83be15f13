"""Which entries of a long document are kept, decided while it is read, so that the others needn't be remembered."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

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
