"""A real worker that dies: `python -m tests.chaos.worker_process REDIS_URL TRIPS [NAME]`.

It kills itself before or after its TRIPS-th round trip to Redis (only those called NAME are counted), so that every
place between two commands of every stage is tested. Leases and patience are short, so that others take over soon.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from microsub.articles import PageReader
from microsub.delivery.look_ups import Completing
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.protocol import Redis
from microsub.redis.tracking import Tracker
from microsub.server.jobs import article_stage
from microsub.work import Patience
from tests.support.parsing import PARSER
from tests.support.polling import world
from tests.support.redis_wrappers import Wrapped

BASE = "https://reader.example"
"""The base of the topics on the server, whose hub runs in these workers."""
LEASE = 2.0
PATIENCE = Patience(idle=1.0, deliveries=20, tick=0.02, look_around=0.2, trouble=0.1)


class Mortal(Wrapped):
    """A connection whose process dies at its nth round trip, before or after Redis has run the command."""

    def __init__(self, redis: Redis, trips: int, counted: str = "") -> None:
        super().__init__(redis)
        self._left = abs(trips)
        self._counted = counted
        self._after = trips % 2 == 0

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        if self._counted not in {"", name}:
            return await run()
        self._left -= 1
        is_last = self._left == 0
        if is_last and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await run()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


async def main(url: str, trips: int, counted: str) -> None:
    """Poll and run the stages until SIGTERM, or until the process kills itself."""
    redis = Mortal(await connect(url), trips, counted)
    tracker = Tracker(url, keys.STREAM_PREFIX)
    async with world(redis, patience=PATIENCE, tracker=tracker, base_url=BASE) as it:
        it.completing = Completing(it.fetcher, PARSER, seconds=5.0)
        stages = it.make_stages()
        stages.serve("articles", article_stage(it, PageReader(it.fetcher, PARSER)).handle)
        worker = it.make_worker(lease_seconds=LEASE, tick=0.02, stages=stages)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        hub = asyncio.create_task(it.hub_worker.run_forever())
        await worker.run(grace=1.0)
        hub.cancel()
        await asyncio.gather(hub, return_exceptions=True)
    await redis.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), "".join(sys.argv[3:])))
