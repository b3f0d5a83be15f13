"""Follows and unfollows that are interrupted, or happen at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from microsub.base.errors import StoreError
from microsub.redis import keys
from microsub.timelines import follow
from microsub.timelines.channels.follows import Follows, in_turns
from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"


def break_at(server: World, store: object, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the next call of `method` fail as if the process had died there."""

    async def broken(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise StoreError("gone")

    monkeypatch.setattr(store, method, broken)


@pytest.mark.parametrize("step", ["add", "subscribe", "schedule"])
async def test_a_follow_that_broke_off_is_completed_by_the_next(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """After an interruption at any step: filled once, subscribed, and only the newest unread."""
    feed = await server.publish(FEED, *posts(*[f"p{number:02d}" for number in range(15, 0, -1)]))
    store, method = {
        "add": (server.timelines, "add"),
        "subscribe": (server.feeds, "subscribe"),
        "schedule": (server.schedule, "add"),
    }[step]
    break_at(server, store, method, monkeypatch)
    await alice.post(503, action="follow", channel="home", url=FEED)
    await alice.post(action="follow", channel="home", url=FEED)
    assert len(await alice.ids("home", limit=100)) == 15
    assert await alice.unread("home") == 10
    assert await server.feeds.subscribers(feed.id) == [("alice", "home")]


@pytest.mark.parametrize("step", ["take_out_feed", "unsubscribe"])
async def test_an_unfollow_that_broke_off_is_completed_by_the_next(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """This holds even if the subscription is gone already."""
    feed = await server.publish(FEED, *posts("a", "b"))
    await alice.post(action="follow", channel="home", url=FEED)
    store = follow if step == "take_out_feed" else server.feeds
    break_at(server, store, step, monkeypatch)
    await alice.post(503, action="unfollow", channel="home", url=FEED)
    await alice.post(action="unfollow", channel="home", url=FEED)
    assert await alice.ids("home") == []
    assert await server.feeds.subscribers(feed.id) == []


async def test_a_post_that_arrives_while_following_is_not_lost(server: World, alice: Reader) -> None:
    """This holds for every order of the poll's and the follow's steps."""
    await server.publish(FEED, *posts("old", at=NOON - 100))
    for number in range(10):
        await asyncio.gather(
            alice.post(action="follow", channel="home", url=FEED),
            server.publish(FEED, *posts(f"new{number}", at=NOON + number)),
        )
        assert f"new{number}" in await alice.names("home", limit=100)
        await alice.post(action="unfollow", channel="home", url=FEED)


async def test_a_post_arriving_during_a_move_is_not_lost(server: World, alice: Reader) -> None:
    """It is in the new channel, once, and not in the old one."""
    await server.publish(FEED, *posts("old", at=NOON - 100))
    await alice.post(action="follow", channel="home", url=FEED)
    for number, (origin, target) in enumerate([("home", "later"), ("later", "home")] * 5):
        await asyncio.gather(
            alice.post(action="follow", method="update", channel=target, url=FEED),
            server.publish(FEED, *posts(f"new{number}", at=NOON + number)),
        )
        assert f"new{number}" in await alice.names(target, limit=100)
        assert await alice.names(origin) == []


async def test_muted_posts_move_along_with_their_feed(server: World, alice: Reader) -> None:
    """A global mute hides them in the new channel; after the unmute they are there, with their read state."""
    await server.publish(FEED, *posts("b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    await alice.post(action="timeline", method="mark_read", channel="home", entry=(await alice.ids("home"))[0])
    await alice.post(action="mute", channel="global", url=FEED)
    server.now += 3600
    await alice.post(action="follow", method="update", channel="later", url=FEED)
    assert (await alice.names("later"), await alice.unread("later")) == ([], 0)
    await alice.post(action="unmute", channel="global", url=FEED)
    assert [(one["name"], one["_is_read"]) for one in await alice.items("later")] == [("b", True), ("a", False)]
    assert await alice.names("home") == []


async def test_recently_removed_posts_dont_move_along(server: World, alice: Reader) -> None:
    """It stays out even if it was discovered so recently that it might still be in delivery."""
    await server.publish(FEED, *posts("b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    await alice.post(action="timeline", method="remove", channel="home", entry=(await alice.ids("home"))[0])
    await alice.post(action="follow", method="update", channel="later", url=FEED)
    assert await alice.names("later") == ["a"]


def then(store: object, method: str, act: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls `act` right after the next call of `method`."""
    real = getattr(store, method)

    async def followed_by(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        result = await real(*args, **more)
        await act()
        return result

    monkeypatch.setattr(store, method, followed_by)


async def test_a_first_poll_during_a_follow_is_not_lost(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the feed was empty when the follow began, and had notified its followers when it ended."""
    bob = await server.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=FEED)
    then(server.feeds, "ensure", lambda: server.publish(FEED, *posts("b", "a")), monkeypatch)
    await alice.post(action="follow", channel="home", url=FEED)
    assert await alice.names("home") == await bob.names("home") == ["b", "a"]


async def test_a_follow_during_an_unfollow_is_alive(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed that is followed in the end is delivered."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)
    again = lambda: alice.post(action="follow", channel="home", url=FEED)  # noqa: E731
    then(follow, "take_out_feed", again, monkeypatch)
    await alice.post(action="unfollow", channel="home", url=FEED)
    assert await server.feeds.subscribers(feed.id) == [("alice", "home")]


async def test_a_channel_made_again_during_its_deletion_is_alive(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the uid of the old one, but none of its data."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)

    async def again() -> None:
        await alice.post(action="channels", name="Home")
        await alice.post(action="follow", channel="home", url=FEED)

    then(server.channels, "delete", again, monkeypatch)
    await alice.post(action="channels", method="delete", channel="home")
    assert await server.feeds.subscribers(feed.id) == [("alice", "home")]
    assert await alice.names("home") == ["a"]


async def test_a_feed_that_is_moved_back_during_its_move_stays_followed(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages move it at once: it is in one of the channels, with its posts, and new ones arrive there."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)

    async def back() -> None:
        await alice.post(action="follow", method="update", channel="home", url=FEED)

    then(server.channels, "moves", back, monkeypatch)
    await alice.post(404, action="follow", method="update", channel="later", url=FEED)
    await server.publish(FEED, *posts("b", at=NOON + 60))
    assert await server.feeds.subscribers(feed.id) == [("alice", "home")]
    assert await alice.names("home") == ["b", "a"]


async def test_the_id_of_a_page_that_has_become_its_feed_stays_good(server: World, alice: Reader) -> None:
    """The id is in the list, and an app finds the items of the feed by it, even after another change and a move; an
    id that was never a feed of the user finds nothing.
    """
    before = await alice.post(action="follow", channel="home", url="https://blog.example/")
    for url, name in ((FEED, "a"), ("https://blog.example/atom", "b")):
        await server.publish(url, *posts(name))
        (now,) = (await alice.get(action="follow", channel="home"))["items"]
        record = await server.feeds.get(now.get("_feed_id", now["_id"]))
        assert record is not None
        await server.mover.move(record, url, NOON)
    await alice.post(action="follow", method="update", channel="later", url="https://blog.example/")
    (now,) = (await alice.get(action="follow", channel="later"))["items"]
    assert now["_id"] == before["_id"] != now["_feed_id"]
    await server.redis.command("DEL", keys.former_feeds("alice"))  # which expires
    page = await alice.get(action="timeline", channel="later", source=before["_id"])
    assert [item["_source"] for item in page["items"]] == [now["_feed_id"]]
    assert page["source"]["_id"] == now["_feed_id"]
    assert page == await alice.get(action="timeline", channel="later", source=now["_feed_id"])
    await alice.get(404, action="timeline", channel="home", source="999")


async def test_filling_a_channel_costs_in_proportion_to_its_feeds(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following one more feed reads none of the channel's other follows, with a quota or without."""
    use = server.following
    listed: list[str] = []
    for name in ("subscriptions", "all_subscriptions"):
        original = getattr(Follows, name)

        async def counted(*args: Any, was: Any = original, called: str = name, **options: Any) -> Any:
            listed.append(called)
            return await was(*args, **options)

        monkeypatch.setattr(Follows, name, counted)
    for number in range(6):
        url = f"https://blog{number}.example/feed"
        followed = await use.follow("alice", "home", url, NOON + number, "Mine", most=number % 2 * 100)
        assert (followed.subscription.url, followed.subscription.name) == (url, "Mine")
    assert listed == []
    assert len(await server.channels.subscriptions("alice", "home")) == 6
    assert listed == ["subscriptions"]


async def test_thousands_of_feeds_dont_block_the_event_loop() -> None:
    """An entry of a list takes a tenth of a millisecond, in which the event loop serves nobody else."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert [part async for part in in_turns(range(1000))] == list(range(1000))
    task.cancel()
    assert turns >= 10
