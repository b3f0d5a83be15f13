"""A Redis that somebody else configures: warnings about settings that may lose data, and the check for writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from microsub import server
from microsub.base.errors import StoreFull
from microsub.base.settings import Settings
from microsub.redis.cluster import ClusterRedis
from microsub.redis.connect import connect, doubts, doubts_about
from microsub.redis.embedded.server import start_embedded
from microsub.redis.presence import Presence
from microsub.redis.protocol import Redis
from tests.support.cluster import running_server
from tests.support.invariants import all_keys
from tests.support.waiting import wait_until


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
    """Any policy that evicts, and a missing append-only file, are named; unknown settings cause no warning."""
    sentences = doubts_about(info)
    assert len(sentences) == len(named)
    assert all(word in sentence for word, sentence in zip(named, sentences, strict=True))


async def test_the_warning_is_logged_once_at_start(tmp_path: Path) -> None:
    """The warning is logged for a Redis of the admin, but not for the embedded one."""
    engine = start_embedded(tmp_path)
    try:
        settings = Settings(redis_url=engine.url)
        async with server.stores.open_stores(settings, create=True) as stores:
            with capture_logs() as lines:
                await server.stores.warn_of_losses(settings, stores)
            assert lines == []
            wrong = (
                ("maxmemory-policy", "allkeys-lru"),
                ("appendonly", "no"),
                ("hash-max-ziplist-value", "64"),
                ("set-max-intset-entries", "512"),
            )
            for name, value in wrong:
                await stores.redis.command("CONFIG", "SET", name, value)
            with capture_logs() as lines:
                await server.stores.warn_of_losses(settings, stores)
                await server.stores.warn_of_losses(Settings(data_dir=tmp_path), stores)
            assert [line["log_level"] for line in lines] == ["warning"] * 4
            assert [name in line["event"] for line, (name, _) in zip(lines, wrong, strict=True)] == [True] * 4
            assert await stores.redis.command("CONFIG", "GET", "set-max-intset-entries") == [
                b"set-max-intset-entries",
                b"100000",
            ]
    finally:
        engine.stop()


async def test_a_redis_without_info_and_config_is_used(tmp_path: Path) -> None:
    """Hosted servers may forbid `INFO` and `CONFIG`."""
    server = start_embedded(tmp_path)
    redis = await connect(server.url)
    try:
        await redis.command("ACL", "SETUSER", "default", "-info")
        assert await doubts(redis) == []
        await redis.command("ACL", "SETUSER", "default", "+info", "-config")
        assert await doubts(redis) == []
        await redis.command("ACL", "SETUSER", "default", "+config")
    finally:
        await redis.aclose()
        server.stop()


async def test_the_probe_leaves_nothing_for_long(redis: Redis) -> None:
    """It writes to each master. Its keys have a time to live; otherwise the fixture would fail."""
    states = await Presence(redis).servers(60, write=True)
    names = await all_keys(redis)
    assert [state for state, _ in states] == ["ok"] * len(names)
    assert len(names) == (3 if isinstance(redis, ClusterRedis) else 1)
    for name in names:
        assert 0 < await redis.command("TTL", name) <= 60


async def test_the_probe_finds_a_full_redis(tmp_path: Path) -> None:
    """A Redis that answers but refuses writes fails the probe; once it has room again, the probe succeeds."""
    server = start_embedded(tmp_path)
    redis = await connect(server.url)
    try:
        presence = Presence(redis)
        await redis.command("CONFIG", "SET", "maxmemory", "1")
        ((state, reason),) = await presence.servers(60, write=True)
        assert state == "full"
        assert "maxmemory" in (reason or "")
        assert await presence.last_sign() is None, "reading goes on"
        await redis.command("CONFIG", "SET", "maxmemory", "0")
        assert await presence.servers(60, write=True) == [("ok", None)]
    finally:
        await redis.aclose()
        server.stop()


async def test_a_redis_that_cant_save_its_data_can_be_read(tmp_path: Path) -> None:
    """It then refuses writes, and PING too, which would make it unreachable."""
    with running_server(tmp_path / "redis") as node:
        url = f"redis://127.0.0.1:{node.port}"
        before = await connect(url)
        await before.command("CONFIG", "SET", "save", "3600 1")
        shutil.rmtree(tmp_path / "redis")
        await before.command("BGSAVE")

        async def has_failed() -> bool:
            return b"rdb_last_bgsave_status:err" in await before.command("INFO", "persistence")

        await wait_until(has_failed)
        with pytest.raises(StoreFull):
            await before.command("PING")
        connection = await connect(url)
        for state, is_writing in (("full", True), ("ok", False)):
            ((found, _),) = await Presence(connection).servers(60, write=is_writing)
            assert found == state
        await before.aclose()
        await connection.aclose()
