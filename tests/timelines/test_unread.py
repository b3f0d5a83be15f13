"""The unread items of a channel: how they are kept, walked and marked, and how those of earlier data are packed."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal
from unittest.mock import Mock

import pytest

from microsub.base.clock import DAY
from microsub.base.errors import StoreFull, StoreUnavailable
from microsub.model.reader import GLOBAL, SAVED, Cursor, Duplicate, PageQuery, View
from microsub.redis import keys
from microsub.redis.migrations import FIRST, VERSION, migrate, schema_version
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.redis.replies import texts
from microsub.redis.scripts import load
from microsub.timelines import READ_EVERYWHERE, pages, read_state
from microsub.timelines.read_state import ReadState
from microsub.timelines.repacking import GoneRepacking
from microsub.timelines.sync.arrivals import arrivals_in
from microsub.timelines.views import ReaderViews
from tests.support import no_pause
from tests.support.invariants import all_keys, violations
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Between, Killing, Wrapped, killed_anywhere, once
from tests.support.servers import calls, full
from tests.support.timelines import unread_of_layout_12
from tests.support.waiting import wait_until

MANY = 1200


def repacking(world: OneReader) -> GoneRepacking:
    return GoneRepacking(world.redis, world.accounts, pause=no_pause)


async def fill(redis: Redis, uid: str, size: int, unread: Iterable[int]) -> None:
    """A channel with items 1 to `size` of those times, in which some are unread."""
    is_open = set(unread)
    posts = [part for one in range(1, size + 1) for part in (one // 3, one)]
    read = [part for one in range(1, size + 1) if one not in is_open for part in (1.5, one)]
    await redis.command("ZADD", keys.posts(ANN, uid), *posts)
    if is_open:
        await redis.command("SADD", keys.unread(ANN, uid), *is_open)
    if read:
        await redis.command("ZADD", keys.read(ANN, uid), *read)


async def states(world: OneReader) -> dict[str, tuple[int, dict[str, bool]]]:
    """The unread count of each channel and whether each of its items is read, as pages have them."""
    found = {}
    for uid in ("home", "work"):
        rows = (await world.timelines.page(ANN, uid, PageQuery(limit=2 * MANY), NOW)).rows
        unread = await world.ids(uid, view="unread", limit=2 * MANY)
        assert unread == [row.id for row in rows if not row.is_read]
        assert (await world.channels.get(ANN, uid)).unread == await world.unread(uid) == len(unread)
        found[uid] = await world.unread(uid), {row.id: row.is_read for row in rows}
    return found


async def of_layout_12(world: OneReader) -> dict[str, tuple[int, dict[str, bool]]]:
    """Two channels as that layout has them, after the migration; what they show."""
    await fill(world.redis, "home", MANY, range(1, MANY, 2))
    await fill(world.redis, "work", 5, (2, 3))
    before = await states(world)
    for uid in ("home", "work"):
        await unread_of_layout_12(world.redis, ANN, uid)
        assert await world.redis.command("TYPE", keys.unread(ANN, uid)) == b"zset"
    await world.redis.command("SET", keys.schema(), FIRST)
    await migrate(world.redis)
    return before


async def test_unread_items_stay_so_before_and_after_packing(world: OneReader) -> None:
    """A dry run says how many ids there are, and about what is freed. It changes nothing."""
    before = await of_layout_12(world)
    assert await states(world) == before
    foreseen = await repacking(world).foresee()
    assert await world.redis.command("TYPE", keys.unread(ANN, "home")) == b"zset"
    done = await repacking(world).run()
    assert foreseen.unread == done.unread == MANY // 2 + 2
    assert foreseen.before == done.before
    assert abs(foreseen.after - done.after) < done.before / 20
    assert done.after < done.before / 9  # allocators round up
    assert await states(world) == before
    assert await world.redis.command("TYPE", keys.unread(ANN, "home")) == b"set"
    assert [await violations(world.redis, ANN, uid) for uid in before] == [[], []]
    assert (await repacking(world).run()).unread == (await repacking(world).foresee()).unread == 0
    assert await schema_version(world.redis) == VERSION


async def test_items_are_added_and_marked_before_they_are_packed(world: OneReader) -> None:
    """Then they are packed with the others."""
    await of_layout_12(world)
    await world.follow("work", "1")
    await world.add("work", item(7000))
    assert await world.timelines.mark_read(ANN, "work", ["2"], NOW) == 1
    assert await world.timelines.mark_unread(ANN, "work", ["5"], NOW) == 1
    assert await world.timelines.remove(ANN, "work", ["3"], NOW) == 1
    before = await states(world)
    assert before["work"] == (2, {"7000": False, "5": False, "4": True, "2": True, "1": True})
    await repacking(world).run()
    assert await states(world) == before


async def of_both(world: OneReader) -> None:
    """A channel of layout 8, with more items than are packed in a step."""
    await fill(world.redis, "home", MANY, range(1, MANY, 2))
    await fill(world.redis, "work", 5, (2, 3))
    for uid in ("home", "work"):
        await unread_of_layout_12(world.redis, ANN, uid)
    await world.redis.command("SET", keys.schema(), FIRST)
    await migrate(world.redis)


@pytest.mark.parametrize("changes", [1, 3, 100])
async def test_what_changes_between_two_steps_of_packing_isnt_lost(world: OneReader, changes: int) -> None:
    """Marks in both directions, items that come and leave; also if the channel changes at each step."""
    await of_both(world)
    expected = (await states(world))["home"][1]
    steps = 0

    async def change(_seconds: float) -> None:
        nonlocal steps
        steps += 1
        if steps > changes:
            return
        read, fresh, left, new = f"{2 * steps + 1}", f"{2 * steps + 400}", f"{MANY - steps}", f"{7000 + steps}"
        assert await world.timelines.mark_read(ANN, "home", [read], NOW) == 1
        assert await world.timelines.mark_unread(ANN, "home", [fresh], NOW) == 1
        assert await world.timelines.remove(ANN, "home", [left], NOW) == 1
        await world.add("home", item(int(new)))
        expected.pop(left)
        expected.update({read: True, fresh: False, new: False})

    done = await GoneRepacking(world.redis, world.accounts, pause=change).run()
    assert steps > 3
    assert done.unread > MANY // 2 - 2
    assert (await states(world))["home"][1] == expected
    kinds = [await world.redis.command("TYPE", key(ANN, "home")) for key in (keys.unread, keys.read)]
    assert kinds == [b"set", b"hash"]
    assert not [key for key in await all_keys(world.redis) if key.startswith(b"user") and key.endswith(b":packing")]
    assert await violations(world.redis, ANN, "home") == []


async def test_no_step_of_packing_moves_more_than_some_hundred_ids(world: OneReader) -> None:
    """Until the last one, pages read the former sets, and what is copied has a time to live."""
    await of_both(world)
    sizes = [0]

    async def look(_seconds: float) -> None:
        sizes.append(int(await world.redis.command("SCARD", keys.unread_packing(ANN, "home"))))
        assert sizes[-1] == 0 or await world.redis.command("TTL", keys.unread_packing(ANN, "home")) > 0

    await GoneRepacking(world.redis, world.accounts, pause=look).run()
    assert max(sizes) == max(later - size for size, later in itertools.pairwise(sizes)) == 500


async def test_killed_anywhere_nothing_changes_its_state(real_redis: Redis) -> None:
    """The step to this layout and the packing, killed after any round trip and repeated."""
    redis = Killing(real_redis)
    world = OneReader(redis)
    before: list[dict[str, tuple[int, dict[str, bool]]]] = []

    async def begin() -> None:
        await world.begin()
        before.append(await of_layout_12(world))
        await redis.command("SET", keys.schema(), FIRST)

    async def upgrade() -> None:
        await migrate(redis)
        await repacking(world).run()

    async def again() -> None:
        assert await states(world) == before[-1]
        await redis.command(
            "DEL", keys.lease("packing timelines"), keys.lease("migration")
        )  # as when they have run out
        await upgrade()

    async def state() -> object:
        return await states(world), await all_keys(redis)

    assert await killed_anywhere(redis, begin, upgrade, state, again) > 10
    assert await states(world) == before[-1]
    assert await redis.command("TYPE", keys.unread(ANN, "home")) == b"set"


@pytest.mark.parametrize(("number", "most"), [(7, 4.5), (2**31 - 6000, 4.5), (2**40, 8.5)])
async def test_an_unread_id_takes_few_bytes(world: OneReader, number: int, most: float) -> None:
    """The embedded engine keeps many of them in one piece."""
    await world.add("home", *(item(number + at) for at in range(5000)))
    assert await world.unread("home") == 5000
    assert await world.redis.command("OBJECT", "ENCODING", keys.unread(ANN, "home")) == b"intset"
    assert await world.redis.command("MEMORY", "USAGE", keys.unread(ANN, "home")) / 5000 < most


SPREADS: dict[str, Callable[[random.Random, int], Iterable[int]]] = {
    "a few": lambda chance, size: chance.sample(range(1, size + 1), 9),
    "dozens": lambda chance, size: chance.sample(range(1, size + 1), 80),
    "the oldest dozens": lambda _chance, _size: range(1, 81),
    "many": lambda chance, size: chance.sample(range(1, size + 1), size * 2 // 3),
    "the oldest": lambda _chance, size: range(1, size // 4),
    "the newest": lambda _chance, size: range(size - size // 4, size + 1),
    "all": lambda _chance, size: range(1, size + 1),
    "none": lambda _chance, _size: (),
}


@pytest.mark.parametrize("layout", [12, 13])
@pytest.mark.parametrize("newest", [0, 24, 122])
@pytest.mark.parametrize("spread", SPREADS)
async def test_unread_pages_have_every_unread_item_once(
    world: OneReader, spread: str, newest: int, layout: int
) -> None:
    """In order, in both directions, from any place, in one channel and in all; some of the newest may be in order."""
    size, chance = 2400, random.Random(spread)
    unread = set(SPREADS[spread](chance, size))
    await fill(world.redis, "home", size, unread)
    await fill(world.redis, "work", 30, range(10, 20))
    if layout == 12:
        for uid in ("home", "work"):
            await unread_of_layout_12(world.redis, ANN, uid)
    if newest:
        assert await sort_newest(world, "home", newest) == min(newest, len(unread))
        assert await sort_newest(world, "work", newest // 4) == min(newest // 4, 10)
        assert [await violations(world.redis, ANN, uid) for uid in ("home", "work")] == [[], []]
    for uid, there in (("home", unread), ("global", unread | {*range(10, 20)})):
        expected = [str(one) for one in sorted(there, key=lambda one: (one // 3, str(one)), reverse=True)]
        assert await walked(world, uid, None, upward=False) == expected
        places = [expected[0], expected[-1], expected[len(expected) // 2]] if expected else ["1000"]
        for place in [*places, "1", "1200", "2400"]:
            at = Cursor(str(int(place) // 3), place)
            key = int(place) // 3, place
            newer = [one for one in expected if (int(one) // 3, one) > key]
            older = [one for one in expected if (int(one) // 3, one) < key]
            assert await walked(world, uid, at, upward=False) == older
            assert await walked(world, uid, at, upward=True) == newer
            page = await world.timelines.page(ANN, uid, PageQuery(limit=50, before=at, view="unread"), NOW)
            assert page.older == (len(expected) > len(newer))


async def sort_newest(world: OneReader, uid: str, most: int) -> int:
    """Bring that many unread items into their order, as after a page; returns how many there are."""
    found = await world.redis.script(load("unread_newest")(ANN, uid, most=most))
    assert await world.redis.command("ZCARD", keys.unread_newest(ANN, uid)) == found
    assert found == 0 or await world.redis.command("TTL", keys.unread_newest(ANN, uid)) in {30 * DAY - 1, 30 * DAY}
    return int(found)


@pytest.mark.parametrize("at_once", [1, 7, 200])
async def test_the_newest_unread_items_stay_in_order(world: OneReader, at_once: int) -> None:
    """They are a compact piece: older ones leave it, and it ends if very many come together."""
    await fill(world.redis, "home", MANY, range(1, MANY, 3))
    assert await sort_newest(world, "home", 122) == 122
    for first in range(0, 400, at_once):
        # One in five is older than all that are in order.
        new = [item(3 * MANY + one, score=one % 5 and MANY + one) for one in range(first, first + at_once)]
        await world.add("home", *new)
        assert await violations(world.redis, ANN, "home") == []
    assert 64 <= await world.redis.command("ZCARD", keys.unread_newest(ANN, "home")) <= 128
    kind = await world.redis.command("OBJECT", "ENCODING", keys.unread_newest(ANN, "home"))
    assert kind in {b"listpack", b"ziplist"}
    expected = [str(3 * MANY + one) for one in range(first + at_once - 1, -1, -1) if one % 5]
    assert (await world.ids("home", view="unread", limit=300))[:300] == expected[:300]


@pytest.mark.parametrize(("newest", "item", "is_in"), [(2, 1197, False), (3, 1199, True)])
async def test_items_of_the_same_time_as_the_oldest_in_order(
    world: OneReader, newest: int, item: int, is_in: bool
) -> None:
    """One before the oldest enters the newest ones; one behind it doesn't, since others stand between."""
    await fill(world.redis, "home", MANY, range(1, MANY + 1))
    assert await sort_newest(world, "home", newest) == newest
    assert await world.timelines.mark_read(ANN, "home", [str(item)], NOW) == 1
    assert await world.timelines.mark_unread(ANN, "home", [str(item)], NOW) == 1
    there = await world.redis.command("ZRANGE", keys.unread_newest(ANN, "home"), 0, -1)
    assert (str(item).encode() in there) == is_in
    assert await violations(world.redis, ANN, "home") == []


