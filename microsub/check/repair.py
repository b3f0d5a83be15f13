"""Carrying out remedies, in batches. A remedy whose finding is over meanwhile does nothing, or no harm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from microsub.check.findings import Commands, Finding, InChannel
from microsub.model.reader import Reason
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches, load
from microsub.timelines.store.remove import Leaving, take_out
from microsub.timelines.store.rules import settle
from microsub.timelines.store.timelinekeys import distinct, set_keys

_AT_ONCE = 200


async def apply(redis: Redis, findings: Iterable[Finding], now: float) -> None:
    """Repair what can be repaired here; `Derive` is left to `upkeep.follow_repair`. `now` is Unix time in seconds."""
    remedies = [finding.remedy for finding in findings]
    plain = [command for one in remedies if isinstance(one, Commands) for command in one.commands]
    for commands in batches(plain, _AT_ONCE):
        await redis.pipeline(commands)
    by_channel: defaultdict[tuple[str, str], list[InChannel]] = defaultdict(list)
    for one in remedies:
        if isinstance(one, InChannel):
            by_channel[one.user, one.uid].append(one)
    for (user, uid), several in by_channel.items():
        for batch in batches(distinct(one.item for one in several)):
            await redis.script(load("timeline_repair"), set_keys(user, uid), [int(now), *batch])
        missing = distinct(one.item for one in several if one.missing)
        if missing:
            await take_out(redis, user, uid, missing, Leaving(Reason.SWEPT), now)
        await settle(redis, user, uid, [one.ruled for one in several if one.ruled is not None], now)
