"""Bringing items to where a channel's rules want them (lua/timeline_settle.lua)."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.model.reader import TimelineItem
from microsub.redis.protocol import Arg, Redis
from microsub.redis.scripts import load
from microsub.timelines.store.timelinekeys import batches, counted, rule_keys, set_keys, split, urls


async def settle(redis: Redis, user: str, uid: str, items: Sequence[TimelineItem], now: float) -> tuple[str, ...]:
    """Bring items of a channel to `gone`, hidden or the posts, by the rules of this moment; the ids that moved.

    Ignores items that aren't in the channel, and channels that don't exist.
    """
    return (await settle_in(redis, [(user, uid)], items, now))[0]


async def settle_in(
    redis: Redis, places: Sequence[tuple[str, str]], items: Sequence[TimelineItem], now: float
) -> list[tuple[str, ...]]:
    """`settle` in several channels (user, uid), in one round trip for every thousand items; results in their order."""
    moved: list[tuple[str, ...]] = [() for _ in places]
    every_key = [[*set_keys(user, uid), *rule_keys(user, uid)] for user, uid in places]
    for batch in batches(items):
        args: list[Arg] = [int(now)]
        for item in batch:
            args += [item.id, *counted(urls(item))]
        replies = await redis.scripts([(load("timeline_settle"), script_keys, args) for script_keys in every_key])
        moved = [before + split(reply) for before, reply in zip(moved, replies, strict=True)]
    return moved
