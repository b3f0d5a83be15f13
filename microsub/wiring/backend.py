"""backend.json and the stores, kept in step."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from microsub.errors import ConfigError, StoreFull
from microsub.redis.embedded.datafolder import has_data
from microsub.settings import Settings
from microsub.wiring.tasks import tell_failure

if TYPE_CHECKING:  # `config check` needs none of it where there is no data
    from microsub.configuration.apply import Applier
    from microsub.configuration.document import BackendDocument
    from microsub.configuration.sync import Configuration
    from microsub.wiring.stores import Stores

log = structlog.get_logger(__name__)


def applier(stores: Stores) -> Applier:
    """What carries out changes to users and all that is theirs."""
    from microsub.configuration.apply import Applier
    from microsub.wiring.stores import following

    return Applier(stores.accounts, stores.channels, stores.feeds, stores.rules, following(stores), stores.applied)


def configuration(settings: Settings, stores: Stores) -> Configuration:
    """The service that keeps backend.json and the stores in step."""
    from microsub.configuration.sync import Configuration
    from microsub.migrations import migrate

    return Configuration(
        settings.backend,
        stores.applied,
        applier(stores),
        write_back=settings.writes_back,
        on_applied=stores.in_force.forget,
        on_lost=functools.partial(migrate, stores.redis),
    )


def _is_ours(folder: Path) -> bool:
    try:
        return has_data(folder) and folder.stat().st_uid == os.geteuid()
    except OSError:  # a folder into which this user can't look
        return False


async def clashes(settings: Settings, document: BackendDocument) -> tuple[ConfigError, ...] | None:
    """What is wrong with a sound document beside the accounts that there are; None where no data is to be seen.

    Another system user's data counts as none: an embedded Redis that had to be started would leave files of ours
    there. Raises what `open_stores` raises.
    """
    if settings.embedded and not _is_ours(settings.data_dir):
        return None
    from microsub.wiring.stores import open_stores

    async with open_stores(settings) as stores:
        return await configuration(settings, stores).clashes(document)


@contextlib.asynccontextmanager
async def open_configuration(settings: Settings, stores: Stores) -> AsyncIterator[Configuration]:
    """Apply backend.json, and every later version of it, within the block.

    Where Redis takes no writes, the file is applied when it takes them again: what can be read is served meanwhile.
    """
    stop = asyncio.Event()
    service = configuration(settings, stores)
    try:
        await service.look()
        await service.watch_data()
    except StoreFull as error:
        log.warning("backend.json is applied when Redis takes writes again", error=str(error))
    task = asyncio.create_task(service.run(stop), name="configuration")
    task.add_done_callback(tell_failure)
    try:
        yield service
    finally:
        stop.set()
        await task
