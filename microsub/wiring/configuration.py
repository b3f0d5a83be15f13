"""backend.json and the stores, kept in step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from microsub.config.settings import Settings
from microsub.services.applying import Applier
from microsub.services.configuration import Configuration
from microsub.wiring.stores import Stores, following
from microsub.wiring.tasks import tell_failure


def applier(stores: Stores) -> Applier:
    """What carries out changes to users and all that is theirs."""
    return Applier(stores.accounts, stores.channels, stores.feeds, stores.rules, following(stores), stores.applied)


def configuration(settings: Settings, stores: Stores) -> Configuration:
    """The service that keeps backend.json and the stores in step."""
    return Configuration(
        settings.backend,
        stores.applied,
        applier(stores),
        write_back=settings.writes_back,
        on_applied=stores.in_force.forget,
    )


@contextlib.asynccontextmanager
async def open_configuration(settings: Settings, stores: Stores) -> AsyncIterator[Configuration]:
    """Apply backend.json, and every later version of it, within the block."""
    stop = asyncio.Event()
    service = configuration(settings, stores)
    await service.look()
    task = asyncio.create_task(service.run(stop), name="configuration")
    task.add_done_callback(tell_failure)
    try:
        yield service
    finally:
        stop.set()
        await task
