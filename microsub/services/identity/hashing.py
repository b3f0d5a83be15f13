"""Password hashes: argon2id (RFC 9106) with the parameters that OWASP's password storage cheat sheet asks for at least.

Each hash takes a few hundredths of a second and 19 MiB, so they are made in threads of their own, a few at a time, and
only so many may wait: readers of timelines never do, and memory stays bounded whoever sends how many passwords.
"""

from __future__ import annotations

import asyncio
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


@dataclass(frozen=True, slots=True)
class Cost:
    """What a hash costs: passes over so many KiB of memory, in one thread."""

    passes: int = 2
    memory_kib: int = 19 * 1024


class Hasher:
    """Makes and checks hashes, `at_once` at the same time, while at most `waiting` others wait."""

    def __init__(self, cost: Cost = Cost(), *, at_once: int = 1, waiting: int = 20) -> None:
        self._argon2 = PasswordHasher(
            time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=1, hash_len=32, salt_len=16, type=Type.ID
        )
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._places = at_once + waiting
        self._taken = 0
        self._nobodys: str | None = None

    async def hash(self, password: str) -> str:
        """The hash of a password, with parameters and a fresh salt. Raises TooManyRequests when too many wait."""
        return await self._run(lambda: self._argon2.hash(password))

    async def check(self, hashed: str | None, password: str | None) -> bool:
        """Whether the password is the one of that hash.

        Takes as long where there is no hash, or no password that could be anybody's. Raises TooManyRequests.
        """
        return await self._run(lambda: self._check(hashed, password))

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

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._taken >= self._places:
            raise TooManyRequests("many passwords are being checked just now; try again in a moment", BUSY_SECONDS)
        self._taken += 1
        job = self._threads.submit(work)
        # Counted until the thread is done, also for an asker who went away meanwhile.
        loop = asyncio.get_running_loop()
        job.add_done_callback(lambda _: _call_soon(loop, self._give_back))
        return await asyncio.wrap_future(job)

    def _give_back(self) -> None:
        self._taken -= 1


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
