"""Carrying out remedies, in batches. A remedy whose finding is over meanwhile does nothing, or no harm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from microsub.model.reader import TimelineItem
from microsub.store import keys
from microsub.store.accounts import Accounts
from microsub.store.check.findings import (
    Adopt,
    Call,
    ChannelSets,
    Commands,
    Finding,
    PutAside,
    Queue,
    Settle,
    TakeOut,
)
from microsub.store.check.seen import batched
from microsub.store.leaving import Leaving, leave
from microsub.store.port import Command, Redis
from microsub.store.schedule import Schedule
from microsub.store.scripts import load
from microsub.store.settling import settle
from microsub.store.timelinekeys import Reason, batches, distinct, set_keys

KEPT_ASIDE = 30 * 86400
"""Seconds for which a key of a wrong type is kept under another name."""

_AT_ONCE = 200

Place = tuple[str, str]


async def apply(redis: Redis, findings: Iterable[Finding], now: float) -> None:
    """Mend what can be mended here; `Follow` is left to `services.mending`. `now` is Unix time in seconds."""
    remedies = [finding.remedy for finding in findings if finding.remedy is not None]
    # First what stands in the way of everything else, then who owns what, then single members.
    for one in remedies:
        if isinstance(one, PutAside):
            await _put_aside(redis, one.key)
    for user in distinct(one.user for one in remedies if isinstance(one, Adopt)):
        await Accounts(redis).add_user(user, "", now)
        await redis.command("HSETNX", keys.user(user), "created", now)
    for calls in batched((one for one in remedies if isinstance(one, Call)), _AT_ONCE):
        await redis.scripts([(load(call.script), call.keys, call.args) for call in calls])
    plain = (command for one in remedies if isinstance(one, Commands) for command in one.commands)
    for commands in batched(plain, _AT_ONCE):
        await redis.pipeline(commands)
    await _timelines(redis, remedies, now)
    schedule = Schedule(redis)
    for one in remedies:
        if isinstance(one, Queue):
            await _queue(redis, schedule, one)


async def _timelines(redis: Redis, remedies: Sequence[object], now: float) -> None:
    taken: defaultdict[Place, list[str]] = defaultdict(list)
    unsound: defaultdict[Place, list[str]] = defaultdict(list)
    ruled: defaultdict[Place, list[TimelineItem]] = defaultdict(list)
    for one in remedies:
        match one:
            case TakeOut(user, uid, item):
                taken[user, uid].append(item)
            case ChannelSets(user, uid, item):
                unsound[user, uid].append(item)
            case Settle(user, uid, timeline_item):
                ruled[user, uid].append(timeline_item)
    for (user, uid), ids in unsound.items():
        for batch in batches(distinct(ids)):
            await redis.script(load("timeline_repair"), set_keys(user, uid), [int(now), *batch])
    for (user, uid), ids in taken.items():
        await leave(redis, user, uid, distinct(ids), Leaving(Reason.SWEPT), now)
    for (user, uid), items in ruled.items():
        await settle(redis, user, uid, items, now)


async def _put_aside(redis: Redis, key: str) -> None:
    """Keep a key under a name that lies in the same slot of a cluster."""
    start, end = key.find("{"), key.find("}", key.find("{"))
    tag = key[start + 1 : end] if 0 <= start < end - 1 else key
    name = keys.aside(tag, key)
    commands: list[Command] = [("RENAME", key, name), ("EXPIRE", name, KEPT_ASIDE)]
    if await redis.command("EXISTS", key):
        for command in commands:
            await redis.command(*command)


async def _queue(redis: Redis, schedule: Schedule, wish: Queue) -> None:
    """Put a feed into its host's queue, and the host into line even where a lease without a place there bars it."""
    stands = await redis.command("ZSCORE", keys.hosts_due(), wish.host)
    leased = await redis.command("HEXISTS", keys.hosts_leases(), wish.host)
    if stands is None and leased:
        await redis.command("HDEL", keys.hosts_leases(), wish.host)
    await schedule.add(wish.feed, wish.host, wish.due)
