"""Times of users' last requests, and of tokens' last uses.

A delivery serves active users first (`settings.delivery` of backend.json), and the account page shows the last use of
each app. No request waits for such a note, or fails because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import StoreError

Who = TypeVar("Who", bound=Hashable)

log = structlog.get_logger(__name__)


EVERY = 300.0
"""Seconds between two notes for the same user or token by one process."""
_MOST_NOTED = 100_000


class ActivityNotes(Generic[Who]):
    """For users by name, or for tokens by credential. Belongs to one event loop."""

    def __init__(self, write: Callable[[Who, float], Awaitable[None]]) -> None:
        """`write` stores one use at that Unix time."""
        self._store = write
        self._noted: BoundedCache[Who, float] = BoundedCache(_MOST_NOTED)
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, who: Who, now: float) -> None:
        """Record a request at that Unix time. Doesn't wait, and doesn't fail."""
        if now - self._noted.get(who, float("-inf")) < EVERY:
            return
        self._noted[who] = now
        task = asyncio.create_task(self._write(who, now), name="seen")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def aclose(self) -> None:
        """Wait for unfinished writes."""
        await asyncio.gather(*self._writing)

    async def _write(self, who: Who, now: float) -> None:
        try:
            await self._store(who, now)
        except StoreError as error:
            self._noted.pop(who)
            log.info("the time of a visit could not be stored", error=str(error))
