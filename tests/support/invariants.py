"""Invariant 1 of one channel, checked in a live store."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from microsub.admin.check.command import apply
from microsub.admin.check.findings import Finding, InTimeline
from microsub.admin.check.invariants import disagreeing
from microsub.admin.check.keynames import kinds
from microsub.admin.check.look import sets_of
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.sync.arrivals import disagreeing_arrivals


@dataclass(frozen=True, slots=True)
class Violation:
    """An id whose sets disagree in one channel."""

    user: str
    uid: str
    item: str
    what: str


async def violations(redis: Redis, user: str, uid: str) -> list[Violation]:
    """All violations in one channel's keys; empty if there are none."""
    wrong = await wrong_newest(redis, user, uid)
    return await _disagreeing(redis, user, uid) + [Violation(user, uid, one, "newest unread") for one in wrong]


async def _disagreeing(redis: Redis, user: str, uid: str) -> list[Violation]:
    wrong = disagreeing((await sets_of(redis, [(user, uid)]))[user, uid])
    return [Violation(user, uid, item, what) for what, items in wrong.items() for item in sorted(items)]


async def wrong_newest(redis: Redis, user: str, uid: str) -> list[str]:
    """Items that are missing from the newest unread ones of a channel, or shouldn't be there, or have another time."""
    key = keys.unread(user, uid)
    members = ("SMEMBERS", key) if await redis.command("TYPE", key) == b"set" else ("ZRANGE", key, 0, -1)
    newest = ("ZRANGE", keys.unread_newest(user, uid), 0, -1, "WITHSCORES")
    unread, rows = await redis.pipeline([members, newest])
    scores = await redis.command("ZMSCORE", keys.posts(user, uid), *unread) if unread else ()
    there = [(float(score), one) for score, one in zip(scores, unread, strict=True) if score is not None]
    found = [(float(score), one) for one, score in zip(rows[0::2], rows[1::2], strict=True)]
    expected = sorted(there)[-len(found) :] if found else []
    return [one.decode() for _, one in sorted({*found} ^ {*expected})]


async def wrong_arrivals(redis: Redis, user: str) -> list[tuple[str, str]]:
    """All faults in a user's order of arrival, each with its item."""
    lists = [keys.channels(user), keys.removed_channels(user)]
    uids = [uid.decode() for reply in await redis.pipeline([("ZRANGE", key, 0, -1) for key in lists]) for uid in reply]
    shown: Counter[str] = Counter()
    for posts in await redis.pipeline([("ZRANGE", keys.posts(user, uid), 0, -1) for uid in uids]):
        shown.update(one.decode() for one in posts)
    places, more = await redis.pipeline([("ZRANGE", keys.arrivals(user), 0, -1), ("HGETALL", keys.arrivals_more(user))])
    counts = {key.decode(): int(value) for key, value in zip(more[0::2], more[1::2], strict=True)}
    if counts.pop("last", None) is None:
        return [(one.decode(), "kept without an end") for one in places]
    return sorted(disagreeing_arrivals(shown, [one.decode() for one in places], counts))


async def repair(redis: Redis, user: str, uid: str, now: float) -> list[Violation]:
    """Repair everything that `violations` finds, and return it."""
    found = await _disagreeing(redis, user, uid)
    await apply(redis, [Finding("timelines", "", one.what, InTimeline(user, uid, one.item)) for one in found], now)
    return found


def named_keys() -> list[tuple[str, re.Pattern[str], bool]]:
    """Name, pattern and licence of each kind of key, those with the most literal text first."""
    return [(kind.name, kind.pattern, kind.may_stay) for kind in kinds()]


async def assert_no_stray_keys(redis: Redis) -> None:
    """Fail on a key that isn't in keys.py, or that has neither a time to live nor a licence."""
    names = await all_keys(redis)
    lives = await redis.pipeline([("TTL", name) for name in names])
    known = named_keys()
    stray = []
    for raw, ttl in zip(names, lives, strict=True):
        text = raw.decode()
        match = next(((name, licence) for name, pattern, licence in known if pattern.match(text)), None)
        if match is None:
            stray.append(f"{text}: not named in keys.py")
        elif ttl == -1 and not match[1]:
            stray.append(f"{text}: keys.{match[0]} says nothing of staying, and it has no time to live")
    assert not stray, "stray keys:\n" + "\n".join(stray)


async def all_keys(redis: Redis) -> list[bytes]:
    """The names of all keys, on any kind of server."""
    found: set[bytes] = set()
    async for batch in redis.scan():
        found.update(batch)
    return sorted(found)
