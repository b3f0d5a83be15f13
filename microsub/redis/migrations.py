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

VERSION = 16
"""The data layout of this version. Version 0.1.0 had 8; earlier ones were never released."""

PACKED = 9
"""From this layout on, posts are packed (`posts.packing`), with dictionary 1."""

COMPACT_GONE = 10
"""From this layout on, the ids that left a channel are a set of whole numbers."""

ARRIVALS_ON_DEMAND = 11
"""From this layout on, the order of arrival is kept only for users who need it."""

SHORT_DIGESTS = 12
"""From this layout on, posts store half of the digest that they share with duplicates."""

COMPACT_UNREAD = 13
"""From this layout on, the unread items of a channel are a set of ids without their times."""

THIN_POSTS = 14
"""From this layout on, a link that is the guid, and times that are that of discovery, aren't stored again."""

COMPACT_READINGS = 15
"""From this layout on, the times at which items were read are a hash of a few pieces."""

DUPLICATES_BY_HOST = 16
"""From this layout on, duplicates are in one sorted set for each host of links, and an author that is the site of the
guid isn't stored again."""

LEASE = 60
"""Seconds after which a process that died while migrating is replaced. A step must take less, or renew."""

_POLL = 0.05

Step = Callable[[Redis], Awaitable[None]]

_JOB = "migration"
_LAYOUT = re.compile(rb"[1-9]\d{0,8}")


async def _pack_posts(redis: Redis) -> None:
    """Note that there may be plain posts, which upkeep packs. They can be read as they are."""
    await redis.command("SET", keys.packing(), 1, "NX")


async def _put_gone_aside(redis: Redis) -> None:
    """Give each channel's sorted set of ids that left it another name; upkeep moves them into the new set."""
    await redis.command("SET", keys.packing_timelines(), 1, "NX")
    for users in batches(texts(await redis.command("SMEMBERS", keys.users())), 200):
        lists = [(user, key(user)) for user in users for key in (keys.channels, keys.removed_channels)]
        uids = await redis.pipeline([("ZRANGE", key, 0, -1) for _, key in lists])
        places = [(user, text(uid)) for (user, _), found in zip(lists, uids, strict=True) for uid in found]
        for some in batches(places):
            kinds = await redis.pipeline([("TYPE", keys.gone(*place)) for place in some])
            old = [place for place, kind in zip(some, kinds, strict=True) if kind == b"zset"]
            await redis.pipeline([("RENAMENX", keys.gone(*place), keys.gone_before(*place)) for place in old])


async def _look_for_orders(redis: Redis) -> None:
    """Note that there may be orders of arrival that nothing needs, which upkeep deletes."""
    await redis.command("SET", keys.packing_timelines(), 1, "NX")


async def _shorten_digests(redis: Redis) -> None:
    """Let upkeep visit all posts from the first one on; those that are packed already stay as they are."""
    await redis.command("SET", keys.packing(), 1)


async def _thin_posts(redis: Redis) -> None:
    """Let upkeep visit all posts from the first one on. They can be read as they are."""
    await redis.command("SET", keys.packing(), 1)


async def _look_for_unread(redis: Redis) -> None:
    """Note that there may be sorted sets of unread items, which upkeep packs. Scripts use them as they are."""
    await redis.command("SET", keys.packing_timelines(), 1, "NX")


async def _look_for_readings(redis: Redis) -> None:
    """Note that there may be sorted sets of times of reading, which upkeep packs. Scripts use them as they are."""
    await redis.command("SET", keys.packing_timelines(), 1, "NX")


STEPS: Mapping[int, Step] = {
    PACKED: _pack_posts,
    COMPACT_GONE: _put_gone_aside,
    ARRIVALS_ON_DEMAND: _look_for_orders,
    SHORT_DIGESTS: _shorten_digests,
    COMPACT_UNREAD: _look_for_unread,
    THIN_POSTS: _thin_posts,
    COMPACT_READINGS: _look_for_readings,
    DUPLICATES_BY_HOST: _thin_posts,
}
"""Version → the step from the previous version to it; from layout 8 on, every released layout has one."""


async def migrate(redis: Redis, *, version: int = VERSION, steps: Mapping[int, Step] = STEPS) -> int:
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


async def _next_step(redis: Redis, steps: Mapping[int, Step], version: int) -> None:
    """Run one step, unless another process has done the last one in the meantime."""
    current = await schema_version(redis)
    if current < version:
        await steps[current + 1](redis)
        await redis.command("SET", keys.schema(), current + 1)


def require_layout(found: int, version: int = VERSION, steps: Mapping[int, Step] = STEPS) -> None:
    """Raise SchemaMismatch unless data of the layout `found`, 0 for none, can be brought to `version`."""
    if found > version:
        raise SchemaMismatch(
            f"the data has layout {found}, but this version supports layouts up to {version}: upgrade the software"
        )
    if found and any(step not in steps for step in range(found + 1, version + 1)):
        raise SchemaMismatch(
            f"the data has layout {found}, of a version before 0.1.0, and can't be migrated to layout {version}: "
            "use the version that wrote it, or start with empty data"
        )
