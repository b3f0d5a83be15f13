"""Timelines of inactive users are filled when they are read: through the application, on real stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from microsub.accounts.activity import EVERY, ActivityNotes
from microsub.accounts.records import Activity
from microsub.base.errors import StoreUnavailable
from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.model.reader import PageQuery
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.structures import Hash
from microsub.server.stores import output_contents
from microsub.timelines.backlog import MOST_ITEMS, CatchUp
from microsub.timelines.item_cache import ItemCache
from microsub.timelines.views import ReaderViews
from tests.support import later
from tests.support.posts import NOON
from tests.support.readers import Reader, instance, posts
from tests.support.world import World

URL = "https://blog.example/feed"
DAY = 86_400.0


@dataclass
class Deferring:
    """An instance with readers, whose delivery leaves some of them for later."""

    it: World
    delivery: DeliverySettings = field(default_factory=lambda: DeliverySettings(away_days=7))
    warm_up_days: float = 0

    def __post_init__(self) -> None:
        it = self.it
        self.activity = Activity(it.redis)
        it.delivery = replace(
            it.delivery,
            adder=it.timelines,
            activity=self.activity,
            limits=later(lambda: self.delivery),
        )
        self.catch_up = self.filling()
        self.seen = ActivityNotes(self.activity.note)
        cache = ItemCache(it.items, None, 0)
        reading = ReaderViews(it.redis, it.channels, it.feeds, it.items, cache, catch_up=self.catch_up, seen=self.seen)
        it.use(reading=reading)

    def filling(self, **more: float) -> CatchUp:
        settings = InstanceSettings(delivery=DeliverySettings(warm_up_days=self.warm_up_days))
        it = self.it
        return CatchUp(it.redis, it.items, it.timelines, it.effective.of, later(lambda: settings), **more)

    async def reader(self, name: str, *channels: str) -> Reader:
        reader = await self.it.reader(name, *channels)
        for uid in channels:
            await reader.post(action="follow", channel=uid, url=URL)
        return reader

    async def waiting(self, user: str = "ann") -> list[str]:
        return sorted(name.split()[0] for name in await Hash(self.it.redis, keys.behind(user)).names())


@pytest.fixture
async def world(redis: Redis) -> AsyncIterator[Deferring]:
    async with instance(redis) as it:
        made = Deferring(it)
        yield made
        await made.it.parts.reading.aclose()


async def test_absent_users_find_all_posts_at_the_first_request(world: Deferring) -> None:
    """The list of channels has exact counts, and a page has the posts, though none was delivered before."""
    ann = await world.reader("ann", "home", "work")
    bob = await world.reader("bob", "home")
    world.it.now += 30 * DAY
    assert await bob.unread() == 0  # an active user gets new posts
    await world.seen.aclose()
    await world.it.publish(URL, *posts("two", "one"))
    assert await world.it.timelines.stock("ann", "home", 0) == await world.it.timelines.stock("ann", "work", 0)
    assert await world.waiting() == ["home", "work"]
    assert await world.waiting("bob") == []
    assert await bob.names() == ["two", "one"]
    assert await ann.unread("work") == 2
    assert await world.waiting() == []
    assert await ann.names("home", limit=1) == ["two"]
    # She is active again, so new posts come at once.
    await world.seen.aclose()
    await world.it.publish(URL, *posts("three", at=NOON + 100))
    assert await world.waiting() == []
    assert await ann.names("work") == ["three", "two", "one"]


@pytest.mark.parametrize("channel", ["home", "global"])
async def test_a_page_fills_before_it_answers(world: Deferring, channel: str) -> None:
    """This holds for every view."""
    ann = await world.reader("ann", "home")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("two", "one"))
    assert await ann.names(channel, is_read="false") == ["two", "one"]


async def test_the_order_of_arrival_fills_before_it_answers(world: Deferring) -> None:
    """An app that only syncs misses nothing."""
    ann = await world.reader("ann", "home")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("two", "one"))
    listed = await ann.get(action="timeline", method="ids", order="oldest")
    assert [one["_id"] for one in listed["items"]] == list(reversed(await ann.ids()))
    assert len(listed["items"]) == 2


async def test_what_is_read_beside_a_page_follows_the_fill(world: Deferring) -> None:
    """The web interface's list of channels has the counts of the page's moment."""
    await world.reader("ann", "home")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("two", "one"))
    counts = partial(world.it.channels.counts, "ann")
    page, (_, unread) = await world.it.parts.reading.page_beside("ann", "home", PageQuery(20), world.it.now, counts)
    assert (page.count(b'"_is_read":false'), sum(unread)) == (2, 2)


async def test_read_and_removed_items_stay_so(world: Deferring) -> None:
    """A fill adds only new items, however often it runs."""
    ann = await world.reader("ann", "home")
    await world.it.publish(URL, *posts("c", "b", "a"))
    first = await ann.ids()
    await ann.post(action="timeline", method="mark_read", channel="home", entry=first[0])
    await ann.post(action="timeline", method="remove", channel="home", entry=first[1])
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("d", at=NOON + 5000))
    assert await ann.names(is_read="false") == ["d", "a"]
    assert await ann.names() == ["d", "c", "a"]
    await world.it.timelines.put_off((await world.it.feeds.find(URL)) or "", "0", [("ann", "home")])
    assert await ann.names(is_read="false") == ["d", "a"]


async def test_a_delivery_during_a_fill_is_not_lost(world: Deferring) -> None:
    """A note that is added while the fill reads the store stays, and the request that finds it brings the posts in."""
    ann = await world.reader("ann", "home")
    world.it.now += 30 * DAY
    feed = await world.it.publish(URL, *posts("one"))
    newest = world.it.items.newest

    async def meanwhile(*args, **more):
        found = await newest(*args, **more)
        world.it.items.newest = newest  # type: ignore[method-assign]
        await world.it.publish(URL, *posts("two", at=NOON + 60))
        return found

    world.it.items.newest = meanwhile  # type: ignore[method-assign]
    await world.catch_up.fill("ann", "home", world.it.now)
    assert await world.waiting() == ["home"]
    assert await ann.names() == ["two", "one"]
    assert await world.waiting() == []
    assert feed.id


async def test_a_crash_leaves_the_note(world: Deferring) -> None:
    """The next request repeats a fill that failed; the reader gets an error that the store is unavailable."""
    ann = await world.reader("ann", "home")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("one"))
    add = world.it.timelines.add

    async def breaks(*_args, **_more):
        raise StoreUnavailable("away")

    world.it.timelines.add = breaks  # type: ignore[method-assign]
    await ann.get(503, action="timeline", channel="home")
    world.it.timelines.add = add  # type: ignore[method-assign]
    assert await world.waiting() == ["home"]
    assert await ann.names() == ["one"]


async def test_requests_at_the_same_time_share_the_work(world: Deferring) -> None:
    """Each of them is answered with the posts that waited when it came."""
    ann = await world.reader("ann", "home", "work")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("two", "one"))
    answers = await asyncio.gather(*(ann.names(uid) for uid in ("home", "work", "global") * 3))
    assert answers == [["two", "one"]] * 9


async def test_a_long_fill_continues_after_the_reply(world: Deferring) -> None:
    """A request waits for a limited time; the work is neither cancelled nor started twice."""
    await world.reader("ann", "home")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("one"))
    hold = asyncio.Event()
    newest = world.it.items.newest
    asked = []

    async def slow(*args, **more):
        asked.append(args)
        await hold.wait()
        return await newest(*args, **more)

    world.it.items.newest = slow  # type: ignore[method-assign]
    filling = world.filling(patience=0.01)
    assert not await filling.fill("ann", "home", world.it.now)
    assert not await filling.fill("ann", "home", world.it.now)
    hold.set()
    assert await world.filling().fill("ann", "home", world.it.now)
    assert len(asked) == 2
    assert await world.waiting() == []
    await filling.aclose()


async def test_old_posts_are_not_added(world: Deferring) -> None:
    """Posts older than the warm-up period, and beyond the newest of a feed, stay in the store."""
    world.warm_up_days = 10
    await world.reader("ann", "home")
    world.it.now += 30 * DAY
    recent = posts(*(f"recent {number}" for number in range(MOST_ITEMS + 20)), at=world.it.now - DAY)
    await world.it.publish(URL, *posts("old", at=world.it.now - 11 * DAY), *recent)
    assert await world.filling().fill("ann", "home", world.it.now)
    assert (await world.it.timelines.stock("ann", "home", 0)).posts == MOST_ITEMS


async def test_a_note_of_a_feed_that_is_not_followed_any_more_goes(world: Deferring) -> None:
    """No post comes in, and the next request doesn't find the note again."""
    ann = await world.reader("ann", "home")
    world.it.now += 30 * DAY
    await world.it.publish(URL, *posts("one"))
    await ann.post(action="unfollow", channel="home", url=URL)
    assert await ann.names() == []
    assert await world.waiting() == []


