"""A feed's changes are announced at least once, wherever a process dies and whatever changes it at the same time."""

from __future__ import annotations

import pytest

from microsub.feeds.events import Events, describe
from microsub.feeds.record import UNANNOUNCED, Feeds
from tests.support.polling import FEED, World, dated, post_store, rss, world
from tests.support.posts import NOON
from tests.support.redis_wrappers import Between, KilledError, die, once
from tests.support.web import publisher


class Dead(Events):
    """A stream of events whose process dies before it can write."""

    announce = die


async def announced(it: World, kind: str = "feed_modified") -> list[tuple[str, ...]]:
    return [event.changed for event in await Events(it.redis).since("0") if event.kind == kind]


async def test_unannounced_changes_are_announced_by_the_next_poll(redis):
    """The worker writes the new title and dies; then the title is as before: the next poll announces both."""
    async with publisher() as site, world(redis) as it:
        site.serve_document("/feed", rss(dated(2), title="Before"))
        feed = await it.follow(site.url("/feed", "blog.test"))
        await it.poll(feed)
        site.serve_document("/feed", rss(dated(2), title="After"))
        poller = it.make_poller()
        poller.events = Dead(redis)
        with pytest.raises(KilledError):
            await poller.poll(feed.id)
        assert await announced(it) == []
        site.serve_document("/feed", rss(dated(2), title="Before"))
        await it.poll(feed)
        assert (await it.record(feed)).title == "Before"
        assert await announced(it) == [("title",)]
        await it.poll(feed)
        assert UNANNOUNCED not in (await it.record(feed)).extra
        assert await announced(it) == [("title",)]


async def test_unannounced_changes_are_announced_on_retry(redis):
    """Its second attempt changes nothing, but announces the change."""
    async with world(redis) as it:
        posts = post_store(it)
        await posts.describe(FEED, {"title": "One"})
        posts._events = Dead(redis)
        with pytest.raises(KilledError):
            await posts.describe(FEED, {"title": "Two", "photo": "https://service.test/p.png"})
        assert await announced(it) == [("title",)]
        assert await post_store(it).describe(FEED, {"title": "Two"}) == ()
        assert await announced(it) == [("title",), ("title", "photo")]


async def test_a_created_feed_is_announced_after_a_crash(redis):
    """The next save announces its creation."""
    async with world(redis) as it:
        posts = post_store(it)
        posts._events = Dead(redis)
        with pytest.raises(KilledError):
            await posts.describe(FEED, {})
        await post_store(it).describe(FEED, {})
        await post_store(it).describe(FEED, {})
        assert await announced(it, "feed_created") == [()]


async def test_two_changes_at_once_are_both_announced(it):
    """The second change comes between the first one and its announcement, and its process dies: the first announcement
    doesn't clear the second change's note.
    """
    feed = await it.feeds.ensure(FEED, NOON)

    async def second() -> None:
        await it.feeds.describe(feed.id, {"title": "Two"})

    feeds = Feeds(Between(it.redis, once("compare_and_set", second)))  # type: ignore[arg-type]
    assert await describe(feeds, it.events, feed.id, {"title": "One"}, NOON) == ("title",)
    await describe(it.feeds, it.events, feed.id, {}, NOON)
    assert await announced(it) == [("title",), ("title",)]


async def test_an_unknown_feed_isnt_described(it):
    """Describing it writes and announces nothing."""
    assert await describe(it.feeds, it.events, "7", {"title": "One"}, NOON) == ()
    assert await it.feeds.get("7") is None
    assert await it.redis.command("EXISTS", "stream:{events}") == 0
