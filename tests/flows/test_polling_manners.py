"""Politeness towards publishers: validators, pauses, moves, an end after 410; and errors as readers see them."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import structlog.testing

from microsub.admin.follow_repair import RepairedFollows
from microsub.admin.sweep import Sweeping
from microsub.base.urls import host_of
from microsub.configuration.model import InstanceSettings
from microsub.feeds.record import FeedRecord
from microsub.model.settings import USUAL, ChannelSettings
from microsub.parsing.pool import ParsePool
from microsub.redis.protocol import Redis
from microsub.server.parsers import TASKS
from microsub.timelines.retention import Retention
from tests.support import later
from tests.support.polling import World, dated, rss, world
from tests.support.web import Answer, Publisher, publisher

HOUR = 3600.0
DAY = 24 * HOUR


async def test_an_unchanged_body_is_not_parsed(site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 200 with the same bytes costs only a hash; its validators are stored."""
    site.serve("/feed", lambda _: Answer(rss(dated(1)), headers=[("ETag", f'"{len(site.asked)}"')]))
    feed = await it.follow(site.url("/feed", "blog.test"))
    assert (await it.poll(feed)).outcome == "changed"

    async def refuse(*_task: object, **_keys: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(it.parser, "measured", refuse)
    assert (await it.poll(feed)).outcome == "unchanged"
    assert (await it.record(feed)).etag == '"2"'


async def test_a_failure_is_stored_with_its_reason(site: Publisher, it: World) -> None:
    """The record contains the error and counts failures; the next success resets both."""
    feed = await it.follow(site.serve("/feed", Answer(status=500)))
    for count in (1, 2):
        await it.poll(feed)
        record = await it.record(feed)
        assert (record.failures, record.last_error) == (count, "http: the server answered 500")
        assert record.last_error_at is not None
        assert record.last_success is None
    site.serve("/feed", Answer(b"<html>no feed here"))
    result = await it.poll(feed)
    assert (result.outcome, (await it.record(feed)).failures) == ("parse", 3)
    site.serve_document("/feed", rss(dated(1)))
    await it.poll(feed)
    record = await it.record(feed)
    assert (record.failures, record.last_error, record.title) == (0, None, "Invented")


async def test_credentials_stay_between_us_and_the_publisher(site: Publisher, it: World) -> None:
    """The password of a feed is in no log line, error or stored post, after success and after failure."""
    site.serve_document("/feed", rss(dated(2)).replace(b"http://posts.test/post", b"/post"))
    feed = await it.follow(site.url("/feed", "ann:s3cret@blog.test"))
    with structlog.testing.capture_logs() as lines:
        await it.worker.run_once()
        site.serve("/feed", Answer(status=302, headers=[("Location", "http://blog.test:2/")]))
        await it.poll(feed)
        site.serve("/feed", Answer(b"nothing"))
        await it.poll(feed)
    assert "authorization" in site.asked[0].headers
    assert len(lines) == 3
    record = await it.record(feed)
    assert record.last_error
    assert "s3cret" not in f"{lines} {record.last_error} {await it.texts()}"


async def test_a_broken_document_leaves_validators_and_items(site: Publisher, it: World) -> None:
    """A document that isn't a feed is requested again in full, and existing items stay."""
    feed = await it.follow(site.serve_document("/feed", rss(dated(2)), etag='"good"'))
    await it.poll(feed)
    site.serve("/feed", Answer(b"<html>Maintenance</html>", headers=[("ETag", '"bad"')]))
    await it.poll(feed)
    assert (await it.record(feed)).etag == '"good"'
    assert len(await it.rows()) == 2


async def test_a_410_is_permanent(site: Publisher, it: World) -> None:
    """After a 410 the feed is never requested again, also not on demand; followers see the reason."""
    feed = await it.follow(site.serve("/feed", Answer(status=410)))
    await it.worker.run_once()
    assert (await it.record(feed)).gone
    it.clock.advance(1000 * HOUR)
    assert await it.worker.run_once() == 0
    await it.make_due(feed)
    await it.worker.run_once()
    assert site.count("/feed") == 1
    assert "410" in ((await it.record(feed)).last_error or "")


async def test_retry_after_holds_the_url_and_then_the_host(site: Publisher, it: World) -> None:
    """One feed with `Retry-After` waits alone; if three of a host have it, the whole host waits."""
    for number in range(4):
        site.serve(f"/feed{number}", Answer(status=429, headers=[("Retry-After", "7200")]))
    site.serve_document("/good", rss(dated(1)))
    first = await it.follow(site.url("/feed0", "blog.test"))
    await it.worker.run_once()
    await it.make_due(first)
    good = await it.follow(site.url("/good", "blog.test"))
    await it.worker.run_once()
    await it.worker.run_once()
    assert (site.count("/feed0"), site.count("/good")) == (1, 1)
    for number in (1, 2):
        await it.follow(site.url(f"/feed{number}", "blog.test"))
    await it.worker.run_once()
    await it.make_due(good)
    await it.follow(site.url("/feed3", "blog.test"))
    assert await it.worker.run_once() == 0
    it.clock.advance(7201)
    await it.worker.run_once()
    assert (site.count("/feed3"), site.count("/good")) == (1, 2)


async def test_max_age_puts_the_next_poll_off(site: Publisher, it: World) -> None:
    """A feed that is fresh for two days isn't requested within 38 hours, also after a 304."""
    fresh = [("Cache-Control", "max-age=172800"), ("ETag", '"1"')]
    site.serve("/feed", lambda asked: Answer(rss(dated(2)), 304 if len(site.asked) > 1 else 200, fresh))
    feed = await it.follow(site.url("/feed", "blog.test"))
    for _ in range(2):
        result = await it.poll(feed)
        assert result.next_poll is not None
        assert 38 * HOUR < result.next_poll - it.clock() <= 48 * HOUR


async def test_a_304_without_max_age_keeps_the_last_one(site: Publisher, it: World) -> None:
    """The document's max-age is stored in the feed's record, until a reply has another one."""
    later = {1: [("Cache-Control", "max-age=36000")], 3: [("Cache-Control", "no-cache")]}

    def reply(_asked: object) -> Answer:
        headers = [("ETag", '"1"'), *later.get(len(site.asked), [])]
        return Answer(rss(dated(2)), 304 if len(site.asked) > 1 else 200, headers)

    site.serve("/feed", reply)
    feed = await it.follow(site.url("/feed", "blog.test"))
    waits = []
    for _ in range(3):
        result = await it.poll(feed)
        waits.append((result.next_poll or 0) - it.clock() >= 36000)
        await it.feeds.update(feed.id, {"last_change": str(it.clock()), "gap": "86400"})
    assert waits == [True, True, False]


async def test_an_unfollowed_feed_leaves_the_schedule(site: Publisher, it: World) -> None:
    """A feed without followers leaves the schedule without a request; the next follower adds it again."""
    feed = await it.follow(site.serve_document("/feed", rss(dated(1))))
    await it.feeds.unsubscribe(feed.id, "alice", "home")
    assert await it.worker.run_once() == 1
    assert site.asked == []
    it.clock.advance(1000 * HOUR)
    assert await it.worker.run_once() == 0
    await it.follow(feed.url)
    await it.worker.run_once()
    assert site.count("/feed") == 1


async def test_a_follow_while_a_feed_ends_is_polled(
    site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a user follows a feed between the count of followers and its removal from the schedule, it stays scheduled."""
    feed = await it.follow(site.serve_document("/feed", rss(dated(1))))
    await it.feeds.unsubscribe(feed.id, "alice", "home")
    count = it.feeds.subscriber_count

    async def and_then_somebody_follows(feed_id: str) -> int:
        found = await count(feed_id)
        await it.follow(feed.url, "bob")
        return found

    monkeypatch.setattr(it.feeds, "subscriber_count", and_then_somebody_follows)
    assert await it.worker.run_once() == 2
    assert site.count("/feed") == 1


async def _poll_thrice_over_a_day(it: object, feed: object) -> None:
    for _ in range(3):
        await it.make_due(feed)  # type: ignore[attr-defined]
        await it.worker.run_once()  # type: ignore[attr-defined]
        it.clock.advance(13 * HOUR)  # type: ignore[attr-defined]


@pytest.mark.parametrize("ahead", [HOUR, DAY, 3650 * DAY])
@pytest.mark.parametrize("answer", ["document", "429"])
async def test_a_clock_that_was_ahead_for_a_moment(redis: Redis, ahead: float, answer: str) -> None:
    """Feeds that were polled or paused meanwhile are polled as soon as the clock is right; a host of a worker that died
    in that moment, when its lease has ended. Earlier plans stay unchanged.
    """
    async with publisher() as site, world(redis, settings=InstanceSettings()) as it:
        if answer == "429":
            site.serve("/feed", Answer(status=429, headers=[("Retry-After", "3600")]))
        else:
            site.serve_document("/feed", rss(dated(1)))
        site.serve_document("/other", rss(dated(1)))
        site.serve_document("/third", rss(dated(1)))
        third = await it.follow(site.url("/third", "third.test"))
        await it.worker.run_once()
        planned = (await it.record(third)).next_poll
        feed = await it.follow(site.url("/feed", "blog.test"))
        dead = await it.follow(site.url("/other", "other.test"))
        it.clock.advance(ahead)
        assert [lease.member for lease in await it.schedule.take(it.clock(), 1, 90, [host_of(dead.url)])]
        await it.worker.run_once([host_of(feed.url)])
        assert (site.count("/feed"), site.count("/other")) == (1, 0)
        it.clock.advance(-ahead)
        site.serve_document("/feed", rss(dated(2)))
        await it.worker.run_once()
        assert (site.count("/feed"), site.count("/third")) == (2, 1)
        it.clock.advance(91)  # the lease has ended, except one that ends impossibly far ahead
        await it.worker.run_once()
        assert (site.count("/feed"), site.count("/other"), site.count("/third")) == (2, 1, 1)
        assert len(await it.rows()) == 4
        assert (await it.record(third)).next_poll == planned
        record = await it.record(feed)
        assert record.last_poll is not None
        assert record.last_poll <= it.clock()
        assert await it.follow_repair.run(it.clock()) == RepairedFollows()


async def test_a_clock_that_was_half_a_minute_ahead(redis: Redis) -> None:
    """Nothing is polled again because of it: feeds that were polled meanwhile are due half a minute later."""
    async with publisher() as site, world(redis, settings=InstanceSettings()) as it:
        site.serve_document("/feed", rss(dated(1)))
        feed = await it.follow(site.url("/feed", "blog.test"))
        it.clock.advance(30)
        await it.worker.run_once()
        record = await it.record(feed)
        assert record.next_poll is not None
        assert record.interval is not None
        it.clock.advance(-30)
        await it.worker.run_once()
        assert site.count("/feed") == 1
        it.clock.advance(record.next_poll - it.clock() + 1)
        await it.worker.run_once()
        assert site.count("/feed") == 2


async def test_a_feed_moves(site: Publisher, it: World) -> None:
    """After three permanent redirects over a day the new address is polled, on its own host; read state stays."""
    new = site.url("/new", "new.test")
    site.serve("/old", Answer(status=301, headers=[("Location", new)]))
    site.serve_document("/new", rss(dated(3)))
    feed = await it.follow(site.url("/old", "old.test"))
    await it.make_due(feed)
    await it.worker.run_once()
    rows = await it.rows()
    await it.timelines.mark_read("alice", "home", [rows[1].id], it.clock())
    assert (await it.record(feed)).url == site.url("/old", "old.test")
    it.clock.advance(13 * HOUR)
    await _poll_thrice_over_a_day(it, feed)
    assert (await it.record(feed)).url == new
    asked = site.count("/old")
    it.clock.advance(48 * HOUR)
    leases = await it.schedule.take(it.clock(), 10, 1)
    due = {lease.member for lease in leases if (await it.schedule.due_feeds(lease, it.clock(), 1)).ids}
    assert due == {host_of(new)}
    it.clock.advance(60)
    await it.worker.run_once()
    assert site.count("/old") == asked
    after = await it.rows()
    assert [(row.id, row.is_read) for row in after] == [(row.id, n == 1) for n, row in enumerate(rows)]
    assert await it.feeds.find(site.url("/old", "old.test")) == feed.id


async def test_a_new_address_doesnt_get_posts_read_before_a_move(site: Publisher, it: World) -> None:
    """Otherwise anybody could add posts to a feed that nobody follows here, or predate its posts, by a redirect to it.

    A user who follows the new address itself gets its posts with its dates; those who came by the redirect are moved to
    the same feed, with their read state.
    """
    new = site.url("/new", "new.test")
    scandal = ("scandal", "Scandal", "02 Jan 2024 20:00:00 GMT")
    site.serve_document("/old", rss([scandal, ("post-4", "To come", "01 Jan 2001 00:00:00 GMT")]))
    old = await it.follow(site.url("/old", "old.test"))
    await it.poll(old)
    site.serve("/old", Answer(status=301, headers=[("Location", new)]))
    site.serve_document("/new", rss(dated(3)))
    await _poll_thrice_over_a_day(it, old)
    assert (await it.record(old)).url == new
    await it.poll(old)
    rows = await it.rows("alice")
    assert len(rows) == 5
    await it.timelines.mark_read("alice", "home", [rows[1].id], it.clock())
    other = await it.follow(new, "bob")
    await it.poll(other)
    site.serve_document("/new", rss(dated(4)))
    await it.poll(other)
    assert await _titles(it, "bob") == ["Post 4", "Post 3", "Post 2", "Post 1"]
    assert (await it.poll(old)).outcome == "moved"
    assert await it.feeds.subscribers(other.id) == [("alice", "home"), ("bob", "home")]
    assert await it.feeds.subscribers(old.id) == []
    again = {row.id: row.is_read for row in await it.rows("alice")}
    titles = await _titles(it, "alice")
    assert sorted(titles) == ["Post 1", "Post 2", "Post 3", "Post 4", "Scandal"]
    assert [title for title, read in zip(titles, again.values(), strict=True) if read] == ["Post 3"]


async def _moved_to(site: Publisher, it: World, address: str) -> FeedRecord:
    """Somebody else's feed that had posts and then redirects permanently to an address that nobody follows."""
    site.serve_document("/elsewhere", rss([("scandal", "Scandal", "02 Jan 2024 20:00:00 GMT")]))
    moved = await it.follow(site.url("/elsewhere", "elsewhere.test"))
    await it.poll(moved)
    site.serve("/elsewhere", Answer(status=301, headers=[("Location", address)]))
    await _poll_thrice_over_a_day(it, moved)
    assert (await it.record(moved)).url == address
    return moved


async def test_followers_by_redirect_get_only_posts_of_the_new_address(site: Publisher, it: World) -> None:
    """Otherwise anybody who redirects to a publisher's future address would get its followers when it moves."""
    new = site.url("/new", "new.test")
    site.serve_document("/new", rss(dated(3)))
    site.serve_document("/old", rss(dated(2)))
    old = await it.follow(site.url("/old", "old.test"), "bob")
    await it.poll(old)
    moved = await _moved_to(site, it, new)
    site.serve("/old", Answer(status=301, headers=[("Location", new)]))
    await _poll_thrice_over_a_day(it, old)
    owner = await it.feeds.find(new)
    assert owner not in {None, old.id, moved.id}
    await it.poll_id(owner)
    await it.poll(moved)
    assert sorted(await _titles(it, "bob")) == ["Post 1", "Post 2", "Post 3"]
    assert await it.feeds.subscribers(owner) == [("alice", "home"), ("bob", "home")]


async def test_an_address_passed_on_the_way_is_its_publishers(site: Publisher, it: World) -> None:
    """A feed has moved twice: a follower of the address in the middle gets only the posts behind that address."""
    middle, new = site.url("/middle", "new.test"), site.url("/new", "new.test")
    site.serve_document("/middle", rss(dated(2)))
    moved = await _moved_to(site, it, middle)
    site.serve_document("/new", rss(dated(3)))
    site.serve("/middle", Answer(status=301, headers=[("Location", new)]))
    await _poll_thrice_over_a_day(it, moved)
    assert (await it.record(moved)).url == new
    other = await it.follow(middle, "bob")
    await it.poll(other)
    await _poll_thrice_over_a_day(it, other)
    owner = await it.feeds.find(new)
    assert owner not in {None, moved.id}
    await it.poll_id(owner)
    assert await _titles(it, "bob") == ["Post 3", "Post 2", "Post 1"]


async def _titles(it: World, user: str) -> list[str]:
    return [text.partition('"name":"')[2].partition('"')[0] for text in await it.texts(user)]


async def test_a_temporary_redirect_moves_nothing(site: Publisher, it: World) -> None:
    """A 302 may last for years: the feed keeps the publisher's first address."""
    site.serve("/old", Answer(status=302, headers=[("Location", "/new")]))
    site.serve_document("/new", rss(dated(1)))
    feed = await it.follow(site.url("/old", "old.test"))
    await _poll_thrice_over_a_day(it, feed)
    assert (await it.record(feed)).url == site.url("/old", "old.test")


async def test_a_feed_moves_between_services_to_one_that_is_known(site: Publisher, it: World) -> None:
    """Neither address is on the host of the posts' links. The followers move to the known feed; common posts are there
    once, with their read state; posts that were read and are gone stay away; later entries of the new feed are the
    same posts too; the old address isn't polled any more.
    """
    new = site.url("/new", "new.test")
    site.serve_document("/old", rss(dated(4)))
    site.serve_document("/new", rss(dated(3)))
    known = await it.follow(new, "bob")
    old = await it.follow(site.url("/old", "old.test"), "alice")
    await it.worker.run_once()
    rows = await it.rows("alice")
    await it.timelines.mark_read("alice", "home", [rows[0].id, rows[2].id], it.clock())
    await it.timelines.remove("alice", "home", [rows[3].id], it.clock())
    site.serve("/old", Answer(status=301, headers=[("Location", new)]))
    await _poll_thrice_over_a_day(it, old)
    assert [subscription.feed for subscription in await it.channels.subscriptions("alice", "home")] == [known.id]
    titles = [text.partition('"name":"')[2][:6] for text in await it.texts("alice")]
    assert titles == ["Post 4", "Post 3", "Post 2"]
    assert [row.is_read for row in await it.rows("alice")] == [True, False, True]
    site.serve_document("/new", rss(dated(5)))
    await it.poll(known)
    titles = [text.partition('"name":"')[2][:6] for text in await it.texts("alice")]
    assert titles == ["Post 5", "Post 4", "Post 3", "Post 2"]
    assert [row.is_read for row in await it.rows("alice")] == [False, True, False, True]
    assert [row.is_read for row in await it.rows("bob")] == [False] * 5
    assert await it.feeds.subscribers(known.id) == [("alice", "home"), ("bob", "home")]
    assert await it.feeds.subscribers(old.id) == []
    asked = site.count("/old")
    it.clock.advance(48 * HOUR)
    await it.worker.run_once()
    assert site.count("/old") == asked


async def test_a_move_between_services_of_a_reader_who_follows_both(site: Publisher, it: World) -> None:
    """The posts that were in one channel twice are there once, and read if one of the two was."""
    new = site.url("/new", "new.test")
    site.serve_document("/old", rss(dated(2)))
    site.serve_document("/new", rss(dated(2)))
    known = await it.follow(new)
    old = await it.follow(site.url("/old", "old.test"))
    await it.worker.run_once()
    await it.worker.run_once()
    assert len(await it.rows()) == 4
    of_old = await it.items.in_feed(old.id, [row.id for row in await it.rows()])
    await it.timelines.mark_read("alice", "home", [max(of_old, key=int)], it.clock())
    site.serve("/old", Answer(status=301, headers=[("Location", new)]))
    await _poll_thrice_over_a_day(it, old)
    assert [subscription.feed for subscription in await it.channels.subscriptions("alice", "home")] == [known.id]
    assert [row.is_read for row in await it.rows()] == [True, False]


async def test_a_feed_does_not_move_to_one_that_has_gone(site: Publisher, it: World) -> None:
    """The redirect is followed as long as it delivers posts."""
    new = await it.follow(site.serve("/new", Answer(status=410)), "bob")
    await it.poll(new)
    site.serve("/old", Answer(status=301, headers=[("Location", "/new")]))
    site.serve_document("/new", rss(dated(3)))
    old = await it.follow(site.url("/old"))
    await _poll_thrice_over_a_day(it, old)
    assert await it.feeds.subscribers(old.id) == [("alice", "home")]
    assert len(await it.rows()) == 3


async def test_a_bug_in_one_poll_stops_nothing(site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is logged, shown as the feed's failure, and backs off like one."""
    feed = await it.follow(site.serve_document("/feed", rss(dated(1))))

    async def bug(*_task: object, **_keys: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(it.parser, "measured", bug)
    await it.make_due(feed)
    it.worker._turn._poller = it.poller  # the poller of this test's parser
    await it.worker.run_once()
    record = await it.record(feed)
    assert (record.failures, record.last_error) == (1, "internal: RuntimeError while polling")
    assert record.next_poll is not None
    assert record.next_poll > it.clock() + 200
    assert await it.worker.run_once() == 0


async def test_an_authors_block_counts_after_an_edit(redis: Redis, site: Publisher, it: World) -> None:
    """If an edit gives a post a blocked author, the post is removed from the timeline."""

    def atom(author: str) -> bytes:
        return (
            "<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><id>f</id><entry><id>1</id>"
            f"<author><name>N</name><uri>{author}</uri></author><link href='http://p.test/1'/><title>One</title>"
            "<updated>2024-01-01T00:00:00Z</updated></entry></feed>"
        ).encode()

    feed = await it.follow(site.serve_document("/feed", atom("http://good.test/"), "application/atom+xml"))
    await it.poll(feed)
    await it.rules.block("alice", "home", "http://bad.test/", it.clock())
    assert len(await it.rows()) == 1
    site.serve_document("/feed", atom("http://bad.test/"), "application/atom+xml")
    await it.poll(feed)
    assert await it.rows() == []


RESTS = "this server lacks what a poll needs, polling pauses for a while"


async def test_a_missing_parser_is_no_failure_of_publishers(
    site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it doesn't start in time, the log says just that, records stay unchanged, and the feed is polled soon."""
    it.parser = ParsePool(TASKS)
    worker = it.make_worker()
    feed = await it.follow(site.serve_document("/feed", rss(dated(1))))
    before = await it.record(feed)
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as lines:
        patched.setattr("microsub.parsing.process._START", 0.0)
        assert await worker.run_once() == 1
    after = replace(await it.record(feed), reading=None, extra={})
    assert after == before, "but for having begun"
    (detail,) = (line["detail"] for line in lines if line["event"] == RESTS)
    assert detail.endswith("no parser can be started (the process for parsing documents wasn't ready after 0 s)")
    it.clock.advance(60)
    await worker.run_once()
    assert len(await it.rows()) == 1
    it.parser.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process can't open any file; open ones stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_missing_descriptors_are_no_failure_of_publishers(site: Publisher, it: World) -> None:
    """Records and copies stay unchanged, one log line reports it, and polling pauses for a while."""
    site.serve_document("/feed", rss(dated(1)))
    feeds = [await it.follow(site.url("/feed", f"b{n}.test")) for n in range(20)]
    before = [await it.record(feed) for feed in feeds]
    worker = it.worker
    with structlog.testing.capture_logs() as lines, no_descriptor_left():
        await worker.run_once()
        await worker.run_once()
    after = [await it.record(feed) for feed in feeds]
    assert [replace(record, reading=None) for record in after] == before, "but for having begun"
    assert [line["event"] for line in lines] == [RESTS]
    assert not site.asked
    it.clock.advance(60)
    await it.worker.run_once()
    assert len(site.asked) == 20
    assert all([(await it.record(feed)).last_success for feed in feeds])


async def nine_days_later(it: World, feed: FeedRecord, kept: int) -> None:
    """Mark everything as read, then run retention and sweep for nine days; `kept` posts of the feed stay stored."""

    async def limits(_user: str, _uid: str) -> ChannelSettings:
        return replace(USUAL, keep_read_days=7)

    async def nobody() -> tuple[str, ...]:
        return ()

    await it.timelines.mark_read("alice", "home", [row.id for row in await it.rows()], it.clock())
    retention = Retention(it.redis, it.accounts, it.channels, it.items, limits, nobody)
    sweeping = Sweeping(it.redis, it.accounts, it.feeds, it.outputs, kept=later(lambda: kept))
    for _ in range(9):
        it.clock.advance(DAY)
        await it.poll(feed)
        await retention.run(it.clock())
        await retention.visit("alice home", it.clock())
        await sweeping.run(it.clock())


@pytest.mark.parametrize("kept", [300, 2], ids=["in the store", "swept"])
@pytest.mark.parametrize("identity", ["guid", "link"])
async def test_an_entry_that_is_listed_again_is_not_new(site: Publisher, real: World, identity: str, kept: int) -> None:
    """The feed had dropped the entry for nine days, in which retention removed it from the timeline, and perhaps the
    sweep from the store: it stays away.
    """

    def document(count: int) -> bytes:
        text = rss(dated(5)[:count])
        return text if identity == "guid" else re.sub(b"<guid.*?</guid>", b"", text)

    site.serve_document("/feed", document(5))
    feed = await real.follow(site.url("/feed", "blog.test"))
    await real.poll(feed)
    site.serve_document("/feed", document(3))
    await nine_days_later(real, feed, kept)
    assert await real.rows() == []
    assert len(await real.items.newest(feed.id, 10)) == min(kept, 5)
    site.serve_document("/feed", document(5))
    result = await real.poll(feed)
    assert (result.new, result.updated) == (0, 0)
    assert await real.rows() == []


@pytest.mark.parametrize("kept", [300, 2], ids=["in the store", "swept"])
async def test_a_copy_in_another_feed_of_the_site_is_not_new(site: Publisher, real: World, kept: int) -> None:
    """Its copy was read in the first feed, and removed since: a reader of a blog may follow one of its topics too."""
    site.serve_document("/feed", rss(dated(5)))
    feed = await real.follow(site.url("/feed", "blog.test"))
    await real.poll(feed)
    site.serve_document("/feed", rss(dated(5)[:3]))
    await nine_days_later(real, feed, kept)
    site.serve_document("/topic", rss(dated(6)))
    await real.poll(await real.follow(site.url("/topic", "blog.test")))
    assert ["Post 6" in text for text in await real.texts()] == [True]


@pytest.mark.parametrize("kept", [300, 2], ids=["in the store", "swept"])
async def test_an_entry_whose_guid_others_share_later_is_not_new(site: Publisher, real: World, kept: int) -> None:
    """Its guid was unique when it was read; posts published now with the same guid are new."""

    def document(*names: str) -> bytes:
        text = rss([(name, name, None if name == "late" else "01 Jan 2024 10:00:00 GMT") for name in names])
        return re.sub(rb"(<guid[^>]*>)(?:early|late)<", rb"\1same<", text)

    site.serve_document("/feed", document("early"))
    feed = await real.follow(site.url("/feed", "blog.test"))
    await real.poll(feed)
    site.serve_document("/feed", document("a", "b", "c"))
    await nine_days_later(real, feed, kept)
    site.serve_document("/feed", document("late", "early"))
    await real.poll(feed)
    names = [json.loads(text)["name"] for text in await real.texts()]
    assert sorted(names) == ["a", "b", "c", "late"]
