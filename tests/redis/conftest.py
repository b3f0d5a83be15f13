"""The store's tests run on what differs most of all that it runs on; `make test-matrix`: on all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.conftest import leave_redis, open_redis
from tests.support import THOROUGH


@pytest.fixture(params=["fake", "real", "cluster"] if THOROUGH else ["fake", "cluster"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """An empty Redis: a fake one and a Redis Cluster; a single real one is what all other tests run on."""
    connection = open_redis(request)
    yield connection
    await leave_redis(connection)
