"""Notes when users make requests, at next to no cost: once in minutes per user, and never in the way of a reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from microsub.errors import StoreError

if TYPE_CHECKING:
    from microsub.store.activity import Activity

log = structlog.get_logger(__name__)

EVERY = 300.0
"""Seconds between two notes for the same user by one process."""
_MOST_USERS = 100_000


class BeingSeen:
    """Belongs to one event loop."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._noted: dict[str, float] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, user: str, now: float) -> None:
        """The user makes a request at that Unix time. Doesn't wait, and doesn't fail."""
        if now - self._noted.get(user, float("-inf")) < EVERY:
            return
        if len(self._noted) >= _MOST_USERS:
            self._noted.clear()
        self._noted[user] = now
        task = asyncio.create_task(self._write(user, now), name=f"seen {user}")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def aclose(self) -> None:
        """Wait for what is being written."""
        await asyncio.gather(*self._writing)

    async def _write(self, user: str, now: float) -> None:
        try:
            await self._activity.note(user, now)
        except StoreError as error:
            self._noted.pop(user, None)
            log.info("a user's visit couldn't be noted", user=user, error=str(error))
