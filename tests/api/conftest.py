"""An instance with two readers, for the tests of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.readers import instance
from tests.support.world import World


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application over empty stores on a real Redis."""
    async with instance(real_redis) as made:
        yield made
