"""The cost of a page in Redis doesn't depend on the size of the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import pytest

from benchmarks.readings import pieces
from microsub.model.reader import Cursor, PageQuery, View
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines import READ_EVERYWHERE, shown_among
from tests.support.one_reader import ANN, NOW, OneReader
from tests.support.redis_wrappers import CountingRedis, Wrapped
from tests.support.servers import calls

SMALL, LARGE = 1_000, 10_000


async def steps(world: OneReader, uid: str, query: PageQuery) -> dict[str, int]:
    """The number of calls of each command on sorted sets for one page."""
    await calls(world.redis)
    assert len((await world.timelines.page(ANN, uid, query, NOW)).rows) == query.limit
    return {name: count for name, count in (await calls(world.redis)).items() if name.startswith("z")}


async def crowd(redis: Redis, channels: int) -> tuple[OneReader, list[str]]:
    """A reader with this many further channels."""
    world, uids = OneReader(redis), [f"c{number}" for number in range(channels)]
    await world.begin()
    await redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    await redis.pipeline([("HSET", keys.channel(ANN, uid), "name", uid) for uid in uids])
    return world, uids


async def put(redis: Redis, uids: Sequence[str], ids: Iterable[int], *sets: Callable[[str, str], str]) -> None:
    """Adds these items to those sets of each channel, with their ids as scores."""
    listed = [*ids]
    pairs = [part for one in listed for part in (float(one), str(one))]
    await redis.pipeline(
        [
            ("SADD", key(ANN, uid), *listed) if key is keys.unread else ("ZADD", key(ANN, uid), *pairs)
            for uid in uids
            for key in sets
        ]
    )


async def left(redis: Redis, uids: Sequence[str], key: Callable[[str, str], str]) -> int:
    """The number of items in that set of all channels."""
    count = "SCARD" if key is keys.unread else "ZCARD"
    return sum(await redis.pipeline([(count, key(ANN, uid)) for uid in uids]))


@pytest.mark.parametrize(
    "query",
    [
        PageQuery(),
        PageQuery(view="unread"),
        PageQuery(after=Cursor("500.5", "500")),
        PageQuery(before=Cursor("500.5", "500")),
        PageQuery(after=Cursor("500", "999999999")),
    ],
    ids=["first", "unread", "after", "before", "item gone"],
)
async def test_a_page_costs_the_same_in_a_huge_timeline(real_redis: Redis, query: PageQuery) -> None:
    """Each command of a page is logarithmic, and their number is the same for 10,000 items as for 1,000."""
    world = OneReader(real_redis)
    await world.begin()
    for uid, size in (("home", SMALL), ("work", LARGE)):
        pairs = [part for one in range(size) for part in (one + 0.5, str(one))]
        await real_redis.command("ZADD", keys.posts(ANN, uid), *pairs)
        await real_redis.command("SADD", keys.unread(ANN, uid), *range(size))
    small, large = await steps(world, "home", query), await steps(world, "work", query)
    assert small == large
    assert sum(large.values()) <= 6


async def test_reading_everything_costs_what_is_unread(real_redis: Redis) -> None:
    """In `global` each channel is processed once: no step looks for its items in all other channels."""
    world, uids = await crowd(real_redis, 300)
    for n, uid in enumerate(uids):
        await put(real_redis, [uid], range(n * 10, n * 10 + 20), keys.posts, keys.unread)  # half are in the next too
    await calls(real_redis)
    assert await world.timelines.mark_all_read(ANN, "global", NOW) == 300 * 10 + 10
    found = await calls(real_redis)
    # Of each channel: unread, hidden and apart items, and ids of layout 8.
    for name, most in (("evalsha", 650), ("exists", 1220), ("zadd", 310), ("zrem", 310), ("zrevrange", 310)):
        assert found.get(name, 0) <= most, name
    assert await left(real_redis, uids, keys.unread) == 0


@pytest.mark.parametrize("action", ["read", "remove"])
async def test_items_in_all_channels_are_changed_in_bounded_steps(real_redis: Redis, action: str) -> None:
    """One item in many channels costs as much as many items in one: a step takes fewer of such ids."""
    world, uids = await crowd(real_redis, 400)
    await put(real_redis, uids, range(1, 21), keys.posts, keys.unread)
    await calls(real_redis)
    change = world.timelines.mark_read if action == "read" else world.timelines.remove
    assert await change(ANN, "global", [str(one) for one in range(1, 21)], NOW) == 20
    assert (await calls(real_redis))["evalsha"] >= 20 * 400 // 1000
    assert await left(real_redis, uids, keys.unread) == 0


async def test_many_ids_in_many_channels_are_looked_at_in_small_steps(real_redis: Redis) -> None:
    """A step does no more work for 2,000 channels than for a few, and empty channels get no command."""
    world, empty = await crowd(real_redis, 2000)
    ids = [str(number) for number in range(1, 501)]
    await put(real_redis, ["home"], range(1, 501), keys.posts, keys.unread)
    await calls(real_redis)
    assert await world.timelines.mark_read(ANN, "global", ids, NOW) == 500
    assert (await calls(real_redis))["smismember"] <= 10, "asked of channels that hold something"
    full = empty[:400]
    await put(real_redis, full, [*range(1, 21), 9999], keys.posts)
    await calls(real_redis)
    assert await world.timelines.remove(ANN, "global", ids, NOW) == 500
    assert (await calls(real_redis))["evalsha"] >= 500 // (1000 // 401)
    assert await left(real_redis, ["home"], keys.posts) == 0
    assert await left(real_redis, full, keys.posts) == len(full)


@pytest.mark.parametrize("state", ["read", "unread"])
async def test_some_ids_in_hundreds_of_channels_are_marked_as_many_are(real_redis: Redis, state: str) -> None:
    """Looked for one by one in all channels, they would take eighty round trips."""
    redis = CountingRedis(real_redis)
    world, uids = await crowd(redis, 200)
    await put(redis, uids, [9999], keys.posts)
    await put(redis, ["home"], range(1, 401), keys.posts, *([keys.unread] if state == "read" else []))
    mark = world.timelines.mark_read if state == "read" else world.timelines.mark_unread
    redis.trips = 0
    assert await mark(ANN, "global", [str(one) for one in range(1, 401)], NOW) == 400
    assert redis.trips <= 30
    assert await left(redis, ["home"], keys.unread) == (0 if state == "read" else 400)


@pytest.mark.parametrize("direction", ["after", "before"])
async def test_a_page_of_posts_in_all_channels_is_bounded(real_redis: Redis, direction: str) -> None:
    """Such a page is shorter, and the pages together have every item once, in order."""
    world, uids = await crowd(real_redis, 400)
    await put(real_redis, uids, range(100, 200), keys.posts, keys.read)
    found: list[str] = []
    cursor = Cursor("1000", "1000") if direction == "after" else Cursor("1", "1")
    while cursor is not None:
        await calls(real_redis)
        query = PageQuery(limit=100, after=cursor) if direction == "after" else PageQuery(limit=100, before=cursor)
        page = await world.timelines.page(ANN, "global", query, NOW)
        assert sum(count for name, count in (await calls(real_redis)).items() if name.startswith("z")) <= 16_000
        listed = [row.id for row in page.rows]
        found = [*found, *listed] if direction == "after" else [*listed, *found]
        more = page.older if direction == "after" else bool(listed)
        edge = page.rows[-1 if direction == "after" else 0] if listed else None
        cursor = Cursor(edge.score, edge.id) if more and edge is not None else None
    assert found == [str(number) for number in range(199, 99, -1)]


@pytest.mark.parametrize("view", ["read", "unread"])
async def test_views_continue_after_short_pages(real_redis: Redis, view: View) -> None:
    """This also holds for newer pages, where a short part of the iteration isn't its end."""
    world, uids = await crowd(real_redis, 1200)
    await put(real_redis, uids, range(100, 130), keys.posts, keys.read if view == "read" else keys.unread)
    page = await world.timelines.page(ANN, "global", PageQuery(limit=100, before=Cursor("1", "1"), view=view), NOW)
    newest = [str(number) for number in range(129, 99, -1)]
    assert [row.id for row in page.rows] == (newest if view == "read" else newest[-9:])


