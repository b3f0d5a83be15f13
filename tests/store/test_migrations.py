"""The version of the layout."""

import asyncio

import pytest

from microsub.errors import SchemaMismatch
from microsub.store import keys
from microsub.store.migrations import VERSION, migrate, schema_version


class Steps:
    """Steps to version 3 that note when they ran."""

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

        return step

    def __contains__(self, number):
        return number in (2, 3)


async def test_an_empty_database_gets_our_version(redis):
    """There is nothing to migrate; the mark is written once, by whoever comes first."""
    assert await asyncio.gather(*(migrate(redis) for _ in range(3))) == [0, 0, 0]
    assert await schema_version(redis) == VERSION
    assert await migrate(redis) == VERSION


async def test_newer_data_is_refused(redis):
    """Data of a later version is not touched, and the error says what to do."""
    await redis.command("SET", keys.schema(), VERSION + 1)
    with pytest.raises(SchemaMismatch, match="upgrade the software"):
        await migrate(redis)
    assert await schema_version(redis) == VERSION + 1


async def test_a_mark_that_is_no_number_is_refused(redis):
    """Somebody else's data is not ours to migrate."""
    await redis.command("SET", keys.schema(), "v2-beta")
    with pytest.raises(SchemaMismatch, match="v2-beta"):
        await migrate(redis)


async def test_steps_run_in_order_and_once(redis):
    """Three processes at once migrate step by step, each step once."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps()
    await asyncio.gather(*(migrate(redis, version=3, steps=steps) for _ in range(3)))
    assert steps.ran == [2, 3]
    assert await schema_version(redis) == 3
    assert await redis.command("EXISTS", keys.migration_lease()) == 0


async def test_an_interrupted_migration_resumes(redis):
    """A step that failed runs again with the next call; those that were done don't."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps(fail=3)
    with pytest.raises(OSError, match="killed"):
        await migrate(redis, version=3, steps=steps)
    assert await schema_version(redis) == 2
    assert await migrate(redis, version=3, steps=steps) == 2
    assert steps.ran == [2, 3]


async def test_a_gap_in_the_way_is_refused(redis):
    """Data so old that no step leads on is refused before anything is changed."""
    await redis.command("SET", keys.schema(), 1)
    with pytest.raises(SchemaMismatch, match="no way"):
        await migrate(redis, version=5, steps=Steps())
    assert await schema_version(redis) == 1
