"""Posts have a quota in bytes, shared by the followers of their feed: no account can fill the store, or use up another
user's quota.
"""

from __future__ import annotations

import asyncio

import pytest

from microsub.accounts import PostRoom
from microsub.base.errors import QuotaReached, StoreUnavailable
from microsub.configuration.model import InstanceSettings, Quotas
from microsub.feeds.condition import FeedCondition
from microsub.model.reader import Reason
from microsub.redis import keys
from microsub.server.jobs import post_bytes
from microsub.timelines.remove import Leaving, take_out
from microsub.timelines.saved import SavedPosts
from tests.support.polling import World, dated, rss
from tests.support.redis_wrappers import Between, once


async def stored_bytes(it: World, feed: str) -> int:
    return sum(await it.items.sizes(await it.feeds.item_ids(feed)))


async def recounted(it: World, *users: str) -> list[int]:
    """The counts of these users after the daily correction."""
    await post_bytes(it).run(it.clock())
    return [await it.post_bytes(user) for user in users or ("alice",)]


def limit(it: World, most: int) -> None:
    it.settings = InstanceSettings(quotas=Quotas(posts=most))


@pytest.fixture
async def feed(it: World, site):
    """Alice's feed, whose first document has exceeded her quota."""
    limit(it, 2000)
    site.serve_document("/feed", rss(dated(20)))
    found = await it.follow(site.url("/feed", "blog.test"))
    assert (await it.poll(found)).outcome == "changed"
    return found


async def test_beyond_the_quota_no_posts_are_stored(it, site, feed):
    """What is there stays readable; an edit isn't stored either."""
    assert 2000 < await stored_bytes(it, feed.id) <= await it.post_bytes() + 20 * 40
    site.serve_document("/feed", rss(dated(25)))
    assert (await it.poll(feed)).outcome == "quota"
    assert len(await it.rows()) == 20
    condition = FeedCondition.of(await it.record(feed), it.clock())
    assert (condition.state, condition.error.partition(" is reached")[0]) == (
        "failing",
        "quota: the limit for bytes of posts",
    )


async def test_nobody_passes_the_quota_before_it_is_known(it, feed):
    """Neither beside the first reading of a process nor after one that failed."""

    async def fail() -> None:
        raise StoreUnavailable("Redis is away")

    await recounted(it)
    room = PostRoom(Between(it.redis, once("posts_count", fail)), it.effective)
    for expected in ({StoreUnavailable, QuotaReached}, {QuotaReached}):
        found = await asyncio.gather(*(room.require(["alice"]) for _ in range(3)), return_exceptions=True)
        assert {type(error) for error in found} == expected


