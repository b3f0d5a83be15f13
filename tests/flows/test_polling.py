"""From a publisher to timelines, with real wiring: stores, schedule, fetching, parsing, delivery."""

from __future__ import annotations

from tests.support.polling import World, dated, rss
from tests.support.web import Answer, Publisher


async def test_one_poll_serves_all_followers(site: Publisher, it: World) -> None:
    """Three users follow one feed: it is requested once, and the User-Agent names three subscribers."""
    site.serve_document("/feed", rss(dated(3)))
    feeds = [await it.follow(site.url("/feed", "blog.test"), user) for user in ("alice", "bob", "carol")]
    assert {feed.id for feed in feeds} == {feeds[0].id}
    assert await it.worker.run_once() == 1
    assert site.count("/feed") == 1
    assert "3 subscribers" in site.asked[0].headers["user-agent"]
    for user in ("alice", "bob", "carol"):
        assert ["Post 3" in text for text in await it.texts(user)] == [True, False, False]


async def test_second_poll_is_conditional(site: Publisher, it: World) -> None:
    """Both validators are sent back byte for byte, and a 304 changes nothing."""
    tag, date = 'W/"b\xe4r, \\"x\\""', "Mon, 01 Jan 2024  00:00:00 GMT"
    reply = Answer(rss(dated(3)), headers=[("ETag", tag), ("Last-Modified", date)])
    site.serve("/feed", lambda asked: reply if len(site.asked) == 1 else Answer(status=304))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.worker.run_once()
    before = await it.rows()
    await it.make_due(feed)
    await it.worker.run_once()
    assert site.asked[1].headers["if-none-match"] == tag
    assert site.asked[1].headers["if-modified-since"] == date
    assert await it.rows() == before
    record = await it.record(feed)
    assert (record.etag, record.last_modified, record.failures) == (tag, date, 0)


async def test_undated_posts_of_a_new_feed_are_old(site: Publisher, it: World) -> None:
    """Of 30 posts without dates, the first ten of the document are unread; a later one is unread above them."""
    posts = [(f"p{n}", f"Post {n}", None) for n in range(30)]
    feed = await it.follow(site.serve_document("/feed", rss(posts)))
    it.clock.advance(5)
    await it.poll(feed)
    assert [row.is_read for row in await it.rows()] == [False] * 10 + [True] * 20
    assert [f"Post {n}<" in text or f'Post {n}"' in text for n, text in enumerate(await it.texts())] == [True] * 30
    site.serve_document("/feed", rss([("new", "New", None), *posts]))
    await it.poll(feed)
    assert [row.is_read for row in await it.rows()] == [False] * 11 + [True] * 20
    assert "New" in (await it.texts())[0]


async def test_an_edit_reaches_the_reader(site: Publisher, it: World) -> None:
    """A changed title changes the stored item; id, place and read state stay the same."""
    site.serve_document("/feed", rss([("a", "First", None), ("b", "Second", None)]))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.worker.run_once()
    before = await it.rows()
    await it.timelines.mark_read("alice", "home", [before[0].id], it.clock())
    site.serve_document("/feed", rss([("a", "First, edited", None), ("b", "Second", None)]))
    await it.make_due(feed)
    await it.worker.run_once()
    after = await it.rows()
    assert [(row.id, row.score) for row in after] == [(row.id, row.score) for row in before]
    assert [row.is_read for row in after] == [True, False]
    assert ["First, edited" in text for text in await it.texts()] == [True, False]