@pytest.mark.parametrize("channels", [1, 400])
async def test_a_move_removes_items_in_bounded_steps(real_redis: Redis, channels: int) -> None:
    """A step takes all items from few channels, and few items from many."""
    world, uids = await crowd(real_redis, channels)
    await put(real_redis, uids, range(1, 101), keys.posts, keys.unread)
    await calls(real_redis)
    assert await world.timelines.move(ANN, "home", [str(number) for number in range(1, 101)], NOW) == 100
    steps = (await calls(real_redis))["evalsha"]
    assert steps <= 2 if channels == 1 else 100 / steps * 400 <= 1500
    assert await left(real_redis, uids, keys.posts) == 0
    assert await real_redis.command("SCARD", keys.unread(ANN, "home")) == 100


async def test_reading_a_channel_up_to_an_item_is_one_request_to_redis(real_redis: Redis) -> None:
    """The same holds for all of it; with more than 1,000 unread items, one request per 1,000."""
    world = OneReader(CountingRedis(real_redis))
    await world.begin()
    await put(real_redis, ["home"], range(1_500), keys.posts, keys.unread)
    for item, trips, marked in (("600", 1, 601), ("1000", 1, 400), ("", 1, 499), ("1499", 1, 0)):
        world.redis.trips = 0
        if item:
            found = await world.timelines.mark_read_before(ANN, "home", item, NOW)
        else:
            found = await world.timelines.mark_all_read(ANN, "home", NOW)
        assert (found, world.redis.trips) == (marked, trips)
    await world.timelines.mark_unread(ANN, "home", [str(one) for one in range(1_500)], NOW)
    world.redis.trips = 0
    assert await world.timelines.mark_all_read(ANN, "home", NOW) == 1_500
    assert world.redis.trips == 2


