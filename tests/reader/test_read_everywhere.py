"""A post in several channels: read in one of them, it is read in all, if its user has chosen so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from microsub.base.errors import StoreUnavailable
from microsub.model.reader import Cursor, Duplicate
from microsub.model.settings import ChannelSettings, OwnChannelSettings
from microsub.posts import Items
from microsub.posts.ingest import PostWriter
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.timelines import READ_EVERYWHERE, ReadState
from microsub.timelines.add import Adder, Incoming, TimelineTarget
from microsub.timelines.channels.follows import unread_ids
from tests.reader.conftest import ReadingVisitor, ids, reading
from tests.support.native_app import NativeApp, numbered
from tests.support.posts import NOON
from tests.support.readers import FEED, posts
from tests.support.redis_wrappers import CountingRedis, Killing, Wrapped, killed_anywhere
from tests.support.three_faces import ALL, READ
from tests.support.visitor import fields_of
from tests.support.world import World

COMMENTS = "https://blog.example/copies"
"""Another feed of the same blog with the same posts."""


@pytest.fixture
async def both(ann: ReadingVisitor) -> ReadingVisitor:
    """Ann follows the blog in both of her channels; each has three unread posts."""
    await ann.publish("c", "b", "a")
    await ann.reader.post(action="follow", channel="later", url=FEED)
    assert await unread(ann) == (3, 3)
    return ann


async def unread(ann: ReadingVisitor) -> tuple[int, int]:
    channels = await ann.reader.channels()
    return channels["home"]["unread"], channels["later"]["unread"]


async def test_new_users_have_it_and_others_keep_what_they_had(server: World, redis: Redis) -> None:
    """A user of before has no such setting."""
    new, old = await reading(server, "new", "home", "later"), await reading(server, "old", "home", "later")
    await redis.command("HDEL", keys.user("old"), READ_EVERYWHERE)
    await server.accounts.add_user("old", "", server.now)
    await server.publish(FEED, *posts("b", "a"))
    for one, left in ((new, (1, 1)), (old, (1, 2))):
        await one.reader.post(action="follow", channel="later", url=FEED)
        await one.change(await one.get("/channel/home"), "read", (await one.reader.ids("home"))[0])
        assert await unread(one) == left


async def test_it_is_chosen_on_the_page(both: ReadingVisitor) -> None:
    page = await both.get("/display")
    assert fields_of(page.form("/display"))[READ_EVERYWHERE] == "yes"
    await both.browser.submit(page, "/display", **{READ_EVERYWHERE: "no"})
    page = await both.get("/display")
    assert fields_of(page.form("/display"))[READ_EVERYWHERE] == "no"
    await both.browser.submit(page, "/display", **{READ_EVERYWHERE: "sometimes"})
    await both.change(await both.get("/channel/home"), "read", (await both.reader.ids("home"))[0])
    assert await unread(both) == (2, 3)


async def test_all_ways_of_marking_count_everywhere(both: ReadingVisitor) -> None:
    """By page and by app, of some posts and of all, and an undo."""
    first, *rest = await both.reader.ids("home")
    await both.reader.post(action="timeline", method="mark_read", channel="later", entry=first)
    assert await unread(both) == (2, 2)
    await both.reader.post(action="timeline", method="mark_unread", channel="home", entry=first)
    assert await unread(both) == (3, 3)
    await both.reader.post(action="timeline", method="mark_read", channel="home", last_read_entry=rest[0])
    assert await unread(both) == (1, 1)
    done = await both.mark_all(await both.get("/channel/later"))
    assert await unread(both) == (0, 0)
    await both.browser.submit(await both.get(done.location), "/marks/undo")
    assert await unread(both) == (1, 1)
    await both.reader.post(action="timeline", method="mark_read", channel="later", last_read_entry="everything")
    assert await unread(both) == (0, 0)
    page = await both.get("/channel/later?show=all")
    await both.change(page, "unread", ids(page)[0])
    assert await unread(both) == (1, 1)


async def test_an_undo_changes_only_what_was_marked(both: ReadingVisitor) -> None:
    """A post that had been read in another channel, or that was saved, stays read there."""
    first, second, _ = await both.reader.ids("home")
    await both.server.accounts.set_settings("ann", {READ_EVERYWHERE: "no"})
    await both.reader.post(action="timeline", method="mark_read", channel="later", entry=first)
    await both.server.accounts.set_settings("ann", {READ_EVERYWHERE: "yes"})
    await both.reader.post(action="timeline", method="save", entry=second)
    done = await both.mark_all(await both.get("/channel/home"))
    assert await unread(both) == (0, 0)
    page = await both.get(done.location)
    assert "3 posts marked as read" in page.text
    await both.browser.submit(page, "/marks/undo")
    assert await unread(both) == (3, 2)
    assert (await both.reader.channels())["saved"]["unread"] == 0


async def test_a_filter_marks_in_its_channel_alone(both: ReadingVisitor) -> None:
    """The other channel doesn't refuse those posts."""
    await both.browser.submit(
        await both.get("/channels/home/filter"), "/channels/home/filter", exclude_words="b", kinds_are="", past="read"
    )
    assert await unread(both) == (2, 3)


