"""Whether an embedded Redis lives: a server process ends with it, and its supervisor starts both again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from microsub.errors import StoreUnavailable
from microsub.logs import LibraryLogger
from microsub.redis.embedded.server import EmbeddedRedis

log = LibraryLogger(__name__)

WATCH_SECONDS = 2.0
"""How often a process looks whether its embedded server is there."""

ENDED = "the embedded Redis has ended; its log is redis.log in the data folder"


class Watch:
    """What the watch over an embedded server has seen: `ended` is set when the server has ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def raise_if_ended(self) -> None:
        """Raise StoreUnavailable when the server has ended."""
        if self.ended.is_set():
            raise StoreUnavailable(ENDED)


@contextlib.asynccontextmanager
async def watched(embedded: EmbeddedRedis, *, failed: Callable[[asyncio.Task[None]], None]) -> AsyncIterator[Watch]:
    """Look now and then whether the server lives; `failed` hears of the end of the task that does."""
    watch = Watch()

    async def look() -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not embedded.is_running():
                log.error(ENDED, folder=str(embedded.data_dir))
                watch.ended.set()
                return

    task = asyncio.create_task(look(), name="embedded Redis")
    task.add_done_callback(failed)
    try:
        yield watch
    finally:
        task.cancel()
