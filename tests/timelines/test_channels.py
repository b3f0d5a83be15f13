"""Channels, their order, and follows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from microsub.base.errors import InvalidRequest, NotFound, QuotaReached, StoreDamaged
from microsub.configuration.model import Quotas
from microsub.model.reader import GLOBAL, Channel, PageQuery, Subscription
from microsub.model.settings import Filters, FollowSettings, OwnChannelSettings
from microsub.redis import keys
from microsub.timelines import Channels
from microsub.timelines.add import Added
from tests.support.invariants import all_keys
from tests.support.one_reader import ANN, NOW, OneReader, item


async def uids(world: OneReader) -> list[str]:
    return [channel.uid for channel in await world.channels.list(ANN)]


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        ("Indie Web", "indie-web"),
        ("Ünïcode — Näme", "unicode-name"),
        ("日本語", "channel"),
        ("Global", "global-2"),
        ("saved", "saved-2"),
        ("home", "home-2"),
        ("x" * 90, "x" * 64),
        ("a_b", "a_b"),
    ],
)
async def test_a_uid_is_made_from_the_name(world: OneReader, name: str, uid: str) -> None:
    """A uid is short, safe in a path, unique, and never a reserved one."""
    assert (await world.channels.create(ANN, name, NOW)).uid == uid


async def test_creating_a_name_twice_finds_the_channel(world: OneReader) -> None:
    """One name makes one channel, also for two requests at once."""
    made = await asyncio.gather(*(world.channels.create(ANN, "News", NOW) for _ in range(10)))
    assert {channel.uid for channel in made} == {"news"}
    assert (await world.channels.create(ANN, " Notifications ", NOW)).uid == "notifications"
    assert await uids(world) == ["notifications", "home", "work", "news", "saved"]


async def test_given_uids_are_checked(world: OneReader) -> None:
    """Reserved and malformed uids are refused; an existing uid is found whatever the channel's name is."""
    for uid in ("global", "a.b", "", "x" * 65):
        with pytest.raises(InvalidRequest, match="uid"):
            await world.channels.create(ANN, "Name", NOW, uid)
    assert (await world.channels.create(ANN, "Other", NOW, "home")).name == "Home"
    assert (await world.channels.create(ANN, "Other", NOW, "notifications")).name == "Notifications"
    assert (await world.channels.create(ANN, "Other", NOW, "saved")).name == "Saved"
    for name in ("", "   ", "x" * 301):
        with pytest.raises(InvalidRequest, match="name"):
            await world.channels.create(ANN, name, NOW)


async def test_a_deleted_channel_leaves_nothing(world: OneReader) -> None:
    """A deletion removes timeline, rules and follows, and returns the feeds to unsubscribe from."""
    await world.add("home", item(1))
    assert await world.channels.delete(ANN, "home") == ["1"]
    assert await uids(world) == ["notifications", "work", "saved"]
    assert [name for name in await all_keys(world.redis) if b":home" in name] == []
    assert await world.add("home", item(2)) == Added(subscribed=False)
    with pytest.raises(NotFound, match="no channel 'home'"):
        await world.channels.delete(ANN, "home")
    for uid in ("notifications", "saved"):
        with pytest.raises(InvalidRequest, match=uid):
            await world.channels.delete(ANN, uid)
        with pytest.raises(InvalidRequest, match=uid):
            await world.channels.disable(ANN, uid, NOW)


async def test_a_removed_channel_comes_back_whole(world: OneReader) -> None:
    """A disabled channel is neither listed, read nor filled, and returns with place, items and feeds."""
    await world.add("home", item(1))
    assert await world.channels.disable(ANN, "home", NOW) == ["1"]
    assert await world.channels.disable(ANN, "home", NOW + 1) == ["1"], "again, which changes nothing"
    assert await uids(world) == ["notifications", "work", "saved"]
    assert await world.channels.removed(ANN) == {"home": NOW}
    assert await world.add("home", item(2)) == Added(subscribed=False)
    assert await world.ids("global") == []
    for call in (
        world.channels.get(ANN, "home"),
        world.timelines.page(ANN, "home", PageQuery(), NOW),
        world.timelines.mark_all_read(ANN, "home", NOW),
        world.channels.follow(ANN, "home", "2", "u", NOW),
    ):
        with pytest.raises(NotFound, match="no channel 'home'"):
            await call
    assert (await world.channels.create(ANN, "home", NOW)).uid == "home-2"
    assert await world.channels.restore(ANN, "home") == ["1"]
    assert await uids(world) == ["notifications", "home", "work", "home-2", "saved"]
    assert await world.ids("home") == ["1"]
    assert await world.unread("home") == 1


