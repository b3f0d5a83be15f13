"""In a newly followed feed, as many posts are unread as the setting says, and all posts that are newer."""

from __future__ import annotations

import pytest

from microsub.work import Message
from tests.support.polling import World, dated, rss
from tests.support.redis_wrappers import KilledError, die

FRESH = 10
"""Unread posts of a new feed in the timelines of a `World`."""


async def unread(it: World, user: str = "alice") -> int:
    return {channel.uid: channel.unread for channel in await it.channels.list(user)}["home"]


async def die_at_the_end_of_a_poll(it: World, feed: str) -> None:
    """Die after the posts of the document are stored, but before the poll is recorded."""

    poller = it.make_poller()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(it.feeds, "settle", die)
        with pytest.raises(KilledError):
            await poller.poll(feed)


async def finish(it: World, held: list[Message]) -> None:
    """Let a slow worker handle its messages after all others."""
    await it.stages.stored.hand_back("slow", held)
    while (await it.stages.stored.backlog()).messages:
        await it.stages.run_once()


@pytest.mark.parametrize(("first", "second"), [((100, 20), (100, 25)), ((100, 20), (90, 30)), ((100, 4), (90, 14))])
@pytest.mark.parametrize("delivered_between", [True, False])
async def test_a_first_document_that_is_read_twice_fills_once(it, site, first, second, delivered_between):
    """If the worker dies after the first read, and the document has more posts at the second read, the newer ones are
    unread and the older ones are not.
    """
    (start, count), (start_again, count_again) = first, second
    site.serve_document("/feed", rss(dated(count, start=start)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await die_at_the_end_of_a_poll(it, feed.id)
    if delivered_between:
        await it.stages.run_once()
    site.serve_document("/feed", rss(dated(count_again, start=start_again)))
    await it.poll(feed)
    assert len(await it.rows()) == count_again
    newer = start_again + count_again - start - count
    assert await unread(it) == min(FRESH, count) + newer


@pytest.mark.parametrize(("first", "second", "new"), [((20, 100), (38, 97), FRESH + 15), ((3, 100), (15, 100), 15)])
async def test_posts_after_the_first_document_are_unread(it, site, first, second, new):
    """Of the first document at most ten posts are unread, and all posts of the next one that are newer than these."""
    for count, start in (first, second):
        site.serve_document("/feed", rss(dated(count, start=start)))
        await it.poll(await it.follow(site.url("/feed", "blog.test")))
    assert len(await it.rows()) == second[0]
    assert await unread(it) == new


async def test_two_first_documents_in_wrong_order_fill_once(it, site):
    """Two workers read the feed at the same time, and the later document is delivered first."""
    site.serve_document("/feed", rss(dated(20, start=100)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await die_at_the_end_of_a_poll(it, feed.id)
    site.serve_document("/feed", rss(dated(20, start=110)))
    await it.poller.poll(feed.id)
    held = await it.stages.stored.take("slow", 1)
    await it.stages.run_once()
    assert await unread(it) == FRESH
    await finish(it, held)
    assert len(await it.rows()) == 30
    assert await unread(it) == FRESH
