"""The order of arrival of a user's items: each once, after all earlier ones, even if clocks jump."""

from __future__ import annotations

import threading

import pytest

from microsub.base.errors import NotFound
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.channels.follows import few_unread
from microsub.timelines.sync import arrivals
from microsub.timelines.sync.arrivals import ArrivalQuery, forget_order, keep_order, places_of, repair_all_arrivals
from tests.support.invariants import wrong_arrivals
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Between, CountingRedis, InRow, Killing, Wrapped, killed_anywhere
from tests.support.timelines import unread_of_layout_12


async def ids(world: OneReader, uid: str = "global") -> list[str]:
    return [row.id for row in await world.arrivals(uid)]


async def test_items_are_ordered_by_arrival(world: OneReader) -> None:
    """The order isn't that of publication; of one document the newest item is last. Places are increasing times."""
    await world.add("home", item(5), item(7), item(6))
    await world.timelines.add(ANN, "home", "1", world.items.know("1", item(1), item(2)), now=NOW + 60, limit=0)
    assert await ids(world) == ["5", "6", "7", "1", "2"]
    assert [row.id for row in await world.arrivals("home", oldest_first=False, size=2)] == ["2", "1", "7", "6", "5"]
    places = [row.position for row in await world.arrivals()]
    first, later = int(NOW * 1_000_000), int((NOW + 60) * 1_000_000)
    assert places == [first, first + 1, first + 2, later, later + 1]


async def test_a_clock_that_jumps_back_puts_nothing_in_front(world: OneReader) -> None:
    """This also holds if the last item has left meanwhile: an app that knows its place misses nothing."""
    await world.add("home", item(1))
    await world.timelines.add(ANN, "home", "1", world.items.know("1", item(2)), now=NOW + 3600, limit=0)
    (_, latest) = await world.arrivals()
    await world.timelines.remove(ANN, "home", ["2"], NOW)
    await world.add("home", item(3))
    page = await world.arrivals_page("global", limit=10, oldest_first=True, after=str(latest.position))
    assert [row.id for row in page.rows] == ["3"]


async def test_a_deleted_channel_takes_its_items_along(world: OneReader) -> None:
    """Items that another channel shows stay; items of a disabled channel come back with it, at their places."""
    await world.follow("work", "1")
    await world.add("home", *(item(number) for number in range(1500)))
    await world.add("work", item(3), item(2000))
    before = await world.arrivals(size=1000)
    await world.channels.disable(ANN, "home", NOW)
    assert await ids(world) == ["3", "2000"]
    with pytest.raises(NotFound, match="home"):
        await ids(world, "home")
    await world.channels.restore(ANN, "home")
    assert await world.arrivals(size=1000) == before
    await world.channels.delete(ANN, "home")
    assert await ids(world) == ["3", "2000"]
    assert await wrong_arrivals(world.redis, ANN) == []
    assert await world.redis.command("HKEYS", keys.arrivals_more(ANN)) == [b"last"]


async def test_pages_by_state_and_where_they_end(world: OneReader) -> None:
    """A page has the requested length; only the last one has no `resume`."""
    await world.add("home", *(item(number) for number in range(20)))
    await world.timelines.mark_read(ANN, "home", [str(number) for number in range(10)], NOW)
    page = await world.arrivals_page("home", limit=4, view="unread")
    assert [row.id for row in page.rows] == ["19", "18", "17", "16"]
    assert page.resume is not None
    rest = await world.arrivals_page("home", limit=100, after=str(page.resume), view="unread")
    assert [row.id for row in rest.rows] == ["15", "14", "13", "12", "11", "10"]
    assert rest.resume is None
    read = await world.arrivals_page("global", limit=10, oldest_first=True, view="read")
    assert [row.id for row in read.rows] == [str(number) for number in range(10)]
    assert read.resume is None
    empty = await world.arrivals_page("work", limit=10, oldest_first=True)
    assert (empty.rows, empty.resume) == ((), None)
    assert empty.newest is not None


