"""Every key that a test leaves behind is one that keys.py names, and has a time to live or a licence to stay."""

from __future__ import annotations

import inspect
import re

from microsub.store import keys
from microsub.store.port import Redis

# What a docstring of keys.py says where a key may stay until its owner goes.
_LICENCE = re.compile(r"permanent|as `feed`|as long as a timeline|beyond the last follower", re.IGNORECASE)


def named_keys() -> list[tuple[str, re.Pattern[str], bool]]:
    """Name, pattern and licence of every key function, most literal text first."""
    found = []
    for name, function in inspect.getmembers(keys, inspect.isfunction):
        parameters = inspect.signature(function).parameters
        if function.__module__ != keys.__name__ or name == "pattern" or name.startswith("_"):
            continue
        marks = [f"\0{index}\0" for index in range(len(parameters))]
        example = function(*marks)
        parts = re.split(r"\0\d+\0", example)
        # A value may hold anything but the separator, apart from the last one (host names with a port).
        values = ["[^:]+"] * (len(parts) - 1)
        if values and parts[-1] in ("", "}"):
            values[-1] = ".+"
        text = "".join(re.escape(part) + value for part, value in zip(parts, [*values, ""], strict=True))
        found.append((name, re.compile(text + r"\Z"), bool(_LICENCE.search(function.__doc__ or ""))))
    return sorted(found, key=lambda key: -len(re.sub(r"\[\^:\]\+|\.\+", "", key[1].pattern)))


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
