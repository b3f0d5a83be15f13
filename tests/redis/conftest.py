"""Fixtures of the Redis tests: the two most different servers by default, all of them with `make test-matrix`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis as redis_py

from microsub.redis.protocol import Redis
from tests.conftest import leave_redis, open_redis
from tests.support import THOROUGH


@pytest.fixture(params=["fake", "real", "cluster"] if THOROUGH else ["fake", "cluster"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """An empty Redis: the fake one and a Redis Cluster. All other tests use a real single server."""
    connection = open_redis(request)
    yield connection
    await leave_redis(connection)


@pytest.fixture
def reports_all(redis_url: str) -> None:
    """Skips the test on an engine that reports only some changes."""
    with redis_py.Redis.from_url(redis_url) as client:
        major, minor, *_ = client.info("server")["redis_version"].split(".")
    if (int(major), int(minor)) < (7, 2):
        pytest.skip("this Redis reports only some changes")
