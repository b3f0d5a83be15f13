"""What has to do with people's identity: stores, services, and one bundle of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from microsub.config.settings import Settings
from microsub.fetch import Fetcher
from microsub.services.identity.bundle import Identity
from microsub.services.identity.sessions import Sessions
from microsub.store.identity.sessions import SessionStore
from microsub.store.port import Redis


def make_identity(settings: Settings, redis: Redis, fetcher: Fetcher) -> Identity:
    """The bundle. `fetcher` is the plain door to the web: what has to do with identity is never taken from a cache."""
    return Identity(sessions=Sessions(SessionStore(redis)))


@contextlib.asynccontextmanager
async def open_identity(settings: Settings, redis: Redis, fetcher: Fetcher) -> AsyncIterator[Identity]:
    """The bundle for the block, with whatever has to be taken down at its end."""
    yield make_identity(settings, redis, fetcher)
