"""How many bytes of bodies one process may hold at a time, so that two hundred large answers don't fill its memory.

Small bodies are free. A body that grows beyond that takes room for every further piece and gives all of it back when
the document is dropped, parsed and stored or not. Where there is no room, reading stops: the publisher's TCP window
fills, and nothing is lost.

Bodies that wait for each other could wait for ever. So the oldest one that is still arriving may go beyond the bound
when nothing else will give room back, or doesn't soon; the bound is therefore `total` plus one body, now and then more.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

FREE = 64 * 1024
TOTAL = 16 * 1024 * 1024
PATIENCE = 5.0
"""Seconds that the oldest body waits for documents that others hold for long."""


class Room:
    """The room of a process, for any number of event loops. Shares may be dropped in any thread."""

    def __init__(self, total: int = TOTAL, free: int = FREE) -> None:
        self._total = total
        self._free = free
        self._used = 0
        self._arriving: dict[int, None] = {}
        self._arrived = 0
        self._lock = threading.RLock()  # a share may be dropped while another is being served
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def used(self) -> int:
        """Bytes that are taken at present."""
        return self._used

    def share(self) -> Share:
        """What one body takes; it is given back when the last reference to the share goes."""
        return Share(self)

    def _may(self, share: Share, size: int) -> bool:
        if self._used + size <= self._total:
            return True
        return not self._arrived and self._is_oldest(share)

    def _is_oldest(self, share: Share) -> bool:
        return next(iter(self._arriving), None) == id(share)

    async def _take(self, share: Share, size: int) -> None:
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + PATIENCE
        with self._lock:
            self._arriving.setdefault(id(share))
        while True:
            with self._lock:
                if self._may(share, size) or (loop.time() >= patient_until and self._is_oldest(share)):
                    self._used += size
                    share.held += size
                    return
                turn = asyncio.Event()
                self._waiting[turn] = loop
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(max(patient_until, loop.time() + 1.0)):
                        await turn.wait()
            finally:
                with self._lock:
                    del self._waiting[turn]

    def _settle(self, share: Share) -> None:
        with self._lock:
            if id(share) in self._arriving:
                del self._arriving[id(share)]
                self._arrived += 1
                share.settled = True
        self._wake()

    def _give_back(self, share: Share) -> None:
        with self._lock:
            self._used -= share.held
            self._arriving.pop(id(share), None)
            self._arrived -= share.settled
            share.held, share.settled = 0, False
        self._wake()

    def _wake(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            waiting = list(self._waiting.items())
        for turn, loop in waiting:
            with suppress(RuntimeError):  # a loop that has ended waits for nothing
                loop.call_soon_threadsafe(turn.set)


class Share:
    """The room that one body takes."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._size = 0
        self.held = 0
        self.settled = False

    async def grow(self, size: int) -> None:
        """Take room for `size` bytes more; waits until there is some."""
        self._size += size
        over = self._size - self._room._free - self.held
        if over > 0:
            await self._room._take(self, over)

    def fits(self, size: int) -> bool:
        """Whether `grow` would not wait."""
        over = self._size + size - self._room._free - self.held
        return over <= 0 or self._room._may(self, over)

    def settle(self) -> None:
        """The body is complete: it grows no more and will be dropped, whatever the others do."""
        self._room._settle(self)

    def close(self) -> None:
        """Give the room back now."""
        self._room._give_back(self)

    def __del__(self) -> None:
        # Nobody who takes a document out of the fetcher can forget to give its room back.
        self._room._give_back(self)
