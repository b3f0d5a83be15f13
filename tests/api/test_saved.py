"""Saved posts in the API."""

from __future__ import annotations

import asyncio

import pytest

from microsub.configuration.model import InstanceSettings, Quotas
from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"


@pytest.fixture
async def ids(server: World, alice: Reader) -> list[str]:
    """Three posts in Alice's channel `home`, newest first."""
    await server.publish(FEED, *posts("c", "b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    return await alice.ids("home")


async def test_moving_into_saved(alice: Reader, ids: list[str]) -> None:
    """A move works as into any other channel."""
    assert (await alice.post(action="timeline", method="move", channel="saved", entry=ids[0]))["updated"] == 1
    assert (await alice.ids("home"), await alice.ids("saved")) == (ids[1:], ids[:1])


async def test_foreign_and_unknown_posts_cant_be_saved(alice: Reader, bob: Reader, ids: list[str]) -> None:
    """Other users' posts and unknown ids are ignored; an unknown channel, or no item, is an error."""
    assert (await bob.post(action="timeline", method="save", **{"entry[]": ids}))["updated"] == 0
    assert await bob.ids("saved") == []
    assert (await alice.post(action="timeline", method="save", entry=["x", "999999", "-1"]))["updated"] == 0
    await alice.post(404, action="timeline", method="save", channel="nowhere", entry=ids[0])
    assert "'entry' is missing" in (await alice.post(400, action="timeline", method="save"))["error_description"]
    too_many = await alice.post(
        400, action="timeline", method="unsave", **{"entry[]": [str(n) for n in range(1, 1002)]}
    )
    assert "expected 1000 at most" in too_many["error_description"]


async def test_saved_follows_and_rules_nothing(alice: Reader, ids: list[str]) -> None:
    """It can be renamed; the errors name the channel."""
    for request in (
        {"action": "follow", "channel": "saved", "url": FEED},
        {"action": "follow", "method": "update", "channel": "saved", "url": FEED},
        {"action": "mute", "channel": "saved", "url": FEED},
        {"action": "block", "channel": "saved", "url": FEED},
    ):
        refused = await alice.post(400, **request)
        assert refused["error"] == "invalid_request"
        assert "'saved'" in refused["error_description"]
    assert (await alice.get(action="follow", channel="saved"))["items"] == []
    renamed = await alice.post(action="channels", channel="saved", name="Gemerkt")
    assert (renamed["uid"], renamed["name"]) == ("saved", "Gemerkt")
    tree = await alice.get(action="channels", method="tree")
    assert (tree["channels"][-1]["uid"], tree["channels"][-1]["sources"]) == ("saved", [])


async def test_how_much_may_be_saved(server: World, alice: Reader, ids: list[str]) -> None:
    """The error names limit and count; exactly as many are saved as there is room for, by many requests at once too."""
    server.settings = InstanceSettings(quotas=Quotas(saved=2))
    for method, more in (("save", {}), ("move", {"channel": "saved"})):
        refused = await alice.post(403, action="timeline", method=method, **more, **{"entry[]": ids})
        assert "the limit for saved posts is reached: 0 of 2" in refused["error_description"]

    async def one(entry: str) -> int:
        body = {"action": "timeline", "method": "save", "entry": entry}
        return (await server.client.post("/microsub", data=body, headers=alice.headers)).status_code

    assert sorted(await asyncio.gather(*map(one, ids))) == [200, 200, 403]
    again = {"entry[]": await alice.ids("saved")}
    assert (await alice.post(action="timeline", method="save", **again))["updated"] == 0
    assert (await alice.post(action="timeline", method="unsave", **{"entry[]": ids}))["updated"] == 2
    await alice.post(action="timeline", method="save", entry=ids[0])