async def test_the_newest_unread_items_follow_marks_and_removals(world: OneReader) -> None:
    """One by one, page by page, and all together; an item marked as unread is in order again if it is new enough."""
    await fill(world.redis, "home", MANY, range(2, MANY, 2))
    assert await sort_newest(world, "home", 100) == 100
    timelines, key = world.timelines, keys.unread_newest(ANN, "home")
    await world.redis.command("EXPIRE", key, 60)
    assert await timelines.mark_read(ANN, "home", ["2", "4"], NOW) == 2
    assert await world.redis.command("TTL", key) <= 60
    assert await timelines.mark_read(ANN, "home", [str(MANY - 2)], NOW) == 1
    assert await world.redis.command("TTL", key) > 29 * DAY
    assert await timelines.mark_unread(ANN, "home", [str(MANY - 5), "3"], NOW) == 2
    assert await timelines.remove(ANN, "home", [str(MANY - 8)], NOW) == 1
    assert await world.redis.command("ZCARD", key) == 99
    assert await violations(world.redis, ANN, "home") == []
    assert await timelines.mark_read(ANN, "home", await world.ids("home", view="unread", limit=20), NOW) == 20
    assert await world.redis.command("ZCARD", key) == 79
    assert await violations(world.redis, ANN, "home") == []
    assert await timelines.mark_all_read(ANN, "home", NOW) > 500
    assert await world.ids("home", view="unread") == []
    assert await world.redis.command("EXISTS", key) == 0


