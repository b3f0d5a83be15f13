"""When the items of a channel were read: how that is kept and changed, and how times of earlier data are packed."""

from __future__ import annotations

import threading
from itertools import groupby
from random import Random

import pytest

from benchmarks.readings import pieces
from microsub.model.reader import Reason
from microsub.redis import keys
from microsub.redis.migrations import FIRST, VERSION, migrate, schema_version
from microsub.redis.protocol import Redis
from microsub.redis.readings import RECORD, _last_alone, last_read, piece_order, reading_times
from microsub.redis.replies import text
from microsub.timelines.gone import absences
from microsub.timelines.pages import states
from microsub.timelines.repacking import GoneRepacking
from microsub.timelines.restore import restore_items
from tests.support import no_pause
from tests.support.invariants import all_keys, violations
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Killing, killed_anywhere
from tests.support.servers import full
from tests.support.timelines import pack_readings, readings_of_layout_14

MANY = 1200


def repacking(world: OneReader) -> GoneRepacking:
    return GoneRepacking(world.redis, world.accounts, pause=no_pause)


async def fill(world: OneReader, uid: str, size: int) -> None:
    """A channel with items 1 to `size`, every other one read, at the time that its number says."""
    posts = [part for one in range(1, size + 1) for part in (one, one)]
    read = [part for one in range(2, size + 1, 2) for part in (NOW - one, one)]
    await world.redis.pipeline(
        [
            ("ZADD", keys.posts(ANN, uid), *posts),
            ("SADD", keys.unread(ANN, uid), *range(1, size + 1, 2)),
            ("ZADD", keys.read(ANN, uid), *read),
            ("ZADD", keys.hidden(ANN, uid), 1, 9000, 2, 9001),
            ("ZADD", keys.hidden_read(ANN, uid), NOW - 9000, 9000),
        ]
    )


async def times(world: OneReader, uid: str = "home") -> dict[str, float | None]:
    """When each item was read, as an export has it."""
    return {one: at async for some in states(world.redis, ANN, uid) for one, at in some}


async def all_times(world: OneReader) -> dict[str, dict[str, float | None]]:
    return {uid: await times(world, uid) for uid in ("home", "work")}


def expected(size: int) -> dict[str, float | None]:
    read = {str(one): None if one % 2 else int(NOW - one) for one in range(1, size + 1)}
    return {**read, "9000": int(NOW - 9000), "9001": None}


async def of_layout_14(world: OneReader) -> None:
    """Two channels as that layout has them, after the migration."""
    await fill(world, "home", MANY)
    await fill(world, "work", 5)
    assert await world.redis.command("TYPE", keys.read(ANN, "home")) == b"zset"
    await world.redis.command("SET", keys.schema(), FIRST)
    await migrate(world.redis)


async def test_times_of_reading_stay_before_and_after_packing(world: OneReader) -> None:
    """A dry run says how many there are, and about what is freed. It changes nothing."""
    await of_layout_14(world)
    before = {"home": expected(MANY), "work": expected(5)}
    assert await all_times(world) == before
    foreseen = await repacking(world).foresee()
    assert await world.redis.command("TYPE", keys.read(ANN, "home")) == b"zset"
    done = await repacking(world).run()
    assert foreseen.read == done.read == MANY // 2 + 2 + 2
    assert foreseen.before == done.before
    assert abs(foreseen.after - done.after) < done.before / 20
    assert done.after < done.before / 5
    assert await all_times(world) == before
    for key in (keys.read(ANN, "home"), keys.hidden_read(ANN, "work")):
        assert await world.redis.command("TYPE", key) == b"hash"
    assert [await violations(world.redis, ANN, uid) for uid in before] == [[], []]
    assert (await repacking(world).run()).read == (await repacking(world).foresee()).read == 0
    assert await schema_version(world.redis) == VERSION


async def test_killed_anywhere_no_time_changes(real_redis: Redis) -> None:
    """The step to this layout and the packing, killed after any round trip and repeated."""
    redis = Killing(real_redis)
    world = OneReader(redis)

    async def begin() -> None:
        await world.begin()
        await of_layout_14(world)
        await redis.command("SET", keys.schema(), FIRST)

    async def upgrade() -> None:
        await migrate(redis)
        await repacking(world).run()

    async def again() -> None:
        assert await all_times(world) == {"home": expected(MANY), "work": expected(5)}
        await redis.command("DEL", keys.lease("packing timelines"), keys.lease("migration"))  # as when they run out
        await upgrade()

    async def state() -> object:
        return await all_times(world), await all_keys(redis)

    assert await killed_anywhere(redis, begin, upgrade, state, again) > 10
    assert await redis.command("TYPE", keys.read(ANN, "home")) == b"hash"


