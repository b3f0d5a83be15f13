"""What one of several processes gets: a job for a time, a round of a periodic job, the value of a key."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncIterator, Callable

from microsub.base.errors import StoreError
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis, ScriptCall
from microsub.redis.replies import text
from microsub.redis.scripts import load

_RENEW = load("lease")
_LOOK_AGAIN = 0.02
_AHEAD = 60_000
"""A lease with more milliseconds left beyond its length was given while Redis' clock was ahead."""


class LeaseCommands:
    """The commands of a lease of `lease` seconds; a late holder can't end another's."""

    def __init__(self, what: str, lease: float, token: str = "") -> None:
        self._key = keys.lease(what)
        self._token = token or secrets.token_hex(8)
        self._milliseconds = math.ceil(lease * 1000)
        self.lease: float | None = lease

    def acquiring(self) -> Command:
        """The command that takes it; the reply is None if it isn't free."""
        return "SET", self._key, self._token, "NX", "PX", self._milliseconds

    def extending(self, milliseconds: int | None = None) -> Command:
        """The command that extends it to its length from now; 0 releases it. The reply is 1 if it was ours."""
        left = self._milliseconds if milliseconds is None else milliseconds
        return "EVAL", _RENEW.text, 1, self._key, self._token, left


class Lease(LeaseCommands):
    """A lease that expires after `lease` seconds, over a connection."""

    def __init__(self, redis: Redis, what: str, lease: float, token: str = "") -> None:
        super().__init__(what, lease, token)
        self._redis = redis
        self.is_left = False

    async def acquire(self) -> bool:
        """Take it if it is free; a lease given while Redis' clock was far ahead is shortened."""
        if await self._redis.command(*self.acquiring()) is not None:
            return True
        if await self._redis.command("PTTL", self._key) > self._milliseconds + _AHEAD:
            await self._redis.command("PEXPIRE", self._key, self._milliseconds)
        return False

    async def renew(self) -> bool:
        """Extend it to its whole length from now; False if it isn't ours any more."""
        return bool(await self._redis.command(*self.extending()))

    async def release(self) -> None:
        """Release it, if it is still ours."""
        await self._redis.command(*self.extending(0))

    def releasing(self) -> ScriptCall:
        """The call that releases it, for the caller's last round trip; if that fails, it expires."""
        self.is_left = True
        return _RENEW(lease=self._key, token=self._token, left=0)


async def first_value(redis: Redis, key: str, new: Callable[[], str]) -> str:
    """The text of a key, the same for all processes; `new` makes one if there is none. One round trip if there is."""
    found = await redis.command("GET", key)
    if found is None:
        await redis.command("SET", key, new(), "NX")
        found = await redis.command("GET", key)
    return text(found or b"")


async def take_turn(redis: Redis, part: str, seconds: float) -> bool:
    """Whether this round of that part of upkeep is ours: no process began one within `seconds`."""
    return await Lease(redis, f"upkeep:{part}", seconds).acquire()


@contextlib.asynccontextmanager
async def leased(redis: Redis, what: str, seconds: float = 60.0) -> AsyncIterator[Lease | None]:
    """Yields the job's lease for the block; None if another process has it, for `seconds` after it dies.

    The lease can run out while Redis can't be reached. Callers that need more than "hardly ever two at once" must
    check again inside Redis. Raises StoreError if Redis can't be reached at the beginning.
    """
    lease = Lease(redis, what, seconds)
    if not await lease.acquire():
        yield None
        return

    async def renew() -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            with contextlib.suppress(StoreError):
                await lease.renew()

    keeper = asyncio.create_task(renew(), name=f"lease {what}")
    try:
        yield lease
    finally:
        keeper.cancel()
        if not lease.is_left:
            with contextlib.suppress(StoreError):
                await lease.release()


@contextlib.asynccontextmanager
async def leased_in_turn(redis: Redis, what: str, seconds: float) -> AsyncIterator[Lease]:
    """Take the lease as `leased` does, but wait until an earlier holder has finished or died `seconds` ago."""
    while True:
        async with leased(redis, what, seconds) as mine:
            if mine:
                yield mine
                return
        await asyncio.sleep(_LOOK_AGAIN)
