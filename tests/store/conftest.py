"""The tests of what stands in Redis run on a fake and a real one; `make test-matrix`: on a cluster too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.conftest import leave_redis, open_redis
from tests.support import THOROUGH


@pytest.fixture(params=["fake", "real", "cluster"] if THOROUGH else ["fake", "real"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """An empty Redis: a fake one with Lua, and a real one."""
    connection = open_redis(request)
    yield connection
    await leave_redis(connection)
