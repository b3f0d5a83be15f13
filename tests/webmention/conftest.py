"""Alice's pages, and somebody who mentions them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.mentions import Mentions, mentioning


@pytest.fixture
async def mentions(redis: Redis) -> AsyncIterator[Mentions]:
    async with mentioning(redis) as made:
        yield made
