"""The store's tests run on everything that the store runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.conftest import leave_redis, open_redis


@pytest.fixture(params=["fake", "real", "cluster"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """An empty Redis: a fake one, a real one, a Redis Cluster. Fails the test on stray keys."""
    connection = open_redis(request)
    yield connection
    await leave_redis(connection)
