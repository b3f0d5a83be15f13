"""Saved items: they are in `saved` and in their channel, and only their reader removes them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from microsub.base.errors import NotFound, QuotaReached
from microsub.configuration.effective import DeclaredSettings, EffectiveSettings
from microsub.model.reader import GLOBAL, SAVED, Cursor, PageQuery
from microsub.model.settings import OwnChannelSettings
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines import SavedPosts, count_saved, saved_among
from microsub.timelines.pages import shown
from microsub.timelines.retention import Retention
from tests.support.invariants import violations, wrong_arrivals
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Killing, killed_anywhere

DAY = 86_400


@pytest.fixture
async def world(redis: Redis) -> OneReader:
    made = OneReader(redis)
    await made.begin()
    await made.add("home", item(1), item(2), item(3))
    return made


def saving(world: OneReader) -> SavedPosts:
    return SavedPosts(world.redis, world.items)  # type: ignore[arg-type]


async def keep(world: OneReader, *ids: str, most: int = 0, uid: str = "global") -> int:
    return await saving(world).save(ANN, ids, NOW, uid=uid, most=most)


async def read_flags(world: OneReader, uid: str) -> dict[str, bool]:
    page = await world.timelines.page(ANN, uid, PageQuery(limit=100), NOW)
    return {row.id: row.is_read for row in page.rows}


async def test_saving_keeps_the_item_where_it_is(world: OneReader) -> None:
    """It is in both channels; saving changes no read state elsewhere, and the unread count of `saved` stays 0."""
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    assert await keep(world, "1", "2", "2", "77") == 2
    assert await keep(world, "1", "2") == 0, "again, which changes nothing"
    assert await world.ids("saved") == ["2", "1"]
    assert await world.ids("home") == ["3", "2", "1"]
    assert await world.ids("global") == ["3", "2", "1"], "each once"
    assert await read_flags(world, "home") == {"3": False, "2": False, "1": True}
    assert await world.unread("saved") == 0
    assert await world.ids("global", view="unread") == ["3", "2"]
    assert await count_saved(world.redis, ANN) == 2
    assert await saved_among(world.redis, ANN, ["1", "2", "3"]) == {"1", "2"}
    assert await violations(world.redis, ANN, SAVED) == []


async def test_pages_say_what_is_saved(world: OneReader) -> None:
    """In every view, of one channel or of all channels, also on newer pages."""
    await keep(world, "2")
    for uid in ("home", "global"):
        for query in (
            PageQuery(limit=100),
            PageQuery(limit=100, view="unread"),
            PageQuery(limit=100, source="1"),
            PageQuery(limit=100, before=Cursor("0", "0")),
        ):
            page = await world.timelines.page(ANN, uid, query, NOW)
            assert {row.id: row.is_saved for row in page.rows} == {"1": False, "2": True, "3": False}
            assert {row.channel for row in page.rows} == {"home"}, "where it was saved from"
    page = await world.timelines.page(ANN, "saved", PageQuery(), NOW)
    assert [row.is_saved for row in page.rows] == [True]
    await world.timelines.mark_read(ANN, "home", ["2"], NOW)
    page = await world.timelines.page(ANN, "global", PageQuery(), NOW)
    assert {row.channel for row in page.rows} == {"home"}
    for place in (-1, 99):  # before the channel, and after it
        await world.redis.command("ZADD", keys.channels(ANN), place, "saved")
        found, _ = await shown(world.redis, ANN, GLOBAL, ["1", "2"])
        assert {row.channel for row in found.values()} == {"home"}


async def test_a_feed_is_found_among_many_saved_posts(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind posts of other feeds, which are more than one step looks at."""
    monkeypatch.setattr("microsub.timelines.pages._STEP", 2)
    await world.follow("home", "2")
    await world.add("home", *(item(number) for number in range(10, 20)), feed="2")
    await keep(world, "1", "3", *(str(number) for number in range(10, 20)))
    assert await world.ids("saved", source="1") == ["3", "1"]


async def test_only_what_a_reader_can_see_is_saved(world: OneReader) -> None:
    """Items in no channel, in another than the named one, or muted aren't saved; a program may save any post."""
    world.items.know("9", item(50, author="https://loud.example/"))
    assert await keep(world, "50") == 0
    assert await keep(world, "1", uid="work") == 0
    with pytest.raises(NotFound, match="nowhere"):
        await keep(world, "1", uid="nowhere")
    assert await saving(world).save_posts(ANN, ["50", "1", "404"], NOW) == 2
    assert await world.ids("saved") == ["50", "1"]
    with pytest.raises(NotFound, match="nobody"):
        await saving(world).save_posts("nobody", ["50"], NOW)


