"""The check of a channel's keys and their repair, and the items that a user's timelines refer to."""

from __future__ import annotations

import random

import pytest

from microsub.redis import keys
from microsub.timelines.sync.arrivals import repair_all_arrivals, repair_arrivals
from microsub.timelines.timelinekeys import set_keys
from tests.support.invariants import repair, violations, wrong_arrivals
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.timelines import pack_readings, readings_of_layout_14, unread_of_layout_12


@pytest.mark.parametrize("seed", range(20))
async def test_any_damage_is_found_and_repaired(world: OneReader, seed: int) -> None:
    """A repair restores the invariants from any ids in any sets, and makes nothing unread."""
    chance = random.Random(seed)
    await world.add("home", *(item(n) for n in range(1, 30)))
    for number in range(1, 40):
        if chance.random() < 0.3:
            await world.redis.command("SADD", keys.gone(ANN, "home"), number * 16 + chance.randrange(16))
    if seed % 2:
        await unread_of_layout_12(world.redis, ANN, "home")
    await readings_of_layout_14(world.redis, ANN, "home")
    for key in (*set_keys(ANN, "home")[:-1], keys.gone_before(ANN, "home")):
        is_set = key == keys.unread(ANN, "home") and not seed % 2
        for number in range(1, 40):
            if chance.random() < 0.3:
                score = () if is_set else (chance.choice((5, 5.0625, 7.25, 0.03)),)
                await world.redis.command("SADD" if is_set else "ZADD", key, *score, str(number))
            if chance.random() < 0.3:
                await world.redis.command("SREM" if is_set else "ZREM", key, str(number))
    if chance.random() < 0.5:
        await pack_readings(world.redis, ANN, "home")
    unread = set(await world.redis.command("SORT", keys.unread(ANN, "home")))
    assert await repair(world.redis, ANN, "home", NOW)
    assert await violations(world.redis, ANN, "home") == []
    shown = await world.redis.command("ZRANGE", keys.posts(ANN, "home"), 0, -1)
    await repair_arrivals(world.redis, ANN, [one.decode() for one in shown], NOW)
    await repair_all_arrivals(world.redis, ANN, NOW)
    assert await wrong_arrivals(world.redis, ANN) == []
    assert set(await world.redis.command("SORT", keys.unread(ANN, "home"))) <= unread
