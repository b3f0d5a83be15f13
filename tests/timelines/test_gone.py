"""The ids that left a channel: how they are kept, and how those of earlier data are moved."""

from __future__ import annotations

import asyncio

import pytest

from microsub.model.reader import NATIVE_APP, Reason
from microsub.redis import keys
from microsub.redis.lease import leased
from microsub.redis.migrations import FIRST, VERSION, migrate, schema_version
from microsub.redis.protocol import Redis
from microsub.timelines.gone import absences
from microsub.timelines.remove import Leaving, take_out
from microsub.timelines.repacking import GoneRepacking
from tests.support import no_pause
from tests.support.invariants import all_keys
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Killing, killed_anywhere
from tests.support.servers import configured

MANY = 1200


def repacking(world: OneReader) -> GoneRepacking:
    return GoneRepacking(world.redis, world.accounts, pause=no_pause)


async def left(world: OneReader, uid: str = "home") -> dict[str, Reason]:
    """The ids that left a channel, each of which may be remembered once."""
    found = [one async for some in absences(world.redis, ANN, uid) for one in some]
    assert len({one.id for one in found}) == len(found)
    return {one.id: one.reason for one in found}


async def lay_out(world: OneReader, gone: dict[str, dict[str, Reason]]) -> None:
    """Channels from which these items left, as layout 8 has them."""
    for uid, ids in gone.items():
        scores = [f"{int(NOW) - len(ids) + at + reason / 16:.4f}" for at, reason in enumerate(ids.values())]
        pairs = [part for pair in zip(scores, ids, strict=True) for part in pair]
        await world.redis.command("ZADD", keys.gone(ANN, uid), *pairs)
    await world.redis.command("SET", keys.schema(), FIRST)


async def of_layout_8(world: OneReader, gone: dict[str, dict[str, Reason]]) -> None:
    """The same after the step to this layout."""
    await lay_out(world, gone)
    await migrate(world.redis)


REASONS = [*Reason]
OLD = {
    "home": {str(number): REASONS[number % len(REASONS)] for number in range(1000, 1000 + MANY)},
    "work": {"70": Reason.UNFOLLOWED, "3000000000": Reason.MOVED},
}


async def test_ids_that_had_left_stay_out(world: OneReader) -> None:
    """Only unfollowed ones return, and only once."""
    await of_layout_8(world, OLD)
    assert {uid: await left(world, uid) for uid in OLD} == OLD
    await world.add("home", item(1000), item(1001), item(1005))
    back = [one for one in ("1000", "1001", "1005") if OLD["home"][one] is Reason.UNFOLLOWED]
    assert await world.ids("home") == back
    assert "1005" not in await left(world)
    report = await repacking(world).run()
    assert report.ids == MANY - 1 + 2
    assert await left(world) == {one: reason for one, reason in OLD["home"].items() if one not in back}
    assert await world.redis.command("EXISTS", *(keys.gone_before(ANN, uid) for uid in OLD)) == 0
    await world.add("home", item(1000), item(1001))
    assert await world.ids("home") == back


@pytest.mark.parametrize(("compact", "least", "agree"), [(100_000, 5, 50), (512, 1.1, 5)])
async def test_a_dry_run_says_about_what_is_freed_and_changes_nothing(
    world: OneReader, compact: int, least: float, agree: int
) -> None:
    """Also while the data has the earlier layout. Ids of layout 8 need eighty bytes, packed ones four, and forty or
    more in a set that is larger than the engine keeps compact.
    """
    async with configured(world.redis, "set-max-intset-entries", compact):
        await dry_run_and_packing_agree(world, least, agree)


async def dry_run_and_packing_agree(world: OneReader, least: float, agree: int) -> None:
    """Packing divides the memory by more than `least`; the difference is less than one of `agree` parts of it."""
    await of_layout_8(world, OLD)
    foreseen = await repacking(world).foresee()
    assert await world.redis.command("ZCARD", keys.gone_before(ANN, "home")) == MANY
    for uid in OLD:
        await world.redis.command("RENAME", keys.gone_before(ANN, uid), keys.gone(ANN, uid))
    earlier = await repacking(world).foresee()
    assert (earlier.ids, earlier.after) == (foreseen.ids, foreseen.after)
    assert earlier.before == pytest.approx(foreseen.before, rel=0.01), "another name of the key"
    await migrate(world.redis)
    await world.redis.command("SET", keys.schema(), FIRST)
    await migrate(world.redis)
    done = await repacking(world).run()
    assert done.ids == foreseen.ids
    assert done.before == pytest.approx(foreseen.before, rel=0.01), "the engine looks at some ids, and estimates"
    assert done.after < done.before / least
    assert abs(foreseen.after - done.after) < done.before / agree
    assert (await repacking(world).run()).ids == (await repacking(world).foresee()).ids == 0


