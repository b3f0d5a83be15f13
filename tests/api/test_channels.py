"""The `channels` action."""

from __future__ import annotations

import asyncio
import gc

import pytest

from microsub.api import channels
from microsub.model.settings import OwnChannelSettings
from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"


def uids(reply: dict[str, object]) -> list[str]:
    return [channel["uid"] for channel in reply["channels"]]  # type: ignore[attr-defined]


async def test_invalid_changes_of_channels_are_refused(alice: Reader) -> None:
    """`notifications` and `saved` stay; `global` isn't a channel; unknown ones are not found."""
    for uid in ("notifications", "saved"):
        refused = await alice.post(400, action="channels", method="delete", channel=uid)
        assert refused["error"] == "invalid_request"
        assert uid in refused["error_description"]
    assert (await alice.post(400, action="channels", channel="global", name="x"))["error"] == "invalid_request"
    assert (await alice.post(404, action="channels", channel="nowhere", name="x"))["error"] == "not_found"
    assert "'name' is missing" in (await alice.post(400, action="channels"))["error_description"]
    assert "'name' is missing" in (await alice.post(400, action="channels", channel="home"))["error_description"]


async def test_a_deleted_channel_leaves_no_subscriber(alice: Reader, server: World) -> None:
    """Its feeds aren't polled for it any more."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)
    await alice.post(action="channels", method="delete", channel="home")
    assert await server.feeds.subscribers(feed.id) == []
    await alice.get(404, action="timeline", channel="home")


async def test_order_of_unknown_channels_changes_nothing(alice: Reader) -> None:
    """With one wrong uid the order stays the same."""
    await alice.post(404, action="channels", method="order", **{"channels[]": ["later", "nowhere", "home"]})
    assert uids(await alice.get(action="channels")) == ["notifications", "home", "later", "saved"]
    assert "'channels' is missing" in (await alice.post(400, action="channels", method="order"))["error_description"]
    await alice.post(400, action="channels", method="order", channels="a b")


async def test_unread_as_count_boolean_or_nothing(alice: Reader, server: World) -> None:
    """Each channel's setting decides, for its sources too."""
    await server.publish(FEED, *posts("a", "b"))
    for uid in ("home", "later"):
        await alice.post(action="follow", channel=uid, url=FEED)
    await server.channels.set_settings("alice", "home", OwnChannelSettings(unread="boolean"), NOON)
    await server.channels.set_settings("alice", "later", OwnChannelSettings(unread="none"), NOON)
    for method in ("", "tree"):
        notifications, home, later, _ = (await alice.get(action="channels", method=method))["channels"]
        assert notifications["unread"] == 0
        assert home["unread"] is True
        assert "unread" not in later
    assert home["sources"][0]["unread"] is True
    assert "unread" not in later["sources"][0]


async def test_trees_of_several_users_are_read_at_the_same_time(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process remembers fewer feeds of posts than the trees need together."""
    monkeypatch.setattr("microsub.timelines.views._MOST_ITEMS", 4)
    bob = await server.reader("bob", "home")
    readers = (alice, bob)
    for number, (reader, url) in enumerate(zip(readers, (FEED, OTHER), strict=True)):
        await server.publish(url, *posts(f"{number}a", f"{number}b", f"{number}c"))
        await reader.post(action="follow", channel="home", url=url)
    for number in range(3):
        await readers[number % 2].get(action="channels", method="tree")
        await server.publish((FEED, OTHER)[number % 2], *posts(f"more{number}", at=NOON + number))
        trees = await asyncio.gather(*(reader.get(action="channels", method="tree") for reader in readers))
        totals = [tree["channels"][1]["sources"][0]["total"] for tree in trees]
        assert sum(totals) == 7 + number


async def test_tree_counts_by_source(alice: Reader, server: World) -> None:
    """Every feed of a channel with its own counts and its latest post's time; the unread counts add up to the
    channel's. Both say where they can be changed.
    """
    one = await server.publish(FEED, *posts("a", "b", "c"), title="One")
    two = await server.publish(OTHER, *posts("x", "y", host="other.example"), title="Two")
    for url in (FEED, OTHER):
        await alice.post(action="follow", channel="home", url=url)
    (first, *_) = await alice.ids("home", source=one.id)
    await alice.post(action="timeline", method="mark_read", channel="home", entry=first)
    _, home, later, _ = (await alice.get(action="channels", method="tree"))["channels"]
    latest = [
        (await alice.get(action="timeline", channel="home", source=feed.id))["items"][0]["published"]
        for feed in (one, two)
    ]
    page = {"_settings": "http://server.test/channels/home"}
    more = {"last_update": latest[0], **page}
    assert home["unread"] == 4
    assert home["sources"] == [
        {"uid": one.id, "url": FEED, "name": "One", "unread": 2, "total": 3, **more},
        {"uid": two.id, "url": OTHER, "name": "Two", "unread": 2, "total": 2, "last_update": latest[1], **page},
    ]
    assert home["_settings"] == page["_settings"]
    assert later["sources"] == []


async def test_lists_of_former_names_are_not_remembered(alice: Reader) -> None:
    """A list of thousands of channels is megabytes: repeated renames would fill the memory."""
    before = len(channels._templates)
    for number in range(5):
        await alice.post(action="channels", channel="home", name=f"Home {number}")
        assert "Home" in str(await alice.get(action="channels"))
    gc.collect()
    assert len(channels._templates) <= before + 1
