"""The versions of the data layout, and the migrations between them."""

import asyncio

import pytest

from microsub.base.errors import SchemaMismatch
from microsub.redis import keys
from microsub.redis.migrations import FIRST, VERSION, check_layout, migrate, schema_version


class Steps:
    """Migration steps to version 3 that record their runs."""

    def __init__(self, fail: int | None = None):
        self.ran: list[int] = []
        self.fail = fail

    def __getitem__(self, number):
        async def step(redis):
            await asyncio.sleep(0)
            if number == self.fail:
                self.fail = None
                raise OSError("killed")
            self.ran.append(number)

        return number + 1, step

    def __contains__(self, number):
        return number in (1, 2)


async def test_an_empty_database_gets_our_version(redis):
    """There is nothing to migrate; the first process writes the version, once."""
    found = await asyncio.gather(*(migrate(redis) for _ in range(3)))
    assert {0} <= set(found) <= {0, VERSION}, "a late one finds what the first has written"
    assert await schema_version(redis) == VERSION
    assert await migrate(redis) == VERSION


async def test_newer_data_is_refused(redis):
    """Data of a later version isn't changed, and the error says what to do."""
    await redis.command("SET", keys.schema(), VERSION + 1)
    with pytest.raises(SchemaMismatch, match="upgrade the software"):
        await migrate(redis)
    assert await schema_version(redis) == VERSION + 1


@pytest.mark.parametrize("mark", ["v2-beta", "0", "-8", "9" * 5000])
async def test_a_mark_that_is_no_layout_is_refused(redis, mark):
    """Data of another program isn't migrated."""
    await redis.command("SET", keys.schema(), mark)
    for opened in (migrate, check_layout):
        with pytest.raises(SchemaMismatch, match=f"found '{mark[:40]}', expected a number"):
            await opened(redis)
    assert await redis.command("GET", keys.schema()) == mark.encode()


@pytest.mark.parametrize("layout", [*range(1, FIRST), *range(FIRST + 1, VERSION)])
async def test_data_of_no_release_is_refused(redis, layout):
    """Nothing is changed, and the error says what to do."""
    await redis.command("SET", keys.schema(), layout)
    for opened in (migrate, check_layout):
        with pytest.raises(SchemaMismatch, match="use the version that wrote it, or start with empty data"):
            await opened(redis)
    assert await schema_version(redis) == layout


async def test_data_of_layout_8_is_migrated(redis):
    """The first layout of a release. A command that may not migrate says so, unless it can read that layout."""
    await redis.command("SET", keys.schema(), 8)
    assert await check_layout(redis, 8) == 8
    with pytest.raises(SchemaMismatch, match="start the server first"):
        await check_layout(redis)
    assert await migrate(redis) == 8
    assert await schema_version(redis) == VERSION
    assert [await redis.command("GET", key) for key in (keys.packing(), keys.packing_timelines())] == [b"1", b"1"]


async def test_an_interrupted_step_to_packed_posts_forgets_no_place(redis):
    """A worker may be packing already when the step is repeated."""
    await redis.pipeline([("SET", keys.schema(), FIRST), ("SET", keys.packing(), 400)])
    await migrate(redis)
    assert await redis.command("GET", keys.packing()) == b"400"


async def test_steps_run_in_order_and_once(redis):
    """If three processes migrate at the same time, each step still runs once."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps()
    await asyncio.gather(*(migrate(redis, version=3, steps=steps) for _ in range(3)))
    assert steps.ran == [1, 2]
    assert await schema_version(redis) == 3
    assert await redis.command("EXISTS", keys.lease("migration")) == 0


async def test_an_interrupted_migration_resumes(redis):
    """A failed step runs again with the next call; finished steps don't."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps(fail=2)
    with pytest.raises(OSError, match="killed"):
        await migrate(redis, version=3, steps=steps)
    assert await schema_version(redis) == 2
    assert await migrate(redis, version=3, steps=steps) == 2
    assert steps.ran == [1, 2]


async def test_a_gap_in_the_way_is_refused(redis):
    """Data that is too old for any step is refused before anything is changed."""
    await redis.command("SET", keys.schema(), 1)
    with pytest.raises(SchemaMismatch, match="be migrated"):
        await migrate(redis, version=5, steps=Steps())
    assert await schema_version(redis) == 1
