"""An embedded Redis that died is started again, by whichever attached process notices first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable

from redis.exceptions import RedisError

from microsub.errors import MicrosubError, StoreUnavailable
from microsub.logs import LibraryLogger
from microsub.redis.embedded.server import EmbeddedRedis
from microsub.redis.protocol import Redis

log = LibraryLogger(__name__)

WATCH_SECONDS = 2.0
"""How often a process looks whether its embedded server is there."""

LEFT_TO_OTHERS = 2
"""Looks after which a process of low priority starts the server itself. It would have that priority too, and readers
would wait for it, so the others come first.
"""

GIVE_UP_SECONDS = 60.0
"""For how long it is tried again and again to start a server that has ended."""

TROUBLE = "the embedded Redis has ended and can't be started; the server's log says why"
"""What strangers are told, who needn't know the names of folders."""


class Watch:
    """What the watch over an embedded server has seen.

    `why` says why the server can't be started, where it has ended and can't be; `lost` is set once nothing more is
    tried, and then the process had better end.
    """

    def __init__(self) -> None:
        self.why: str | None = None
        self.lost = asyncio.Event()
        self._since: float | None = None

    @property
    def trouble(self) -> str | None:
        """A sentence for everybody; None while all is well."""
        return TROUBLE if self.why else None

    def went_well(self) -> None:
        """The server is there."""
        self.why = self._since = None

    def failed(self, why: str, now: float) -> None:
        """The server could not be started. The same reason is logged once, not every other second."""
        if why != self.why:
            log.error("the embedded Redis has ended and can't be started", why=why)
        self.why = why
        if self._since is None:
            self._since = now
        elif now - self._since >= GIVE_UP_SECONDS:
            self.lost.set()

    def raise_if_lost(self) -> None:
        """Raise StoreUnavailable once nothing more is tried."""
        if self.lost.is_set():
            raise StoreUnavailable(
                f"the embedded Redis has ended and could not be started for {GIVE_UP_SECONDS:g} s: {self.why}"
            )


@contextlib.asynccontextmanager
async def kept_alive(
    embedded: EmbeddedRedis, redis: Redis, *, ended: Callable[[asyncio.Task[None]], None]
) -> AsyncIterator[Watch]:
    """Start the embedded server again whenever it has died within the block; `ended` hears of the end of the watch.

    What can't be started is tried again for a while, and never raised: see `Watch`.
    """
    stop = asyncio.Event()
    watch = Watch()
    # Waited for, not cancelled: a server that is being started must not come up after everybody has left.
    task = asyncio.create_task(_keep(embedded, redis, watch, stop), name="embedded Redis")
    task.add_done_callback(ended)
    try:
        yield watch
    finally:
        stop.set()
        await task


async def _keep(embedded: EmbeddedRedis, redis: Redis, watch: Watch, stop: asyncio.Event) -> None:
    away = 0
    while not stop.is_set() and not watch.lost.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
            return
        try:
            await redis.command("PING")
            watch.went_well()
            away = 0
            continue
        except StoreUnavailable:
            pass  # it has died, or takes its time: `revive` knows
        except (MicrosubError, RedisError):
            continue  # it answers, so it lives
        away += 1
        if os.nice(0) > 0 and away <= LEFT_TO_OTHERS:
            continue
        try:
            if await asyncio.to_thread(embedded.revive):
                log.warning("the embedded Redis had ended and was started again", pid=embedded.pid)
        except MicrosubError as error:
            watch.failed(str(error), time.monotonic())
