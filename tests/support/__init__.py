"""Helpers for all tests: waiting on conditions, servers, invented values, and the check of remaining keys in Redis."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

THOROUGH = os.environ.get("TEST_MATRIX") == "1"
"""`make test-matrix`: tests that can run on fakeredis, Redis and a Redis Cluster do so, with four times the inputs."""

SHARED_CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
"""Real feeds and pages with facts about them; the folder may be missing."""

_TIMES = float(os.environ.get("TEST_TIMES", "4" if THOROUGH else "1"))
EXPLORES = THOROUGH or "TEST_TIMES" in os.environ
"""Each run generates new inputs."""


def examples(usual: int) -> int:
    """The number of generated inputs of a test, or its time in seconds: `TEST_TIMES=10` multiplies it by ten."""
    return max(1, round(usual * _TIMES))


def cases(table: str, *names: str) -> list[tuple[Any, ...]]:
    """The cases of a table in `tests/data/tables`, each with the values of these names; None for one that is absent."""
    text = (Path(__file__).resolve().parents[1] / "data" / "tables" / f"{table}.toml").read_text("utf-8")
    return [tuple(case.get(name) for name in names) for case in tomllib.loads(text)["case"]]


async def no_pause(_seconds: float) -> None:
    """In place of pauses that give Redis time for other requests."""


def later(get: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """`get` for a part that waits for the answer."""

    async def answer() -> T:
        return get()

    return answer