@pytest.mark.parametrize("layout", [14, 15])
async def test_marks_change_the_time_of_reading(world: OneReader, layout: int) -> None:
    """A second mark leaves the time as it is, an unread item has none, and no trace is left of the last one."""
    if layout == 14:
        await fill(world, "home", 2)
    else:
        await world.add("home", item(1), item(2))
        await world.timelines.mark_read(ANN, "home", ["2"], NOW - 2)
    assert await world.timelines.mark_read(ANN, "home", ["1", "2", "7"], NOW) == 1
    assert await world.timelines.mark_read(ANN, "home", ["1", "2"], NOW + 5) == 0
    found = await times(world)
    assert (found["1"], found["2"]) == (int(NOW), int(NOW - 2))
    assert await world.timelines.mark_unread(ANN, "home", ["2", "1", "1", "x"], NOW) == 2
    assert {one: at for one, at in (await times(world)).items() if one in "12"} == {"1": None, "2": None}
    assert await world.redis.command("EXISTS", keys.read(ANN, "home")) == 0


@pytest.mark.parametrize("layout", [14, 15])
async def test_items_leave_when_the_time_since_their_reading_is_over(world: OneReader, layout: int) -> None:
    """Shown and muted ones, those that were read by then and no others, in several batches."""
    await fill(world, "home", 2 * MANY)
    if layout == 15:
        await pack_readings(world.redis, ANN, "home")
    until = int(NOW) - 100
    stock = await world.timelines.stock(ANN, "home", until)
    assert stock is not None
    due = {one for one, at in expected(2 * MANY).items() if at is not None and at <= until}
    assert (stock.posts_read + stock.hidden_read, stock.oldest_read) == (len(due), int(NOW - 9000))
    assert await world.timelines.expire_read(ANN, "home", until, NOW) == len(due)
    assert {*expected(2 * MANY)} - {*await times(world)} == due
    left = [one async for some in absences(world.redis, ANN, "home") for one in some]
    assert {one.id for one in left if one.reason is Reason.READ_EXPIRED} == due
    assert await world.timelines.expire_read(ANN, "home", until, NOW) == 0
    assert await violations(world.redis, ANN, "home") == []