async def test_an_undo_finds_posts_that_left_the_channel_meanwhile(both: ReadingVisitor) -> None:
    done = await both.mark_all(await both.get("/channel/home"))
    await both.reader.post(action="unfollow", channel="home", url=FEED)
    await both.browser.submit(await both.get(done.location), "/marks/undo")
    assert (await unread(both))[1] == 3


async def test_muted_posts_are_marked_with_the_others(both: ReadingVisitor) -> None:
    """A post that one channel mutes comes back as it was marked in the other."""
    await both.reader.post(action="mute", channel="later", url=FEED)
    await both.mark_all(await both.get("/channel/home"))
    await both.reader.post(action="unmute", channel="later", url=FEED)
    assert await unread(both) == (0, 0)


async def test_a_feed_that_is_followed_again_brings_no_read_posts(ann: ReadingVisitor) -> None:
    """Read posts stay read in the new channel, and unread ones are unread there."""
    await ann.publish("c", "b", "a")
    page = await ann.get("/channel/home")
    await ann.change(page, "read", ids(page)[0])
    await ann.reader.post(action="follow", channel="later", url=FEED)
    assert await unread(ann) == (2, 2)
    assert await ann.titles("/channel/later") == ["b", "a"]


async def test_filling_a_channel_again_marks_no_old_posts(ann: ReadingVisitor) -> None:
    """Posts that are read in another channel since their feed was followed there stay unread here."""
    await ann.publish("c", "b", "a")
    await ann.server.channels.set_settings("ann", "later", OwnChannelSettings(first_fetch_unread=1), ann.server.now)
    await ann.reader.post(action="follow", channel="later", url=FEED)
    assert await unread(ann) == (3, 1)
    (feed,) = await ann.server.channels.followed_feeds("ann")
    listed = await ann.server.items.newest(feed, 10)
    await ann.server.adder.fill("ann", "home", feed, listed, ChannelSettings(max_items=0), ann.server.now)
    assert await unread(ann) == (3, 1)


