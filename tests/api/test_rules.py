"""The actions `mute`, `unmute`, `block`, `unblock`."""

from __future__ import annotations

import pytest

from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"
ANN = "https://blog.example/"
BEN = "https://ben.example/"


@pytest.fixture
async def full(alice: Reader, server: World) -> Reader:
    """Alice follows a feed in two channels, in which Ann and Ben write."""
    await server.publish(FEED, *posts("a1", "a2"), *posts("b1", author=BEN, host="ben.example", at=NOON - 9))
    for uid in ("home", "later"):
        await alice.post(action="follow", channel=uid, url=FEED)
    return alice


@pytest.mark.parametrize("channel", [{}, {"channel": "global"}])
async def test_mute_everywhere(full: Reader, channel: dict[str, str]) -> None:
    """Without a channel, or with `global`, in all channels; new posts too."""
    await full.post(action="mute", url=ANN, **channel)
    assert await full.names("home") == await full.names("later") == ["b1"]
    assert (await full.get(action="mute", **channel))["items"] == [{"type": "card", "url": ANN}]


async def test_rules_need_a_channel_that_exists_and_an_address(full: Reader) -> None:
    """Errors name the parameter."""
    for action in ("mute", "unmute", "block", "unblock"):
        await full.post(404, action=action, channel="nowhere", url=ANN)
        assert "'url'" in (await full.post(400, action=action, channel="home"))["error_description"]
        assert "'url'" in (await full.post(400, action=action, channel="home", url="ann"))["error_description"]
    await full.get(404, action="mute", channel="nowhere")
    await full.get(404, action="block", channel="nowhere")
