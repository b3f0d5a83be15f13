"""One master of a Redis Cluster is away: its own users wait, all others read what the rest of the masters have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from microsub.redis import keys
from microsub.redis.cluster import Address, ClusterRedis, slot_of
from tests.reader.conftest import ADDRESS, ReadingVisitor, reading
from tests.support.readers import FEED, Reader, instance

NAMES = [f"p{number}" for number in range(9, 0, -1)]


@pytest.fixture
async def redis(cluster_url: str) -> AsyncIterator[ClusterRedis]:
    connection = ClusterRedis(cluster_url, look_every=3600)
    yield connection
    await connection.aclose()


@pytest.fixture
async def ann(redis: ClusterRedis) -> AsyncIterator[ReadingVisitor]:
    async with instance(redis, base_url=ADDRESS) as server:
        visitor = await reading(server, "ann", "home")
        await visitor.publish(*NAMES)
        assert len(await visitor.titles("/channel/home?show=all")) == len(NAMES)
        yield visitor


@asynccontextmanager
async def without(redis: ClusterRedis, address: Address) -> AsyncIterator[None]:
    """The master there is away within the block."""
    redis._away[address] = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]
    redis._fill()
    try:
        yield
    finally:
        redis._away.pop(address).cancel()
        redis._fill()


async def test_a_page_shows_the_posts_that_can_be_read(ann: ReadingVisitor, redis: ClusterRedis) -> None:
    """The others have placeholders, are counted, are unread afterwards, and hold their places between pages."""
    reader, home = ann.reader, redis._address_of(slot_of(keys.user("ann")))
    before = await reader.walk()
    for address in sorted(redis._masters):
        if address == home:
            continue
        async with without(redis, address):
            page = await reader.get(action="timeline", channel="home")
            there, away = [item["_id"] for item in page["items"]], [one["_id"] for one in page["_unavailable"]]
            assert there
            assert away
            assert sorted(there + away) == sorted(before)
            published = [one["published"] for one in page["_unavailable"]]
            assert published == sorted(published, reverse=True)
            assert await reader.unread() == len(NAMES)
            assert await seen(reader, limit=2) == before
            await reader.post(action="timeline", method="mark_read", channel="home", entry=there[0])
            await reader.post(action="timeline", method="mark_unread", channel="home", entry=there[0])
            assert (await reader.get(action="follow", channel="home"))["items"]
            tree = (await reader.get(action="channels", method="tree"))["channels"]
            listed = next(one for one in tree if one["uid"] == "home")
            assert listed["unread"] == len(NAMES)
            assert len(there) <= listed["sources"][0]["unread"] <= len(NAMES)

            shown = await ann.get("/channel/home?show=all")
            assert shown.status == 200
            articles = [node.attributes.get("data-id") for node in shown.tree.css("#feed > article")]
            assert articles == [item if item in there else None for item in before]
            assert "It isn’t lost" in shown.text
            for path in ("/", "/saved", "/settings"):
                assert (await ann.get(path)).status == 200
            for item in there:
                assert (await ann.get(f"/post/{item}")).status == 200
            gone = await ann.get(f"/post/{away[0]}")
            assert (gone.status, gone.response.headers["retry-after"]) == (503, "5")
        assert await reader.unread() == len(NAMES)
        assert await reader.walk() == before


async def test_users_of_the_missing_master_get_503(ann: ReadingVisitor, redis: ClusterRedis) -> None:
    """In the API and on pages, at once, with a time to wait."""
    home = redis._address_of(slot_of(keys.user("ann")))
    assert home is not None
    async with without(redis, home):
        for action in ("channels", "timeline"):
            reply = await ann.reader.client.get(
                "/microsub", params={"action": action, "channel": "home"}, headers=ann.reader.headers
            )
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
            assert "try again in a few seconds" in reply.json()["error_description"]
        page = await ann.get("/channel/home")
        assert (page.status, page.response.headers["retry-after"]) == (503, "5")
        assert "Try again in a few seconds" in page.text


async def test_users_unfollow_while_another_master_is_away(ann: ReadingVisitor, redis: ClusterRedis) -> None:
    """What needs the feed or its items is done when the master is back."""
    server, reader = ann.server, ann.reader
    home = redis._address_of(slot_of(keys.user("ann")))
    feed = await server.feeds.find(FEED)
    assert feed is not None
    unfinished = 0
    for number, address in enumerate(sorted(redis._masters.keys() - {home})):
        async with without(redis, address):
            await reader.post(action="unfollow", channel="home", url=FEED)
            assert (await reader.get(action="follow", channel="home"))["items"] == []
        unfinished += len(await server.channels.moves("ann"))
        await server.follow_repair.run_for("ann", server.now + 31)
        assert await reader.unread() == 0
        assert await server.feeds.subscribers(feed) == []
        assert await server.channels.moves("ann") == []
        await server.follow_unscheduled(FEED, "ann", "home")
        await ann.publish(*(f"again-{number}-{name}" for name in NAMES))
    assert unfinished
    await server.channels.note_unfinished("ann", "home", feed, server.now)
    assert await server.channels.moves("ann") == []


async def test_changes_that_the_hub_announces_need_no_other_master(ann: ReadingVisitor, redis: ClusterRedis) -> None:
    """The hub finds them when it looks at all topics."""
    home, entries = redis._address_of(slot_of(keys.user("ann"))), await ann.reader.walk()
    for address in sorted(redis._masters.keys() - {home}):
        async with without(redis, address):
            await ann.reader.post(action="timeline", method="remove", channel="home", entry=entries.pop())
    assert await ann.reader.walk() == entries


async def test_users_delete_channels_while_another_master_is_away(ann: ReadingVisitor, redis: ClusterRedis) -> None:
    """In apps, and in the browser, where it can be undone. The feed's list of followers follows later."""
    server, reader = ann.server, ann.reader
    home = redis._address_of(slot_of(keys.user("ann")))
    feed = await server.feeds.find(FEED)
    assert feed is not None
    left = 0
    for address in sorted(redis._masters.keys() - {home}):
        places = [(await reader.post(action="channels", name=name))["uid"] for name in ("Deleted", "Removed")]
        for uid in places:
            await server.follow_unscheduled(FEED, "ann", uid)
            await server.rules.mute("ann", uid, "https://bea.example/", server.now, until=server.now + 60)
        async with without(redis, address):
            await reader.post(action="channels", method="delete", channel=places[0])
            await server.following.remove_channel("ann", places[1], server.now)
            listed = (await reader.get(action="channels"))["channels"]
            assert {one["uid"] for one in listed}.isdisjoint(places)
        left += len(await server.feeds.subscribers(feed)) - 1
        await server.follow_repair.run(server.now)
        assert await server.feeds.subscribers(feed) == [("ann", "home")]
    assert left
    assert await reader.unread() == len(NAMES)


async def seen(reader: Reader, **params: int) -> list[str]:
    """The ids on all pages in their order, with those that are unavailable."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await reader.get(action="timeline", channel="home", after=after, **params)
        both = [*page["items"], *page.get("_unavailable", ())]
        found += [item["_id"] for item in sorted(both, key=lambda item: item["published"], reverse=True)]
        after = page["paging"].get("after")
    return found
