"""A publisher, and a world that polls it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.polling import World, world
from tests.support.web import Publisher, publisher


@pytest.fixture
async def site() -> AsyncIterator[Publisher]:
    """A publisher that listens."""
    async with publisher() as found:
        yield found


@pytest.fixture
async def it(redis: Redis) -> AsyncIterator[World]:
    """Stores, pipeline and worker on an empty Redis."""
    async with world(redis) as found:
        yield found


@pytest.fixture
async def real(real_redis: Redis) -> AsyncIterator[World]:
    """The same, on a real Redis in every run."""
    async with world(real_redis) as found:
        yield found
