"""An embedded Redis that died is started again, by whichever attached process notices first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import structlog
from redis.exceptions import RedisError

from microsub.errors import MicrosubError, StoreUnavailable
from microsub.store.embedded import EmbeddedRedis
from microsub.store.port import Redis

log = structlog.get_logger(__name__)

WATCH_SECONDS = 2.0
"""How often a process looks whether its embedded server is there."""


@contextlib.asynccontextmanager
async def kept_alive(
    embedded: EmbeddedRedis, redis: Redis, *, ended: Callable[[asyncio.Task[None]], None]
) -> AsyncIterator[None]:
    """Start the embedded server again whenever it has died within the block; `ended` hears of the end of the watch.

    What can't be started is logged and tried again; it is never raised.
    """
    stop = asyncio.Event()
    # Waited for, not cancelled: a server that is being started must not come up after everybody has left.
    task = asyncio.create_task(_watch(embedded, redis, stop), name="embedded Redis")
    task.add_done_callback(ended)
    try:
        yield
    finally:
        stop.set()
        await task


async def _watch(embedded: EmbeddedRedis, redis: Redis, stop: asyncio.Event) -> None:
    trouble = None
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
            return
        try:
            await redis.command("PING")
            trouble = None
            continue
        except StoreUnavailable:
            pass  # it has died, or takes its time: `revive` knows
        except (MicrosubError, RedisError):
            continue  # it answers, so it lives
        try:
            if await asyncio.to_thread(embedded.revive):
                log.warning("the embedded Redis had ended and was started again", pid=embedded.pid)
        except MicrosubError as error:
            if str(error) != trouble:  # once, not every other second
                trouble = str(error)
                log.error("the embedded Redis has ended and can't be started", why=trouble)  # noqa: TRY400 - expected
