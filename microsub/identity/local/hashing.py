"""Password hashes: argon2id (RFC 9106) with the parameters that OWASP's password storage cheat sheet asks for at least.

Each hash takes a few hundredths of a second and 19 MiB, so they are made in threads of their own, a few at a time, and
readers of timelines never wait for them. Passwords wait in a queue of bounded length, in which networks take turns: the
first attempt of any network comes before anybody's second, and takes the place of a later one where the queue is full.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from microsub.errors import TooManyRequests

_T = TypeVar("_T")

BUSY_SECONDS = 2
"""After how long somebody may try again who found no place."""

WAITING = 500
"""Passwords that wait, half a minute at a twentieth of a second each."""

_Waiting = tuple[int, int, "asyncio.Future[None]"]
"""The turn, the order of asking, and what says that a thread is free."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a hash costs: passes over so many KiB of memory, in one thread."""

    passes: int = 2
    memory_kib: int = 19 * 1024


class Hasher:
    """Makes and checks hashes, `at_once` at the same time, while at most `waiting` others wait.

    `turn` is how many attempts the same network has made of late, this one included: smaller numbers come first. All
    methods raise TooManyRequests where more of these wait than there are places.
    """

    def __init__(self, cost: Cost = Cost(), *, at_once: int = 1, waiting: int = WAITING) -> None:
        self._argon2 = PasswordHasher(
            time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=1, hash_len=32, salt_len=16, type=Type.ID
        )
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._free = at_once
        self._most = waiting
        self._queue: list[_Waiting] = []
        self._asked = 0
        self._nobodys: str | None = None

    async def hash(self, password: str, turn: int = 0) -> str:
        """The hash of a password, with parameters and a fresh salt."""
        return await self._run(lambda: self._argon2.hash(password), turn)

    async def check(self, hashed: str | None, password: str | None, turn: int = 0) -> bool:
        """Whether the password is the one of that hash.

        Takes as long where there is no hash, or no password that could be anybody's.
        """
        return await self._run(lambda: self._check(hashed, password), turn)

    def is_old(self, hashed: str) -> bool:
        """Whether the hash was made with other parameters than today's."""
        return self._argon2.check_needs_rehash(hashed)

    def close(self) -> None:
        """End the threads; what they have in hand is finished."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check(self, hashed: str | None, password: str | None) -> bool:
        if self._nobodys is None:
            self._nobodys = self._argon2.hash("nobody's")
        against = hashed if hashed is not None and password is not None else self._nobodys
        try:
            right = self._argon2.verify(against, password if password is not None else "")
        except (VerificationError, InvalidHashError):
            return False
        return right and against is hashed

    async def _run(self, work: Callable[[], _T], turn: int) -> _T:
        if self._free:
            self._free -= 1
        else:
            await self._place(turn)
        job = self._threads.submit(work)
        # Counted until the thread is done, also for an asker who went away meanwhile.
        loop = asyncio.get_running_loop()
        job.add_done_callback(lambda _: _call_soon(loop, self._next))
        return await asyncio.wrap_future(job)

    async def _place(self, turn: int) -> None:
        """Wait for a thread. Whoever leaves the queue, or goes away with a thread, leaves it to the next."""
        if len(self._queue) >= self._most:
            last = max(self._queue, default=None)
            if last is None or last[0] <= turn:
                raise _busy()
            self._leave(last)
            last[2].set_exception(_busy())
        self._asked += 1
        mine: _Waiting = (turn, self._asked, asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, mine)
        try:
            await mine[2]
        except asyncio.CancelledError:
            if mine in self._queue:
                self._leave(mine)
            elif mine[2].done() and not mine[2].cancelled() and mine[2].exception() is None:
                self._next()
            raise

    def _leave(self, one: _Waiting) -> None:
        self._queue.remove(one)
        heapq.heapify(self._queue)

    def _next(self) -> None:
        if self._queue:
            heapq.heappop(self._queue)[2].set_result(None)
        else:
            self._free += 1


def _busy() -> TooManyRequests:
    return TooManyRequests("many passwords are being checked just now; try again in a moment", BUSY_SECONDS)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
