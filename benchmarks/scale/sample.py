"""Check that bulk writes produce the same data as the product's stores: a small population, key by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.scale import filling
from benchmarks.scale.bulk import bulk
from benchmarks.scale.plan import Size
from microsub.redis.connect import connect
from microsub.redis.migrations import migrate
from microsub.redis.protocol import Redis

SMALL = Size(users=6, per_user=8, channels=2, feeds=15, items=7)
_READ = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    b"stream": ("XRANGE", "-", "+"),
}
_CHANCE = (":token:", ":tokens", ":edition")
"""Keys with random values."""


class DiffersError(Exception):
    """The two ways of filling produce different data."""


async def compare(url: str, now: float, size: Size = SMALL) -> int:
    """Fill the (empty) Redis in both ways and empty it; returns the number of compared keys. Raises DiffersError."""
    redis = await connect(url)
    try:
        ways = []
        for in_bulk in (False, True):
            await migrate(redis)
            await _fill(redis, url, size, now, in_bulk=in_bulk)
            ways.append(await _everything(redis))
            await redis.command("FLUSHALL")
    finally:
        await redis.aclose()
    if told := _differences(*ways):
        raise DiffersError("\n".join(told))
    return len(ways[0])


async def _fill(redis: Redis, url: str, size: Size, now: float, *, in_bulk: bool) -> None:
    there = filling.population(size, now)
    with bulk(url) as pipe:
        # One after the other, so that both ways give the same ids.
        await filling.people(redis, there, 1)
        await filling.channels(redis, there, 1)
        await filling.feeds(redis, pipe, there, 1)
        await filling.posts(redis, there, 1)
        if in_bulk:
            filling.subscriptions(pipe, there)
            filling.timelines(pipe, there)
        else:
            await filling.by_the_stores(redis, there)


async def _everything(redis: Redis) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async for names in redis.scan():
        for name in names:
            text = name.decode()
            kind = await redis.command("TYPE", text)
            first, *rest = _READ[kind]
            value = await redis.command(first, text, *rest)
            if any(mark in text for mark in _CHANCE):
                owner, mark, _ = text.partition(":token:")
                found[owner + mark] = kind
            else:
                ttl = await redis.command("TTL", text)
                found[text] = (kind, ttl > 0, _ordered(kind, value))
    return found


def _ordered(kind: bytes, value: Any) -> Any:
    if kind == b"hash":
        return dict(zip(value[::2], value[1::2], strict=True))
    return sorted(value) if kind == b"set" else value


def _differences(stores: dict[str, Any], bulk_way: dict[str, Any]) -> Iterable[str]:
    told = []
    for name in sorted({*stores, *bulk_way}):
        one, other = stores.get(name), bulk_way.get(name)
        if one != other:
            told.append(f"{name}: the stores write {str(one)[:300]}, bulk {str(other)[:300]}")
    return told
