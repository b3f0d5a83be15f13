"""The settings that hold, as many readers at once ask for them."""

from __future__ import annotations

import asyncio

import pytest

from microsub.configuration.effective import SettingsInForce
from microsub.configuration.model import InstanceSettings
from microsub.configuration.store import InForce
from microsub.errors import StoreUnavailable
from microsub.redis.protocol import Redis
from microsub.timelines.store.channels import Channels


class Settings:
    """Settings that are read when `go` is set; `asked` counts the questions."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.found = InForce()
        self.fails = False

    async def in_force(self) -> InForce:
        self.asked += 1
        found = self.found
        await self.go.wait()
        if self.fails:
            raise StoreUnavailable("away")
        return found


async def test_many_readers_at_once_ask_once(redis: Redis) -> None:
    """All get the one answer; a reader who leaves doesn't take it away from the others."""
    settings = Settings()
    in_force = SettingsInForce(settings, Channels(redis))  # type: ignore[arg-type]
    readers = [asyncio.create_task(in_force.everything()) for _ in range(200)]
    await asyncio.sleep(0)
    readers.pop(0).cancel()
    settings.go.set()
    assert len(set(map(id, await asyncio.gather(*readers)))) == 1
    assert settings.asked == 1


async def test_what_fails_is_asked_again(redis: Redis) -> None:
    """Everybody who waited hears of the failure; the next one asks."""
    settings = Settings()
    settings.fails = True
    in_force = SettingsInForce(settings, Channels(redis))  # type: ignore[arg-type]
    settings.go.set()
    ends = await asyncio.gather(*(in_force.everything() for _ in range(3)), return_exceptions=True)
    assert [type(end) for end in ends] == [StoreUnavailable] * 3
    settings.fails = False
    assert await in_force.everything() == InForce()
    assert settings.asked == 2


@pytest.mark.parametrize("waits", [False, True])
async def test_what_was_asked_before_a_change_does_not_hide_it(redis: Redis, waits: bool) -> None:
    """The answer to an older question counts for those who asked then, and for nobody after the change."""
    settings = Settings()
    in_force = SettingsInForce(settings, Channels(redis))  # type: ignore[arg-type]
    early = asyncio.create_task(in_force.everything())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    settings.found = InForce(InstanceSettings(max_items=5))
    in_force.forget()
    if not waits:
        settings.go.set()
        await early
    late = asyncio.create_task(in_force.everything())
    await asyncio.sleep(0)
    settings.go.set()
    assert (await late).instance.max_items == 5
    await early
    assert (await in_force.everything()).instance.max_items == 5
