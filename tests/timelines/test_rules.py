"""Mutes and blocks: hidden and back with read state, gone for good, per channel and for all."""

from __future__ import annotations

import pytest

from microsub.model.reader import Duplicate, TimelineItem
from microsub.redis.protocol import Redis
from microsub.timelines.rules import Rules
from tests.support.one_reader import ANN, NOW, OneReader, item

pytestmark = pytest.mark.fake_too

ALICE, BOB = "https://alice.example/", "https://bob.example/"


class Muting(OneReader):
    """A reader with rules."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.rules = Rules(redis, self.items)


@pytest.fixture
async def world(redis: Redis) -> Muting:
    world = Muting(redis)
    await world.begin()
    return world


def by(author: str, number: int, *sources: str) -> TimelineItem:
    return item(number, author=author, sources=sources)


async def hidden(world: Muting, uid: str) -> set[str]:
    return {one async for ids in world.timelines.hidden(ANN, uid) for one in ids}


async def test_a_copy_takes_over_only_as_the_rules_allow(world: Muting) -> None:
    """When a post's feed is unfollowed, a copy from a blocked source doesn't come in its place, a muted one hidden."""
    await world.follow("home", "2")
    for number, source in ((10, ALICE), (20, BOB), (30, "")):
        copy = item(
            number + 1, sources=(source,) if source else (), duplicates=(Duplicate(str(number), "1", wins=True),)
        )
        await world.add("home", item(number, duplicates=(Duplicate(copy.id, "2", wins=False),)))
        assert (await world.add("home", copy, feed="2")).suppressed == (copy.id,)
    await world.rules.block(ANN, "home", ALICE, NOW)
    await world.rules.mute(ANN, "home", BOB, NOW)
    await world.channels.unfollow(ANN, "home", "1")
    assert await world.timelines.unfollow(ANN, "home", "1", NOW) == 3
    assert await world.ids("home") == ["31"]
    await world.rules.unmute(ANN, "home", BOB, NOW)
    assert await world.ids("home") == ["31", "21"]


async def test_rules_cover_more_items_than_one_batch(world: Muting) -> None:
    """A mute answers when all items are hidden, however many."""
    await world.add("home", *(by(ALICE if n % 2 else BOB, n) for n in range(1, 2501)))
    assert await world.rules.mute(ANN, "home", ALICE, NOW) == 1250
    assert await world.unread("home") == 1250