async def test_a_fill_killed_anywhere_brings_no_read_posts(server: World) -> None:
    """Neither those of its other channel, nor duplicates of another feed there; the same request is repeated."""
    redis = Killing(server.redis)
    adder = Adder(redis, Items(redis))
    three = [post for name in ("c", "b", "a") for post in posts(name, common=f"the identity of {name}")]

    async def begin() -> None:
        await server.follow_unscheduled(FEED, "ann", "home")
        await server.publish(FEED, *three)
        home = [text(one) for one in await server.redis.command("ZREVRANGE", keys.posts("ann", "home"), 0, -1)]
        await ReadState(server.redis, server.items).mark("ann", "home", home[1:], "read", server.now)
        await server.follow_unscheduled(FEED, "ann", "later")
        await server.follow_unscheduled(COMMENTS, "ann", "copies")
        await server.follow_unscheduled(COMMENTS, "bob", "home")
        copied = await server.feeds.ensure(COMMENTS, server.now)
        await PostWriter(server.redis).write(copied, three, server.now)

    async def act() -> None:
        feed, copied = [(await server.feeds.ensure(url, server.now)).id for url in (FEED, COMMENTS)]
        every = ChannelSettings(max_items=0, first_fetch_unread=10)
        await adder.fill("ann", "later", feed, await server.items.newest(feed, 10), every, server.now)
        copies = await server.items.timeline_items(await server.items.newest(copied, 10))
        targets = [TimelineTarget("ann", "copies", 0), TimelineTarget("bob", "home", 0)]
        await adder.add_to(targets, Incoming(server.items, copied, copies, server.now))

    async def left() -> list[int]:
        places = [("ann", "home"), ("ann", "later"), ("ann", "copies"), ("bob", "home")]
        return [len(one) for one in await unread_ids(server.redis, places)]

    await killed_anywhere(redis, begin, act, left)
    assert await left() == [1, 1, 1, 3]


async def test_duplicates_of_another_feed_are_read_with_a_post(ann: ReadingVisitor) -> None:
    """In another channel, where they have ids of their own; one that comes later is read already."""
    await ann.server.follow_unscheduled(COMMENTS, "ann", "later")
    await ann.publish("b", "a", common="one identity of a and b", feed=FEED)
    await ann.publish("b", feed=COMMENTS, common="one identity of a and b")
    (copy,) = await ann.reader.ids("later")
    app = await NativeApp.signed_in(ann.server, "ann")
    assert set(await app.ids(ALL, xt=READ)) == {*numbered([*await ann.reader.ids("home"), copy])}
    done = await ann.mark_all(await ann.get("/channel/home"))
    assert await unread(ann) == (0, 0)
    assert await app.ids(ALL, xt=READ) == []
    await ann.browser.submit(await ann.get(done.location), "/marks/undo")
    assert await unread(ann) == (2, 1)
    await ann.reader.post(action="timeline", method="mark_read", channel="later", entry=copy)
    assert (await unread(ann))[1] == 0
    await ann.mark_all(await ann.get("/channel/home"))
    await ann.publish("a", feed=COMMENTS, common="one identity of a and b")
    assert len(await ann.reader.ids("later")) == 2
    assert await unread(ann) == (0, 0)


async def test_duplicates_for_many_users_cost_no_further_round_trips(server: World) -> None:
    """Those of several users are looked at together, as they are added."""
    await server.publish(FEED, *posts("a"))
    for number in range(9):
        await reading(server, f"u{number}", "home")
    feed = next(iter(await server.channels.followed_feeds("u0")))
    (item,) = await server.items.timeline_items(await server.items.newest(feed, 1))
    incoming = Incoming(server.items, feed, [replace(item, duplicates=(Duplicate("1", "other"),))], server.now)
    redis, trips = CountingRedis(server.redis), []
    for users in (("u0",), tuple(f"u{number}" for number in range(1, 9))):
        before = redis.trips
        await Adder(redis, server.items).add_to([TimelineTarget(user, "home", 0, 10) for user in users], incoming)
        trips.append(redis.trips - before)
    assert trips == [3, 3]


GONE = [str(number) for number in range(1_000_000, 1_001_001)]
"""More ids than one call marks."""


