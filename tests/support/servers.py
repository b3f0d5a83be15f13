"""The servers behind a connection: the single one, or all masters of a cluster; their counters and settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from microsub.base.errors import StoreFull
from microsub.redis.cluster import ClusterRedis
from microsub.redis.protocol import Redis


async def servers(redis: Redis) -> Sequence[Redis]:
    """The servers. A cluster gives a command without a key to any one of them."""
    return await redis.masters() if isinstance(redis, ClusterRedis) else [redis]


async def calls(redis: Redis) -> dict[str, int]:
    """Number of calls of each command, inside scripts too, since the previous call of this function."""
    found: Counter[str] = Counter()
    for server in await servers(redis):
        stats = (await server.command("INFO", "commandstats")).decode()
        await server.command("CONFIG", "RESETSTAT")
        found.update({name: int(count) for name, count in re.findall(r"cmdstat_(\w+):calls=(\d+)", stats)})
    return dict(found)


@asynccontextmanager
async def configured(redis: Redis, name: str, value: int) -> AsyncIterator[None]:
    """Give the servers this setting inside the block."""
    before = [(server, await server.command("CONFIG", "GET", name)) for server in await servers(redis)]
    try:
        for server, _ in before:
            await server.command("CONFIG", "SET", name, value)
        yield
    finally:
        for server, reply in before:
            await server.command("CONFIG", "SET", name, reply[1])


@asynccontextmanager
async def full(redis: Redis) -> AsyncIterator[None]:
    """Let the servers refuse writes inside the block, as if their memory were full."""
    async with configured(redis, "maxmemory", 1):
        try:
            await redis.command("SET", "full", 1)
        except StoreFull:
            yield
        else:
            pytest.skip("fakeredis stores any amount")
