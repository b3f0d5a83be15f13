"""Invariants under the same operations by many actors at once, each with a connection to a real Redis or a cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from microsub.model.reader import Cursor, PageQuery, Reason, TimelineItem
from microsub.redis import keys
from microsub.redis.cluster import ClusterRedis
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis
from microsub.timelines import READ_EVERYWHERE
from tests.support.invariants import violations
from tests.support.one_reader import ANN, NOW, OneReader

UIDS = ("notifications", "home", "work")
AUTHORS = ("https://a.example/", "https://b.example/", "")
ITEMS = 120


class Actor(OneReader):
    """One process: a connection of its own, and everything that a reader, a worker or a cleanup may do."""

    def __init__(self, redis: Redis, number: int) -> None:
        super().__init__(redis)
        self.chance = random.Random(number)
        for one in range(1, ITEMS + 1):
            feed = str(one % 3 + 1)
            score = repr(float(NOW + one // 4))
            self.items.know(feed, TimelineItem(str(one), score, AUTHORS[one % 3 - 1], (f"https://{feed}.example/",)))

    def some(self) -> list[str]:
        return [str(self.chance.randint(1, ITEMS)) for _ in range(self.chance.randint(1, 8))]

    def of_feed(self, feed: str) -> list[TimelineItem]:
        return [item for one, item in self.items.items.items() if self.items.feeds[one] == feed]

    async def deliver(self, limit: int = 0) -> None:
        feed = self.chance.choice("123")
        items = self.chance.sample(self.of_feed(feed), 20)
        await self.timelines.add(ANN, self.chance.choice(UIDS), feed, items, now=NOW, limit=limit)

    async def follow_again(self) -> None:
        uid, feed = self.chance.choice(UIDS), self.chance.choice("123")
        if await self.channels.unfollow(ANN, uid, feed):
            await self.timelines.unfollow(ANN, uid, feed, NOW)
        await self.channels.follow(ANN, uid, feed, f"https://{feed}.example/", NOW)

    async def change_a_rule(self) -> None:
        act = self.chance.choice((self.rules.mute, self.rules.unmute))
        await act(ANN, self.chance.choice((*UIDS, "global")), self.chance.choice(AUTHORS[:2]), NOW)

    def anything(self) -> Callable[[], Awaitable[object]]:
        uid = self.chance.choice((*UIDS, "global"))
        one = self.chance.choice(UIDS)
        timelines = self.timelines
        return self.chance.choice(
            [
                self.deliver,
                self.deliver,
                lambda: self.deliver(30),
                self.follow_again,
                self.change_a_rule,
                lambda: timelines.mark_read(ANN, uid, self.some(), NOW),
                lambda: timelines.mark_unread(ANN, uid, self.some(), NOW),
                lambda: timelines.mark_read_before(ANN, uid, self.some()[0], NOW),
                lambda: timelines.remove(ANN, uid, self.some()[:1], NOW),
                lambda: timelines.move(ANN, one, self.some(), NOW, hidden_too=self.chance.random() < 0.5),
                lambda: timelines.expire_read(ANN, one, NOW - 1, NOW),
                lambda: timelines.trim(ANN, one, 50, NOW),
                lambda: timelines.withdraw(ANN, one, self.some()[:1], Reason.UNREAD_EXPIRED, NOW, only_unread=True),
            ]
        )


@pytest.fixture(params=["real", "cluster"])
async def actors(request: pytest.FixtureRequest) -> AsyncIterator[list[Actor]]:
    on_cluster = request.param == "cluster"
    url = request.getfixturevalue("cluster_url" if on_cluster else "redis_url")
    actors = [Actor(ClusterRedis(url) if on_cluster else Multiplexed(url), number) for number in range(6)]
    await actors[0].accounts.add_user(ANN, "", NOW)
    await actors[0].accounts.set_settings(ANN, {READ_EVERYWHERE: "no"})
    for uid in UIDS[1:]:
        await actors[0].channels.create(ANN, uid, NOW, uid)
    for uid in UIDS:
        for feed in "123":
            await actors[0].channels.follow(ANN, uid, feed, f"https://{feed}.example/", NOW - 1)
    yield actors
    for actor in actors:
        await actor.redis.aclose()


async def check_counts(actor: Actor) -> None:
    """The keys agree with each other, and the counts with the pages."""
    for uid in UIDS:
        assert await violations(actor.redis, ANN, uid) == []
        unread = await actor.ids(uid, view="unread")
        everything = [row async for row in pages(actor, uid)]
        assert len(everything) == len(set(everything))
        assert await actor.unread(uid) == len([row async for row in pages(actor, uid, view="unread")]) >= len(unread)


async def pages(actor: Actor, uid: str, limit: int = 7, **query: str) -> AsyncIterator[str]:
    """All ids of a timeline, page by page."""
    cursor = None
    while True:
        asked = PageQuery(limit=limit, after=cursor, **query)  # type: ignore[arg-type]
        page = await actor.timelines.page(ANN, uid, asked, NOW)
        for row in page.rows:
            yield row.id
        if not page.older:
            return
        cursor = Cursor(page.rows[-1].score, page.rows[-1].id)


@pytest.mark.parametrize("seed", range(4))
async def test_any_mixture_keeps_the_invariants(actors: list[Actor], seed: int) -> None:
    """Six processes run random operations at once; the keys agree in the end, and the counts are exact."""

    async def live(actor: Actor) -> None:
        actor.chance.seed(seed * 100 + actors.index(actor))
        for _ in range(60):
            await asyncio.gather(*(actor.anything()() for _ in range(3)))

    await asyncio.gather(*(live(actor) for actor in actors))
    await check_counts(actors[0])


@pytest.mark.parametrize("limit", [1, 10, 1000])
async def test_the_newest_win_at_the_limit(actors: list[Actor], limit: int) -> None:
    """In any order and batches of delivery, the newest stay, and each that leaves is remembered."""
    items = [item for one, item in actors[0].items.items.items()]
    given: set[str] = set()

    async def deliver(actor: Actor) -> None:
        for _ in range(40):
            feed = actor.chance.choice("123")
            some = actor.chance.sample(actor.of_feed(feed), actor.chance.randint(1, 12))
            given.update(item.id for item in some)
            added = await actor.timelines.add(ANN, "home", feed, some, now=NOW, limit=limit)
            assert not {*added.added, *added.read} - {item.id for item in some}
            standing = await actor.redis.command("ZCARD", keys.posts(ANN, "home"))
            assert standing <= limit

    await asyncio.gather(*(deliver(actor) for actor in actors))
    newest = sorted((item for item in items if item.id in given), key=lambda item: (float(item.score), item.id))
    assert await actors[0].ids("home") == [item.id for item in newest[::-1][: min(limit, 100)]]
    await check_counts(actors[0])
    before = await actors[0].ids("home")
    for feed in "123":
        again = [item for item in actors[0].of_feed(feed) if item.id in given]
        assert not (await actors[0].timelines.add(ANN, "home", feed, again, now=NOW, limit=limit)).added
    assert await actors[0].ids("home") == before


async def test_acknowledged_reading_and_removing_is_final(actors: list[Actor]) -> None:
    """During polls, rebuilds, mutes, new follows, limits and cleanup, items that were read or removed stay so."""
    done: dict[str, set[str]] = {uid: set() for uid in UIDS}
    running = True

    async def world_goes_on(actor: Actor) -> None:
        while running:
            timelines, uid = actor.timelines, actor.chance.choice(UIDS)
            for call in (
                actor.deliver(),
                actor.deliver(40),
                actor.follow_again(),
                actor.change_a_rule(),
                timelines.expire_read(ANN, uid, NOW - 100, NOW),
                timelines.trim(ANN, uid, 60, NOW),
            ):
                await call

    async def read(actor: Actor) -> None:
        for _ in range(150):
            uid, (item, *_) = actor.chance.choice(UIDS), actor.some()
            act = actor.chance.choice((actor.timelines.mark_read, actor.timelines.remove))
            if await act(ANN, uid, [item], NOW):
                done[uid].add(item)
            else:
                await actor.deliver()

    background = [asyncio.create_task(world_goes_on(actor)) for actor in actors[:3]]
    await asyncio.gather(*(read(actor) for actor in actors[3:]))
    running = False
    await asyncio.gather(*background)
    await check_counts(actors[0])
    assert sum(map(len, done.values())) > 30
    for url in AUTHORS[:2]:
        for uid in (*UIDS, "global"):
            await actors[0].rules.unmute(ANN, uid, url, NOW)
    for uid in UIDS:
        unread = {row async for row in pages(actors[0], uid, view="unread")}
        assert not unread & done[uid]


async def test_a_walk_misses_nothing_while_items_come_and_go(actors: list[Actor]) -> None:
    """Following `after` returns every item that stays throughout exactly once, in `global` too."""
    start = {item.id for item in actors[0].of_feed("1")}
    for uid in UIDS[1:]:
        await actors[0].timelines.add(ANN, uid, "1", actors[0].of_feed("1"), now=NOW, limit=0)
    running = True

    async def disturb(actor: Actor) -> None:
        while running:
            for uid in UIDS:
                for feed in "23":
                    await actor.timelines.add(ANN, uid, feed, actor.of_feed(feed), now=NOW, limit=0)
                    await actor.channels.unfollow(ANN, uid, feed)
                    await actor.timelines.unfollow(ANN, uid, feed, NOW)
                    await actor.channels.follow(ANN, uid, feed, "x", NOW - 1)

    background = [asyncio.create_task(disturb(actor)) for actor in actors[:3]]
    for uid in ("home", "global"):
        for _ in range(5):
            seen = [row async for row in pages(actors[4], uid, limit=3)]
            assert len(seen) == len(set(seen))
            assert start <= set(seen)
    running = False
    await asyncio.gather(*background)


async def test_mute_and_unmute_at_once_end_as_the_rules_do(actors: list[Actor]) -> None:
    """After the last change, no item of a muted author is shown and none of an unmuted one is hidden."""
    for uid in UIDS:
        for feed in "123":
            await actors[0].timelines.add(ANN, uid, feed, actors[0].of_feed(feed), now=NOW, limit=0)
    for round_ in range(10):
        acts = [
            actor.rules.mute if (number + round_) % 2 else actor.rules.unmute for number, actor in enumerate(actors)
        ]
        await asyncio.gather(*(act(ANN, "global", AUTHORS[0], NOW) for act in acts), actors[0].deliver())
        muted = await actors[0].rules.muted(ANN, "global")
        for uid in UIDS:
            hidden = await actors[0].redis.command("ZCARD", keys.hidden(ANN, uid))
            assert hidden == (ITEMS // 3 if muted else 0)
        await check_counts(actors[0])


async def test_two_readers_of_one_item_count_it_once(actors: list[Actor]) -> None:
    """Marks at the same time from several devices change an item once."""
    items = actors[0].of_feed("1")
    await actors[0].timelines.add(ANN, "home", "1", items, now=NOW, limit=0)
    changed = await asyncio.gather(
        *(actor.timelines.mark_read(ANN, "home", [item.id for item in items], NOW) for actor in actors),
        *(actor.timelines.mark_all_read(ANN, "home", NOW) for actor in actors),
    )
    assert sum(changed) == len(items)
    assert await actors[0].unread("home") == 0
