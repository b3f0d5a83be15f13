"""`microsub deadletter` on letters, one of which names no stage."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from microsub import server
from microsub.base.settings import read_settings
from microsub.work import DeadLetter, DeadLetters, Message, Stream
from tests.cli.conftest import Run

STAGES = ("stored", "hand\x1bmade", "incomplete")


@pytest.fixture
def letters(data: Path) -> list[DeadLetter]:
    """Three letters in the server's data."""

    async def write() -> list[DeadLetter]:
        async with server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores:
            dead = DeadLetters(stores.redis)
            for stage in STAGES:
                await dead.add(stage, Message("1-1", {"feed": b"1"}), "it failed", 0.0)
            return await dead.list()

    return asyncio.run(write())


def there() -> dict[str, int]:
    async def count() -> dict[str, int]:
        async with server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores:
            names = ("dead", "stored", "incomplete")
            return {name: (await Stream(stores.redis, name).backlog()).messages for name in names}

    return asyncio.run(count())


@pytest.mark.parametrize("chosen", [lambda ids: ["--all"], lambda ids: ids])
def test_an_invalid_letter_doesnt_stop_the_others(
    run: Run, letters: list[DeadLetter], chosen: Callable[[list[str]], list[str]]
) -> None:
    """The invalid one stays, its error lists the stages, and the exit code is 1."""
    result = run("deadletter", "retry", *chosen([one.id for one in letters]))
    assert (result.exit_code, result.stdout) == (1, "2 messages put back\n")
    assert f"letter {letters[1].id} can't be retried: it names the stage 'hand�made'" in result.stderr
    assert there() == {"dead": 1, "stored": 1, "incomplete": 1}
    assert run("deadletter", "drop", letters[1].id).exit_code == 0
    assert (run("deadletter", "retry", "--all").exit_code, there()["dead"]) == (0, 0)


def test_letters_are_listed_and_shown(run: Run, letters: list[DeadLetter]) -> None:
    """Oldest first, without control characters; JSON has every field in full."""
    lines = run("deadletter", "list").stdout.splitlines()
    times = "1970-01-01T00:00:00+00:00"
    stages = ("stored", "hand\\x1bmade", "incomplete")
    assert lines == [f"{one.id}  {stage}  {times}  it failed" for one, stage in zip(letters, stages, strict=True)]
    listed = json.loads(run("deadletter", "list", "--json").stdout)
    assert [(one["id"], one["stage"], one["why"]) for one in listed] == [
        (one.id, stage, "it failed") for one, stage in zip(letters, STAGES, strict=True)
    ]
    shown = run("deadletter", "show", letters[1].id).stdout
    assert {"stage: hand\\x1bmade", "message: 1-1", "  feed: 1"} <= set(shown.splitlines())
    whole = json.loads(run("deadletter", "show", letters[1].id, "--json").stdout)
    assert whole == {**listed[1], "fields": {"feed": "1"}}
    unknown = run("deadletter", "drop", letters[0].id, "1-7")
    assert (unknown.exit_code, "no dead letter '1-7'" in unknown.stderr) == (1, True)
    for chosen in ((), ("--all", letters[0].id)):
        refused = run("deadletter", "drop", *chosen)
        assert (refused.exit_code, "expected ids" in refused.stderr) == (2, True)
    assert there()["dead"] == 3


def test_a_letter_that_is_named_twice_counts_once(run: Run, letters: list[DeadLetter]) -> None:
    """Even with different spellings of its id."""
    one = letters[0].id
    result = run("deadletter", "drop", one, one, f"0{one}")
    assert (result.exit_code, result.stdout) == (0, "1 dead letter dropped\n")
    result = run("deadletter", "retry", letters[2].id, letters[2].id)
    assert (result.exit_code, result.stdout) == (0, "1 message put back\n")
    assert there() == {"dead": 1, "stored": 0, "incomplete": 1}
