"""A `World` on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.polling import World, world


@pytest.fixture
async def real(real_redis: Redis) -> AsyncIterator[World]:
    """Like `it`, but on a real Redis in every run."""
    async with world(real_redis) as found:
        yield found
