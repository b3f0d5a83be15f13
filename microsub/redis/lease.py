"""Leases: on a job that one process at a time shall do, and on a turn that one process shall take."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncIterator

from microsub.errors import StoreError
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.scripts import load

RENEW = load("lease")
_AHEAD = 60_000
"""Milliseconds that a lease may have left beyond its length before Redis' clock must have been ahead."""


class Lease:
    """A lease that ends by itself after `lease` seconds; its token keeps a late holder from ending another's."""

    def __init__(self, redis: Redis, what: str, lease: float, token: str = "") -> None:
        self._redis = redis
        self._key = keys.lease(what)
        self._token = token or secrets.token_hex(8)
        self.lease: float | None = lease
        self._milliseconds = math.ceil(lease * 1000)

    async def acquire(self) -> bool:
        """Take it if it is free. One that Redis was given while its clock was far ahead is cut to the usual length."""
        if await self._redis.command(*self.acquiring()) is not None:
            return True
        if await self._redis.command("PTTL", self._key) > self._milliseconds + _AHEAD:
            await self._redis.command("PEXPIRE", self._key, self._milliseconds)
        return False

    def acquiring(self) -> Command:
        """The command that takes it, to be sent with others; it replies None where it isn't free."""
        return "SET", self._key, self._token, "NX", "PX", self._milliseconds

    def releasing(self) -> Command:
        """The command that gives it back, if it is still ours."""
        return "EVAL", RENEW.text, 1, self._key, self._token, 0

    async def renew(self) -> bool:
        """Extend it to its whole length from now; False where it is not ours any more."""
        return bool(await self._redis.script(RENEW, [self._key], [self._token, self._milliseconds]))

    async def release(self) -> None:
        """Give it back, if it is still ours."""
        await self._redis.script(RENEW, [self._key], [self._token, 0])


async def take_turn(redis: Redis, part: str, seconds: float) -> bool:
    """Whether nobody has begun that part of upkeep within so many seconds; the turn is ours then."""
    return await Lease(redis, f"upkeep:{part}", seconds).acquire()


@contextlib.asynccontextmanager
async def leased(redis: Redis, what: str, seconds: float = 60.0) -> AsyncIterator[bool]:
    """Whether the job is ours for the block. A process that dies loses it after `seconds`.

    While Redis can't be reached the lease may run out; who needs more than "hardly ever two at once" must ask inside
    Redis again. Raises StoreError when Redis can't be asked at the beginning.
    """
    lease = Lease(redis, what, seconds)
    if not await lease.acquire():
        yield False
        return

    async def renew() -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            with contextlib.suppress(StoreError):
                await lease.renew()

    keeper = asyncio.create_task(renew(), name=f"lease {what}")
    try:
        yield True
    finally:
        keeper.cancel()
        with contextlib.suppress(StoreError):
            await lease.release()