async def test_an_item_that_is_marked_meanwhile_doesnt_leave(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was due when its time was read; it is unread when its turn comes."""
    await fill(world, "home", 4)
    await pack_readings(world.redis, ANN, "home")
    original = world.redis.script

    async def marked_first(call: object) -> object:
        monkeypatch.undo()
        await world.timelines.mark_unread(ANN, "home", ["2"], NOW)
        return await original(call)  # type: ignore[arg-type]

    monkeypatch.setattr(world.redis, "script", marked_first)
    assert await world.timelines.expire_read(ANN, "home", NOW, NOW) == 2
    assert {*await times(world)} == {"1", "2", "3", "9001"}


async def test_a_time_of_reading_takes_few_bytes(world: OneReader) -> None:
    """Eleven at most with its share of the key, for a timeline of any usual length."""
    for size, most in ((60, 12), (600, 11), (5000, 11)):
        ids = [str(1_000_000 + at * 611) for at in range(size)]
        await world.add("home", *(item(int(one)) for one in ids))
        await world.timelines.mark_read(ANN, "home", ids, NOW)
        assert await world.redis.command("MEMORY", "USAGE", keys.read(ANN, "home")) / size < most


@pytest.mark.parametrize("number", [1, 255, 256, 2**31, 2**32 - 1, 2**32, 2**39 + 77])
async def test_ids_of_any_size_keep_their_time(world: OneReader, number: int) -> None:
    """Also beside others in whose bytes an id or a time occurs."""
    ids = [str(number + 16 * at) for at in range(40)]
    await world.add("home", *(item(int(one)) for one in ids))
    for at, one in enumerate(ids):
        await world.timelines.mark_read(ANN, "home", [one], NOW + at * 65_537)
    assert await times(world) == {one: int(NOW + at * 65_537) for at, one in enumerate(ids)}
    for one in ids[::3]:
        assert await world.timelines.mark_unread(ANN, "home", [one], NOW) == 1
    kept = [one for at, one in enumerate(ids) if at % 3]
    (found,) = await reading_times(world.redis, [keys.read(ANN, "home")])
    assert found == {one: int(NOW + ids.index(one) * 65_537) for one in kept}


async def test_the_pieces_of_a_large_channel_stay_short(world: OneReader) -> None:
    """So no mark reads or writes more than a few kilobytes. Nothing is left of items that are unread again."""
    key, ids, chance = keys.read(ANN, "home"), [str(one) for one in range(1, 20_001)], Random(7)
    await world.redis.command("ZADD", keys.posts(ANN, "home"), *[part for one in ids for part in (one, one)])
    await world.redis.command("SADD", keys.unread(ANN, "home"), *ids)
    chance.shuffle(ids)
    first, second = ids[:16_000], ids[16_000:]
    assert await world.timelines.mark_read(ANN, "home", first, NOW) == len(first)
    for at, one in enumerate(second[:40]):
        assert await world.timelines.mark_read(ANN, "home", [one], NOW + 1 + at) == 1
    assert await world.timelines.mark_all_read(ANN, "home", NOW + 99) == len(second) - 40
    assert await world.timelines.mark_read(ANN, "home", ids[:100], NOW + 100) == 0
    expected = {one: int(NOW) + (99 if at >= 16_040 else max(0, at - 15_999)) for at, one in enumerate(ids)}
    assert await times(world) == expected
    stored = await world.redis.command("HGETALL", key)
    assert max(map(len, stored[1::2])) <= 500 * RECORD.size
    by_name = {
        text(name): sorted(RECORD.iter_unpack(piece)) for name, piece in zip(stored[::2], stored[1::2], strict=True)
    }
    made = pieces((int(one), at) for one, at in expected.items())
    of_item = {item: name for name, piece in made.items() for item, *_ in RECORD.iter_unpack(piece)}
    in_order = [of_item[int(one)] for one in sorted(expected, key=piece_order)]
    assert len([*groupby(in_order)]) == len({*in_order}), "those of one piece stand together"
    assert by_name == {name: sorted(RECORD.iter_unpack(piece)) for name, piece in made.items()}
    (some,) = await reading_times(world.redis, [key], [*ids[:3], "20001", "x"])
    assert {one: some[one] for one in ids[:3]} == {one: expected[one] for one in ids[:3]}
    assert len(some) < 1500, "those of three pieces at most"
    chance.shuffle(ids)
    assert await world.timelines.mark_unread(ANN, "home", ids[:12_000], NOW) == 12_000
    for one in ids[12_000:12_020]:
        assert await world.timelines.mark_unread(ANN, "home", [one], NOW) == 1
    assert {one: at for one, at in (await times(world)).items() if at is not None} == {
        one: expected[one] for one in ids[12_020:]
    }
    assert await world.timelines.mark_unread(ANN, "home", ids, NOW) == len(ids) - 12_020
    assert await world.redis.command("EXISTS", key) == 0


@pytest.mark.parametrize(("given", "kept"), [(-5.0, 0), (1.9, 1), (1e300, 2**32 - 1), (float("inf"), 2**32 - 1)])
async def test_odd_times_are_brought_into_bounds(world: OneReader, given: float, kept: int) -> None:
    """As imported data may have them."""
    world.items.know("1", item(3))
    await restore_items(world.redis, world.items, ANN, "home", [(item(3), given)], (), NOW)
    assert await times(world) == {"3": kept}


async def test_times_are_read_while_the_store_is_full(world: OneReader) -> None:
    """In either form."""
    await fill(world, "home", 9)
    await fill(world, "work", 9)
    await pack_readings(world.redis, ANN, "home")
    async with full(world.redis):
        assert await all_times(world) == {"home": expected(9), "work": expected(9)}
    await readings_of_layout_14(world.redis, ANN, "home")
    assert await times(world) == expected(9)


async def test_what_was_read_last_is_found_in_all_channels(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that several channels show counts once; several channels whose items were marked together count as one.
    A hundred thousand items aren't counted in the thread of the event loop, in which others wait.
    """
    threads: list[threading.Thread] = []

    def noting(records: list[int], *how: int) -> list[str]:
        threads.append(threading.current_thread())
        return _last_alone(records, *how)

    monkeypatch.setattr("microsub.redis.readings._last_alone", noting)
    together = {1: {10: 200, 11: 200}, 2: {12: 200, 13: 200}}
    channels = [keys.read(ANN, f"c{number}") for number in range(4)]
    for number, channel in enumerate(channels):
        times = {1: 100 + number, 2: 300, **together.get(number, {})}
        piece = b"".join(RECORD.pack(one, 0, at) for one, at in times.items())
        await world.redis.command("HSET", channel, "0", piece)
    assert await last_read(world.redis, channels, 5, 3) == ["2", "1"]
    assert await last_read(world.redis, channels, 3, 4) == ["2", "13", "12"]
    assert threads
    assert threading.current_thread() not in threads
