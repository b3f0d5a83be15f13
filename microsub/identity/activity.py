"""Notes when users make requests, and with which tokens: once in five minutes for each.

No request waits for it, or fails by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import structlog

from microsub.errors import StoreError

Who = TypeVar("Who", bound=Hashable)
_Noted_contra = TypeVar("_Noted_contra", contravariant=True)


class ActivityStore(Protocol[_Noted_contra]):
    """What is needed of `identity.store.activity`."""

    async def note(self, who: _Noted_contra, now: float, /) -> None:
        """Keep that one was there at that Unix time."""
        ...


log = structlog.get_logger(__name__)

EVERY = 300.0
"""Seconds between two notes for the same user or token by one process."""
_MOST = 100_000


class ActivityNotes(Generic[Who]):
    """For users by name, or for tokens by credential. Belongs to one event loop."""

    def __init__(self, notes: ActivityStore[Who]) -> None:
        self._notes = notes
        self._noted: dict[Who, float] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, who: Who, now: float) -> None:
        """A request at that Unix time. Doesn't wait, and doesn't fail."""
        if now - self._noted.get(who, float("-inf")) < EVERY:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[who] = now
        task = asyncio.create_task(self._write(who, now), name="seen")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def aclose(self) -> None:
        """Wait for what is being written."""
        await asyncio.gather(*self._writing)

    async def _write(self, who: Who, now: float) -> None:
        try:
            await self._notes.note(who, now)
        except StoreError as error:
            self._noted.pop(who, None)
            log.info("the time of a visit could not be stored", error=str(error))