async def test_restored_channels_count_against_quotas(world: OneReader) -> None:
    """Otherwise removing and restoring channels would exceed the quota; this also holds for many requests at once."""
    for uid in ("one", "two", "three"):
        await world.channels.create(ANN, uid, NOW, uid)
        await world.channels.follow(ANN, uid, uid, f"https://{uid}.example/feed", NOW)
        await world.rules.mute(ANN, uid, "https://loud.example/", NOW)
        await world.channels.disable(ANN, uid, NOW)
    await world.rules.block(ANN, GLOBAL, "https://loud.example/", NOW)
    for limits, refused in (
        (Quotas(channels=2), "channels is reached: 3 of 2"),
        (Quotas(feeds=1), "feeds is reached: 2 of 1"),
        (Quotas(rules=1), "mutes and blocks is reached: 2 of 1"),
    ):
        with pytest.raises(QuotaReached, match=refused):
            await world.channels.restore(ANN, "one", limits)
    assert await uids(world) == ["notifications", "home", "work", "saved"]
    limits = Quotas(channels=4, feeds=3, rules=3)
    restored = [world.channels.restore(ANN, uid, limits) for uid in ("one", "two", "three")]
    outcomes = await asyncio.gather(*restored, return_exceptions=True)
    assert sum(isinstance(one, QuotaReached) for one in outcomes) == 1
    assert len(await uids(world)) == 6


async def test_subscriptions_are_kept_per_channel(world: OneReader) -> None:
    """Following is idempotent; names can change; a feed that moves keeps its followers."""
    assert await world.channels.follow(ANN, "work", "7", "https://seven.example/", 1700000000.123456, "Seven")
    assert not await world.channels.follow(ANN, "work", "7", "https://other.example/", NOW)
    seven = Subscription("7", "https://seven.example/", 1700000000.123456, "Seven")
    assert await world.channels.subscriptions(ANN, "work") == [seven]
    assert [sub.feed for sub in (await world.channels.all_subscriptions(ANN))["home"]] == ["1"]
    await world.channels.update_subscription(ANN, "work", "7", name="")
    await world.channels.update_subscription(ANN, "work", "7", new_feed="8")
    moved = Subscription("8", "https://seven.example/", 1700000000.123456, None, "7")
    assert await world.channels.subscriptions(ANN, "work") == [moved]
    assert await world.channels.update_subscription(ANN, "work", "7", name="x") is None
    assert await world.channels.unfollow(ANN, "work", "8")
    assert not await world.channels.unfollow(ANN, "work", "8")


async def test_settings_of_a_follow(world: OneReader) -> None:
    """They are kept when the feed moves to another address, and end with the follow."""
    own = FollowSettings(
        view="list", hide_in_all=True, notify=False, keep_unread_days=2.5, filter=Filters(exclude_words=("sport",))
    )
    await world.channels.follow(ANN, "work", "7", "https://seven.example/", NOW, "Seven", settings=own)
    await world.channels.update_subscription(ANN, "work", "7", new_feed="8")
    (moved,) = await world.channels.subscriptions(ANN, "work")
    assert (moved.name, moved.settings) == ("Seven", own)
    quiet = FollowSettings(notify=False)
    changed = await world.channels.update_subscription(ANN, "work", "8", settings=quiet)
    assert changed is not None
    assert (changed.name, changed.settings) == ("Seven", quiet)
    assert await world.channels.subscription(ANN, "work", "8") == changed
    # Another device has changed its view since this one read the settings.
    await world.channels.update_subscription(ANN, "work", "8", settings=replace(quiet, view="cards"))
    paused = replace(quiet, paused=True)
    changed = await world.channels.update_subscription(ANN, "work", "8", settings=paused, former=quiet)
    assert changed is not None
    assert changed.settings == FollowSettings(notify=False, view="cards", paused=True)
    await world.channels.unfollow(ANN, "work", "8")
    await world.channels.follow(ANN, "work", "8", "https://seven.example/", NOW)
    (again,) = await world.channels.subscriptions(ANN, "work")
    assert not again.settings


