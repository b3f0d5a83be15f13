"""The actions `mute`, `unmute`, `block`, `unblock`."""

from __future__ import annotations

import pytest

from tests.support.posts import NOON
from tests.support.readers import Instance, Reader, posts

FEED = "https://blog.example/feed"
ANN = "https://blog.example/"
BEN = "https://ben.example/"


@pytest.fixture
async def full(alice: Reader, server: Instance) -> Reader:
    """Alice follows a feed in two channels, in which Ann and Ben write."""
    await server.publish(FEED, *posts("a1", "a2"), *posts("b1", author=BEN, host="ben.example", at=NOON - 9))
    for uid in ("home", "later"):
        await alice.post(action="follow", channel=uid, url=FEED)
    return alice


async def test_mute_in_one_channel(full: Reader) -> None:
    """Neither shown nor counted there; unmuted, all is as before."""
    read, *_ = await full.ids("home")
    await full.post(action="timeline", method="mark_read", channel="home", entry=read)
    before = await full.items("home")
    assert await full.post(action="mute", channel="home", url=ANN) == {"type": "card", "url": ANN}
    assert await full.names("home") == ["b1"]
    assert await full.unread("home") == 1
    assert len(await full.ids("later")) == 3
    assert await full.get(action="mute", channel="home") == {"items": [{"type": "card", "url": ANN}]}
    assert await full.get(action="mute", channel="later") == {"items": []}
    assert await full.post(action="unmute", channel="home", url="HTTP://BLOG.example") == {
        "type": "card",
        "url": "HTTP://BLOG.example",
    }
    assert await full.items("home") == before
    assert await full.unread("home") == 2


@pytest.mark.parametrize("channel", [{}, {"channel": "global"}])
async def test_mute_everywhere(full: Reader, channel: dict[str, str]) -> None:
    """Without a channel, or with `global`, in all of them; new posts too."""
    await full.post(action="mute", url=ANN, **channel)
    assert await full.names("home") == await full.names("later") == ["b1"]
    assert (await full.get(action="mute", **channel))["items"] == [{"type": "card", "url": ANN}]


async def test_mute_a_source(full: Reader) -> None:
    """By the feed's address, whoever the author is."""
    await full.post(action="mute", channel="home", url=FEED)
    assert await full.ids("home") == []


async def test_block_removes_for_good(full: Reader, server: Instance) -> None:
    """What is there goes, what comes is refused; unblocked, only new posts come in."""
    await full.post(action="block", channel="home", url=ANN)
    assert await full.names("home") == ["b1"]
    await server.publish(FEED, *posts("a3", at=NOON + 50))
    assert await full.names("home") == ["b1"]
    assert (await full.get(action="block", channel="home"))["items"] == [{"type": "card", "url": ANN}]
    await full.post(action="unblock", channel="home", url=ANN)
    await server.publish(FEED, *posts("a4", at=NOON + 60))
    assert await full.names("home") == ["a4", "b1"]
    assert await full.get(action="block", channel="home") == {"items": []}


async def test_rules_need_a_channel_that_exists_and_an_address(full: Reader) -> None:
    """Errors name the parameter."""
    for action in ("mute", "unmute", "block", "unblock"):
        await full.post(404, action=action, channel="nowhere", url=ANN)
        assert "'url'" in (await full.post(400, action=action, channel="home"))["error_description"]
        assert "'url'" in (await full.post(400, action=action, channel="home", url="ann"))["error_description"]
    await full.get(404, action="mute", channel="nowhere")
    await full.get(404, action="block", channel="nowhere")
