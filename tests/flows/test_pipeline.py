"""The stages behind polling, with real stores: what they tell, what they complete, and timelines from the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from email.utils import formatdate

import pytest

from microsub.check.look import look
from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.delivery.dead_letters import DeadLetters
from microsub.delivery.fan_out import Rebuilding
from microsub.delivery.look_ups import Completing
from microsub.delivery.stage import Patience, Stages
from microsub.feeds.events import Event, Events
from microsub.fetch import Fetched, FetchFailed, FetchRequest, FetchResult
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.following import Following
from microsub.timelines.rules import Rules
from tests.support.invariants import violations
from tests.support.parsing import PARSER
from tests.support.polling import World, dated, rss, world
from tests.support.timelines import usual_settings
from tests.support.web import Publisher, publisher

AGELESS = InstanceSettings(delivery=DeliverySettings(warm_up_days=0))
IMPATIENT = Patience(idle=0.0, deliveries=3)


@pytest.fixture
async def site() -> AsyncIterator[Publisher]:
    async with publisher() as found:
        yield found


@pytest.fixture
async def it(redis: Redis) -> AsyncIterator[World]:
    async with world(redis) as found:
        yield found


async def told(it: World) -> list[tuple[str, tuple[str, ...]]]:
    return [(event.kind, event.changed) for event in await Events(it.redis).since("0")]


async def test_events_tell_of_feeds_and_posts(it, site):
    """Created once, modified with the fields that changed, and nothing where nothing did; in process and by stream."""
    heard: list[Event] = []

    async def listen(event: Event) -> None:
        heard.append(event)

    it.announcing.listen(listen)
    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    assert await told(it) == [("feed_created", ()), ("post_created", ()), ("post_created", ())]
    about = "<description>About us</description>"
    site.serve_document("/feed", rss(dated(2), extra=about))
    await it.poll(feed)
    edited = dated(2)
    edited[0] = (edited[0][0], "Edited", edited[0][2])
    site.serve_document("/feed", rss(edited, extra=about))
    await it.poll(feed)
    await it.poll(feed)
    assert (await told(it))[3:] == [("feed_modified", ("description",)), ("post_modified", ("content", "name"))]
    assert [(event.kind, event.changed) for event in heard] == await told(it)
    posts = [event for event in heard if event.post]
    assert {event.guid for event in posts} == {"post-1", "post-2"}
    assert all([await it.items.get(event.post) for event in posts])


async def test_an_edit_brings_in_what_was_filtered_out(it, site):
    """From the publisher's document to the timeline: a post that reads otherwise now, once, at its old place."""
    site.serve_document("/feed", rss(dated(3)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.follow(feed.url, "bob", "all")
    await it.filter({"exclude_words": ["post 2"], "include_types": ["article"]})
    await it.poll(feed)
    assert len(await it.rows("bob", "all")) == 3
    first, last = [row.id for row in await it.rows()]
    edited = dated(3)
    edited[1] = (edited[1][0], "Another title", edited[1][2])
    site.serve_document("/feed", rss(edited))
    await it.poll(feed)
    second = (await it.rows("bob", "all"))[1].id
    assert [row.id for row in await it.rows()] == [first, second, last]
    await it.filter({"exclude_words": ["another"]})
    site.serve_document("/feed", rss(dated(3)))
    await it.poll(feed)
    assert [row.id for row in await it.rows()] == [first, second, last]
    for uid, user in (("home", "alice"), ("all", "bob")):
        assert await violations(it.redis, user, uid) == []


@pytest.mark.parametrize("target", [True, False])
async def test_filters_hold_for_follows_and_rebuilds(it, site, target):
    """What fills a timeline from the store is chosen like news."""
    site.serve_document("/feed", rss(dated(4)))
    feed = await it.follow(site.url("/feed", "blog.test"), "bob", "all")
    await it.poll(feed)
    await it.accounts.add_user("alice", "", it.clock())
    await it.channels.create("alice", "home", it.clock(), "home")
    await it.filter({"include_regex": "Post [12]$"})
    following = Following(it.redis, it.channels, it.feeds, it.items, it.timelines, it.schedule, usual_settings)
    await following.follow("alice", "home", feed.url, it.clock())
    assert len(await it.rows()) == 2
    if target:
        await it.redis.command("DEL", keys.posts("alice", "home"), keys.unread("alice", "home"))
        rebuilding = Rebuilding(it.redis, it.channels, it.items, it.stages.stored, lambda: AGELESS)
        await rebuilding.rebuild("alice", None, it.clock())
        await it.stages.run_once()
        assert len(await it.rows()) == 2


async def test_what_a_poll_leaves_behind_is_in_order(it, site):
    """A feed that is followed and was polled: there is nothing to repair."""
    site.serve_document("/feed", rss(dated(3)))
    await it.poll(await it.follow(site.url("/feed", "blog.test")))
    assert [f"{one.subject}: {one.what}" for one in (await look(it.redis, it.clock())).found] == []


async def test_a_listener_that_fails_harms_nobody(it, site):
    """The post arrives, and the next listener hears of it."""
    heard: list[str] = []

    async def broken(_event: Event) -> None:
        raise RuntimeError("a bug of the listener's")

    async def sound(event: Event) -> None:
        heard.append(event.kind)

    end = it.announcing.listen(broken)
    it.announcing.listen(sound)
    site.serve_document("/feed", rss(dated(1)))
    await it.poll(await it.follow(site.url("/feed", "blog.test")))
    assert heard == ["feed_created", "post_created"]
    assert len(await it.rows()) == 1
    end()


class Pages:
    """Pages that look-ups find."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self.pages = pages
        self.asked: list[str] = []

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.asked.append(request.url)
        body = self.pages.get(request.url)
        if body is None:
            return FetchFailed(request.url, "http", "404", 404)
        return Fetched(request.url, request.url, 200, {}, body, "text/html", None, None, None, None)


REPLY = b"""<!doctype html><div class=h-feed><div class=h-entry><a class=u-url href=/1></a>
<a class=u-in-reply-to href=http://other.test/post></a><p class=e-content>I agree.</p>
<a class='p-author h-card' href=http://ann.test/></a></div></div>"""
TARGET = b"""<!doctype html><article class=h-entry><h1 class=p-name>The post</h1><p class=e-content>What it says.</p>
<a class='p-author h-card' href=http://other.test/>Olga</a></article>"""
ANN = b"""<!doctype html><div class=h-card><a class='p-name u-url' rel=me href=http://ann.test/>Ann</a>
<img src=/ann.png class=u-photo alt=''></div>"""


def completing_stages(it: World, pages: Pages) -> Stages:
    completing = Completing(pages, PARSER)
    return Stages(
        it.redis, it.feeds, it.items, it.fan_out, it.announcing, completing, consumer="completer", clock=it.clock
    )


async def test_a_post_is_readable_at_once_and_completed_later(it, site):
    """First without, then with the author's name and photo and what it replies to; place and read state stay."""
    pages = Pages({"http://other.test/post": TARGET, "http://ann.test/": ANN})
    site.serve_document("/feed", REPLY, content_type="text/html")
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    (before,) = await it.texts()
    assert "I agree." in before
    assert "What it says." not in before
    (row,) = await it.rows()
    await it.timelines.mark_read("alice", "home", [row.id], it.clock())
    assert await completing_stages(it, pages).run_once() == 2  # the look-ups, and the timelines' rules for the author
    (after,) = await it.texts()
    for found in ("What it says.", '"name":"Ann"', "ann.png", "Olga"):
        assert found in after
    (again,) = await it.rows()
    assert (again.id, again.score, again.is_read) == (row.id, row.score, True)
    assert ("post_modified", ("author", "refs")) in await told(it)
    await it.poll(feed)
    assert await completing_stages(it, pages).run_once() == 0
    assert await it.texts() == [after]


async def test_look_ups_that_fail_change_nothing(it, site):
    """Every page is gone: the post stays as it was, and nobody asks again for it."""
    pages = Pages({})
    site.serve_document("/feed", REPLY, content_type="text/html")
    await it.poll(await it.follow(site.url("/feed", "blog.test")))
    before = await it.texts()
    stages = completing_stages(it, pages)
    assert await stages.run_once() == 1
    assert await it.texts() == before
    assert sorted(pages.asked) == ["http://ann.test/", "http://other.test/post"]
    assert await stages.run_once() == 0


async def test_what_is_edited_meanwhile_is_left_to_the_edit(it, site):
    """A look-up for an old version writes nothing over the new one."""
    pages = Pages({"http://other.test/post": TARGET})
    site.serve_document("/feed", REPLY, content_type="text/html")
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve_document("/feed", REPLY.replace(b"I agree", b"I disagree"), content_type="text/html")
    await it.poll(feed)
    assert await completing_stages(it, pages).run_once() == 2
    (text,) = await it.texts()
    assert "I disagree." in text
    assert "What it says." in text


async def test_a_lost_timeline_comes_back_from_the_store(it, site):
    """Deleted by hand: rebuilt without the publisher, newest few unread, the rest read, twice the same."""
    site.serve_document("/feed", rss(dated(15)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    ids = [row.id for row in await it.rows()]
    await it.redis.command("DEL", *(key("alice", "home") for key in (keys.posts, keys.unread, keys.read)))
    service = Rebuilding(it.redis, it.channels, it.items, it.stages.stored, lambda: AGELESS)
    for _ in range(2):
        (report,) = await service.rebuild("alice", "home", it.clock())
        assert (report.feeds, report.items) == (1, 15)
        await it.stages.run_once()
        rows = await it.rows()
        assert [row.id for row in rows] == ids
        assert [row.is_read for row in rows] == [False] * 10 + [True] * 5
        assert await violations(it.redis, "alice", "home") == []


async def test_a_post_whose_guid_another_one_gets_too_stays_what_it_is(it, site):
    """Its state stays, and it isn't doubled; its edits reach it."""
    both = rss([("http://blog.test/", "Two", None), ("http://blog.test/", "One", None)])
    both = both.replace(b"posts.test/http://blog.test/", b"posts.test/2", 1)
    both = both.replace(b"posts.test/http://blog.test/", b"posts.test/1", 1)
    alone = rss([("http://blog.test/", "One", None)]).replace(b"posts.test/http://blog.test/", b"posts.test/1")
    site.serve_document("/feed", alone)
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    (one,) = await it.rows()
    await it.timelines.mark_read("alice", "home", [one.id], it.clock())
    for text in (both, both.replace(b"About One", b"About one and all")):
        site.serve_document("/feed", text)
        await it.poll(feed)
        rows = {row.id: row.is_read for row in await it.rows()}
        assert len(rows) == 2
        assert rows[one.id]
    assert any("one and all" in text for text in await it.texts())
    assert await violations(it.redis, "alice", "home") == []


async def test_a_rebuild_brings_nothing_back(it, site):
    """What was read, removed or unfollowed stays so, and another user's timelines aren't touched."""
    site.serve_document("/feed", rss(dated(6)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await it.poll(feed)
    first, second, third = [row.id for row in await it.rows()][:3]
    await it.timelines.mark_read("alice", "home", [first], it.clock())
    await it.timelines.remove("alice", "home", [second], it.clock())
    await it.redis.command("ZREM", keys.posts("alice", "home"), third)
    await it.redis.command("ZREM", keys.unread("alice", "home"), third)
    await it.timelines.remove("bob", "home", [third], it.clock())
    service = Rebuilding(it.redis, it.channels, it.items, it.stages.stored, lambda: AGELESS)
    await service.rebuild("alice", None, it.clock())
    await it.stages.run_once()
    rows = {row.id: row.is_read for row in await it.rows()}
    assert second not in rows
    assert (rows[first], rows[third]) == (True, False)
    assert third not in {row.id for row in await it.rows("bob")}


async def rebuilt(it: World) -> dict[str, bool]:
    """Alice's timeline after a rebuild: whether each post is read, newest first."""
    service = Rebuilding(it.redis, it.channels, it.items, it.stages.stored, lambda: AGELESS)
    await service.rebuild("alice", "home", it.clock())
    await it.stages.run_once()
    return {row.id: row.is_read for row in await it.rows()}


async def grown(it: World, site: Publisher) -> list[str]:
    """Alice follows a feed of twenty posts, of which she reads one, and of five that come later two; all ids."""
    site.serve_document("/feed", rss(dated(20)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    it.clock.advance(1000)
    late = [(f"late-{n}", f"Late {n}", formatdate(it.clock() - n, usegmt=True)) for n in range(5)]
    site.serve_document("/feed", rss([*late, *dated(20)]))
    await it.poll(feed)
    ids = [row.id for row in await it.rows()]
    await it.timelines.mark_read("alice", "home", [ids[0], ids[1], ids[5]], it.clock())
    await it.timelines.remove("alice", "home", [ids[6]], it.clock())
    return ids


def with_one_guid(*names: str, about: str = "About") -> bytes:
    """A document whose posts have the site's address for a guid, and links of their own."""
    text = rss([("http://blog.test/", name, None) for name in names])
    for name in names:
        text = text.replace(b"posts.test/http://blog.test/", f"posts.test/{name}".encode(), 1)
    return text.replace(b"About", about.encode())


async def test_posts_that_had_one_guid_stay_what_they_are_when_one_of_them_is_left(it, site):
    """Listed alone, one goes by the guid that both had, and is the same post all the same; so is the other then."""
    url = site.url("/feed", "blog.test")
    site.serve_document("/feed", with_one_guid("two", "one"))
    feed = await it.follow(url)
    await it.poll(feed)
    ids = [row.id for row in await it.rows()]
    await it.timelines.mark_read("alice", "home", ids, it.clock())
    for names in (["one"], ["two"], ["one", "two"], ["one"], ["three"], ["three", "two"]):
        site.serve_document("/feed", with_one_guid(*names, about=f"Much about {' '.join(names)}:"))
        await it.poll(feed)
        rows = {row.id: row.is_read for row in await it.rows()}
        assert len(rows) == (3 if "three" in names else 2), names
        assert all(rows[item] for item in ids)
    texts = await it.texts()
    assert [sum(f"posts.test/{name}" in text for text in texts) for name in ("one", "two", "three")] == [1, 1, 1]
    assert await violations(it.redis, "alice", "home") == []


async def test_a_post_that_was_deleted_while_it_shared_a_guid_stays_away(it, site):
    """Its tombstone is known by guid and link."""
    site.serve_document("/feed", with_one_guid("two", "one"))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    (first, second) = [row.id for row in await it.rows()]
    await it.timelines.remove("alice", "home", [first], it.clock())
    await it.redis.command("DEL", keys.item(first))
    for name in ("two", "one"):
        site.serve_document("/feed", with_one_guid(name, about="News of"))
        await it.poll(feed)
        assert [row.id for row in await it.rows()] == [second]


LOST = {
    "nothing": (),
    "the posts": (keys.posts,),
    "the posts and what is unread": (keys.posts, keys.unread),
    "the posts and what is read": (keys.posts, keys.read),
}


@pytest.mark.parametrize("lost", LOST)
async def test_a_rebuild_keeps_read_state_that_is_known(it, site, lost):
    """As long as one of the two sets is left, every post has the state that it had, and the channel is sound."""
    await grown(it, site)
    before = {row.id: row.is_read for row in await it.rows()}
    for key in LOST[lost]:
        await it.redis.command("DEL", key("alice", "home"))
    assert await rebuilt(it) == before
    assert await violations(it.redis, "alice", "home") == []


async def test_single_posts_that_were_lost_come_back_as_they_were(it, site):
    """Of the first document what the rule of the first fill left unread, of later ones all that wasn't read."""
    await grown(it, site)
    before = {row.id: row.is_read for row in await it.rows()}
    lost = [item for item, is_read in before.items() if not is_read]
    for key in (keys.posts, keys.unread):
        await it.redis.command("ZREM", key("alice", "home"), *lost)
    assert await rebuilt(it) == before


async def test_where_nothing_is_known_a_timeline_begins_as_new(it, site):
    """Posts, read and unread are lost: the newest few are unread, and what was removed stays away."""
    ids = await grown(it, site)
    for key in (keys.posts, keys.unread, keys.read):
        await it.redis.command("DEL", key("alice", "home"))
    state = await rebuilt(it)
    assert list(state) == [item for item in ids if item != ids[6]]
    # The removed one has had its place.
    assert [item for item, is_read in state.items() if not is_read] == [one for one in ids[:10] if one != ids[6]]


async def test_rules_hold_for_what_a_rebuild_shows_again(it, site):
    """What was lost while its source was blocked isn't shown, and leaves for good."""
    await grown(it, site)
    (feed,) = (await it.channels.all_subscriptions("alice"))["home"]
    await it.redis.command("DEL", keys.posts("alice", "home"))
    await Rules(it.redis, it.items).block("alice", "home", feed.url, it.clock())
    assert await rebuilt(it) == {}
    assert await violations(it.redis, "alice", "home") == []


async def test_a_read_set_that_outlived_its_timeline_counts(it, site):
    """Only `posts` and `unread` were lost: what the reader had read comes back as read."""
    site.serve_document("/feed", rss(dated(3)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    ids = [row.id for row in await it.rows()]
    await it.timelines.mark_read("alice", "home", ids[:1], it.clock())
    await it.redis.command("DEL", keys.posts("alice", "home"), keys.unread("alice", "home"))
    service = Rebuilding(it.redis, it.channels, it.items, it.stages.stored, lambda: AGELESS)
    await service.rebuild("alice", "home", it.clock())
    await it.stages.run_once()
    assert [(row.id, row.is_read) for row in await it.rows()] == [(ids[0], True), (ids[1], False), (ids[2], False)]


async def test_a_message_that_is_none_goes_to_the_dead_letters(it):
    """Nonsense in a stream holds up nobody."""
    it.patience = IMPATIENT
    stages = it.make_stages()
    await stages.stored.add([{"what": b"ever"}])
    for _ in range(IMPATIENT.deliveries + 1):
        await stages.run_once()
    (letter,) = await DeadLetters(it.redis).list()
    assert letter.stage == "stored"
    assert "KeyError" in letter.why
