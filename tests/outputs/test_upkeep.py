"""Output feeds in upkeep, in the check and in backend.json."""

from __future__ import annotations

from dataclasses import replace

from microsub.redis import keys
from microsub.timelines.retention import RESTORABLE
from tests.outputs.conftest import Publisher
from tests.support.invariants import all_keys

FILE = {
    "users": {"alice": {"outputs": {"picks": {"title": "Picks", "max_impressions": 2}, "all": {"channel": "home"}}}}
}


async def test_a_user_goes_with_all_that_is_theirs(alice: Publisher) -> None:
    """No key remains, and the address answers 404."""
    server, ids = alice.server, await alice.items()
    addresses = await alice.make(max_impressions=1)
    await alice.add(ids["a"], ids["b"])
    await alice.shown(addresses["json"])
    await server.accounts.disable_user("alice", server.now)
    user = await server.accounts.user("alice")
    assert user is not None
    assert await server.accounts.delete_disabled(user)
    assert [key for key in await all_keys(server.redis) if key.startswith(b"user:{alice}")] == []
    assert (await alice.get(addresses["json"])).status_code == 404


async def test_the_check_finds_and_repairs(alice: Publisher) -> None:
    """Lost and duplicate data are found and repaired."""
    server, ids = alice.server, await alice.items()
    addresses = await alice.make(max_impressions=3)
    await alice.add(ids["a"], ids["b"])
    await alice.shown(addresses["json"])
    assert (await server.check()).is_clean
    redis, mine = server.redis, ("alice", "picks")
    await redis.command("ZADD", keys.output_imported(*mine), 1, ids["a"])
    await redis.command("ZREM", keys.output_edited(*mine), ids["b"])
    await redis.command("HSET", keys.output_impressions(*mine), ids["c"], "1 1")
    await redis.command("HSET", keys.output_editions(*mine), ids["c"], "7 x")
    await redis.command("SADD", keys.output_offered(*mine), ids["c"])
    await redis.command("ZADD", keys.output_published(*mine), 1, "1")
    await redis.command("DEL", keys.item("1"))
    await redis.command("DEL", keys.output_addresses("alice"))
    await redis.command("SREM", keys.outputs("alice"), "picks")
    await redis.command("SADD", keys.outputs("alice"), "lost")
    found = {one.what for one in (await server.check()).left}
    assert {"an output feed that isn't listed", "a listed output feed without a record"} <= found
    report = await server.check(repair=True)
    assert report.is_clean, report.as_text()
    assert await alice.shown(addresses["json"])


async def test_backend_json_declares_output_feeds(alice: Publisher) -> None:
    """The file can add, change and remove feeds; a removed one returns with its address and items."""
    server, ids = alice.server, await alice.items()
    server.save(FILE, at=server.now)
    await server.configuration.look()
    found = {feed["name"]: feed for feed in (await alice.reader.get(action="outputs"))["outputs"]}
    assert {name: (feed["title"], feed["max_impressions"]) for name, feed in found.items()} == {
        "picks": ("Picks", 2),
        "all": ("all", 0),
    }
    address = found["picks"]["addresses"]["json"]
    await alice.add(ids["a"])
    later = {"channels": [{"uid": "later"}], "outputs": {"all": {"channel": "later"}}}
    server.save({"users": {"alice": later}}, at=server.now + 10)
    await server.configuration.look()
    (left,) = (await alice.reader.get(action="outputs"))["outputs"]
    assert (left["name"], left["channel"]) == ("all", "later")
    assert (await alice.get(address)).status_code == 404, "it may come back"
    server.save(FILE, at=server.now + 20)
    await server.configuration.look()
    assert await alice.shown(address) == ["a"]


async def test_backend_json_cant_name_a_channel_that_isnt_there(alice: Publisher) -> None:
    """The whole file is refused, with the location; a channel of the file, one of an app, and `saved` are valid."""
    server = alice.server
    outputs = {"a": {"channel": "home"}, "b": {"channel": "new"}, "c": {"channel": "saved"}, "d": {"channel": "hmoe"}}
    server.save({"users": {"alice": {"channels": [{"uid": "new"}], "outputs": outputs}}}, at=server.now + 10)
    assert await server.configuration.look() == "invalid"
    (problem,) = server.configuration.status.problems
    place = "users.alice.outputs.d.channel (line 20): found 'hmoe', which isn't a channel of 'alice', expected "
    assert str(problem).partition(": ")[2].startswith(place)
    assert (await alice.reader.get(action="outputs"))["outputs"] == []
    del outputs["d"]
    server.save({"users": {"alice": {"channels": [{"uid": "new"}], "outputs": outputs}}}, at=server.now + 20)
    assert await server.configuration.look() == "applied"


async def test_a_feed_leaves_the_file_with_its_channel(alice: Publisher) -> None:
    """Otherwise the file that the server writes couldn't be applied after a loss of all data."""
    server = replace(alice.server, write_back=True)
    server.save({"users": {"alice": {}}})
    await server.configuration.look()
    await alice.make("all", channel="home")
    await server.configuration.write_back()
    assert server.saved()["users"]["alice"]["outputs"] == {"all": {"channel": "home"}}
    await alice.reader.post(action="channels", method="delete", channel="home")
    await server.configuration.write_back()
    assert server.saved()["users"]["alice"].get("outputs", {}) == {}
    assert [feed["name"] for feed in (await alice.reader.get(action="outputs"))["outputs"]] == ["all"]


async def test_removed_feeds_are_deleted_after_30_days(alice: Publisher) -> None:
    """It is deleted after 30 days, like a channel."""
    server = alice.server
    await alice.make()
    await server.outputs.remove("alice", "picks", server.now)
    server.now += RESTORABLE - 10
    await server.outputs.forget_removed(["alice"], server.now - RESTORABLE)
    assert len(await server.outputs.all_of("alice", removed_too=True)) == 1
    server.now += 20
    await server.outputs.forget_removed(["alice"], server.now - RESTORABLE)
    assert await server.outputs.all_of("alice", removed_too=True) == []


async def test_feeds_made_by_http_are_written_to_the_file(alice: Publisher) -> None:
    """A concurrent edit of the file doesn't undo the change."""
    server = replace(alice.server, write_back=True)
    server.save({"users": {"alice": {"outputs": {"old": {"x-note": "mine", "public": True}}}}})
    await server.configuration.look()
    await alice.make("new", max_age="24h")
    await alice.reader.post(action="outputs", method="change", output="old", max_impressions=3)
    assert await server.configuration.write_back()
    outputs = server.saved()["users"]["alice"]["outputs"]
    assert outputs == {"old": {"x-note": "mine", "max_impressions": 3}, "new": {"max_age": 86_400}}
    await alice.reader.post(action="outputs", method="delete", output="old")
    assert await server.configuration.write_back()
    assert list(server.saved()["users"]["alice"]["outputs"]) == ["new"]
