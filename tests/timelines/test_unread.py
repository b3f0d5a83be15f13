"""The unread items of a channel: how they are kept, walked and marked, and how those of earlier data are packed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable

import pytest

from microsub.model.reader import Cursor, PageQuery
from microsub.redis import keys
from microsub.redis.migrations import COMPACT_UNREAD, VERSION, migrate, schema_version
from microsub.redis.protocol import Redis
from microsub.timelines.read_state import ReadState
from microsub.timelines.readings import reading_times
from microsub.timelines.repacking import GoneRepacking
from microsub.timelines.sync.arrivals import arrivals_in
from tests.support.invariants import all_keys, violations
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Killing, killed_anywhere
from tests.support.timelines import unread_of_layout_12

MANY = 1200


async def no_pause(_seconds: float) -> None:
    return None


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
    await world.redis.command("SET", keys.schema(), COMPACT_UNREAD - 1)
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
    """A channel of layouts 12 and 14, with more items than are packed in a step."""
    await fill(world.redis, "home", MANY, range(1, MANY, 2))
    await fill(world.redis, "work", 5, (2, 3))
    for uid in ("home", "work"):
        await unread_of_layout_12(world.redis, ANN, uid)
    await world.redis.command("SET", keys.schema(), COMPACT_UNREAD - 1)
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
        await redis.command("SET", keys.schema(), COMPACT_UNREAD - 1)

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
    await world.redis.command("CONFIG", "SET", "set-max-intset-entries", 100_000)
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
@pytest.mark.parametrize("spread", SPREADS)
async def test_unread_pages_have_every_unread_item_once(world: OneReader, spread: str, layout: int) -> None:
    """In order, in both directions, from any place, in one channel and in all."""
    size, chance = 2400, random.Random(spread)
    unread = set(SPREADS[spread](chance, size))
    await fill(world.redis, "home", size, unread)
    await fill(world.redis, "work", 30, range(10, 20))
    if layout == 12:
        for uid in ("home", "work"):
            await unread_of_layout_12(world.redis, ANN, uid)
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


async def walked(world: OneReader, uid: str, at: Cursor | None, *, upward: bool) -> list[str]:
    """The ids of all pages of unread items from a place on, newest first."""
    found: list[str] = []
    while True:
        query = PageQuery(limit=50, before=at if upward else None, after=None if upward else at, view="unread")
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
    read_state = ReadState(world.redis, world.items)
    changed = await read_state.mark(ANN, "global", ids, "read", NOW)
    assert changed == {*map(str, range(1, 2400, 2)), "5000"}
    left = [str(one) for one in range(2401, size + 1, 2)]
    for uid in ("home", "work"):
        assert sorted(await world.ids(uid, view="unread", limit=size), key=int) == left
        assert await violations(world.redis, ANN, uid) == []
    read, hidden = await reading_times(world.redis, [keys.read(ANN, "home"), keys.hidden_read(ANN, "work")])
    assert read == {str(one): int(NOW) if one % 2 else 1 for one in range(1, size + 1) if str(one) not in left}
    assert hidden == {"5000": int(NOW)}


async def test_unread_items_are_read_while_the_store_is_full(world: OneReader) -> None:
    """As sets and as those of layout 12: their list, a channel's counts and the check of the store."""
    redis = world.redis
    for uid in ("home", "work"):
        await fill(redis, uid, 9, range(1, 9, 2))
    await unread_of_layout_12(redis, ANN, "work")
    await redis.command("ZADD", keys.arrivals(ANN), *(part for one in range(1, 10) for part in (one, one)))
    await redis.command("CONFIG", "SET", "maxmemory", 1)
    try:
        for uid in ("home", "work"):
            assert await arrivals_in(redis, ANN, [uid], "unread") == {str(one): one for one in range(1, 9, 2)}
            _, newest = await world.channels.subscriptions_and_unread(ANN, uid, 3)
            assert newest == ["7", "5", "3"]
            assert await violations(redis, ANN, uid) == []
    finally:
        await redis.command("CONFIG", "SET", "maxmemory", 0)