async def test_one_request_visits_a_bounded_number_of_items(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel whose items arrived long ago is reached after some empty pages."""
    monkeypatch.setattr("microsub.timelines.sync.arrivals.EXAMINED", 10)
    monkeypatch.setattr("microsub.timelines.sync.arrivals.BATCH", 5)
    await world.follow("work", "1")
    await world.add("work", item(1))
    await world.add("home", *(item(number) for number in range(100, 135)))
    pages = [await world.arrivals_page("work", limit=5)]
    while pages[-1].resume is not None:
        after = str(pages[-1].resume)
        pages.append(await world.arrivals_page("work", limit=5, after=after))
    assert [[row.id for row in page.rows] for page in pages] == [[], [], [], ["1"]]


async def test_a_user_leaves_nothing(world: OneReader) -> None:
    """Nothing is left of the order of arrival after a user is deleted channel by channel."""
    await world.follow("work", "1")
    await world.add("home", item(1), item(2))
    await world.add("work", item(1))
    await world.accounts.disable_user(ANN, NOW)
    user = await world.accounts.user(ANN)
    assert user is not None
    assert await world.accounts.delete_disabled(user)
    assert await world.redis.command("EXISTS", keys.arrivals(ANN), keys.arrivals_more(ANN)) == 0


async def test_a_lost_timeline_arrives_again_once(world: OneReader) -> None:
    """Its places are deleted too, so that restored items count once."""
    await world.add("home", item(1), item(2))
    await world.redis.command("DEL", keys.posts(ANN, "home"))
    await repair_all_arrivals(world.redis, ANN, NOW)
    assert await ids(world) == []
    await world.add("home", item(1), item(2))
    assert await ids(world) == ["1", "2"]
    assert await wrong_arrivals(world.redis, ANN) == []


async def test_few_are_found_among_many_in_few_round_trips(world: OneReader) -> None:
    """Items that are left for the next request aren't skipped, in either order."""
    for first in (0, 900):
        await world.add("home", *(item(number) for number in range(first, first + 900)))
    await world.timelines.mark_read(ANN, "home", [str(number) for number in range(1800) if number % 100], NOW)
    world.redis = counting = CountingRedis(world.redis)  # type: ignore[assignment]
    for oldest_first in (True, False):
        before = counting.trips
        page = await world.arrivals_page("global", limit=3, view="unread", oldest_first=oldest_first)
        assert counting.trips - before <= 3
        wanted = ["0", "100", "200"] if oldest_first else ["1700", "1600", "1500"]
        assert [row.id for row in page.rows] == wanted
        assert page.resume == page.rows[-1].position
        assert page.newest == (page.resume if oldest_first else (await world.arrivals(oldest_first=False))[0].position)


async def test_items_that_stay_are_found_while_others_leave(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when an app asks for the posts of a folder while another one removes some of them."""
    monkeypatch.setattr(arrivals, "_PIECE", 100)
    await world.add("home", *(item(number) for number in range(1000)))
    trips = 0

    async def before(_name: str, _args: object) -> None:
        nonlocal trips
        trips += 1
        if trips == 2:
            await world.timelines.remove(ANN, "home", [str(number) for number in range(300)], NOW)

    found = await arrivals.arrivals_in(Between(world.redis, before), ANN, ["home"], "posts")
    assert trips > 2
    assert found.keys() >= {str(number) for number in range(300, 1000)}


async def test_items_of_one_time_are_all_found(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if they are more than one piece of a set, and at the border of two."""
    monkeypatch.setattr(arrivals, "_PIECE", 10)
    same = [item(number, score=5.5) for number in range(35)]
    await world.add("home", *same, *(item(number) for number in range(100, 124)))
    await world.follow("work", "1")
    await world.add("work", item(7, score=5.5), item(500))
    found = await arrivals.arrivals_in(world.redis, ANN, ["home", "work"], "posts")
    assert found.keys() == {*(one.id for one in same), *map(str, range(100, 124)), "500"}
    assert found == {row.id: row.position for row in await world.arrivals()}


@pytest.mark.parametrize("layout", [12, 13])
@pytest.mark.parametrize("whole", [10, 1000])
async def test_many_unread_items_are_read_in_pieces(
    world: OneReader, monkeypatch: pytest.MonkeyPatch, whole: int, layout: int
) -> None:
    """So that no reply has all of a large channel; also if more than a piece have the same time."""
    monkeypatch.setattr(arrivals, "_PIECE", 10)
    monkeypatch.setattr(arrivals, "_LISTED", 10)
    monkeypatch.setattr(arrivals, "_WHOLE", whole)
    same = [item(number, score=5.5) for number in range(35)]
    await world.add("home", *same, *(item(number) for number in range(100, 124)))
    await world.follow("work", "1")
    await world.add("work", item(500), item(501))
    await world.timelines.mark_read(ANN, "global", ["3", "34", "110", "501"], NOW)
    if layout == 12:
        await unread_of_layout_12(world.redis, ANN, "home")
    assert await few_unread(world.redis, [(ANN, "home"), (ANN, "work")], 10) == [56, ["500"]]
    found = await arrivals.arrivals_in(world.redis, ANN, ["home", "work"], "unread")
    assert found == {row.id: row.position for row in await world.arrivals() if not row.is_read}
    assert len(found) == 35 + 24 + 2 - 4


@pytest.mark.parametrize("count", [10, 1100])
async def test_unread_items_by_channel(world: OneReader, count: int) -> None:
    """An item that is read in one channel and unread in another one counts in both."""
    await world.follow("work", "1")
    await world.add("home", *(item(number) for number in range(count)))
    await world.add("work", item(3), item(4), item(5), item(2000))
    await world.timelines.mark_read(ANN, "home", ["3", "6"], NOW)
    await world.timelines.mark_read(ANN, "work", ["4"], NOW)
    await world.timelines.mark_read(ANN, "global", ["5"], NOW)
    places, shown = await arrivals.unread_by_channel(world.redis, ANN, ["home", "work"])
    assert places == {row.id: row.position for row in await world.arrivals(size=1000) if not row.is_read}
    assert sorted(shown["home"], key=int) == [str(number) for number in range(count) if number not in {5, 6}]
    assert sorted(shown["work"]) == ["2000", "3", "4"]


async def test_channels_are_asked_at_once_for_items_that_several_show(world: OneReader) -> None:
    """Ten channels, and an item in two of them, take no more round trips than one channel does, but one."""
    uids = ["home", "work", *(f"c{number}" for number in range(8))]
    for uid in uids[2:]:
        await world.channels.create(ANN, uid, NOW, uid)
    await world.follow("work", "1")
    for uid in ("home", "work"):
        await world.add(uid, item(3))
    await world.timelines.mark_read(ANN, "work", ["3"], NOW)
    redis = InRow(world.redis)
    _, shown = await arrivals.unread_by_channel(redis, ANN, uids)
    assert {uid: ids for uid, ids in shown.items() if ids} == {"home": ["3"], "work": ["3"]}
    assert len(redis.rows) <= 4


async def test_places_without_states(world: OneReader) -> None:
    """Both orders, in pieces; None while a channel is being removed, because its items still have places."""
    await world.add("home", item(1), item(2), item(3))
    newest, more = await arrivals.bare_arrivals(world.redis, ANN, ArrivalQuery(2)) or ([], False)
    assert ([one.id for one in newest], more) == (["3", "2"], True)
    rest = await arrivals.bare_arrivals(world.redis, ANN, ArrivalQuery(2, after=str(newest[-1].position)))
    assert rest
    assert ([one.id for one in rest[0]], rest[1]) == (["1"], False)
    oldest = await arrivals.bare_arrivals(world.redis, ANN, ArrivalQuery(5, oldest_first=True))
    assert oldest
    assert [one.id for one in oldest[0]] == ["1", "2", "3"]
    assert await arrivals.count_since(world.redis, ANN, oldest[0][1].position) == 2
    await world.channels.disable(ANN, "home", NOW)
    assert await arrivals.bare_arrivals(world.redis, ANN, ArrivalQuery(5)) is None


# --- kept from the first need on ------------------------------------------------------------------------------------


ORDER = (keys.arrivals(ANN), keys.arrivals_again(ANN), keys.arrivals_more(ANN))


async def unkept(redis: Redis, count: int = 12) -> OneReader:
    """A reader without an order of arrival, with items in both channels; the last one is in both."""
    world = OneReader(redis)
    await world.begin()
    await forget_order(redis, ANN)
    await world.follow("work", "2", NOW - 50)
    await world.add("home", *(item(number, NOW - 1000 + number) for number in range(1, count)))
    await world.add("work", item(count, NOW - 900), item(count - 1, NOW - 1000 + count - 1), feed="2")
    world.items.feeds[str(count - 1)] = "1"
    return world


async def test_an_order_that_nobody_needs_stays_empty(world: OneReader) -> None:
    """Whatever happens to their items."""
    await forget_order(world.redis, ANN)
    await world.add("home", *(item(number) for number in range(1, 9)))
    await world.add("work", item(3))
    await world.timelines.remove(ANN, "home", ["3", "4"], NOW)
    await world.channels.disable(ANN, "work", NOW)
    await world.channels.delete(ANN, "work")
    await repair_all_arrivals(world.redis, ANN, NOW)
    assert await world.redis.command("EXISTS", *ORDER) == 0


async def test_the_first_sync_has_everything_before_what_arrives_later(redis: Redis) -> None:
    """Items that were there have the order in which they were found and their feeds followed; later ones follow,
    each once, and one that a second channel shows then is new there.
    """
    world = await unkept(redis)
    assert not await keep_order(redis, world.items, ANN, NOW)
    assert await ids(world) == [*(str(number) for number in range(1, 12)), "12"]
    assert await wrong_arrivals(redis, ANN) == []
    (last,) = (row.position for row in (await world.arrivals())[-1:])
    assert last < NOW * 1_000_000
    await world.add("home", item(13, 5.0))
    await world.add("work", item(2, NOW - 998), feed="2")
    page = await world.arrivals_page("global", limit=10, oldest_first=True, after=str(last))
    assert [row.id for row in page.rows] == ["13"]
    assert (await arrivals.read_newcomers(redis, ANN, "work", int(NOW * 1_000_000), 10))[0] == ["2"]
    assert await keep_order(redis, world.items, ANN, NOW + 100)
    assert await wrong_arrivals(redis, ANN) == []


async def test_others_are_answered_while_a_first_sync_orders_items(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sorts them in a thread: 150,000 kept the process from everybody else for half a second."""
    world, settle, threads = await unkept(redis), arrivals._settle, list[threading.Thread]()

    def noted(places: dict[str, int], end: int) -> list[str]:
        threads.append(threading.current_thread())
        return settle(places, end)

    monkeypatch.setattr(arrivals, "_settle", noted)
    await keep_order(redis, world.items, ANN, NOW)
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
    assert await wrong_arrivals(redis, ANN) == []


async def test_changes_during_the_first_sync_are_counted(redis: Redis) -> None:
    """Channels show and remove items between any two of its round trips."""
    for trip in range(20):
        await redis.command("FLUSHDB")
        world = await unkept(redis)
        syncing = At(redis, trip, world)
        await keep_order(syncing, world.items, ANN, NOW)
        if not syncing.done:
            break
        assert await wrong_arrivals(redis, ANN) == []
        assert set(await ids(world)) == {*(str(number) for number in range(1, 14))} - {"4"}
        # Before the first round trip it was there already, found long ago.
        assert ((await places_of(redis, ANN, ["13"]))["13"] >= NOW * 1_000_000) == (trip > 0)
    assert trip > 5


class At(Wrapped):
    """Changes timelines before the round trip of that number."""

    def __init__(self, redis: Redis, number: int, world: OneReader) -> None:
        super().__init__(redis)
        self.left, self.world, self.done = number, world, False

    async def command(self, *parts):
        await self._change()
        return await super().command(*parts)

    async def pipeline(self, commands):
        await self._change()
        return await super().pipeline(commands)

    async def script(self, call):
        await self._change()
        return await super().script(call)

    async def _change(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.done = True
            await self.world.add("home", item(13, 5.0))
            await self.world.timelines.remove(ANN, "home", ["4"], NOW)
            await self.world.add("work", item(2, NOW - 998), feed="2")
            await self.world.timelines.remove(ANN, "work", ["11"], NOW)


async def test_a_first_sync_killed_anywhere_is_finished_by_the_next(real_redis: Redis) -> None:
    """The places are what they would have been."""
    redis, made = Killing(real_redis), list[OneReader]()

    async def begin() -> None:
        made.append(await unkept(redis))

    async def sync() -> None:
        await keep_order(redis, made[-1].items, ANN, NOW)

    async def state() -> object:
        listed = await made[-1].arrivals()
        return listed, await wrong_arrivals(redis, ANN), await redis.command("HGETALL", keys.arrivals_more(ANN))

    assert await killed_anywhere(redis, begin, sync, state) > 5


async def test_two_first_syncs_at_once_finish_one_order(redis: Redis) -> None:
    """Both finish the same order."""
    world = await unkept(redis)
    await redis.script(arrivals.load("arrival_begin")(ANN, now=NOW))
    await keep_order(redis, world.items, ANN, NOW + 5)
    before = await places_of(redis, ANN, await ids(world))
    await redis.command("HSET", keys.arrivals_more(ANN), "building", int(NOW * 1_000_000))
    await keep_order(redis, world.items, ANN, NOW + 9)
    assert await places_of(redis, ANN, await ids(world)) == before


async def test_an_item_that_comes_again_gets_a_place_of_its_own(world: OneReader) -> None:
    """It comes after a new item of the same call, and later items come after both."""
    await world.add("home", item(1, NOW))
    await world.follow("work", "1")
    await world.add("work", item(1, NOW), item(2, NOW))
    new = await world.redis.command("ZSCORE", keys.arrivals(ANN), "2")
    again = await world.redis.command("ZSCORE", keys.arrivals_again(ANN), "1")
    assert int(again) == int(new) + 1
    assert await world.redis.command("HGET", keys.arrivals_more(ANN), "last") == again