@pytest.mark.parametrize("unread", [range(1, 2001), range(1, 2002)], ids=len)
async def test_looking_for_the_newest_unread_items_has_an_end(world: OneReader, unread: range) -> None:
    """Of up to two thousand, all are looked at; of more, ten thousand posts: then pages do without them."""
    await fill(world.redis, "home", 13_000, unread)
    await calls(world.redis)
    assert await sort_newest(world, "home", 122) == (122 if len(unread) <= 2000 else 0)
    looks = {name: count for name, count in (await calls(world.redis)).items() if name in {"smismember", "zinter"}}
    assert looks == ({"smismember": 2, "zinter": 1} if len(unread) <= 2000 else {"smismember": 12})
    assert await world.ids("home", view="unread", limit=3) == (["2000", "1999", "1998"] if len(unread) <= 2000 else [])


class Sorting(Wrapped):
    """Counts the round trips that bring channels into order, and may refuse them."""

    sorted = 0
    is_full = False

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        self.sorted += name == "unread_newest"
        if self.is_full and name == "unread_newest":
            raise StoreFull("no memory is left")
        return await run()


async def test_an_unread_page_brings_the_newest_into_order(world: OneReader) -> None:
    """Of one channel, and of all that a page of all looks at; once. A store that is full refuses, and pages stay."""
    await fill(world.redis, "home", 300, range(1, 300, 3))
    await fill(world.redis, "work", 300, range(1, 300, 2))
    redis = Sorting(world.redis)
    views = ReaderViews(redis, world.channels, Mock(), Mock(), Mock())
    order = [keys.unread_newest(ANN, uid) for uid in ("home", "work")]

    async def page(uid: str, view: View = "unread") -> list[str]:
        rows = await views.rows(ANN, uid, PageQuery(limit=10, view=view), NOW)
        await wait_until(lambda: not [one for one in asyncio.all_tasks() if "_sorted" in str(one.get_coro())])
        return list(rows.ids)

    await page("home", "all")
    assert (redis.sorted, await world.redis.command("EXISTS", *order)) == (0, 0)
    redis.is_full = True
    first = await page("home")
    assert first == [str(one) for one in range(298, 270, -3)]
    assert (redis.sorted, await world.redis.command("EXISTS", *order)) == (1, 0)
    redis.is_full = False
    assert await page("home") == first
    assert (redis.sorted, await world.redis.command("EXISTS", *order)) == (2, 1)
    assert await page("home") == first
    of_all = await page("global")
    assert (redis.sorted, await world.redis.command("EXISTS", *order)) == (3, 2)
    assert await page("global") == of_all
    assert redis.sorted == 3
    assert [await violations(world.redis, ANN, uid) for uid in ("home", "work")] == [[], []]


