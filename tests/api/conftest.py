"""An instance with two readers, for the tests of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.readers import Reader, instance
from tests.support.world import World


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application over empty stores on a real Redis."""
    async with instance(real_redis) as made:
        yield made


@pytest.fixture
async def alice(server: World) -> Reader:
    """A reader with the channels `home` and `later`."""
    return await server.reader("alice", "home", "later")


@pytest.fixture
async def bob(server: World) -> Reader:
    """Another reader, with channels of the same names."""
    return await server.reader("bob", "home", "later")
