"""One worker for all cases of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from microsub.redis.embedded.server import EmbeddedEngine
from tests.hostile.machine import Machine, running_machine


@pytest.fixture(scope="module")
def machine(redis_server: EmbeddedEngine) -> Iterator[Machine]:
    """A worker that has polled ordinary feeds and a large one, so that memory is measured from there."""
    with running_machine(redis_server) as made:
        yield made