async def test_a_visit_is_noted_once_in_minutes_and_never_in_the_way(redis: Redis) -> None:
    """The number of requests doesn't matter; if the store fails, the next request tries again."""
    written: list[tuple[str, float]] = []
    fails = [True]

    class Watched(Activity):
        async def note(self, user: str, now: float) -> None:
            if fails.pop() if fails else False:
                raise StoreUnavailable("away")
            written.append((user, now))

    seen = ActivityNotes(Watched(redis).note)
    for now in (NOON, NOON + 1, NOON + 2, NOON + EVERY, NOON + EVERY + 2):
        seen.note("ann", now)
        await seen.aclose()
    assert written == [("ann", NOON + 1), ("ann", NOON + EVERY + 2)]


async def test_an_output_feed_shows_waiting_posts_without_a_visit(world: Deferring) -> None:
    """Its user stays inactive: the next posts wait again, and are shown again."""
    ann, it = await world.reader("ann", "home"), world.it
    it.use(output_contents=output_contents(it, fill=it.parts.reading.fill))
    made = await ann.post(action="outputs", method="create", output="picks", channel="home")
    await world.seen.aclose()
    it.now += 30 * DAY
    for names in (["one"], ["two", "one"]):
        await it.publish(URL, *posts(names[0], at=it.now - 100))
        assert await world.waiting() == ["home"]
        it.now += 10
        shown = await it.client.get(made["addresses"]["json"])
        assert [item["title"] for item in shown.json()["items"]] == names
        await world.seen.aclose()
