"""A lease on a job that one process at a time shall do, renewed for as long as the job lasts."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from microsub.errors import StoreError
from microsub.store import keys
from microsub.store.port import Redis
from microsub.store.scripts import load

_RENEW = load("lease_renew")
_RELEASE = load("lease_release")


async def take_turn(redis: Redis, part: str, seconds: float) -> bool:
    """Whether nobody has begun that part of upkeep within so many seconds; the turn is ours then."""
    return await _set(redis, keys.upkeep(part), "begun", int(seconds * 1000))


async def _set(redis: Redis, key: str, token: str, milliseconds: int) -> bool:
    """Take a key that nobody has. One that Redis was given while its clock was ahead lives as long as any other."""
    if await redis.command("SET", key, token, "NX", "PX", milliseconds) is not None:
        return True
    if await redis.command("PTTL", key) > milliseconds:
        await redis.command("PEXPIRE", key, milliseconds)
    return False


@contextlib.asynccontextmanager
async def leased(redis: Redis, key: str, seconds: float = 60.0) -> AsyncIterator[bool]:
    """Whether the job is ours for the block. A process that dies loses it after `seconds`.

    While Redis can't be reached the lease may run out; who needs more than "hardly ever two at once" must ask inside
    Redis again. Raises StoreError when Redis can't be asked at the beginning.
    """
    token = secrets.token_hex(8)
    milliseconds = int(seconds * 1000)
    if not await _set(redis, key, token, milliseconds):
        yield False
        return

    async def renew() -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            with contextlib.suppress(StoreError):
                await redis.script(_RENEW, [key], [token, milliseconds])

    keeper = asyncio.create_task(renew(), name=f"lease {key}")
    try:
        yield True
    finally:
        keeper.cancel()
        with contextlib.suppress(StoreError):
            await redis.script(_RELEASE, [key], [token])
