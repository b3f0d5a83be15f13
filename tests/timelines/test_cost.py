"""What a page costs Redis doesn't depend on the size of the timeline."""

from __future__ import annotations

import re

import pytest

from microsub.model.reader import Cursor, PageQuery, View
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.one_reader import ANN, NOW, OneReader
from tests.support.redis_wrappers import CountingRedis

SMALL, LARGE = 1_000, 40_000


async def steps(world: OneReader, uid: str, query: PageQuery) -> dict[str, int]:
    """How often each command ran, inside scripts too, for one page."""
    await world.redis.command("CONFIG", "RESETSTAT")
    assert len((await world.timelines.page(ANN, uid, query, NOW)).rows) == query.limit
    stats = (await world.redis.command("INFO", "commandstats")).decode()
    return {name: int(calls) for name, calls in re.findall(r"cmdstat_(z\w+):calls=(\d+)", stats)}


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
async def test_a_page_of_a_huge_timeline_takes_the_steps_of_a_small_one(real_redis: Redis, query: PageQuery) -> None:
    """Each command of a page is logarithmic, and there are as many for 40,000 items as for 1,000."""
    world = OneReader(real_redis)
    await world.begin()
    for uid, size in (("home", SMALL), ("work", LARGE)):
        for start in range(0, size, 10_000):
            pairs = [part for one in range(start, min(start + 10_000, size)) for part in (one + 0.5, str(one))]
            for key in (keys.posts(ANN, uid), keys.unread(ANN, uid)):
                await real_redis.command("ZADD", key, *pairs)
    small, large = await steps(world, "home", query), await steps(world, "work", query)
    assert small == large
    assert sum(large.values()) <= 6


