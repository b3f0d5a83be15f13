"""A Redis that isn't ours to configure: what of its settings may lose data is found and said."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from microsub import wiring
from microsub.redis.connect import connect, doubts, doubts_about
from microsub.redis.embedded.server import start_embedded
from microsub.settings import Settings


@pytest.mark.parametrize(
    ("info", "named"),
    [
        ("# Memory\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n", []),
        ("maxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n", ["allkeys-lru"]),
        ("maxmemory_policy:volatile-ttl\r\naof_enabled:0\r\n", ["volatile-ttl", "appendonly"]),
        ("nothing that we know\r\n", []),
        ("", []),
    ],
)
def test_settings_that_lose_data_are_named(info: str, named: list[str]) -> None:
    """Any policy that evicts, and no append-only file; what a server doesn't tell is not held against it."""
    sentences = doubts_about(info)
    assert len(sentences) == len(named)
    assert all(word in sentence for word, sentence in zip(named, sentences, strict=True))


async def test_a_server_says_so_once_at_start(tmp_path: Path) -> None:
    """In the log, for a Redis of somebody else's; about the embedded one there is nothing to say."""
    server = start_embedded(tmp_path)
    try:
        settings = Settings(redis_url=server.url)
        async with wiring.stores.open_stores(settings, create=True) as stores:
            with capture_logs() as lines:
                await wiring.stores.warn_of_losses(settings, stores)
            assert lines == []
            for name, value in (("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")):
                await stores.redis.command("CONFIG", "SET", name, value)
            with capture_logs() as lines:
                await wiring.stores.warn_of_losses(settings, stores)
                await wiring.stores.warn_of_losses(Settings(data_dir=tmp_path), stores)
            assert [line["log_level"] for line in lines] == ["warning", "warning"]
    finally:
        server.stop()


async def test_a_redis_that_does_not_tell_is_used_all_the_same(tmp_path: Path) -> None:
    """Rented ones may forbid `INFO`."""
    server = start_embedded(tmp_path)
    redis = await connect(server.url)
    try:
        await redis.command("ACL", "SETUSER", "default", "-info")
        assert await doubts(redis) == []
        await redis.command("ACL", "SETUSER", "default", "+info")
    finally:
        await redis.aclose()
        server.stop()
