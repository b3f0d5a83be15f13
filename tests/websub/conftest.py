"""A feed whose publisher names a hub."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.push import Push, pushing


@pytest.fixture
async def push(redis: Redis) -> AsyncIterator[Push]:
    async with pushing(redis) as made:
        yield made