async def test_killed_anywhere_no_id_is_forgotten(real_redis: Redis) -> None:
    """The step to this layout and the packing, killed after any round trip and repeated: all reasons are there."""
    redis = Killing(real_redis)
    world = OneReader(redis)

    async def begin() -> None:
        await world.begin()
        await lay_out(world, OLD)

    async def upgrade() -> None:
        await migrate(redis)
        assert {uid: await left(world, uid) for uid in OLD} == OLD
        await repacking(world).run()

    async def again() -> None:
        await redis.command(
            "DEL", keys.lease("packing timelines"), keys.lease("migration")
        )  # as when they have run out
        await upgrade()

    async def state() -> object:
        return {uid: await left(world, uid) for uid in OLD}, await all_keys(redis)

    assert await killed_anywhere(redis, begin, upgrade, state, again) > 20
    assert (await state())[0] == OLD
    assert await redis.command("EXISTS", keys.packing_timelines(), keys.gone_before(ANN, "home")) == 0


async def test_an_interrupted_step_leaves_no_channel_behind(world: OneReader) -> None:
    """The step to this layout, killed after the first channels and repeated."""
    await of_layout_8(world, OLD)
    await world.redis.command("RENAME", keys.gone_before(ANN, "work"), keys.gone(ANN, "work"))
    await take_out(world.redis, ANN, "home", ["1"], Leaving(Reason.REMOVED), NOW)
    await world.redis.command("SET", keys.schema(), FIRST)
    await migrate(world.redis)
    assert {uid: await left(world, uid) for uid in OLD} == OLD
    assert await schema_version(world.redis) == VERSION


NEEDS = {
    "an app password": lambda world: world.accounts.create_token(ANN, [NATIVE_APP], "Reeder", NOW),
    "a device": lambda world: world.redis.command("HSET", keys.devices_told(ANN), "phone", "{}"),
    "an output feed": lambda world: world.redis.command("SADD", keys.outputs(ANN), "picks"),
    "nothing": lambda world: world.accounts.create_token(ANN, ["read"], "a Microsub app", NOW),
}


@pytest.mark.parametrize("need", NEEDS)
async def test_an_order_of_arrival_that_nothing_needs_is_deleted(world: OneReader, need: str) -> None:
    """In layout 8 it was kept for everybody. Others keep theirs, with all places."""
    await world.add("home", *(item(number) for number in range(1, 200)))
    await NEEDS[need](world)
    before = await world.arrivals()
    await world.redis.command("SET", keys.schema(), FIRST)
    await migrate(world.redis)
    foreseen = await repacking(world).foresee()
    assert await world.arrivals() == before
    done = await repacking(world).run()
    assert (foreseen.orders, foreseen.before, foreseen.after) == (done.orders, done.before, done.after)
    assert done.orders == (need == "nothing")
    assert (done.before > 2000) == (need == "nothing")
    assert await world.arrivals() == ([] if need == "nothing" else before)
    assert (await repacking(world).run()).orders == (await repacking(world).foresee()).orders == 0


async def test_one_of_several_workers_packs(world: OneReader) -> None:
    """The others leave it to that one."""
    await of_layout_8(world, OLD)
    async with leased(world.redis, "packing timelines"):
        assert (await repacking(world).run()).left
    await asyncio.gather(*(repacking(world).run() for _ in range(3)))
    assert {uid: await left(world, uid) for uid in OLD} == OLD
    assert await world.redis.command("EXISTS", keys.gone_before(ANN, "home")) == 0


@pytest.mark.parametrize("number", [7, 2**27 - 1, 2**27, 2**40])
async def test_an_id_that_left_takes_few_bytes(world: OneReader, number: int) -> None:
    """Four for ids up to 134 million, eight beyond; the embedded engine keeps many of them in one piece."""
    some = [str(number + 1000 * at) for at in range(5000)]
    await world.redis.command("SADD", keys.gone(ANN, "home"), *(16 * int(one) + Reason.EVICTED for one in some))
    assert await world.redis.command("OBJECT", "ENCODING", keys.gone(ANN, "home")) == b"intset"
    size = await world.redis.command("MEMORY", "USAGE", keys.gone(ANN, "home"))
    assert size / len(some) < (8.5 if number + 5_000_000 >= 2**27 else 4.5)
    await world.add("home", item(int(some[0])), item(int(some[0]) + 1))
    assert await world.ids("home") == [str(int(some[0]) + 1)]
