"""Lanes: a share of a process's work for each user or host, so that none delays the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from microsub.base.locks import KeyedLocks


class Lanes:
    """Limits the work of each name: `at_once` pieces at a time, and `most` with those that wait."""

    def __init__(self, at_once: int, most: int) -> None:
        self._locks = KeyedLocks(at_once)
        self._most = most
        self._in_lane: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[bool]:
        """Wait for a turn of that name; False at once if `most` have one or wait: put the work off."""
        if self._in_lane[name] >= self._most:
            yield False
            return
        self._in_lane[name] += 1
        try:
            async with self._locks.of(name):
                yield True
        finally:
            self._in_lane[name] -= 1
            if not self._in_lane[name]:
                del self._in_lane[name]
