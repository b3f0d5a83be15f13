"""What /health asks of Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from microsub.errors import StoreFull
from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from microsub.redis.presence import Presence
from microsub.redis.protocol import Redis
from tests.support.stray_keys import all_keys


async def test_the_probe_leaves_nothing_for_long(redis: Redis) -> None:
    """Its key has a time to live; the fixture would fail otherwise."""
    await Presence(redis).probe()
    (name,) = await all_keys(redis)
    assert 0 < await redis.command("TTL", name) <= 60


async def test_the_probe_finds_a_full_redis(tmp_path: Path) -> None:
    """A Redis that answers but refuses writes is told from one that has room again."""
    server = start_embedded(tmp_path)
    redis = await connect(server.url)
    try:
        presence = Presence(redis)
        await redis.command("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreFull, match="maxmemory"):
            await presence.probe()
        assert await presence.last_sign() is None, "reading goes on"
        await redis.command("CONFIG", "SET", "maxmemory", "0")
        await presence.probe()
    finally:
        await redis.aclose()
        server.stop()
