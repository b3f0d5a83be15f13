"""An instance with a native app, for the tests of the Google Reader API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from tests.support.native_app import NativeApp, numbered
from tests.support.reader import Reader
from tests.support.readers import FEED, instance, posts
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


@pytest.fixture
async def ids(server: World, alice: Reader) -> list[str]:
    """Five posts in Alice's channel `home`, newest first, as this API numbers them."""
    await server.publish(FEED, *posts("e", "d", "c", "b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    return numbered(await alice.ids("home"))