async def test_remembered_names_never_outlive_a_change(world: OneReader) -> None:
    """The next list shows every change by another process, though names are remembered between lists."""
    token = await world.accounts.create_token(ANN, ["read"], "", NOW)
    credential = world.accounts.credential(token)
    assert credential is not None
    other, elsewhere = Channels(world.redis), world.channels

    async def agree() -> list[Channel]:
        listed = await elsewhere.list(ANN)
        for _ in range(2):
            _, names, counts = await other.counts_with_token(credential, NOW)
            assert listed == [replace(one, unread=int(n)) for one, n in zip(names.channels, counts, strict=True)]
        return listed

    first = await agree()
    await elsewhere.rename(ANN, "home", "Friends", NOW)
    assert [one.name for one in await agree()] != [one.name for one in first]
    await elsewhere.set_settings(ANN, "home", OwnChannelSettings(unread="boolean"), NOW)
    assert "boolean" in {one.settings.unread for one in await agree()}
    await elsewhere.order(ANN, ["work", "home"])
    assert [one.uid for one in await agree()] == ["notifications", "work", "home", "saved"]
    await world.add("home", item(1), item(2))
    assert [one.unread for one in await agree()] == [0, 0, 2, 0]
    await elsewhere.delete(ANN, "work")
    await elsewhere.create(ANN, "Another", NOW, "work")
    assert [one.name for one in await agree()] == ["Notifications", "Friends", "Another", "Saved"]
    await elsewhere.disable(ANN, "work", NOW)
    assert len(await agree()) == 3
    await elsewhere.restore(ANN, "work")
    assert len(await agree()) == 4


async def test_a_subscription_that_cant_be_decoded_is_named(world: OneReader) -> None:
    """The error names the key and the field; the follow isn't treated as missing."""
    await world.redis.command("HSET", keys.channel_feeds(ANN, "home"), "77", "{")
    with pytest.raises(StoreDamaged, match=r"channel:home:feeds 77"):
        await world.channels.subscriptions(ANN, "home")


async def test_an_unread_item_in_several_channels_counts_once(
    world: OneReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly up to a bound; above a first bound, by a second look that is kept for a while."""

    async def unread(uid: str, *numbers: int) -> None:
        await world.redis.command("SADD", keys.unread(ANN, uid), *numbers)

    async def counted() -> tuple[int, int]:
        _, counts, distinct, _ = await world.channels.distinct_counts(ANN)
        return sum(counts), distinct

    assert await counted() == (0, 0)
    await unread("home", *range(1, 1500))
    assert await counted() == (1499, 1499)
    await unread("work", 7, 8, 9000, 9001)
    await unread("saved", 7, 9000, 9002)
    assert await counted() == (1506, 1502)
    monkeypatch.setattr("microsub.timelines.channels.store.COMPARED", 6)
    assert await counted() == (1506, 1502)
    monkeypatch.setattr("microsub.timelines.channels.store.REPEATS_GUESSED", 10.0)
    await unread("saved", 9001)
    assert await counted() == (1507, 1503)
    monkeypatch.setattr("microsub.timelines.channels.store.REPEATS_GUESSED", 0.0)
    assert await counted() == (1507, 1502)
    monkeypatch.setattr("microsub.timelines.channels.store.MOST_COMPARED", 6)
    world.channels._repeats.clear()
    assert await counted() == (1507, 1507)
