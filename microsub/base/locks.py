"""Locks by key. A lock exists while somebody holds it or waits for it."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class KeyedLocks:
    """A lock for each key, which `at_once` tasks may hold at the same time. Belongs to one event loop.

    With a lock for each user, a user with many requests delays only themselves: all requests of a process share a few
    threads and one interpreter.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._locks: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Semaphore:
        """The lock of `key`."""
        return self._locks.setdefault(key, asyncio.Semaphore(self._at_once))