@pytest.mark.parametrize("count", [30, 1])
async def test_pages_beyond_the_newest_bring_nothing_into_order_again(world: OneReader, count: int) -> None:
    """Each of many channels has few in order, and a channel has none if all its unread items are very old.

    One of them alone gets more; and all do again after a while.
    """
    uids = [f"channel{number}" for number in range(count)]
    for uid in uids:
        await world.channels.create(ANN, uid, NOW, uid)
        await fill(world.redis, uid, *((300, range(1, 300)) if count > 1 else (13_000, range(1, 2002))))
    redis = Sorting(world.redis)
    views = ReaderViews(redis, world.channels, Mock(), Mock(), Mock())

    async def deep(uid: str) -> int:
        before = redis.sorted
        await views.rows(ANN, uid, PageQuery(limit=10, after=Cursor("50", "150"), view="unread"), NOW)
        await wait_until(lambda: not [one for one in asyncio.all_tasks() if "_sorted" in str(one.get_coro())])
        return redis.sorted - before

    assert [await deep("global") for _ in range(3)] == [1, 0, 0]
    assert [await deep(uids[0]) for _ in range(3)] == ([1, 0, 0] if count > 1 else [0, 0, 0])
    assert [await deep(uid) for uid in uids[1:2]] == [1] * (count > 1)
    with pytest.MonkeyPatch.context() as later:
        later.setattr(pages, "_PAUSE", 0.0)
        assert await deep("global") == 1


