"""What was applied, who may apply, what is in force: on a fake and a real Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from microsub.configuration.effective import SettingsInForce
from microsub.configuration.model import (
    Backend,
    ChannelConfig,
    FeedConfig,
    FeedPolicy,
    HostPolicy,
    InstanceSettings,
    Polling,
    Quotas,
    UserConfig,
    UserSettings,
)
from microsub.configuration.store import Applied, AppliedFile, InForce
from microsub.errors import StoreDamaged
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.store.channels import Channels

BACKEND = Backend(
    users={
        "alice": UserConfig(
            "https://alice.example/",
            channels=(
                ChannelConfig(
                    "home",
                    "Hömé",
                    feeds=(FeedConfig("https://a.example/"), FeedConfig("https://b.example/", "B")),
                    settings=OwnChannelSettings(
                        keep_read_days=1, unread="boolean", filters=Filters(exclude_types=("like",))
                    ),
                    mute=("https://m.example/",),
                    block=("https://x.example/",),
                ),
            ),
            settings=UserSettings(max_items=5, quotas=Quotas(feeds=2)),
            mute=("https://m2.example/",),
            token_endpoint="https://t.example/",
        ),
        "bob": UserConfig(),
    },
    settings=InstanceSettings(
        first_fetch_unread=3,
        polling=Polling(min_interval=600),
        hosts={"own.example": HostPolicy(0, 4)},
        feeds={"https://a.example/": FeedPolicy(60, None)},
        public_feeds=(FeedConfig("https://p.example/", "P"),),
    ),
)
FILE = AppliedFile(BACKEND, "d1", 1_700_000_000.123456, 1_700_000_001.5, "/etc/backend.json")


async def test_what_is_remembered_comes_back_whole(redis: Redis) -> None:
    """Every part of a backend survives the way to Redis and back."""
    applied = Applied(redis)
    assert await applied.last() is None
    assert await applied.remember(FILE, instead_of="")
    assert await applied.last() == FILE


async def test_only_the_expected_file_is_replaced(redis: Redis) -> None:
    """Of two processes that saw the same state, one wins."""
    applied = Applied(redis)
    await applied.remember(FILE, instead_of="")
    newer = replace(FILE, digest="d2", edited_at=FILE.edited_at + 1)
    assert not await applied.remember(newer, instead_of="")
    assert await applied.remember(newer, instead_of="d1")
    assert not await applied.remember(newer, instead_of="d1")


async def test_an_older_file_is_never_remembered(redis: Redis) -> None:
    """A stale copy on another machine can't take over; one edited in the same instant can."""
    applied = Applied(redis)
    await applied.remember(FILE, instead_of="")
    assert not await applied.remember(replace(FILE, digest="d0", edited_at=FILE.edited_at - 0.001), instead_of="d1")
    assert await applied.remember(replace(FILE, digest="d2"), instead_of="d1")


async def test_one_process_holds_the_lease(redis: Redis) -> None:
    """It can be kept and given back only by its holder."""
    applied = Applied(redis)
    assert await applied.take("one", 30)
    assert not await applied.take("two", 30)
    assert await applied.keep("one", 30)
    assert not await applied.keep("two", 30)
    await applied.give_back("two")
    assert not await applied.take("two", 30)
    await applied.give_back("one")
    assert await applied.take("two", 30)


async def test_a_lease_passes_on_when_its_holder_dies(redis: Redis, wait_until: Callable[..., object]) -> None:
    """Nobody has to give it back."""
    applied = Applied(redis)
    assert await applied.take("dead", 0.05)

    async def free() -> bool:
        return await applied.take("next", 30)

    await wait_until(free)  # type: ignore[misc]
    assert not await applied.keep("dead", 30)


async def test_settings_in_force_are_read_in_one_go(redis: Redis) -> None:
    """What was put in force for the instance and for users is what other processes see."""
    applied = Applied(redis)
    assert await applied.in_force() == InForce()
    await applied.set_instance(BACKEND.settings)
    await applied.set_user("alice", UserSettings(max_items=5, unread="none"))
    await applied.set_user("bob", UserSettings(max_items=6))
    await applied.set_user("bob", UserSettings())
    assert await applied.in_force() == InForce(BACKEND.settings, {"alice": UserSettings(max_items=5, unread="none")})


@pytest.mark.parametrize("field", ["instance", "user:alice"])
async def test_settings_that_cant_be_read_are_no_defaults(redis: Redis, field: str) -> None:
    """Who has read them before goes on with those; who hasn't says what is wrong; afterwards all is as before."""
    applied, now = Applied(redis), [0.0]
    await applied.set_instance(BACKEND.settings)
    known = SettingsInForce(applied, Channels(redis), clock=lambda: now[0])
    before = await known.everything()
    kept = await redis.command("HGET", keys.settings(), field)
    await redis.command("HSET", keys.settings(), field, "{")
    now[0] += 10
    assert await known.everything() == before
    with pytest.raises(StoreDamaged, match="config:settings"):
        await SettingsInForce(applied, Channels(redis)).everything()
    await redis.command("HDEL", keys.settings(), field)
    if kept is not None:
        await redis.command("HSET", keys.settings(), field, kept)
    now[0] += 10
    assert await known.everything() == before
    assert await SettingsInForce(applied, Channels(redis)).everything() == before


async def test_a_last_file_that_cant_be_read_is_not_taken_for_none(redis: Redis) -> None:
    """Else the next file would be merged as the very first."""
    await redis.command("HSET", keys.applied_config(), "document", "{", "hash", "x", "mtime", "1", "at", "1")
    with pytest.raises(StoreDamaged, match="config:applied"):
        await Applied(redis).last()
