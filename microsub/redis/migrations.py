"""The version of the data's layout, and migrations from older versions.

Steps run one by one under a lease, and each is recorded when it is done. An interrupted step runs again from its start,
so every step must be idempotent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping

from microsub.base.errors import SchemaMismatch
from microsub.redis import keys
from microsub.redis.lease import Lease
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import batches

VERSION = 17
"""The data layout of this version."""

FIRST = 8
"""The first layout of a release. None of layouts 9 to 16 was in one."""

LEASE = 60
"""Seconds after which a process that died while migrating is replaced. A step must take less, or renew."""

_POLL = 0.05

Step = Callable[[Redis], Awaitable[None]]

_JOB = "migration"
_LAYOUT = re.compile(rb"[1-9]\d{0,8}")


async def _make_compact(redis: Redis) -> None:
    """Let upkeep pack posts and timelines; scripts use them as they are until then.

    Only the sorted sets of ids that left channels get another name, since they and the new sets are used side by side.
    """
    await redis.command("SET", keys.packing(), 1, "NX")
    await redis.command("SET", keys.packing_timelines(), 1, "NX")
    for users in batches(texts(await redis.command("SMEMBERS", keys.users())), 200):
        lists = [(user, key(user)) for user in users for key in (keys.channels, keys.removed_channels)]
        uids = await redis.pipeline([("ZRANGE", key, 0, -1) for _, key in lists])
        places = [(user, text(uid)) for (user, _), found in zip(lists, uids, strict=True) for uid in found]
        for some in batches(places):
            kinds = await redis.pipeline([("TYPE", keys.gone(*place)) for place in some])
            old = [place for place, kind in zip(some, kinds, strict=True) if kind == b"zset"]
            await redis.pipeline([("RENAMENX", keys.gone(*place), keys.gone_before(*place)) for place in old])


STEPS: Mapping[int, tuple[int, Step]] = {FIRST: (VERSION, _make_compact)}
"""From each layout of a release, the next one, and the step to it."""


async def migrate(redis: Redis, *, version: int = VERSION, steps: Mapping[int, tuple[int, Step]] = STEPS) -> int:
    """Bring the data to `version` and return the version that it had (0 for an empty database).

    Any number of processes may call this at once: one migrates, the others wait for it. Raises SchemaMismatch if the
    data has a newer layout, or an older one that can't be migrated.
    """
    found = await schema_version(redis)
    if found == 0:
        # An empty database needs no change; of several processes, one writes the version.
        await redis.command("SET", keys.schema(), version, "NX")
        return found
    require_layout(found, version, steps)
    current = found
    while current < version:
        lease = Lease(redis, _JOB, LEASE)
        if not await lease.acquire():
            await asyncio.sleep(_POLL)
        else:
            try:
                await _next_step(redis, steps, version)
            finally:
                await lease.release()
        current = await schema_version(redis)
    return found


async def check_layout(redis: Redis, oldest: int = VERSION) -> int:
    """The layout of the data, 0 for an empty database. Raises SchemaMismatch unless it is the current one, or at least
    `oldest`.
    """
    found = await schema_version(redis)
    require_layout(found)
    if 0 < found < oldest:
        raise SchemaMismatch(f"the data has layout {found}: start the server first, which migrates it to {VERSION}")
    return found


async def schema_version(redis: Redis) -> int:
    """The layout of the data; 0 if there is none yet. Raises SchemaMismatch if it isn't a number."""
    found = await redis.command("GET", keys.schema())
    if found is None:
        return 0
    if not _LAYOUT.fullmatch(found):
        raise SchemaMismatch(f"{keys.schema()}: found '{found.decode(errors='replace')[:40]}', expected a number")
    return int(found)


async def _next_step(redis: Redis, steps: Mapping[int, tuple[int, Step]], version: int) -> None:
    """Run one step, unless another process has done the last one in the meantime."""
    current = await schema_version(redis)
    if current < version:
        following, step = steps[current]
        await step(redis)
        await redis.command("SET", keys.schema(), following)


def require_layout(found: int, version: int = VERSION, steps: Mapping[int, tuple[int, Step]] = STEPS) -> None:
    """Raise SchemaMismatch unless data of the layout `found`, 0 for none, can be brought to `version`."""
    if found > version:
        raise SchemaMismatch(
            f"the data has layout {found}, but this version supports layouts up to {version}: upgrade the software"
        )
    at = found
    while 0 < at < version and at in steps:
        at, _ = steps[at]
    if 0 < at < version:
        raise SchemaMismatch(
            f"the data has layout {found}, of a version that was never released, and can't be migrated to layout "
            f"{version}: use the version that wrote it, or start with empty data"
        )