WAYS: dict[str, Callable[[ReadState, list[str], float], Awaitable[object]]] = {
    "named here": lambda state, ids, now: state.mark("ann", "home", ids, "read", now),
    "named in all": lambda state, ids, now: state.mark("ann", "global", ids, "read", now),
    "many": lambda state, ids, now: state.mark("ann", "global", [*ids, *GONE], "read", now),
    "unread": lambda state, ids, now: state.mark("ann", "home", ids, "unread", now),
    "from one on": lambda state, ids, now: state.mark_before("ann", "home", ids[0], now),
    "from one on in all": lambda state, ids, now: state.mark_before("ann", "global", ids[0], now),
    "from a place on": lambda state, _, now: state.mark_after("ann", "home", Cursor(f"{NOON + 1000}", "0"), now),
    "all here": lambda state, _, now: state.mark_all("ann", "home", now),
    "all": lambda state, _, now: state.mark_all("ann", "global", now),
}
"""Every way of marking the posts of `home`, given newest first."""


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_a_mark_killed_anywhere_reaches_duplicates_when_repeated(server: World, way: str, hides: bool) -> None:
    """Those of another channel, which a crash may leave as they were. A feed may be hidden in All."""
    redis = Killing(server.redis)
    state = ReadState(redis, Items(redis))

    async def begin() -> None:
        await server.follow_unscheduled(FEED, "ann", "home")
        await server.follow_unscheduled(COMMENTS, "ann", "later")
        for feed in (FEED, COMMENTS):
            await server.publish(feed, *posts("b", "a", common="one identity of a and b"))
        if hides:
            await redis.command("SADD", keys.apart("ann", "home"), "900")
        if way == "unread":
            await ReadState(server.redis, server.items).mark_all("ann", "home", server.now)

    async def act() -> None:
        home = [text(one) for one in await server.redis.command("ZREVRANGE", keys.posts("ann", "home"), 0, -1)]
        await WAYS[way](state, home, server.now)

    async def left() -> list[list[str]]:
        found = await unread_ids(server.redis, [("ann", "home"), ("ann", "later")])
        return [sorted(one) for one in found]

    await killed_anywhere(redis, begin, act, left)
    assert [len(one) for one in await left()] == ([2, 2] if way == "unread" else [0, 0])


async def test_a_mark_of_a_post_without_duplicates_waits_three_times(both: ReadingVisitor) -> None:
    """For the mark, the post and others with its identity; the feed isn't asked for."""
    await both.publish("c", feed=FEED, common="an identity of its own")
    redis = CountingRedis(both.server.redis)
    (item, *_) = await both.reader.ids("home")
    await ReadState(redis, Items(redis)).mark("ann", "home", [item], "read", both.server.now)
    assert redis.trips == 3


async def test_an_id_from_elsewhere_marks_no_duplicates(ann: ReadingVisitor) -> None:
    """A post that no channel of the user has changes none of theirs."""
    await ann.server.follow_unscheduled(COMMENTS, "bob", "home")
    for feed in (FEED, COMMENTS):
        await ann.publish("a", feed=feed, common="the identity of a")
    (foreign,) = await ann.server.items.newest((await ann.server.feeds.ensure(COMMENTS, NOON)).id, 1)
    state = ReadState(ann.server.redis, ann.server.items)
    for uid, more in (("home", []), ("global", []), ("global", GONE)):
        assert await state.mark("ann", uid, [foreign, *more], "read", NOON) == set()
    assert await unread(ann) == (1, 0)


class PostsAway(Wrapped):
    """A cluster whose master of the posts can't be reached."""

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        if name == "HMGET" and str(args[1]).startswith("item:"):
            raise StoreUnavailable("the master of these posts is away")
        return await run()


async def test_marks_are_made_while_posts_cannot_be_read(both: ReadingVisitor) -> None:
    """Only duplicates stay unread then."""
    redis, first = PostsAway(both.server.redis), (await both.reader.ids("home"))[0]
    assert await ReadState(redis, Items(redis)).mark("ann", "home", [first], "read", both.server.now) == {first}
    assert await unread(both) == (2, 2)


async def test_events_name_both_channels(both: ReadingVisitor) -> None:
    listening = await both.get("/channel/home")
    position = await both.server.redis.command(
        "XADD", keys.live_events("ann"), "*", "event", "begin", "channel", "home"
    )
    await both.server.redis.command("EXPIRE", keys.live_events("ann"), 100)
    await both.change(listening, "read", ids(listening)[0])
    found = await both.server.redis.command("XRANGE", keys.live_events("ann"), position, "+")
    assert {row[1][3] for row in found[1:]} == {b"home", b"later"}
