"""The stages after polling, with real stores: events, edits, filters, and rebuilds of timelines from the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate

import pytest

from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.feeds.events import Event, Events
from microsub.redis import keys
from microsub.server.jobs import rebuilding
from tests.support import later
from tests.support.invariants import violations
from tests.support.polling import World, dated, rss
from tests.support.web import Publisher

AGELESS = InstanceSettings(delivery=DeliverySettings(warm_up_days=0))


async def told(it: World) -> list[tuple[str, tuple[str, ...]]]:
    return [(event.kind, event.changed) for event in await Events(it.redis).since("0")]


async def test_events_report_feeds_and_posts(it, site):
    """Created once, modified with the changed fields, and no event without a change; in process and in the stream."""
    heard: list[Event] = []

    async def listen(event: Event) -> None:
        heard.append(event)

    it.events.listen(listen)
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
    site.serve_document("/feed", rss(edited, "Renamed", extra=about))
    await it.poll(feed)
    assert (await told(it))[5:] == [("feed_modified", ("title",))], "the posts' author is now called Renamed"
    posts = [event for event in heard if event.post]
    assert {event.guid for event in posts} == {"post-1", "post-2"}
    assert all([await it.items.get(event.post) for event in posts])


async def test_an_edit_brings_in_what_was_filtered_out(it, site):
    """An edited post that now passes the filters is in the timeline once, at its original place."""
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


async def test_filters_hold_for_follows_and_rebuilds(it, site):
    """Filters also apply to posts that are added from the store."""
    site.serve_document("/feed", rss(dated(4)))
    feed = await it.follow(site.url("/feed", "blog.test"), "bob", "all")
    await it.poll(feed)
    await it.accounts.add_user("alice", "", it.clock())
    await it.channels.create("alice", "home", it.clock(), "home")
    await it.filter({"include_regex": "Post [12]$"})
    await it.following.follow("alice", "home", feed.url, it.clock())
    assert len(await it.rows()) == 2
    await it.redis.command("DEL", keys.posts("alice", "home"), keys.unread("alice", "home"))
    assert len(await rebuilt(it)) == 2


async def test_a_failing_listener_stops_no_other(it, site):
    """The post arrives, and the next listener gets the event."""
    heard: list[str] = []

    async def broken(_event: Event) -> None:
        raise RuntimeError("a bug of the listener's")

    async def sound(event: Event) -> None:
        heard.append(event.kind)

    end = it.events.listen(broken)
    it.events.listen(sound)
    site.serve_document("/feed", rss(dated(1)))
    await it.poll(await it.follow(site.url("/feed", "blog.test")))
    assert heard == ["feed_created", "post_created"]
    assert len(await it.rows()) == 1
    end()


async def test_a_post_whose_guid_another_one_gets_too_stays_what_it_is(it, site):
    """Its read state stays, it isn't duplicated, and it still receives edits."""
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
    """Posts that were read, removed or unfollowed stay so, and another user's timelines are unchanged."""
    site.serve_document("/feed", rss(dated(6)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await it.poll(feed)
    first, second, third = [row.id for row in await it.rows()][:3]
    await it.timelines.mark_read("alice", "home", [first], it.clock())
    await it.timelines.remove("alice", "home", [second], it.clock())
    await it.redis.command("ZREM", keys.posts("alice", "home"), third)
    await it.redis.command("SREM", keys.unread("alice", "home"), third)
    await it.timelines.remove("bob", "home", [third], it.clock())
    rows = await rebuilt(it, None)
    assert second not in rows
    assert (rows[first], rows[third]) == (True, False)
    assert third not in {row.id for row in await it.rows("bob")}


async def rebuilt(it: World, uid: str | None = "home") -> dict[str, bool]:
    """Rebuild one of Alice's channels, or all for None; the read flag of each post, newest first."""
    service = replace(rebuilding(it), settings=later(lambda: AGELESS))
    await service.rebuild("alice", uid, it.clock())
    await it.stages.run_once()
    return {row.id: row.is_read for row in await it.rows()}


async def grown(it: World, site: Publisher) -> list[str]:
    """Alice follows a feed of 20 posts and reads one of them; five come later, of which she reads two; all ids."""
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
    """A document with posts that share the site's address as guid, and have links of their own."""
    text = rss([("http://blog.test/", name, None) for name in names])
    for name in names:
        text = text.replace(b"posts.test/http://blog.test/", f"posts.test/{name}".encode(), 1)
    return text.replace(b"About", about.encode())


async def test_posts_with_a_shared_guid_stay_when_one_is_left(it, site):
    """If only one of them is listed, with the shared guid, it is still the same post, and so is the other one later."""
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


async def test_a_deleted_post_with_a_shared_guid_stays_away(it, site):
    """Its tombstone is found by guid and link."""
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
    """If one of the two sets remains, every post keeps its read state, and the channel is sound."""
    await grown(it, site)
    before = {row.id: row.is_read for row in await it.rows()}
    for key in LOST[lost]:
        await it.redis.command("DEL", key("alice", "home"))
    assert await rebuilt(it) == before
    assert await violations(it.redis, "alice", "home") == []


async def test_lost_posts_are_restored_with_their_state(it, site):
    """Unread posts of the first document and of later ones are restored as unread."""
    await grown(it, site)
    before = {row.id: row.is_read for row in await it.rows()}
    lost = [item for item, is_read in before.items() if not is_read]
    await it.redis.command("ZREM", keys.posts("alice", "home"), *lost)
    await it.redis.command("SREM", keys.unread("alice", "home"), *lost)
    assert await rebuilt(it) == before


async def test_a_timeline_without_any_state_starts_new(it, site):
    """If posts, read and unread are lost, only the newest few are unread, and removed posts stay away."""
    ids = await grown(it, site)
    for key in (keys.posts, keys.unread, keys.read):
        await it.redis.command("DEL", key("alice", "home"))
    state = await rebuilt(it)
    assert await rebuilt(it) == state
    assert list(state) == [item for item in ids if item != ids[6]]
    # The removed post counts among the newest ten.
    assert [item for item, is_read in state.items() if not is_read] == [one for one in ids[:10] if one != ids[6]]


async def test_rules_hold_for_what_a_rebuild_shows_again(it, site):
    """Lost posts of a source that has been blocked since then aren't shown, and are removed permanently."""
    await grown(it, site)
    (feed,) = (await it.channels.all_subscriptions("alice"))["home"]
    await it.redis.command("DEL", keys.posts("alice", "home"))
    await it.rules.block("alice", "home", feed.url, it.clock())
    assert await rebuilt(it) == {}
    assert await violations(it.redis, "alice", "home") == []


@pytest.mark.parametrize("key", [keys.posts, keys.unread, keys.channel, keys.channel_feeds, keys.arrivals_more])
async def test_a_broken_channel_keeps_no_other_from_posts(it: World, site: Publisher, key: Callable[..., str]) -> None:
    """Posts and edits come to the other 44 followers, also those with filters."""
    site.serve_document("/feed", rss(dated(2)))
    users = [f"user{number}" for number in range(45)]
    for user in users:
        feed = await it.follow(site.url("/feed", "blog.test"), user)
    await it.poll(feed)
    broken, filtering = users[0], users[1]
    await it.filter({"exclude_words": ["post 2"]}, filtering)
    name = key(broken, "home") if key is not keys.arrivals_more else key(broken)
    await it.redis.command("SET", name, "broken")
    site.serve_document("/feed", rss(dated(4)))
    await it.poll(feed)
    found = [len(await it.rows(user)) for user in users[1:]]
    assert found == [4] * 44
    edited = dated(5)
    edited[1] = (edited[1][0], "Edited", edited[1][2])
    site.serve_document("/feed", rss(edited))
    await it.poll(feed)
    assert [len(await it.rows(user)) for user in users[1:]] == [5] * 44
    assert any("Edited" in text for text in await it.texts(users[-1]))
    assert await violations(it.redis, users[-1], "home") == []
