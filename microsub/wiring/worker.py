"""The worker: polling, the stages behind it, and upkeep beside it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator, Callable, Sequence

import structlog

from microsub.delivery.stages import Stages
from microsub.errors import NotFound, StoreError
from microsub.feeds.announcing import Announcing
from microsub.feeds.store.events import Events
from microsub.formats.entry_id import mask_credentials
from microsub.parsing.pool import ParsePool
from microsub.polling.host_turn import Turn
from microsub.polling.moving import Mover
from microsub.polling.on_demand import PollNow, PollReport
from microsub.polling.poll import Poller, PollResult
from microsub.polling.worker import Worker, worker_name
from microsub.redis.presence import TO_COME
from microsub.settings import Settings
from microsub.wiring.fetching import open_caching_fetcher, open_completing
from microsub.wiring.stores import Stores, fan_out
from microsub.wiring.tasks import tell_failure
from microsub.wiring.upkeep import upkeep

log = structlog.get_logger(__name__)


_RESERVED = 64
"""File descriptors for Redis, logs, pipes of parsers and whatever else the process does."""
_PER_HOST = 4
"""File descriptors that one host may need: a connection, the look-up of its name, and what its posts have looked up."""


def hosts_at_once(wanted: int, descriptors: int) -> int:
    """How many hosts a worker asks at a time: `wanted`, or what a process with that many file descriptors can do.

    Negative is without limit (`resource.RLIM_INFINITY`). Pure.
    """
    return wanted if descriptors < 0 else max(1, min(wanted, (descriptors - _RESERVED) // _PER_HOST))


@contextlib.asynccontextmanager
async def open_worker(
    settings: Settings, stores: Stores, *, on_refused: Callable[[PollResult], object] | None = None
) -> AsyncIterator[Worker]:
    """A worker that hasn't begun yet. `on_refused`: see `Poller`."""
    await stores.in_force.instance()  # so that the very first poll is planned with the settings, not the defaults
    parser = ParsePool()
    async with (
        open_caching_fetcher(settings, stores) as fetcher,
        open_completing(settings, parser, stores) as completing,
    ):
        name = worker_name()
        announcing = Announcing(Events(stores.redis))
        filling = fan_out(stores)
        stages = Stages(stores.redis, stores.feeds, stores.items, filling, announcing, completing, consumer=name)
        poller = Poller(
            stores.feeds,
            stores.items,
            stages.entries,
            announcing,
            fetcher,
            parser,
            mover=Mover(stores.feeds, stores.items, stores.channels, stores.schedule, filling),
            settings=stores.in_force.instance_now,
            on_refused=on_refused,
            told=stages.wake,
        )
        try:
            turn = Turn(stores.schedule, stores.feeds, poller, settings=stores.in_force.instance_now)
            many = hosts_at_once(settings.fetch_concurrency, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            if many < settings.fetch_concurrency:
                log.warning(
                    "fewer hosts at once than MICROSUB_FETCH_CONCURRENCY says: the limit of file descriptors is low",
                    hosts=many,
                    wanted=settings.fetch_concurrency,
                    limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                )
            yield Worker(stores.schedule, turn, stores.presence, stages, name=name, hosts_at_once=many)
        finally:
            parser.close()


@contextlib.asynccontextmanager
async def running_worker(settings: Settings, stores: Stores) -> AsyncIterator[Worker]:
    """A worker that polls and cleans up within the block, or until its `stop`; it ends within ten seconds."""
    async with open_worker(settings, stores) as worker:
        polling = asyncio.create_task(worker.run(), name="worker")
        polling.add_done_callback(tell_failure)
        rounds = [asyncio.create_task(one, name=part) for part, one in upkeep(settings, stores).items()]
        for task in rounds:
            task.add_done_callback(tell_failure)
        try:
            yield worker
        finally:
            for task in rounds:
                task.cancel()
            worker.stop()
            await asyncio.gather(polling, *rounds, return_exceptions=True)


@contextlib.asynccontextmanager
async def worker_to_come(stores: Stores) -> AsyncIterator[None]:
    """A sign of life for a worker that another process is about to start, so that nobody takes its place meanwhile.

    It counts for a minute, like any other, or to the end of the block. A Redis that can't be reached is left to others.
    """
    name = f"{worker_name()}{TO_COME}"
    with contextlib.suppress(StoreError):
        await stores.presence.beat(name, time.time())
    try:
        yield
    finally:
        with contextlib.suppress(StoreError):
            await stores.presence.leave(name)


async def poll_now(settings: Settings, stores: Stores, urls: Sequence[str]) -> list[PollReport]:
    """Poll the followed feeds at `urls`, or all of them, and return when all are done.

    The worker of a running server does it where there is one. Raises NotFound for a URL that nobody follows.
    """
    refused: dict[str, str] = {}

    def note(result: PollResult) -> None:
        refused[result.feed] = result.detail

    async def others() -> bool:
        return bool(await stores.presence.alive(time.time()))

    async with open_worker(settings, stores, on_refused=note) as worker:
        ids: list[str] = []
        for url in urls:
            found = await stores.feeds.find(url)
            if found is None:
                raise NotFound(
                    f"nobody follows {mask_credentials(url)}; see 'microsub fetch' for feeds that aren't followed"
                )
            ids.append(found)
        await stores.in_force.instance()
        now = PollNow(stores.feeds, stores.schedule, worker, others=others, refused=refused)
        reports = (await now.poll(ids or await stores.feeds.all_ids())).values()
        # Feeds that somebody followed once are kept for their items; who asks for all doesn't mean them.
        return [report for report in reports if urls or report.outcome not in {"unfollowed", "unknown"}]
