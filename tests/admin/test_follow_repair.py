"""Followers and schedule are repaired from the channels' follows, whatever caused the difference."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from microsub.admin.follow_repair import RepairedFollows
from microsub.base.periodic import RoundTiming
from microsub.base.urls import host_of
from microsub.feeds.record import Feeds
from microsub.redis import keys
from microsub.work import SHARDS
from tests.support.polling import unschedule
from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.waiting import wait_until
from tests.support.world import World

FEED = "https://blog.example/feed"


async def test_an_address_that_was_lost_leads_to_its_feed_again(server: World, alice: Reader) -> None:
    """Neither a second feed nor a second follow is created."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)
    await server.feeds.unsubscribe(feed.id, "alice", "home")
    await server.redis.command("HDEL", keys.feeds_by_url(), FEED)
    await server.follow_repair.run(server.now)
    assert await server.feeds.find(FEED) == feed.id
    assert await server.feeds.all_ids() == [feed.id]
    assert [one.feed for one in await server.channels.subscriptions("alice", "home")] == [feed.id]


async def test_a_lost_follower_is_restored(server: World, alice: Reader) -> None:
    """It gets the posts that it missed as unread, and the feed is polled again."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)
    await server.feeds.unsubscribe(feed.id, "alice", "home")
    await unschedule(server.redis, feed.id, host_of(FEED))
    await server.publish(FEED, *posts("b", at=NOON + 5000))
    assert await alice.names("home") == ["a"]
    assert await server.follow_repair.run(server.now) == RepairedFollows(missing=1)
    assert await alice.names("home") == ["b", "a"]
    assert await alice.unread("home") == 2
    assert await server.feeds.subscribers(feed.id) == [("alice", "home")]
    assert await server.schedule.holds([(feed.id, host_of(FEED))]) == [True]
    assert await server.redis.command("TTL", keys.feed(feed.id)) == -1


async def test_invalid_followers_are_removed(server: World, alice: Reader) -> None:
    """Channels that don't follow, were deleted or removed, and channels of disabled users."""
    feed = await server.publish(FEED, *posts("a"))
    bob = await server.reader("bob", "home")
    for reader, channel in ((alice, "home"), (bob, "home")):
        await reader.post(action="follow", channel=channel, url=FEED)
    await server.feeds.subscribe(feed.id, "alice", "later")
    await server.feeds.subscribe(feed.id, "alice", "nowhere")
    await server.accounts.disable_user("bob", server.now)
    await server.channels.disable("alice", "home", server.now)
    assert await server.follow_repair.run(server.now) == RepairedFollows(surplus=4)
    assert await server.feeds.subscribers(feed.id) == []
    assert await server.redis.command("TTL", keys.feed(feed.id)) > 0


@pytest.mark.parametrize("level", ["feed", "host"])
async def test_a_feed_missing_from_the_schedule_is_added(server: World, alice: Reader, level: str) -> None:
    """A feed that is missing from the schedule, or whose host is, is added again; a feed that is gone isn't."""
    feed = await server.publish(FEED, *posts("a"))
    gone = await server.publish("https://gone.example/feed")
    await server.feeds.update(gone.id, {"gone": "1"})
    for url in (FEED, gone.url):
        await alice.post(action="follow", channel="home", url=url)
    if level == "feed":
        await unschedule(server.redis, feed.id, host_of(FEED))
    else:
        await server.redis.command("ZREM", keys.hosts_due(), host_of(FEED))
    assert await server.follow_repair.run(server.now) == RepairedFollows(unscheduled=1)
    assert await server.schedule.holds([(feed.id, host_of(FEED))]) == [True]
    assert await server.follow_repair.run(server.now) == RepairedFollows()


async def test_an_interrupted_follow_is_finished_within_minutes(server: World, alice: Reader) -> None:
    """The process died before the feed got its follower; the user needn't try again, and others aren't repaired."""
    feed = await server.publish(FEED, *posts("a"))
    bob = await server.reader("bob", "home")
    for reader in (alice, bob):
        await reader.post(action="follow", channel="home", url=FEED)
        await server.feeds.unsubscribe(feed.id, reader.name, "home")
    await server.redis.command("ZREM", keys.due("follows", zlib.crc32(b"bob") % SHARDS), "bob")
    await server.publish(FEED, *posts("b", at=NOON + 5000))
    repair = server.follow_repair
    assert await repair.run_for("nobody", server.now) == RepairedFollows()
    task = asyncio.create_task(repair.run_forever(RoundTiming(lambda: server.now + 30, between=0.01)))

    async def repaired() -> bool:
        return await alice.names("home") == ["b", "a"]

    await wait_until(repaired)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await server.feeds.subscribers(feed.id) == [("alice", "home")]


@pytest.mark.parametrize("ending", ["channel deleted", "unfollowed", "user removed"])
async def test_a_follow_of_a_removed_channel_or_user_ends(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The feed keeps no follower that nobody would remove, either at once or within minutes."""
    following, subscribe = server.parts.following, Feeds.subscribe

    async def end() -> None:
        if ending == "channel deleted":
            await following.delete_channel("alice", "home")
        elif ending == "unfollowed":
            await following.unfollow("alice", "home", FEED, server.now)
        else:
            await server.accounts.disable_user("alice", server.now)

    async def late(feeds: Feeds, feed_id: str, user: str, uid: str) -> None:
        await end()
        await subscribe(feeds, feed_id, user, uid)

    feed = await server.publish(FEED, *posts("a"))
    with monkeypatch.context() as patch:
        patch.setattr(Feeds, "subscribe", late)
        status = 404 if ending == "channel deleted" else 200
        await alice.post(status=status, action="follow", channel="home", url=FEED)
    if ending == "user removed":
        assert await server.follow_repair.run_for("alice", server.now) == RepairedFollows(surplus=1)
    assert await server.feeds.subscribers(feed.id) == []