async def test_a_feeds_bytes_are_shared_among_its_followers(it, site, feed):
    """The first documents count for alice, what comes after bob's follow for both in halves; once a day all of it."""
    await it.follow(feed.url, "bob")
    before, size = await it.post_bytes(), await stored_bytes(it, feed.id)
    site.serve_document("/feed", rss(dated(25)))
    assert (await it.poll(feed)).outcome == "changed"
    assert len(await it.rows()) == 25
    more = await stored_bytes(it, feed.id) - size
    bobs = await it.post_bytes("bob")
    assert await it.post_bytes() - before == bobs
    assert abs(2 * bobs - more) <= 5 * 40
    assert await recounted(it, "alice", "bob") == [(size + more) // 2] * 2


async def test_followers_of_the_same_feeds_fill_their_quotas_together(it, site, feed):
    """When nobody has room left, nothing more is stored, and the reason names nobody's count."""
    await it.follow(feed.url, "bob")
    site.serve_document("/feed", rss(dated(60)))
    assert (await it.poll(feed)).outcome == "changed"
    size = await stored_bytes(it, feed.id)
    assert size > 2 * 2000
    assert await recounted(it, "alice", "bob") == [size // 2] * 2
    site.serve_document("/feed", rss(dated(70)))
    assert (await it.poll(feed)).outcome == "quota"
    condition = FeedCondition.of(await it.record(feed), it.clock())
    assert condition.error == "quota: the limit for bytes of posts is reached for all followers of this feed"
    assert await stored_bytes(it, feed.id) == size


async def test_another_follower_only_lowers_a_share(it, site, feed):
    """When the other one leaves, it rises again, perhaps above the quota: nothing is lost then."""
    (alone,) = await recounted(it)
    limit(it, alone - 1)
    for others in (["bob"], ["bob", "carl"]):
        await it.follow(feed.url, others[-1])
        assert await recounted(it, "alice", *others) == [alone // (1 + len(others))] * (1 + len(others))
    await it.channels.create("bob", "other", it.clock(), "other")
    await it.following.move("bob", "other", feed.url, it.clock())
    assert await recounted(it, "alice", "bob") == [alone // 3] * 2
    for user, uid in (("bob", "other"), ("carl", "home")):
        await it.following.unfollow(user, uid, feed.url, it.clock())
    assert await recounted(it, "alice", "bob", "carl") == [alone, 0, 0]
    assert len(await it.rows()) == 20
    site.serve_document("/feed", rss(dated(21)))
    assert (await it.poll(feed)).outcome == "quota"


async def test_a_user_without_room_ends_nobody_elses_posts(it, site, feed):
    """Bob follows a feed that he shares with alice, who has used up her quota."""
    site.serve_document("/other", rss(dated(3)))
    other = await it.follow(site.url("/other", "blog.test"))
    assert (await it.poll(other)).outcome == "quota"
    await it.follow(other.url, "bob")
    assert (await it.poll(other)).outcome == "changed"


async def test_a_feed_that_many_follow_counts_once_a_day(it, site, feed, monkeypatch):
    """Polls change few accounts, however many follow; but the quota holds for many followers as well."""
    monkeypatch.setattr("microsub.accounts.post_room.AT_ONCE", 2)
    for user in ("bob", "carl"):
        await it.follow(feed.url, user)
    before = await it.post_bytes()
    site.serve_document("/feed", rss(dated(60)))
    assert (await it.poll(feed)).outcome == "changed"
    assert [await it.post_bytes(user) for user in ("alice", "bob", "carl")] == [before, 0, 0]
    size = await stored_bytes(it, feed.id)
    assert size > 3 * 2000
    assert await recounted(it, "alice", "bob", "carl") == [size // 3] * 3
    site.serve_document("/feed", rss(dated(70)))
    assert (await it.poll(feed)).outcome == "quota"


async def test_deleted_posts_make_room(it, site, feed):
    """Upkeep counts again once a day, for users with a quota."""
    for item in await it.feeds.item_ids(feed.id, beyond=5):
        await it.redis.command("DEL", keys.item(item))
    assert await recounted(it) == [await stored_bytes(it, feed.id)]
    assert await it.post_bytes() < 2000
    limit(it, 10**9)
    for wrong in ("1234", str(10**8)):
        await it.redis.command("HSET", keys.user("alice"), "post_bytes", wrong)
        assert await recounted(it) == [await stored_bytes(it, feed.id)]
    limit(it, 0)
    await it.redis.command("HSET", keys.user("alice"), "post_bytes", "1234")
    assert await recounted(it) == [1234]


async def test_posts_of_a_removed_channel_count_on(it, site, feed):
    """It can come back, and its posts are stored until then."""
    await it.following.remove_channel("alice", "home", it.clock())
    assert await recounted(it) == [await stored_bytes(it, feed.id)]


async def test_saved_posts_count_after_the_unfollow(it, site, feed):
    """Otherwise each feed could be saved and given up in turn."""
    ids = await it.feeds.item_ids(feed.id)
    sizes = dict(zip(ids, await it.items.sizes(ids), strict=True))
    await SavedPosts(it.redis, it.items).save("alice", ids[:15], it.clock())
    await it.following.unfollow("alice", "home", feed.url, it.clock())
    assert await recounted(it) == [sum(sizes.values())]
    await take_out(it.redis, "alice", "home", ids, Leaving(Reason.REMOVED, removed_too=False), it.clock())
    assert await recounted(it) == [sum(sizes[item] for item in ids[:15])]
