"""An instance with a native app, for the tests of the Google Reader API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.native_app import NativeApp
from tests.support.reader import Reader
from tests.support.readers import instance
from tests.support.world import World


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application over empty stores on a real Redis."""
    async with instance(real_redis) as made:
        yield made


@pytest.fixture
async def app(server: World, alice: Reader) -> NativeApp:
    """Alice's native app, signed in."""
    return await NativeApp.signed_in(server, alice.name)
