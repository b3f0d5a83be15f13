"""An instance over https, with browsers for its pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from microsub.identity import local_sign_in
from microsub.identity.clients import ClientApps
from microsub.identity.passwords import Hasher
from microsub.model.session import SignedIn
from microsub.redis.protocol import Redis
from tests.support.apps import Apps
from tests.support.parsing import PARSER
from tests.support.readers import instance
from tests.support.visitor import PASSWORD, Visitor, begin_session
from tests.support.world import World

ADDRESS = "https://reader.example"


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application on empty stores in a real Redis, with the user ann."""
    async with instance(real_redis, base_url=ADDRESS) as made:
        await made.accounts.add_user("ann", "https://ann.example/", made.now)
        yield made


@pytest.fixture
async def ann(server: World) -> Visitor:
    """Ann's browser; not signed in."""
    return Visitor(server.app, ADDRESS)


@pytest.fixture
async def other(server: World) -> Visitor:
    """Another browser."""
    return Visitor(server.app, ADDRESS, agent="Mozilla/5.0 (iPhone; CPU) AppleWebKit Version/19 Safari/604.1")


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheap hashes; the tests of passwords cover the real cost."""
    monkeypatch.setattr(local_sign_in, "Hasher", lambda: Hasher(passes=1, memory_kib=64))


SignIn = Callable[[Visitor], Awaitable[SignedIn]]


@pytest.fixture
def signed_in(server: World) -> SignIn:
    """`await signed_in(visitor)`: gives the browser a session of ann's, as a complete sign-in does."""

    async def sign_in(visitor: Visitor, name: str = "ann") -> SignedIn:
        cookie = await begin_session(visitor, server, name)
        found = await server.parts.sessions.find(cookie, server.now)
        assert found is not None
        return found

    return sign_in


@pytest.fixture
async def enrolled(server: World) -> World:
    """Give ann a password."""
    await server.parts.local.set_password("ann", PASSWORD, server.now)
    return server


@pytest.fixture
def apps(server: World) -> Apps:
    """Apps that answer requests for their metadata."""
    made = Apps()
    server.parts.provider.clients = ClientApps(made, PARSER, patience=60)
    return made
