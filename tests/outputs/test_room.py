"""Items that leave an output feed at its maximum size, and items that are refused."""

from __future__ import annotations

import pytest

from microsub.server.stores import output_contents
from tests.outputs.conftest import Publisher
from tests.support.readers import OTHER, posts


def limited(alice: Publisher, most: int) -> None:
    """Limit Alice's output feeds to this number of items."""

    async def room(_user: str) -> int:
        return most

    alice.server.use(output_contents=output_contents(alice.server, room))


@pytest.fixture
async def later(alice: Publisher) -> dict[str, str]:
    """Two items of another channel, by name."""
    await alice.server.publish(OTHER, *posts("mine", "other", at=alice.server.now - 100, host="other.example"))
    await alice.reader.post(action="follow", channel="later", url=OTHER)
    return {item["name"]: item["_id"] for item in await alice.reader.timeline("later")}


async def test_new_items_replace_the_oldest(alice: Publisher) -> None:
    """This also holds for feeds that are smaller than the number that leaves a large feed at once."""
    limited(alice, 10)
    addresses = await alice.make(channel="home")
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]
    alice.server.now += 10
    await alice.publish(*[f"n{number}" for number in range(8)], at=alice.server.now - 50)
    alice.server.now += 10
    shown = await alice.shown(addresses["json"])
    assert shown == [*(f"n{number}" for number in range(8)), "a", "b"]
    assert await alice.shown(addresses["json"]) == shown
    await alice.publish(*[f"m{number}" for number in range(12)], at=alice.server.now - 50)
    alice.server.now += 10
    assert await alice.shown(addresses["json"]) == [f"m{number}" for number in range(10)]


async def test_archives_stay_when_the_oldest_leave(alice: Publisher) -> None:
    """In a feed that is large enough for archives, the items of a whole archive leave together."""
    limited(alice, 250)
    addresses, server = await alice.make(channel="home"), alice.server
    sizes = []
    for day in range(7):
        server.now += 1000
        await alice.publish(*[f"n{day} {number}" for number in range(40)], at=server.now - 500)
        server.now += 10
        await alice.shown(addresses["json"])
        sizes.append(sum(await server.outputs.size(await server.outputs.get("alice", "picks"))))
    assert sizes == [43, 83, 123, 163, 203, 243, 233]


async def test_republished_items_need_room(alice: Publisher) -> None:
    """An imported item needs room like a new one; if there is none, nothing changes."""
    ids = await alice.items()
    addresses = await alice.make(max_impressions=1)
    await alice.add(ids["a"], ids["b"])
    await alice.shown(addresses["json"])
    limited(alice, 2)
    await alice.add(ids["c"])
    before = await alice.state()
    assert sorted(before.values()) == [("imported", 1), ("published", 0), ("removed", 1)]
    again = {"action": "outputs", "method": "publish", "output": "picks", "entry[]": [ids["b"], ids["a"]]}
    refused = await alice.reader.post(403, **again)
    assert "1 of 2" in refused["error_description"]
    assert await alice.state() == before


async def test_picks_make_room_of_what_a_channel_brought_in(alice: Publisher, later: dict[str, str]) -> None:
    """Picks never replace other picks: if the feed has only picks, one more is refused."""
    limited(alice, 3)
    addresses = await alice.make(channel="home")
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]
    await alice.add(later["mine"], later["other"])
    assert await alice.shown(addresses["json"]) == ["other", "mine", "a"]
    ids = await alice.items()
    await alice.add(ids["a"], method="publish")
    assert await alice.shown(addresses["json"]) == ["a", "other", "mine"]
    await alice.reader.post(403, action="outputs", method="add", output="picks", entry=ids["b"])
    assert await alice.shown(addresses["json"]) == ["a", "other", "mine"]
