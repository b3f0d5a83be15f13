"""Output feeds after the removal of their channel, entry in backend.json or address, and after their return."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.base.errors import QuotaReached
from microsub.configuration.model import OutputConfig
from tests.outputs.conftest import Publisher
from tests.support.readers import FEED, OTHER, posts


async def declare(alice: Publisher, outputs: dict[str, Any]) -> None:
    """Declare output feeds of Alice in backend.json."""
    alice.server.now += 10
    alice.server.save({"users": {"alice": {"outputs": outputs}}}, at=alice.server.now)
    await alice.server.configuration.look()


async def test_a_feed_ends_to_take_in_with_its_channel(alice: Publisher) -> None:
    """A new channel with the same uid isn't passed on; existing items stay, and the feed can be set to the new one."""
    addresses = await alice.make(channel="home", public="true")
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]
    await alice.reader.post(action="channels", method="delete", channel="home")
    alice.server.now += 5
    made = await alice.reader.post(action="channels", name="Home")
    assert made["uid"] == "home"
    await alice.server.publish(OTHER, *posts("private", at=alice.server.now - 100, host="other.example"))
    await alice.reader.post(action="follow", channel="home", url=OTHER)
    alice.server.now += 5
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]
    given = {"output": "picks", "channel": "home", "public": "true"}
    await alice.reader.post(action="outputs", method="change", **given)
    alice.server.now += 5
    assert await alice.shown(addresses["json"]) == ["private", "a", "b", "c"]


async def test_a_restored_channel_is_published_again(alice: Publisher) -> None:
    """Meanwhile the feed shows only items that it already has."""
    server, addresses = alice.server, await alice.make(channel="home")
    await server.channels.disable("alice", "home", server.now)
    assert await alice.shown(addresses["json"]) == []
    await server.channels.restore("alice", "home")
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]


async def test_a_channel_may_be_made_after_the_feed(alice: Publisher) -> None:
    """An import may name a channel that doesn't exist yet: the first one with this uid is used, and no later one."""
    await alice.server.outputs.put("alice", "picks", OutputConfig(channel="coming"), alice.server.now)
    (feed,) = (await alice.reader.get(action="outputs"))["outputs"]
    address = feed["addresses"]["json"]
    assert await alice.shown(address) == []
    for seen in (["a", "b", "c"], ["a", "b", "c"]):
        alice.server.now += 5
        await alice.reader.post(action="channels", name="Coming")
        await alice.reader.post(action="follow", channel="coming", url=FEED)
        assert await alice.shown(address) == seen
        await alice.reader.post(action="channels", method="delete", channel="coming")
        await alice.publish("late", at=alice.server.now)


async def test_create_begins_with_nothing_of_a_feed_that_was_removed(alice: Publisher) -> None:
    """The new feed has another address and no items; the former address is gone permanently."""
    ids = await alice.items()
    await declare(alice, {"picks": {"title": "Old"}})
    (feed,) = (await alice.reader.get(action="outputs"))["outputs"]
    await alice.add(ids["a"], ids["b"])
    await declare(alice, {})
    assert (await alice.get(feed["addresses"]["json"])).status_code == 404
    made = await alice.make(public="true")
    assert await alice.shown(made["json"]) == []
    assert (await alice.get(feed["addresses"]["json"])).status_code == 410
    assert await alice.state() == {}
    assert (await alice.server.check()).is_clean


async def test_removed_feeds_do_not_count(alice: Publisher) -> None:
    """They don't count for other feeds, but recreating one needs a free place."""
    outputs, now = alice.server.outputs, alice.server.now
    first = await outputs.create("alice", "one", OutputConfig(), now, most=1)
    await outputs.remove("alice", "one", now)
    await outputs.create("alice", "two", OutputConfig(), now, most=1)
    with pytest.raises(QuotaReached):
        await outputs.create("alice", "one", OutputConfig(), now, most=1)
    assert (await outputs.put("alice", "one", OutputConfig(), now)).id == first.id