async def test_saved_items_outlive_their_channel(world: OneReader) -> None:
    """It stays after a removal, an unfollow, a deleted channel, blocks and mutes, and limits of every kind."""
    ids = [str(number) for number in range(10, 16)]
    for number in ids:
        await world.add("home", item(int(number), author="https://a.example/"))
    await keep(world, *ids)
    await world.timelines.remove(ANN, "home", ["10"], NOW)
    await world.timelines.mark_read(ANN, "home", ["11"], NOW)
    await world.timelines.expire_read(ANN, "home", NOW, NOW)
    await world.timelines.trim(ANN, "home", 1, NOW)
    await world.rules.mute(ANN, "global", "https://a.example/", NOW)
    assert set(await world.ids("saved")) == set(ids)
    await world.rules.unmute(ANN, "global", "https://a.example/", NOW)
    await world.rules.block(ANN, "global", "https://a.example/", NOW)
    assert await world.channels.unfollow(ANN, "home", "1")
    await world.timelines.unfollow(ANN, "home", "1", NOW)
    await world.channels.delete(ANN, "home")
    assert set(await world.ids("saved")) == set(ids)
    assert await saving(world).unsave(ANN, ids, NOW) == len(ids)
    assert await saving(world).save_posts(ANN, ids[:1], NOW) == 1
    assert await world.ids("saved") == ids[:1], "also what is saved when its author is blocked already"
    assert await violations(world.redis, ANN, SAVED) == []


async def test_retention_leaves_saved_alone(world: OneReader) -> None:
    """The settings of this user in backend.json and the age of the item don't matter."""
    await keep(world, "1", "2", "3")
    await world.timelines.mark_unread(ANN, "saved", ["3"], NOW)

    async def own(user: str, uid: str) -> OwnChannelSettings:
        return OwnChannelSettings(keep_read_days=1, keep_unread_days=1, max_items=1)

    async def nobody() -> tuple[()]:
        return ()

    settings = EffectiveSettings(DeclaredSettings(world.redis), own)
    retention = Retention(world.redis, world.accounts, world.channels, world.items, settings.of, nobody)  # type: ignore[arg-type]
    report = await retention.run(NOW + 1000 * DAY)
    assert {one.uid for one in report.channels} == {"home"}
    assert await world.ids("home") == []
    assert await world.ids("saved") == ["3", "2", "1"]


async def test_moving_into_saved_and_out_of_it(world: OneReader) -> None:
    """Moving into it works as with any channel, with the read state; moving out of it isn't possible."""
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    move_in = partial(saving(world).move_in, ANN)
    assert await move_in(["1", "2"], NOW, most=0) == 2
    assert await world.ids("home") == ["3"]
    assert await read_flags(world, "saved") == {"2": False, "1": True}
    assert await world.timelines.move(ANN, "work", ["1", "2", "3"], NOW) == 3
    assert await read_flags(world, "work") == {"3": False, "2": False, "1": True}
    assert await world.ids("saved") == ["2", "1"]
    await world.timelines.move(ANN, "home", ["1"], NOW)
    assert (await world.ids("home"), await world.ids("saved")) == (["1"], ["2", "1"])
    with pytest.raises(QuotaReached, match="saved posts is reached: 2 of 2"):
        await move_in(["2", "3"], NOW, most=2)
    assert await move_in(["1", "2"], NOW, most=2) == 2


async def test_the_quota_holds_for_many_moves_at_once(world: OneReader) -> None:
    """Missing items and saved ones take no room; of one move all items come in or none, however many there are."""
    move_in = partial(saving(world).move_in, ANN)
    found = await asyncio.gather(*(move_in([one], NOW, most=1) for one in "123"), return_exceptions=True)
    assert sorted(map(str, found)) == ["1", *["the limit for saved posts is reached: 1 of 1"] * 2]
    (first,) = await world.ids("saved")
    second, third = await world.ids("home")
    assert await move_in(["99999", first, second], NOW, most=2) == 1
    assert await move_in(["99999", first], NOW, most=2) == 0
    await world.add("home", item(4))
    with pytest.raises(QuotaReached, match="saved posts is reached: 2 of 3"):
        await move_in([third, "4"], NOW, most=3)
    assert await world.ids("home") == ["4", third]
    many = [str(number) for number in range(1000, 1300)]
    await world.add("home", *(item(int(number)) for number in many))
    with pytest.raises(QuotaReached, match="saved posts is reached: 2 of 301"):
        await move_in(many, NOW, most=301)
    assert len(await world.ids("home", limit=1000)) == 302
    assert await move_in(many, NOW, most=302) == 300
    assert await violations(world.redis, ANN, SAVED) == []


async def test_a_post_that_is_deleted_meanwhile_is_not_kept(world: OneReader) -> None:
    """No saved item refers to a deleted post."""

    class Vanishing(type(world.items)):  # type: ignore[misc]
        async def timeline_items(self, ids: list[str]) -> list[object]:
            found = await super().timeline_items(ids)
            for one in ids:
                self.items.pop(one, None)
            return found  # type: ignore[no-any-return]

    items = Vanishing(dict(world.items.items), dict(world.items.feeds))
    assert await SavedPosts(world.redis, items).save(ANN, ["1"], NOW) == 0
    assert await world.ids("saved") == []


async def test_killed_between_any_two_steps(real_redis: Redis) -> None:
    """After a crash in saving or unsaving, at any step, the same request completes it."""
    redis = Killing(real_redis)
    dying = OneReader(redis)

    async def prepare() -> None:
        await dying.begin()
        await dying.add("home", item(1), item(2), item(3))
        await saving(dying).save(ANN, ["3"], NOW)

    async def act() -> None:
        await saving(dying).save(ANN, ["1", "2"], NOW)
        await saving(dying).unsave(ANN, ["3"], NOW)

    async def state() -> tuple[list[str], ...]:
        assert await violations(redis, ANN, SAVED) == []
        assert await wrong_arrivals(redis, ANN) == []
        return await dying.ids("home"), await dying.ids("saved")

    assert await killed_anywhere(redis, prepare, act, state) == 4
