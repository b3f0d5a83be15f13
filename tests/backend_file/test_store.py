"""The applied file, the lease for applying, the effective settings: on a fake and a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
import structlog.testing

from microsub.backend_file.store import Applied, AppliedFile
from microsub.base.errors import StoreDamaged
from microsub.configuration.effective import AllSettings, DeclaredSettings, EffectiveSettings
from microsub.configuration.model import (
    Backend,
    InstanceSettings,
    UserConfig,
    UserSettings,
)
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.world import World

BACKEND = Backend(
    {"alice": UserConfig("https://alice.example/", settings=UserSettings(max_items=5))},
    InstanceSettings(first_fetch_unread=3),
)
FILE = AppliedFile(BACKEND, "d1", 1_700_000_000.123456, "/etc/backend.json")


async def test_the_applied_file_is_stored_whole(redis: Redis) -> None:
    """The content of the file, its time of edit, and its path."""
    applied = Applied(redis)
    assert await applied.last() is None
    assert await applied.remember(FILE, 2.0, instead_of="")
    assert await applied.last() == FILE


async def test_only_the_expected_file_is_replaced(redis: Redis) -> None:
    """Of two processes with the same state, one replaces it."""
    applied = Applied(redis)
    await applied.remember(FILE, 2.0, instead_of="")
    newer = replace(FILE, digest="d2", edited_at=FILE.edited_at + 1)
    assert not await applied.remember(newer, 2.0, instead_of="")
    assert await applied.remember(newer, 2.0, instead_of="d1")
    assert not await applied.remember(newer, 2.0, instead_of="d1")


async def test_an_older_file_is_never_remembered(redis: Redis) -> None:
    """A stale copy on another machine isn't applied; one edited at the same moment can be."""
    applied = Applied(redis)
    await applied.remember(FILE, 2.0, instead_of="")
    assert not await applied.remember(
        replace(FILE, digest="d0", edited_at=FILE.edited_at - 0.001), 2.0, instead_of="d1"
    )
    assert await applied.remember(replace(FILE, digest="d2"), 2.0, instead_of="d1")


async def test_a_lease_passes_on_when_its_holder_dies(redis: Redis, wait_until: Callable[..., object]) -> None:
    """The lease expires without a release."""
    applied = Applied(redis)
    assert await applied.lease("dead", 0.05).acquire()

    async def free() -> bool:
        return await applied.lease("next", 30).acquire()

    await wait_until(free)  # type: ignore[misc]
    assert not await applied.lease("dead", 30).renew()


@pytest.mark.parametrize("field", ["instance", "user:alice"])
async def test_settings_that_cant_be_read_are_no_defaults(redis: Redis, field: str) -> None:
    """A process that has read them before keeps those; another one reports the error; afterwards all is as before."""
    declared, now = DeclaredSettings(redis), [0.0]
    await declared.set_instance(BACKEND.settings)
    known = EffectiveSettings(declared, World(redis).own_settings, clock=lambda: now[0])
    before = await known.everything()
    kept = await redis.command("HGET", keys.settings(), field)
    await redis.command("HSET", keys.settings(), field, "{")
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            now[0] += 10
            assert await known.everything() == before
    assert [line["event"] for line in lines] == ["can't read the settings; the previous ones stay in force"]
    with pytest.raises(StoreDamaged, match="config:settings"):
        await EffectiveSettings(declared, World(redis).own_settings).everything()
    await redis.command("HDEL", keys.settings(), field)
    if kept is not None:
        await redis.command("HSET", keys.settings(), field, kept)
    now[0] += 10
    assert await known.everything() == before
    assert await EffectiveSettings(declared, World(redis).own_settings).everything() == before


async def test_an_unreadable_last_file_is_not_taken_for_a_missing_one(redis: Redis) -> None:
    """Otherwise the next file would be merged as the first one."""
    await redis.command("HSET", keys.applied_config(), "document", "{", "hash", "x", "mtime", "1", "at", "1")
    with pytest.raises(StoreDamaged, match="config:applied"):
        await Applied(redis).last()


class Settings:
    """Settings that are read after `go` is set; `asked` counts the reads."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.found = AllSettings()

    async def everything(self) -> AllSettings:
        self.asked += 1
        found = self.found
        await self.go.wait()
        return found


async def test_many_readers_at_once_ask_once(redis: Redis) -> None:
    """All get the same answer; cancelling one reader doesn't affect the others."""
    settings = Settings()
    effective = EffectiveSettings(settings, World(redis).own_settings)  # type: ignore[arg-type]
    readers = [asyncio.create_task(effective.everything()) for _ in range(200)]
    await asyncio.sleep(0)
    readers.pop(0).cancel()
    settings.go.set()
    assert len(set(map(id, await asyncio.gather(*readers)))) == 1
    assert settings.asked == 1


@pytest.mark.parametrize("waits", [False, True])
async def test_an_older_read_doesnt_hide_a_change(redis: Redis, waits: bool) -> None:
    """The answer to an older read is for its readers only, and for none after the change."""
    settings = Settings()
    effective = EffectiveSettings(settings, World(redis).own_settings)  # type: ignore[arg-type]
    early = asyncio.create_task(effective.everything())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    settings.found = AllSettings(InstanceSettings(max_items=5))
    effective.forget()
    if not waits:
        settings.go.set()
        await early
    late = asyncio.create_task(effective.everything())
    await asyncio.sleep(0)
    settings.go.set()
    assert (await late).instance.max_items == 5
    await early
    assert (await effective.everything()).instance.max_items == 5