@pytest.mark.parametrize("unread", [range(1, 600), range(1, 600, 3), range(1, 60)], ids=len)
@pytest.mark.parametrize("newest", [0, 5, 24, 122])
async def test_unread_pages_of_all_leave_out_hidden_feeds(world: OneReader, unread: range, newest: int) -> None:
    """Also where a whole block of the newest ones is hidden, and where those in order end."""
    size, hidden = 600, {*range(1, 600, 7), *range(20, 40), *range(300, 380), *range(50, 60), *range(560, 600)}
    await fill(world.redis, "home", size, unread)
    await fill(world.redis, "work", 30, range(10, 20))
    await world.redis.command("SADD", keys.apart(ANN, "home"), *hidden)
    await world.redis.command("HSET", keys.user(ANN), "apart", 1)
    if newest:
        await sort_newest(world, "home", newest)
    there = {*unread} - hidden | {*range(10, 20)}
    expected = [str(one) for one in sorted(there, key=lambda one: (one // 3, str(one)), reverse=True)]
    assert await walked(world, "global", None, upward=False) == expected
    for place in ("595", "400", "30", "1"):
        at, key = Cursor(str(int(place) // 3), place), (int(place) // 3, place)
        newer = [one for one in expected if (int(one) // 3, one) > key]
        assert await walked(world, "global", at, upward=True) == newer
        older = [one for one in expected if (int(one) // 3, one) < key]
        assert await walked(world, "global", at, upward=False) == older


@pytest.mark.parametrize("newest", [0, 30, 122])
async def test_unread_items_of_one_second_are_each_shown_once(world: OneReader, newest: int) -> None:
    """Many more than a page has, in pages of all channels, also from a place among them whose item has left."""
    times = [part for one in range(100, 300) for part in (7, one)]
    await world.redis.command("ZADD", keys.posts(ANN, "home"), *times)
    await world.redis.command("SADD", keys.unread(ANN, "home"), *range(100, 300, 2))
    await fill(world.redis, "work", 60, range(10, 60, 5))
    if newest:
        assert await sort_newest(world, "home", newest) == min(newest, 100)
        assert await sort_newest(world, "work", newest) == 10
    there = [(7, str(one)) for one in range(100, 300, 2)] + [(one // 3, str(one)) for one in range(10, 60, 5)]
    expected = [one for _, one in sorted(there, reverse=True)]
    assert await walked(world, "global", None, upward=False, limit=3) == expected
    for place in ("299", "201", "150", "101"):
        older = [one for score, one in sorted(there, reverse=True) if (score, one) < (7, place)]
        assert await walked(world, "global", Cursor("7", place), upward=False, limit=3) == older


async def walked(world: OneReader, uid: str, at: Cursor | None, *, upward: bool, limit: int = 50) -> list[str]:
    """The ids of all pages of unread items from a place on, newest first."""
    found: list[str] = []
    while True:
        query = PageQuery(limit=limit, before=at if upward else None, after=None if upward else at, view="unread")
        page = await world.timelines.page(ANN, uid, query, NOW)
        found = [*page.ids, *found] if upward else [*found, *page.ids]
        assert all(not row.is_read for row in page.rows)
        at = page.end(upward=upward)
        if at is None or not (upward or page.older):
            return found


@pytest.mark.parametrize("layout", [12, 13])
@pytest.mark.parametrize("unread", [range(1, 1900), range(1, 1900, 3), range(1, 10), (1899,)], ids=len)
async def test_marking_from_a_place_on_leaves_newer_ones(world: OneReader, unread: range, layout: int) -> None:
    """Whether that item is read or not, with more than a thousand unread items, among thousands of read ones."""
    size, first = 13_000, "950"
    await fill(world.redis, "home", size, unread)
    if layout == 12:
        await unread_of_layout_12(world.redis, ANN, "home")
    newer = {str(one) for one in unread if (one // 3, str(one)) > (int(first) // 3, first)}
    count = len(unread) - len(newer)
    assert await world.timelines.mark_read_before(ANN, "home", first, NOW) == count
    assert {*await world.ids("home", view="unread", limit=3000)} == newer
    assert await world.timelines.mark_all_read(ANN, "home", NOW) == len(newer)
    assert await world.unread("home") == 0
    assert await violations(world.redis, ANN, "home") == []


@pytest.mark.parametrize("layout", [12, 13])
async def test_marking_many_items_in_all_channels(world: OneReader, layout: int) -> None:
    """Each channel for itself; those read before stay read since then, and muted ones are marked too."""
    size = 2600
    for uid in ("home", "work"):
        await fill(world.redis, uid, size, range(1, size + 1, 2))
        if layout == 12:
            await unread_of_layout_12(world.redis, ANN, uid)
    await world.redis.command("ZADD", keys.hidden(ANN, "work"), 1, 5000, 1, 5001)
    ids = [str(one) for one in (*range(1, 2401), 5000, 9999)]
    changed = await ReadState(world.redis, world.items).mark(ANN, "global", ids, "read", NOW)
    assert changed == {*map(str, range(1, 2400, 2)), "5000"}
    left = [str(one) for one in range(2401, size + 1, 2)]
    for uid in ("home", "work"):
        assert sorted(await world.ids(uid, view="unread", limit=size), key=int) == left
        assert await violations(world.redis, ANN, uid) == []
    read, hidden = await reading_times(world.redis, [keys.read(ANN, "home"), keys.hidden_read(ANN, "work")])
    assert read == {str(one): int(NOW) if one % 2 else 1 for one in range(1, size + 1) if str(one) not in left}
    assert hidden == {"5000": int(NOW)}


async def test_unread_items_are_read_while_the_store_is_full(world: OneReader) -> None:
    """As sets and as those of layout 8: their list, a channel's counts and the check of the store."""
    redis = world.redis
    for uid in ("home", "work"):
        await fill(redis, uid, 9, range(1, 9, 2))
    await unread_of_layout_12(redis, ANN, "work")
    await redis.command("ZADD", keys.arrivals(ANN), *(part for one in range(1, 10) for part in (one, one)))
    async with full(redis):
        for uid in ("home", "work"):
            assert await arrivals_in(redis, ANN, [uid], "unread") == {str(one): one for one in range(1, 9, 2)}
            _, newest = await world.channels.subscriptions_and_unread(ANN, uid, 3)
            assert newest == ["7", "5", "3"]
            assert await violations(redis, ANN, uid) == []


async def test_a_mark_of_several_items_counts_the_unread_ones(world: OneReader) -> None:
    """Also if only one of them is."""
    await world.add("home", item(1), item(2), item(3))
    assert await world.timelines.mark_read(ANN, "home", ["1", "3"], NOW) == 2
    assert await world.timelines.mark_read(ANN, "home", ["1", "2", "3"], NOW) == 1
    assert await world.unread("home") == 0


async def in_all(world: OneReader) -> None:
    """Posts 1 to 4 are unread in `home` or `work`, each hides those of the other, and `saved` has all, unread."""
    await world.redis.command("FLUSHDB")
    await world.begin()
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: "yes"})
    everywhere = {"home": ("1", "2"), "work": ("3", "4"), SAVED: ("1", "2", "3", "4")}
    for uid, ids in everywhere.items():
        await world.redis.command("SADD", keys.unread(ANN, uid), *ids)
        for one in ids:
            world.items.know("1", item(int(one)))
            await world.redis.command("ZADD", keys.posts(ANN, uid), float(one), one)
    await world.redis.command("ZADD", keys.hidden(ANN, "home"), 3.0, "3", 4.0, "4")
    await world.redis.command("ZADD", keys.hidden(ANN, "work"), 1.0, "1", 2.0, "2")


async def read_where(redis: Redis) -> dict[str, list[str]]:
    """The unread items of each channel that has some, and the hidden ones that were read."""
    found = {}
    for uid in ("home", "work", SAVED):
        found[uid] = sorted(texts(await redis.command("SMEMBERS", keys.unread(ANN, uid))))
        (hidden,) = await reading_times(redis, [keys.hidden_read(ANN, uid)])
        found[f"hidden {uid}"] = sorted(hidden)
    return found


@pytest.mark.parametrize("uid", [GLOBAL, "home"])
async def test_a_repeated_mark_of_many_reads_all_copies(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch, uid: str
) -> None:
    """Wherever the process died: a channel that hides some posts was read before others hid or had saved its own."""
    monkeypatch.setattr(read_state, "BATCH", 1)
    monkeypatch.setattr(read_state, "_AT_ONCE", 1)
    killing = Killing(real_redis)
    world = OneReader(killing)

    async def mark() -> None:
        await world.timelines.mark_all_read(ANN, uid, NOW)

    await killed_anywhere(killing, lambda: in_all(world), mark, lambda: read_where(real_redis))
    nothing: dict[str, list[str]] = {"home": [], "work": [], SAVED: [], "hidden saved": []}
    if uid == GLOBAL:
        assert await read_where(real_redis) == nothing | {"hidden home": ["3", "4"], "hidden work": ["1", "2"]}
    else:
        left = {"work": ["3", "4"], SAVED: ["3", "4"], "hidden home": [], "hidden work": ["1", "2"]}
        assert await read_where(real_redis) == nothing | left


async def test_a_repeated_mark_of_named_items_reads_their_duplicates(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the process died: the duplicates of items that are read already aren't looked for."""
    monkeypatch.setattr(read_state, "BATCH", 1)
    monkeypatch.setattr(read_state, "_AT_ONCE", 1)
    killing = Killing(real_redis)
    world = OneReader(killing)

    async def begin() -> None:
        await world.begin()
        await world.accounts.set_settings(ANN, {READ_EVERYWHERE: "yes"})
        world.items.know("1", item(1), item(2))
        world.items.know("2", *(item(one + 10, duplicates=(Duplicate(str(one), "1"),)) for one in (1, 2)))
        for uid, ids in (("home", (1, 2)), ("work", (11, 12))):
            await real_redis.command("ZADD", keys.posts(ANN, uid), *(part for one in ids for part in (one, one)))
            await real_redis.command("SADD", keys.unread(ANN, uid), *ids)

    async def mark() -> None:
        await world.timelines.mark_read(ANN, GLOBAL, ["1", "2"], NOW)

    await killed_anywhere(killing, begin, mark, lambda: read_where(real_redis))
    assert not any((await read_where(real_redis)).values())


@pytest.mark.parametrize("everywhere", ["yes", "no"])
async def test_a_mark_in_all_leaves_newer_posts(world: OneReader, everywhere: str) -> None:
    """Also those of the same second, and posts that have left since they were listed stay away."""
    await in_all(world)
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: everywhere})
    await world.redis.command("ZADD", keys.posts(ANN, "home"), 3.0, "5", 3.0, "2", 4.0, "6")
    await world.redis.command("SADD", keys.unread(ANN, "home"), "5", "6")

    async def leave() -> None:
        assert await world.timelines.remove(ANN, "home", ["1"], NOW) == 1

    before = once("ZMSCORE", leave)
    marked = await ReadState(Between(world.redis, before), world.items).mark_until(ANN, GLOBAL, "3", NOW)
    assert marked["home"] == ({"2", "3"} if everywhere == "yes" else {"2"})
    assert await world.ids("home", view="unread") == ["6", "5"]
    assert await world.ids("work", view="unread") == ["4"]


@pytest.mark.parametrize("becomes", ["unread", "hidden", "duplicate"])
async def test_posts_that_come_meanwhile_are_read_everywhere(world: OneReader, becomes: str) -> None:
    """If one channel had a post when it was marked, and another one has got it since its turn; others stay unread."""
    await in_all(world)
    await world.redis.command("DEL", keys.posts(ANN, "work"), keys.unread(ANN, "work"), keys.hidden(ANN, "work"))
    came = "12" if becomes == "duplicate" else "2"
    world.items.know("2", item(12, duplicates=(Duplicate("2", "1"),)))

    async def come() -> None:
        shows = keys.hidden if becomes == "hidden" else keys.posts
        await world.redis.command("ZADD", shows(ANN, "work"), 2.0, came, 9.0, "9")
        if becomes != "hidden":
            await world.redis.command("SADD", keys.unread(ANN, "work"), came, "9")

    marks = 0

    async def before(name: str, _args: Any) -> None:
        nonlocal marks
        marks += name == "timeline_mark"
        if name == "timeline_mark" and marks == 2:  # after `home` was listed
            await come()

    between = ReadState(Between(world.redis, before), world.items)
    assert await between.mark_all(ANN, GLOBAL, NOW) == {"1", "2", came}
    found = await read_where(world.redis)
    assert (found["work"], found["hidden work"]) == (([], ["2"]) if becomes == "hidden" else (["9"], []))


async def test_posts_marked_unread_meanwhile_stay_so(world: OneReader) -> None:
    """The last step looks for posts that came in, and leaves those that are unread in all channels."""
    await in_all(world)
    await world.channels.create(ANN, "Later", NOW, "later")

    async def before(name: str, args: Any) -> None:
        if name == "unread_list" and await world.redis.command("SCARD", keys.unread(ANN, "home")) == 0:
            await world.timelines.mark_unread(ANN, "home", ["1"], NOW)
            await world.redis.command("ZADD", keys.posts(ANN, "later"), 1.0, "1")
            await world.redis.command("SADD", keys.unread(ANN, "later"), "1")

    between = ReadState(Between(world.redis, before), world.items)
    assert len(await between.mark_all(ANN, GLOBAL, NOW)) == 4
    found = await read_where(world.redis)
    assert (found["home"], found["hidden work"], found[SAVED]) == (["1"], ["2"], ["1"])
    assert await world.ids("later", view="unread") == ["1"]


async def test_posts_that_come_into_a_new_channel_meanwhile_are_read_there(world: OneReader) -> None:
    """The channel was created, and has got a post from another one, since all channels were listed."""
    await in_all(world)

    async def come() -> None:
        await world.channels.create(ANN, "New", NOW, "new")
        await world.redis.command("ZADD", keys.posts(ANN, "new"), 2.0, "2", 9.0, "9")
        await world.redis.command("SADD", keys.unread(ANN, "new"), "2", "9")

    between = ReadState(Between(world.redis, once("timeline_mark", come)), world.items)
    assert len(await between.mark_all(ANN, GLOBAL, NOW)) == 4
    assert await world.ids("new", view="unread") == ["9"]


@pytest.mark.parametrize("everywhere", ["yes", "no"])
async def test_a_channel_that_is_removed_meanwhile_is_skipped(world: OneReader, everywhere: str) -> None:
    """The others are marked."""
    await in_all(world)
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: everywhere})

    async def remove() -> None:
        await world.channels.disable(ANN, "work", NOW)

    between = ReadState(Between(world.redis, once("timeline_mark", remove)), world.items)
    assert await between.mark_all(ANN, GLOBAL, NOW) == ({*"1234"} if everywhere == "yes" else {"1", "2"})
    found = await read_where(world.redis)
    assert (found["home"], found["work"]) == ([], ["3", "4"])
    assert (found[SAVED], found["hidden home"]) == (([], ["3", "4"]) if everywhere == "yes" else ([*"1234"], []))


async def many_copies(world: OneReader, state: str) -> list[str]:
    """1,001 posts in `home`, all read or all unread, as the copies of every fiftieth in `work` are; their ids.

    `work` hides one of them, and has two further posts that are the same, also as the last one, which is elsewhere.
    """
    await world.accounts.set_settings(ANN, {READ_EVERYWHERE: "yes"})
    numbers, is_read = range(1, 1002), state == "read"
    copies = [item(number + 5000, duplicates=(Duplicate(str(number), "1"),)) for number in numbers[::50]]
    world.items.know("1", *map(item, numbers))
    world.items.know(
        "2", *copies, item(9001), *(item(one, duplicates=(Duplicate("9001", "2"),)) for one in (9002, 9003))
    )
    await world.redis.command("ZADD", keys.hidden(ANN, "work"), 1.0, "7")
    await fill(world.redis, "home", len(numbers), () if is_read else numbers)
    for one in (*(copy.id for copy in copies), "9001", "9002"):
        await world.redis.command("ZADD", keys.posts(ANN, "work"), 1.0, one)
        where = ("ZADD", keys.read(ANN, "work"), 1.5) if is_read else ("SADD", keys.unread(ANN, "work"))
        await world.redis.command(*where, one)
    if is_read:
        await world.redis.command("ZADD", keys.hidden_read(ANN, "work"), 1.5, "7")
    return [*map(str, numbers), "9003"]


@pytest.mark.parametrize(("before", "after", "left"), [("read", "unread", 21), ("unread", "read", 2)])
async def test_many_named_items_take_their_duplicates_along(
    world: OneReader, before: str, after: Literal["read", "unread"], left: int
) -> None:
    """In all channels, in both directions, also where they are muted; other duplicates stay as they are."""
    ids = await many_copies(world, before)
    marked = await ReadState(world.redis, world.items).mark_by_channel(ANN, GLOBAL, ids, after, NOW)
    assert {uid: len(some) for uid, some in marked.items()} == {"home": 1001, "work": 22}
    assert await world.unread("work") == left
    assert await world.unread("home") == (0 if after == "read" else 1001)


async def test_many_marks_are_made_while_some_posts_cannot_be_read(
    world: OneReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The duplicates that were found before are marked too."""
    ids = await many_copies(world, "read")
    duplicates, asked = world.items.duplicates, 0

    async def failing(_part: Sequence[str]) -> dict[str, set[str]]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise StoreUnavailable("a master is away")
        return await duplicates([str(number) for number in range(1, 500)])

    monkeypatch.setattr(world.items, "duplicates", failing)
    marked = await ReadState(world.redis, world.items).mark_by_channel(ANN, GLOBAL, ids, "unread", NOW)
    assert {uid: len(some) for uid, some in marked.items()} == {"home": 1001, "work": 11}


async def test_a_named_item_that_is_read_takes_its_duplicate_along(world: OneReader) -> None:
    """Of many, as of a few; one that no channel has changes nothing."""
    await many_copies(world, "unread")
    read_state = ReadState(world.redis, world.items)
    numbers = [str(number) for number in range(1, 1002)]
    await read_state.mark_here(ANN, "home", numbers, NOW)
    assert await world.unread("work") == 23
    marked = await read_state.mark_by_channel(ANN, GLOBAL, [*numbers, "9003"], "read", NOW)
    assert {uid: len(some) for uid, some in marked.items()} == {"work": 22}
    assert await world.unread("work") == 2
