"""Posts of feeds that nobody else follows have a quota in bytes: one account can't fill the store."""

from __future__ import annotations

import pytest

from microsub.configuration.model import InstanceSettings, Quotas
from microsub.model.reader import Reason
from microsub.polling.condition import FeedCondition
from microsub.redis import keys
from microsub.server.worker import recount_posts
from microsub.timelines.remove import Leaving, take_out
from microsub.timelines.saved import save
from tests.support.polling import World, dated, rss


async def stored_bytes(it: World, feed: str) -> int:
    return sum(await it.items.sizes(await it.feeds.item_ids(feed)))


async def counted(it: World) -> int:
    return int(await it.redis.command("HGET", keys.user("alice"), "post_bytes") or 0)


@pytest.fixture
async def feed(it: World, site):
    """Alice's feed, whose first document has exceeded her quota."""
    it.settings = InstanceSettings(quotas=Quotas(posts=2000))
    site.serve_document("/feed", rss(dated(20)))
    found = await it.follow(site.url("/feed", "blog.test"))
    assert (await it.poll(found)).outcome == "changed"
    return found


async def test_beyond_the_quota_no_posts_are_stored(it, site, feed):
    """What is there stays readable; an edit isn't stored either."""
    assert 2000 < await stored_bytes(it, feed.id) <= await counted(it) + 20 * 40
    site.serve_document("/feed", rss(dated(25)))
    assert (await it.poll(feed)).outcome == "quota"
    assert len(await it.rows()) == 20
    condition = FeedCondition.of(await it.record(feed), it.clock())
    assert (condition.state, condition.error.partition(" is reached")[0]) == (
        "failing",
        "quota: the limit for bytes of posts of feeds that nobody else follows",
    )


async def test_feeds_followed_by_others_dont_count(it, site, feed):
    """The feed's posts arrive again once somebody else follows it."""
    await it.follow(feed.url, "bob")
    site.serve_document("/feed", rss(dated(25)))
    assert (await it.poll(feed)).outcome == "changed"
    assert len(await it.rows()) == 25


async def test_deleted_posts_make_room(it, site, feed):
    """Upkeep counts again for users near their quota, daily; others keep their count."""
    for item in await it.feeds.item_ids(feed.id, beyond=5):
        await it.redis.command("DEL", keys.item(item))
    await recount_posts(it, it.clock())
    assert await counted(it) == await stored_bytes(it, feed.id) < 2000
    it.settings = InstanceSettings(quotas=Quotas(posts=10**9))
    await it.redis.command("HSET", keys.user("alice"), "post_bytes", "1234")
    await recount_posts(it, it.clock())
    assert await counted(it) == 1234


async def test_saved_posts_count_after_the_unfollow(it, site, feed):
    """Otherwise each feed could be saved and given up in turn."""
    ids = await it.feeds.item_ids(feed.id)
    sizes = dict(zip(ids, await it.items.sizes(ids), strict=True))
    await save(it.redis, it.items, "alice", ids[:15], it.clock())
    await it.following.unfollow("alice", "home", feed.url, it.clock())
    await recount_posts(it, it.clock())
    assert await counted(it) == sum(sizes.values())
    await take_out(it.redis, "alice", "home", ids, Leaving(Reason.REMOVED, removed_too=False), it.clock())
    await recount_posts(it, it.clock())
    assert await counted(it) == sum(sizes[item] for item in ids[:15])
