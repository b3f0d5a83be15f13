"""Mutes and blocks: hidden and back with read state, gone permanently, per channel and for all channels."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from microsub.base.errors import QuotaReached
from microsub.model.reader import Duplicate, TimelineItem
from microsub.redis import keys
from microsub.timelines.add import Added
from microsub.timelines.rules import Rules
from tests.support.one_reader import ANN, NOW, OneReader, item

ALICE, BOB = "https://alice.example/", "https://bob.example/"


def by(author: str, number: int, *sources: str) -> TimelineItem:
    return item(number, author=author, sources=sources)


async def hidden(world: OneReader, uid: str) -> set[str]:
    return {one async for ids in world.timelines.hidden(ANN, uid) for one in ids}


async def test_a_copy_takes_over_only_as_the_rules_allow(world: OneReader) -> None:
    """When a post's feed is unfollowed, no copy from a blocked source replaces it; one from a muted one is hidden."""
    await world.follow("home", "2")
    for number, source in ((10, ALICE), (20, BOB), (30, "")):
        copy = item(
            number + 1, sources=(source,) if source else (), duplicates=(Duplicate(str(number), "1", wins=True),)
        )
        await world.add("home", item(number, duplicates=(Duplicate(copy.id, "2", wins=False),)))
        assert await world.add("home", copy, feed="2") == Added()
    await world.rules.block(ANN, "home", ALICE, NOW)
    await world.rules.mute(ANN, "home", BOB, NOW)
    await world.channels.unfollow(ANN, "home", "1")
    await world.timelines.unfollow(ANN, "home", "1", NOW)
    assert await world.ids("home") == ["31"]
    await world.rules.unmute(ANN, "home", BOB, NOW)
    assert await world.ids("home") == ["31", "21"]


async def test_rules_cover_several_batches_of_items(world: OneReader) -> None:
    """The reply to a mute comes after all items are hidden, however many."""
    await world.add("home", *(by(ALICE if n % 2 else BOB, n) for n in range(1, 2501)))
    assert await world.rules.mute(ANN, "home", ALICE, NOW) == 1250
    assert await world.unread("home") == 1250


async def test_rules_of_a_user_move_posts_one_after_the_other(
    world: OneReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen requests at once over thousands of channels blocked the event loop for seconds."""
    under_way = most = 0
    apply = Rules._apply

    async def noting(rules: Rules, *given: Any, **named: Any) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await apply(rules, *given, **named)
        finally:
            under_way -= 1

    monkeypatch.setattr(Rules, "_apply", noting)
    await asyncio.gather(*(world.rules.mute(ANN, "global", f"https://m{n}.example/", NOW) for n in range(16)))
    assert most == 1
    assert len(await world.rules.muted(ANN, "global")) == 16


async def test_a_post_in_many_channels_is_looked_up_once(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mute in 2,300 channels with one feed took a minute, because its posts were read again for each channel."""
    await world.follow("work", "1")
    for uid in ("home", "work"):
        await world.add(uid, by(ALICE, 1), by(BOB, 2))
    looked_up: list[str] = []
    timeline_items = world.items.timeline_items

    async def noting(ids: Sequence[str]) -> list[TimelineItem]:
        looked_up.extend(ids)
        return await timeline_items(ids)

    monkeypatch.setattr(world.items, "timeline_items", noting)
    assert await world.rules.mute(ANN, "global", "https://carol.example/", NOW) == 0
    assert sorted(looked_up) == ["1", "2"]


async def test_rules_are_counted_once_however_many_channels_there_are(world: OneReader) -> None:
    """Otherwise each new rule reads every channel, and thousands at once delay other users."""
    await world.rules.mute(ANN, "home", ALICE, NOW, most=3)
    for channel in ("home", "work"):
        await world.redis.command("DEL", keys.muted(ANN, channel))  # visible only to a second count
    await world.rules.mute(ANN, "work", ALICE, NOW, most=3)
    await world.rules.block(ANN, "global", BOB, NOW, most=3)
    with pytest.raises(QuotaReached, match="3 of 3"):
        await world.rules.mute(ANN, "home", BOB, NOW, most=3)


@pytest.mark.parametrize("seed", range(5))
async def test_the_count_of_rules_follows_every_change(world: OneReader, seed: int) -> None:
    """For rules and channels; for rules without a limit, written twice, and ended in a removed channel too."""
    rules, chance = world.rules, random.Random(seed)
    urls = [f"https://{number}.example/" for number in range(6)]
    await rules.mute(ANN, "home", ALICE, NOW, most=100)
    for _ in range(60):
        uid, url = chance.choice(("home", "work", "global")), chance.choice(urls)
        there = await world.channels.removed(ANN)
        match chance.randrange(6):
            case 0 if uid != "global" and uid not in there:
                await world.channels.disable(ANN, uid, NOW)
            case 1 if uid in there:
                await world.channels.restore(ANN, uid)
            case 2:
                await rules.lift_ended(NOW + 10)
            case 3 | 4 if uid not in there:
                write = chance.choice((rules.mute, rules.block))
                await write(ANN, uid, url, NOW, most=chance.choice((0, 100)))
                await rules.mute(ANN, uid, url, NOW, until=NOW + 5)
            case 5 if uid not in there:
                await chance.choice((rules.unmute, rules.unblock))(ANN, uid, url, NOW)
        listed = [one for one in ("home", "work", "global") if one not in await world.channels.removed(ANN)]
        found = await rules.of_channels(ANN, listed)
        expected = sum(len(muted) + len(blocked) for muted, blocked in found.values())
        if expected:
            with pytest.raises(QuotaReached, match=f": {expected} of 1"):
                await rules.mute(ANN, "global", BOB, NOW, most=1)
