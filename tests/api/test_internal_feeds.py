"""Internal feeds: posts of a user's sources, and the server's notices to the user."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.base.errors import InvalidRequest
from microsub.feeds.internal import InternalAddress
from microsub.posts.values import ANY
from microsub.redis import keys
from tests.support.posts import NOON, candidate
from tests.support.readers import Reader
from tests.support.world import World

OWN = str(InternalAddress("alice", "source", "backups"))


async def send(server: World, *names: str, at: float = NOON, **more: Any) -> str:
    """Posts of the internal feed, delivered; the feed's id."""
    followed = await server.following.follow("alice", "home", OWN, server.now, "Backups")
    found = [candidate(name, at=at + place, **more) for place, name in enumerate(names)]
    await server.ingest.add(followed.record, found, server.now, ANY)
    await server.stages.run_once()
    return followed.record.id


async def test_its_posts_come_in_unread_however_old(server: World, alice: Reader) -> None:
    """The first ones and later ones that are even older; apps see the feed's given name."""
    feed = await send(server, *(f"n{number}" for number in range(15)))
    await send(server, "older", at=NOON - 90 * 86_400)
    page = await alice.get(action="timeline", channel="home", limit=100)
    assert [item["_is_read"] for item in page["items"]] == [False] * 16
    assert {item["_source"] for item in page["items"]} == {feed}
    ((shown,),) = (await alice.get(action="follow", channel="home")).values()
    assert shown == {"type": "feed", "url": OWN, "name": "Backups", "_id": feed}


async def test_it_is_never_polled(server: World, alice: Reader) -> None:
    """It is in no host's queue, even after the repair for unscheduled feeds, and commands leave it out."""
    feed = await send(server, "one")
    assert not await server.redis.command("EXISTS", keys.hosts_due(), keys.host_due(""))
    assert (await server.poll_now().poll([feed], patience=5))[feed].outcome == "internal"
    await server.follow_repair.run(server.now + 3600)
    assert not await server.redis.command("EXISTS", keys.hosts_due(), keys.host_due(""))
    assert (await server.check()).left == ()


async def test_other_users_cant_find_or_follow_it(server: World, alice: Reader, bob: Reader) -> None:
    """Neither its address nor a search finds it, and it isn't in exported lists."""
    await send(server, "one")
    for user in (alice, bob):
        await user.post(400, action="follow", channel="home", url=OWN)
        await user.get(400, action="preview", url=OWN)
        assert (await user.get(action="search", query="backups"))["results"] == []
    with pytest.raises(InvalidRequest):
        await server.following.follow("bob", "home", OWN, server.now)
    assert OWN.encode() not in await server.feed_lists.export("alice", server.now, masked=False)
    assert OWN not in str(await server.applier.current())
    await bob.post(action="unfollow", channel="home", url=OWN)
    assert (await alice.get(action="follow", channel="home"))["items"]


async def test_its_user_can_move_and_unfollow_it(server: World, alice: Reader) -> None:
    """The posts are moved too and stay unread; later posts come into the new channel."""
    await send(server, "one")
    await alice.post(action="follow", method="update", channel="later", url=OWN)
    assert (await alice.get(action="timeline", channel="home"))["items"] == []
    assert len((await alice.get(action="timeline", channel="later", is_read="false"))["items"]) == 1
    await alice.post(action="unfollow", channel="later", url=OWN)
    assert (await alice.get(action="follow", channel="global"))["items"] == []


async def test_its_posts_dont_replace_a_publishers(server: World, alice: Reader) -> None:
    """A post with the guid and link of a followed blog's post doesn't replace it."""
    blog = await server.publish("https://blog.example/feed", candidate("same", common="c"))
    await alice.post(action="follow", channel="home", url=blog.url)
    await send(server, "same", common="c")
    assert len((await alice.get(action="timeline", channel="home"))["items"]) == 2
