"""Stored posts without delivery are delivered after two rounds; posts in delivery are left alone."""

from __future__ import annotations

from microsub.delivery.reminding import Reminder
from microsub.feeds.events import Events
from microsub.redis import keys
from tests.support.polling import dated, rss


async def test_a_deleted_stream_loses_no_post(it, site):
    """The post is in the outbox without a message: the second round queues it, once."""
    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    ids = [row.id for row in await it.rows()]
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await it.redis.command("SADD", keys.feed_outbox(feed.id), *ids)
    service = Reminder(it.feeds, it.items, it.stages.stored, it.events)
    assert await service.run() == 0
    assert await it.rows("bob") == []
    assert await service.run() == 2
    await it.stages.run_once()
    assert [row.id for row in await it.rows("bob")] == ids
    assert [row.id for row in await it.rows()] == ids
    assert [await service.run() for _ in range(3)] == [0, 0, 0]


async def test_an_unannounced_change_is_announced_by_upkeep(it):
    """The process that described a feed has died: the second round announces the change, once."""
    feed = await it.feeds.ensure("https://service.test/feed", it.clock())
    await it.feeds.keep(feed.id)
    await it.feeds.describe(feed.id, {"title": "New"})
    service = Reminder(it.feeds, it.items, it.stages.stored, it.events)
    events = Events(it.redis)
    await service.run()
    assert await events.since("0") == []
    await it.feeds.describe(feed.id, {"photo": "https://service.test/p.png"})
    await service.run()
    assert await events.since("0") == []
    for _ in range(3):
        await service.run()
    (event,) = await events.since("0")
    assert (event.kind, event.feed, event.changed) == ("feed_modified", feed.id, ("title", "photo"))


async def test_new_outbox_posts_in_each_round_arent_queued_again(it, site):
    """Each round finds other posts in the outbox, so delivery is working."""
    feed = await it.follow(site.url("/feed", "blog.test"))
    service = Reminder(it.feeds, it.items, it.stages.stored, it.events)
    for number in range(1, 4):
        await it.redis.command("SADD", keys.feed_outbox(feed.id), number)
        assert await service.run() == 0
        await it.items.done(feed.id, [str(number)])