async def test_reading_everything_costs_what_is_unread(real_redis: Redis) -> None:
    """In `global` each channel is gone through once, by itself: no step looks for its items in all the others."""
    world = OneReader(real_redis)
    await world.begin()
    uids = [f"c{number}" for number in range(300)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    for n, uid in enumerate(uids):
        pairs = [part for one in range(20) for part in (float(one), str(n * 10 + one))]  # half of them in the next too
        await real_redis.pipeline([("ZADD", key(ANN, uid), *pairs) for key in (keys.posts, keys.unread)])
    await real_redis.command("CONFIG", "RESETSTAT")
    assert await world.timelines.mark_all_read(ANN, "global", NOW) == 300 * 10 + 10
    stats = (await real_redis.command("INFO", "commandstats")).decode()
    for name in ("evalsha", "exists", "zadd", "zrem", "zrevrange"):
        calls = re.search(rf"cmdstat_{name}:calls=(\d+)", stats)
        assert calls is None or int(calls[1]) <= 310, name
    assert sum(await real_redis.pipeline([("ZCARD", keys.unread(ANN, uid)) for uid in uids])) == 0


@pytest.mark.parametrize("action", ["read", "remove"])
async def test_items_that_stand_in_all_channels_are_changed_1000_places_at_a_time(
    real_redis: Redis, action: str
) -> None:
    """One item in many channels is as much to write as many items in one: a step takes fewer of such ids."""
    world = OneReader(real_redis)
    await world.begin()
    uids = [f"c{number}" for number in range(400)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    ids = [str(number) for number in range(1, 21)]
    pairs = [part for one in ids for part in (float(one), one)]
    await real_redis.pipeline([("ZADD", key(ANN, uid), *pairs) for uid in uids for key in (keys.posts, keys.unread)])
    await real_redis.command("CONFIG", "RESETSTAT")
    change = world.timelines.mark_read if action == "read" else world.timelines.remove
    assert await change(ANN, "global", ids, NOW) == 20
    stats = (await real_redis.command("INFO", "commandstats")).decode()
    assert int(re.search(r"cmdstat_evalsha:calls=(\d+)", stats)[1]) >= 20 * 400 // 1000
    assert sum(await real_redis.pipeline([("ZCARD", keys.unread(ANN, uid)) for uid in uids])) == 0


async def test_many_ids_in_many_channels_are_looked_at_in_small_steps(real_redis: Redis) -> None:
    """A step does no more for 2,000 channels than it does for a few, and empty channels are asked for nothing."""
    world = OneReader(real_redis)
    await world.begin()
    empty = [f"c{number}" for number in range(2000)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(empty)])
    ids = [str(number) for number in range(1, 1001)]
    pairs = [part for one in ids for part in (float(one), one)]
    for key in (keys.posts(ANN, "home"), keys.unread(ANN, "home")):
        await real_redis.command("ZADD", key, *pairs)
    await real_redis.command("CONFIG", "RESETSTAT")
    assert await world.timelines.mark_read(ANN, "global", ids, NOW) == 1000
    stats = (await real_redis.command("INFO", "commandstats")).decode()
    assert int(re.search(r"cmdstat_zmscore:calls=(\d+)", stats)[1]) <= 10, "asked of channels that hold something"
    full = empty[:400]
    await real_redis.pipeline([("ZADD", keys.posts(ANN, uid), *pairs[:20], 9999, "9999") for uid in full])
    await real_redis.command("CONFIG", "RESETSTAT")
    assert await world.timelines.remove(ANN, "global", ids, NOW) == 1000
    stats = (await real_redis.command("INFO", "commandstats")).decode()
    assert int(re.search(r"cmdstat_evalsha:calls=(\d+)", stats)[1]) >= 1000 // (1000 // 401)
    left = await real_redis.pipeline([("ZCARD", keys.posts(ANN, uid)) for uid in ("home", *full)])
    assert left == [0] + [1] * len(full)


@pytest.mark.parametrize("direction", ["after", "before"])
async def test_a_page_of_posts_that_stand_in_all_channels_takes_so_many_steps(
    real_redis: Redis, direction: str
) -> None:
    """It is shorter then, and the pages together have every item once, in order."""
    world = OneReader(real_redis)
    await world.begin()
    uids = [f"c{number}" for number in range(400)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    await real_redis.pipeline([("HSET", keys.channel(ANN, uid), "name", uid) for uid in uids])
    ids = [str(number) for number in range(100, 200)]
    pairs = [part for one in ids for part in (float(one), one)]
    await real_redis.pipeline([("ZADD", key(ANN, uid), *pairs) for uid in uids for key in (keys.posts, keys.read)])
    found: list[str] = []
    cursor = Cursor("1000", "1000") if direction == "after" else Cursor("1", "1")
    while cursor is not None:
        await real_redis.command("CONFIG", "RESETSTAT")
        query = PageQuery(limit=100, after=cursor) if direction == "after" else PageQuery(limit=100, before=cursor)
        page = await world.timelines.page(ANN, "global", query, NOW)
        stats = (await real_redis.command("INFO", "commandstats")).decode()
        assert sum(map(int, re.findall(r"cmdstat_z\w+:calls=(\d+)", stats))) <= 16_000
        listed = [row.id for row in page.rows]
        found = [*found, *listed] if direction == "after" else [*listed, *found]
        more = page.older if direction == "after" else bool(listed)
        edge = page.rows[-1 if direction == "after" else 0] if listed else None
        cursor = Cursor(edge.score, edge.id) if more and edge is not None else None
    assert found == ids[::-1]


@pytest.mark.parametrize("view", ["read", "unread"])
async def test_views_go_on_behind_short_pages(real_redis: Redis, view: View) -> None:
    """Also upwards, where a short piece of the walk isn't its end."""
    world = OneReader(real_redis)
    await world.begin()
    uids = [f"c{number}" for number in range(1200)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    await real_redis.pipeline([("HSET", keys.channel(ANN, uid), "name", uid) for uid in uids])
    ids = [str(number) for number in range(100, 130)]
    pairs = [part for one in ids for part in (float(one), one)]
    state = keys.read if view == "read" else keys.unread
    await real_redis.pipeline([("ZADD", key(ANN, uid), *pairs) for uid in uids for key in (keys.posts, state)])
    page = await world.timelines.page(ANN, "global", PageQuery(limit=100, before=Cursor("1", "1"), view=view), NOW)
    assert [row.id for row in page.rows] == (ids[::-1] if view == "read" else ids[8::-1])


@pytest.mark.parametrize("channels", [1, 400])
async def test_a_move_takes_items_out_of_so_many_places_at_a_time(real_redis: Redis, channels: int) -> None:
    """A step takes all items of few channels, and few items of many."""
    world = OneReader(real_redis)
    await world.begin()
    uids = [f"c{number}" for number in range(channels)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    ids = [str(number) for number in range(1, 101)]
    pairs = [part for one in ids for part in (float(one), one)]
    await real_redis.pipeline([("ZADD", key(ANN, uid), *pairs) for uid in uids for key in (keys.posts, keys.unread)])
    await real_redis.command("CONFIG", "RESETSTAT")
    assert await world.timelines.move(ANN, "home", ids, NOW) == 100
    stats = (await real_redis.command("INFO", "commandstats")).decode()
    calls = int(re.search(r"cmdstat_evalsha:calls=(\d+)", stats)[1])
    assert calls <= 2 if channels == 1 else 100 / calls * 400 <= 1500
    assert sum(await real_redis.pipeline([("ZCARD", keys.posts(ANN, uid)) for uid in uids])) == 0
    assert await real_redis.command("ZCARD", keys.unread(ANN, "home")) == 100


async def test_reading_a_channel_up_to_an_item_is_one_request_to_redis(real_redis: Redis) -> None:
    """So is reading all of it; where more than a thousand items are unread, one for each thousand."""
    world = OneReader(CountingRedis(real_redis))
    await world.begin()
    pairs = [part for one in range(1_500) for part in (float(one), str(one))]
    await real_redis.pipeline([("ZADD", key(ANN, "home"), *pairs) for key in (keys.posts, keys.unread)])
    for item, trips, marked in (("600", 1, 601), ("1000", 1, 400), ("", 1, 499), ("1499", 1, 0)):
        world.redis.trips = 0
        if item:
            found = await world.timelines.mark_read_before(ANN, "home", item, world.items.places, NOW)
        else:
            found = await world.timelines.mark_all_read(ANN, "home", NOW)
        assert (found, world.redis.trips) == (marked, trips)
    await world.timelines.mark_unread(ANN, "home", [str(one) for one in range(1_500)], NOW)
    world.redis.trips = 0
    assert await world.timelines.mark_all_read(ANN, "home", NOW) == 1_500
    assert world.redis.trips == 2
