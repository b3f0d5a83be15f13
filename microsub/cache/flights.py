"""One request in flight per URL, for all tasks of all event loops in all threads of a process."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Future

from microsub.cache.copy import Copy


class Flights:
    """The first request for a URL registers; later ones wait for its outcome.

    An outcome is the copy as it is afterwards, or None: the one who asked learnt nothing that helps others, or was
    cancelled, and the next one has to ask itself.
    """

    def __init__(self) -> None:
        self._flying: dict[str, Future[Copy | None]] = {}
        self._process = os.getpid()

    def board(self, url: str) -> Future[Copy | None] | None:
        """Begin a flight for `url` (None), to be ended with `land`; or the flight that is under way, to `wait` for."""
        if self._process != os.getpid():
            # After a fork, the flights of the parent never land here.
            self._process, self._flying = os.getpid(), {}
        mine: Future[Copy | None] = Future()
        # Running, it can't be cancelled by one of those who wait.
        mine.set_running_or_notify_cancel()
        found = self._flying.setdefault(url, mine)  # one step for the interpreter: no lock that a fork could copy
        return None if found is mine else found

    def land(self, url: str, outcome: Copy | None) -> None:
        """End the flight and tell those who wait."""
        flight = self._flying.pop(url, None)
        if flight is not None:
            flight.set_result(outcome)

    @staticmethod
    async def wait(flight: Future[Copy | None]) -> Copy | None:
        """The outcome of somebody else's flight."""
        return await asyncio.wrap_future(flight)
