"""Storages of the feed cache: a test with `place` runs on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.feed_cache import SHARED, STORAGES, Place


def _place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = request.getfixturevalue("redis_url") if kind.startswith("redis") else ""
    made = Place(kind, tmp_path, url)
    yield made
    made.close()


@pytest.fixture(params=STORAGES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty storage of each kind."""
    yield from _place(request.param, request, tmp_path)


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty dict, for behaviour that doesn't depend on the storage."""
    yield from _place("dict", request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty storage of each kind that several processes may use."""
    yield from _place(request.param, request, tmp_path)
