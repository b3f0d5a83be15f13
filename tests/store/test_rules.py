"""Mutes and blocks: hidden and back with read state, gone for good, per channel and for all."""

from __future__ import annotations

import pytest

from microsub.errors import NotFound
from microsub.model.reader import TimelineItem, Twin
from microsub.redis.protocol import Redis
from microsub.timelines.rules import Rules
from tests.support.one_reader import ANN, NOW, OneReader, item

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


async def test_muted_items_are_neither_shown_nor_counted_and_come_back_as_they_were(world: Muting) -> None:
    """A mute hides what is there; unmuting shows it again, read where it was read."""
    await world.add("home", by(ALICE, 1), by(BOB, 2), by(ALICE, 3))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    assert await world.rules.mute(ANN, "home", "http://Alice.example", NOW) == 2
    assert await world.ids("home") == ["2"]
    assert await world.unread("home") == 1
    assert await world.rules.muted(ANN, "home") == ["http://Alice.example"]
    assert await world.rules.unmute(ANN, "home", ALICE, NOW) == 2
    assert await world.ids("home") == ["3", "2", "1"]
    assert await world.ids("home", view="read") == ["1"]


async def test_what_comes_in_meanwhile_is_stored_but_hidden(world: Muting) -> None:
    """Items of a muted author or source are kept for the day they are unmuted."""
    await world.rules.mute(ANN, "global", ALICE, NOW)
    result = await world.add("home", by(ALICE, 1), by(BOB, 2), by("", 3, "https://feed.example/x", ALICE))
    assert result.hidden == ("3", "1")
    assert await world.unread("home") == 1
    await world.rules.unmute(ANN, "global", ALICE, NOW)
    assert await world.ids("home") == ["3", "2", "1"]


async def test_an_item_stays_hidden_while_any_rule_mutes_it(world: Muting) -> None:
    """Unmuting in one channel doesn't show what is muted in all, nor one author what the source hides."""
    await world.add("home", by(ALICE, 1, BOB))
    await world.rules.mute(ANN, "home", ALICE, NOW)
    await world.rules.mute(ANN, "global", ALICE, NOW)
    await world.rules.mute(ANN, "home", BOB, NOW)
    await world.rules.unmute(ANN, "home", ALICE, NOW)
    assert await world.ids("home") == []
    await world.rules.unmute(ANN, "global", ALICE, NOW)
    assert await world.ids("home") == []
    await world.rules.unmute(ANN, "home", BOB, NOW)
    assert await world.ids("home") == ["1"]


async def test_blocked_items_are_removed_and_refused(world: Muting) -> None:
    """A block takes out what is there, muted or not, and refuses what comes; an unblock revives nothing."""
    await world.add("home", by(ALICE, 1), by(ALICE, 2))
    await world.rules.mute(ANN, "home", ALICE, NOW)
    assert await world.rules.block(ANN, "home", ALICE, NOW) == 2
    assert (await world.add("home", by(ALICE, 1), by(ALICE, 9))).suppressed == ("9", "1")
    await world.rules.unblock(ANN, "home", ALICE, NOW)
    await world.rules.unmute(ANN, "home", ALICE, NOW)
    assert await world.ids("home") == []
    assert (await world.add("home", by(ALICE, 1), by(ALICE, 10))).added == ("10",)


async def test_a_rule_of_one_channel_leaves_the_others_alone(world: Muting) -> None:
    """`home` hides the author, `work` doesn't; a global rule takes both."""
    await world.follow("work", "1")
    for uid in ("home", "work"):
        await world.add(uid, by(ALICE, 1))
    await world.rules.mute(ANN, "home", ALICE, NOW)
    assert (await world.ids("home"), await world.ids("work")) == ([], ["1"])
    assert await world.rules.mute(ANN, "global", ALICE, NOW) == 1
    assert await world.ids("work") == []


async def test_an_author_learnt_later_is_held_against_the_rules(world: Muting) -> None:
    """After a look-up has changed an item's author, it is hidden, shown or removed as the rules want."""
    await world.rules.mute(ANN, "home", ALICE, NOW)
    await world.add("home", item(1))
    assert await world.timelines.recheck_in([(ANN, "home")], [by(ALICE, 1)], NOW)
    assert await world.ids("home") == []
    assert await world.timelines.recheck_in([(ANN, "home")], [by(BOB, 1)], NOW)
    assert await world.ids("home") == ["1"]
    await world.rules.block(ANN, "home", BOB, NOW)
    assert await world.timelines.recheck_in([(ANN, "home")], [by(BOB, 1)], NOW)
    assert (await world.add("home", item(1))).suppressed == ("1",)