async def test_marks_among_many_read_items_come_in_short_calls(real_redis: Redis) -> None:
    """Each item then has a piece of the times of its own, which the engine writes again: 200 items a call."""
    world = OneReader(CountingRedis(real_redis))
    await world.begin()
    read = pieces((item, NOW) for item in range(10_000, 120_000))
    assert len(read) > 200
    await real_redis.command("HSET", keys.read(ANN, "home"), *chain(*read.items()))
    await put(real_redis, ["home"], range(1_000), keys.posts, keys.unread)
    ids = [str(one) for one in range(1_000)]
    world.redis.trips = 0
    assert await world.timelines.mark_read(ANN, "home", ids, NOW) == 1_000
    assert world.redis.trips == 5
    assert await world.timelines.mark_unread(ANN, "home", ids, NOW) == 1_000
    world.redis.trips = 0
    assert await world.timelines.mark_all_read(ANN, "home", NOW) == 1_000
    assert world.redis.trips == 4, "a call may find 200 more than it has to"
    assert await left(real_redis, ["home"], keys.unread) == 0


@pytest.mark.parametrize("view", ["all", "unread"])
async def test_a_page_skips_a_bounded_number_of_posts_that_all_hides(redis: Redis, view: View) -> None:
    """The page may then be empty, and continues behind them in both directions; no shown post is lost."""
    world, uids = await crowd(redis, 4)
    sets = (keys.posts,) if view == "all" else (keys.posts, keys.unread)
    await put(redis, uids, range(1, LARGE), *sets)
    await put(redis, uids[:1], (20_000,), *sets)
    shown = {"1", "5000", "20000"}
    hidden = [str(one) for one in range(1, LARGE)]
    await redis.pipeline([("SADD", keys.apart(ANN, uid), *hidden) for uid in uids])
    await redis.command("SREM", keys.apart(ANN, uids[1]), *shown)
    await redis.command("HSET", keys.user(ANN), "apart", 1)
    for upward in (False, True):
        found: list[str] = []
        at, pages = Cursor("0.5", "1") if upward else None, 0
        while pages < 20:
            await calls(redis)
            query = PageQuery(before=at, view=view) if upward else PageQuery(after=at, view=view)
            rows = await world.timelines.page(ANN, "global", query, NOW)
            assert (await calls(redis)).get("smismember", 0) <= 45
            pages += 1
            found += rows.ids[::-1] if upward else rows.ids
            at = rows.end(upward=upward)
            if at is None or not (upward or rows.older):
                break
        assert sorted(found) == sorted(shown)
        assert found == sorted(found, key=int, reverse=not upward)
        assert 4 <= pages <= 8


