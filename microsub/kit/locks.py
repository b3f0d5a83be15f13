"""Locks by key, for as long as somebody holds or awaits them."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class KeyedLocks:
    """One lock for each key, which so many may hold at once. Belongs to one event loop.

    A lock for each user keeps work in threads fair: all requests of a process share few threads and one interpreter,
    and who asks for much at once waits for themselves alone.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._locks: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Semaphore:
        """The lock of that key."""
        return self._locks.setdefault(key, asyncio.Semaphore(self._at_once))
