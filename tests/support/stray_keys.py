"""Every key that a test leaves behind is one that keys.py names, and has a time to live or a licence to stay."""

from __future__ import annotations

import re

from microsub.redis.keynames import kinds
from microsub.redis.protocol import Redis


def named_keys() -> list[tuple[str, re.Pattern[str], bool]]:
    """Name, pattern and licence of every key function, most literal text first."""
    return [(kind.name, kind.pattern, kind.may_stay) for kind in kinds()]


async def assert_no_stray_keys(redis: Redis) -> None:
    """Fail on a key that keys.py doesn't name, or that has neither a time to live nor a licence."""
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
    """The names of all keys, on whichever server."""
    found: set[bytes] = set()
    async for batch in redis.scan():
        found.update(batch)
    return sorted(found)