async def test_all_of_a_channel_is_read_everywhere_in_bounded_steps(real_redis: Redis) -> None:
    """Only the channels that have its items are changed, a few hundred at a time; none of them is left unread."""
    world, uids = await crowd(real_redis, 100)
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: "yes"})
    listed = range(1, 3001)
    for uid in uids[:3]:
        await put(real_redis, [uid], listed, keys.posts, keys.unread)
    for uid in uids[3:]:
        await put(real_redis, [uid], range(1, 4), keys.posts, keys.unread)
    await calls(real_redis)
    assert await world.timelines.mark_all_read(ANN, uids[0], NOW) == 3000
    cost = await calls(real_redis)
    assert cost["evalsha"] >= 3000 * 3 // 200
    assert cost["smismember"] <= 3000 * 3 // 200 + 3 * 3000 // 1000 + 97 + 10
    assert await left(real_redis, uids, keys.unread) == 0
    assert await world.timelines.mark_unread(ANN, uids[1], [str(one) for one in listed], NOW) == 3000
    assert await left(real_redis, uids, keys.unread) == 3 * 3000 + 97 * 3


async def test_mark_all_visits_each_channel_once(real_redis: Redis) -> None:
    """A large account waited more than a minute, because each post was looked for in each channel."""
    world, uids = await crowd(real_redis, 200)
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: "yes"})
    for at, uid in enumerate(uids):
        await put(real_redis, [uid], range(1 + 20 * at, 31 + 20 * at), keys.posts, keys.unread)
    await put(real_redis, uids[:2], range(3000, 3010), keys.hidden)
    await put(real_redis, uids[2:], [9000], keys.hidden)  # one author is muted in all
    await put(real_redis, uids[2:3], range(3000, 3005), keys.posts, keys.unread)
    await real_redis.command("SADD", keys.apart(ANN, uids[2]), *range(3000, 3005))
    await calls(real_redis)
    assert await world.timelines.mark_all_read(ANN, "global", NOW) == 4010
    cost = await calls(real_redis)
    assert cost["evalsha"] <= 5 * 200
    assert cost.get("zmscore", 0) <= 3 * 200
    assert await left(real_redis, uids, keys.unread) == 0
    read = [await real_redis.command("HLEN", keys.hidden_read(ANN, uid)) for uid in uids[:2]]
    assert read == [10, 10]


@pytest.mark.parametrize("everywhere", ["yes", "no"])
async def test_many_posts_become_unread_in_the_channels_that_have_them(real_redis: Redis, everywhere: str) -> None:
    """A batch looks once into each of 400 channels, and changes those that show or hide its posts, in short steps."""
    world, uids = await crowd(real_redis, 400)
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: everywhere})
    ids = range(1, 1201)
    await put(real_redis, uids, [5000], keys.posts)
    await put(real_redis, uids[:2], ids, keys.posts, keys.read)
    await put(real_redis, uids[2:3], ids, keys.hidden, keys.hidden_read)
    await calls(real_redis)
    assert await world.timelines.mark_unread(ANN, "global", [str(one) for one in ids], NOW) == 1200
    cost = await calls(real_redis)
    assert cost["zmscore"] <= 2 * 400 + 50
    assert cost["evalsha"] <= 20
    assert await left(real_redis, uids, keys.unread) == 2400
    for key in (keys.read, keys.hidden_read):
        assert await left(real_redis, uids[:3], key) == 0
    assert await world.timelines.mark_unread(ANN, "global", [str(one) for one in ids], NOW) == 0


class Looks(Wrapped):
    """Records how many members each round trip looks for, in all its sorted sets together."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.counts: list[int] = []

    async def pipeline(self, commands: Any) -> Any:
        self.counts.append(sum(len(command) - 2 for command in commands))
        return await super().pipeline(commands)


async def test_posts_are_looked_for_in_short_steps(redis: Redis) -> None:
    """Others' requests have their turn between them; posts that were found aren't looked for again."""
    _, uids = await crowd(redis, 400)
    await put(redis, uids[:1], range(1, 1001), keys.posts)
    await put(redis, uids[-1:], range(1001, 1004), keys.posts)
    looking, ids = Looks(redis), [str(one) for one in range(1, 1006)]
    assert await shown_among(looking, ANN, "global", ids) == ids[:-2]
    assert max(looking.counts) <= 20_000
    assert sum(looking.counts) <= 22_000
