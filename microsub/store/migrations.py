"""The version of the data's layout, and the way from an older one to ours.

Steps are run one by one under a lease, each recorded when it is done. A step that was interrupted runs again from its
start, so every step must be able to run twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping

from microsub.errors import SchemaMismatch
from microsub.store import keys
from microsub.store.port import Redis
from microsub.store.scripts import load

VERSION = 1
"""The layout that this software reads and writes."""

LEASE = 60
"""Seconds after which a process that died while migrating is replaced. A step must take less, or renew."""

_POLL = 0.05

Step = Callable[[Redis], Awaitable[None]]

STEPS: Mapping[int, Step] = {}
"""From the version before it to the version that is the key."""

_RELEASE = load("lease_release")


async def migrate(redis: Redis, *, version: int = VERSION, steps: Mapping[int, Step] = STEPS) -> int:
    """Bring the data to `version` and return the version that it had (0 for an empty database).

    Any number of processes may call this at once: one migrates, the others wait for it. Raises SchemaMismatch where
    the data has a newer layout, or an older one from which no way leads here.
    """
    found = await schema_version(redis)
    if found == 0:
        # Nothing to change in an empty database; of several that come at once one writes it.
        await redis.command("SET", keys.schema(), version, "NX")
        return found
    _check(found, version, steps)
    current = found
    while current < version:
        token = secrets.token_hex(8)
        if not await redis.command("SET", keys.migration_lease(), token, "NX", "EX", LEASE):
            await asyncio.sleep(_POLL)
        else:
            try:
                await _next_step(redis, steps, version)
            finally:
                await redis.script(_RELEASE, [keys.migration_lease()], [token])
        current = await schema_version(redis)
    return found


async def schema_version(redis: Redis) -> int:
    """The layout of the data; 0 where there is none yet. Raises SchemaMismatch where the mark isn't a number."""
    found = await redis.command("GET", keys.schema())
    if found is None:
        return 0
    if not found.isdigit():
        raise SchemaMismatch(f"{keys.schema()} holds '{found.decode(errors='replace')[:40]}', expected a number")
    return int(found)


async def _next_step(redis: Redis, steps: Mapping[int, Step], version: int) -> None:
    """Run one step, unless another process has meanwhile done the last."""
    current = await schema_version(redis)
    if current < version:
        await steps[current + 1](redis)
        await redis.command("SET", keys.schema(), current + 1)


def _check(found: int, version: int, steps: Mapping[int, Step]) -> None:
    if found > version:
        raise SchemaMismatch(
            f"the data has layout {found}, this software knows layouts up to {version}: upgrade the software"
        )
    missing = [step for step in range(found + 1, version + 1) if step not in steps]
    if missing:
        raise SchemaMismatch(f"the data has layout {found}, from which no way leads to layout {version}")