async def test_marks_reach_muted_items_that_they_name(world: Muting) -> None:
    """An item marked read while it is muted comes back read; marking everything leaves what is hidden alone."""
    await world.add("home", by(ALICE, 1), by(ALICE, 2), by(BOB, 3))
    await world.rules.mute(ANN, "home", ALICE, NOW)
    assert await world.timelines.mark_read(ANN, "home", ["1"], NOW) == 1
    assert await world.timelines.mark_all_read(ANN, "home", NOW) == 1
    await world.rules.unmute(ANN, "home", ALICE, NOW)
    assert await world.ids("home", view="unread") == ["2"]


async def test_moves_obey_the_rules_of_the_target(world: Muting) -> None:
    """What the target mutes is hidden there; what it blocks stays where it was."""
    await world.add("home", by(ALICE, 1), by(BOB, 2))
    await world.rules.mute(ANN, "work", ALICE, NOW)
    await world.rules.block(ANN, "work", BOB, NOW)
    assert await world.timelines.move(ANN, "work", ["1", "2"], NOW) == 1
    assert (await world.ids("home"), await world.ids("work")) == (["2"], [])
    await world.rules.unmute(ANN, "work", ALICE, NOW)
    assert await world.ids("work") == ["1"]


async def hidden(world: Muting, uid: str) -> set[str]:
    return {one async for ids in world.timelines.hidden(ANN, uid) for one in ids}


async def test_muted_items_move_along_with_their_read_state(world: Muting) -> None:
    """Where the target mutes them too they stay hidden, else they are shown; read stays read and unread unread."""
    await world.add("home", by(ALICE, 1), by(ALICE, 2), by(ALICE, 3))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    await world.rules.mute(ANN, "global", ALICE, NOW)
    assert await world.timelines.move(ANN, "work", ["1", "2"], NOW) == 0
    assert await world.timelines.move(ANN, "work", ["1", "2"], NOW, hidden_too=True) == 2
    assert (await hidden(world, "home"), await hidden(world, "work")) == ({"3"}, {"1", "2"})
    assert await world.ids("work") == []
    await world.rules.unmute(ANN, "global", ALICE, NOW)
    assert (await world.ids("work", view="unread"), await world.ids("work", view="read")) == (["2"], ["1"])
    await world.rules.mute(ANN, "home", ALICE, NOW)
    assert await world.timelines.move(ANN, "work", ["3"], NOW, hidden_too=True) == 1
    assert (await world.ids("work", view="unread"), await hidden(world, "home")) == (["3", "2"], set())


async def test_muted_items_that_the_target_has_lost_do_not_come_back(world: Muting) -> None:
    """Nobody asks for what nobody sees: what was removed there stays so. What the target blocks stays hidden."""
    await world.follow("work", "1")
    for uid in ("home", "work"):
        await world.add(uid, by(ALICE, 1), by(ALICE, 2))
    await world.timelines.remove(ANN, "work", ["1"], NOW)
    await world.rules.mute(ANN, "home", ALICE, NOW)
    assert await world.timelines.move(ANN, "work", ["1", "2"], NOW, hidden_too=True) == 2
    assert (await world.ids("work"), await hidden(world, "home")) == (["2"], set())
    await world.add("home", by(ALICE, 3))
    await world.rules.block(ANN, "work", ALICE, NOW)
    assert await world.timelines.move(ANN, "work", ["3"], NOW, hidden_too=True) == 0
    assert await hidden(world, "home") == {"3"}


async def test_a_copy_takes_over_only_as_the_rules_allow(world: Muting) -> None:
    """When a post's feed is unfollowed, a copy from a blocked source doesn't come in its place, a muted one hidden."""
    await world.follow("home", "2")
    for number, source in ((10, ALICE), (20, BOB), (30, "")):
        copy = item(number + 1, sources=(source,) if source else (), twins=(Twin(str(number), "1", wins=True),))
        await world.add("home", item(number, twins=(Twin(copy.id, "2", wins=False),)))
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


async def test_rules_need_a_channel(world: Muting) -> None:
    """A rule for an unknown channel or user is refused and writes nothing."""
    with pytest.raises(NotFound, match="no channel 'nix'"):
        await world.rules.mute(ANN, "nix", ALICE, NOW)
    with pytest.raises(NotFound, match="no user 'bob'"):
        await world.rules.block("bob", "global", ALICE, NOW)
    assert await world.rules.blocked("bob", "global") == []
