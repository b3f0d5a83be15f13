"""Builds the worker's part that polls feeds and delivers posts; `microsub poll` uses it as well."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import structlog

from microsub import articles
from microsub.accounts import Activity
from microsub.base.errors import NotFound
from microsub.base.settings import Settings
from microsub.base.urls import mask_credentials
from microsub.configuration.model import DeliverySettings
from microsub.delivery import Completing, Delivered, Delivery, Stages
from microsub.fetch import Fetching
from microsub.hub import HubWorker
from microsub.notices import notify_followers
from microsub.parsing.pool import ParsePool
from microsub.polling import Mover, Poller, PollNow, PollReport, PollResult, Turn, Worker, worker_name
from microsub.posts import Ingest
from microsub.redis import keys
from microsub.redis.tracking import Tracker
from microsub.server.fetching import open_caching_fetcher, open_completing, open_page_reader
from microsub.server.jobs import QUEUES, article_stage, survey
from microsub.server.parsers import TASKS
from microsub.server.stores import Stores, callback_base, ingest, notifications
from microsub.websub import Subscriber
from microsub.work import DeadLetters, Patience

log = structlog.get_logger(__name__)

_RESERVED = 64
"""File descriptors for Redis, logs, parsers' pipes and everything else except hosts."""


_PER_HOST = 4
"""File descriptors that one host may need: a connection, DNS, and look-ups for its posts."""


def hosts_at_once(wanted: int, descriptors: int) -> int:
    """How many hosts a worker polls at a time: `wanted`, or what its file descriptors allow.

    A negative limit means none (`resource.RLIM_INFINITY`). Pure.
    """
    return wanted if descriptors < 0 else max(1, min(wanted, (descriptors - _RESERVED) // _PER_HOST))


def _hosts_allowed(wanted: int) -> int:
    """`hosts_at_once` for this process; logs a warning if fewer than `wanted`."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    many = hosts_at_once(wanted, limit)
    if many < wanted:
        text = "polling fewer hosts at once than MICROSUB_FETCH_CONCURRENCY: the limit on open files is too low"
        log.warning(text, hosts=many, wanted=wanted, limit=limit)
    return many


@contextlib.asynccontextmanager
async def open_worker(
    settings: Settings,
    stores: Stores,
    *,
    on_refused: Callable[[PollResult], object] | None = None,
    subscriber: Subscriber | None = None,
    hub_worker: HubWorker | None = None,
) -> AsyncIterator[Worker]:
    """A worker that isn't running yet.

    `on_refused`: see `Poller`. `subscriber` gets the results of polls, `hub_worker` the posts added to timelines.
    """
    parser = _parser(settings)
    async with (
        open_caching_fetcher(settings, stores) as fetcher,
        open_completing(settings, parser, stores) as completing,
        open_page_reader(settings, parser, stores) as (page_reader, icons),
    ):
        name = worker_name()
        filling = delivery(stores, None if hub_worker is None else hub_worker.delivered)
        tracker = Tracker(stores.url, keys.STREAM_PREFIX)
        stages = delivery_stages(stores, filling, completing, parser, name=name, tracker=tracker)
        stages.serve("articles", article_stage(stores, page_reader, icons).handle, articles.AT_ONCE)
        poller = feed_poller(stores, fetcher, parser, filling, ingest(stores, stages.wake), subscriber)
        poller.on_refused = on_refused
        try:
            turn = Turn(stores.schedule, stores.feeds, poller, settings=stores.effective.instance)
            many = _hosts_allowed(settings.fetch_concurrency)
            yield Worker(stores.schedule, turn, stores.presence, stages, name=name, hosts_at_once=many)
        finally:
            parser.close()


def delivery_stages(
    stores: Stores,
    filling: Delivery,
    completing: Completing | None,
    parser: ParsePool,
    *,
    name: str,
    tracker: Tracker | None,
    patience: Patience | None = None,
) -> Stages:
    """The stages of the worker of that name: delivery, look-ups, and `QUEUES`."""
    stages = Stages(
        *(stores.redis, stores.feeds, stores.items, filling, stores.events, completing),
        consumer=name,
        patience=patience,
        tracker=tracker,
        clock=stores.clock,
    )
    for queue, handler in QUEUES.items():
        stages.serve(queue, handler(stores, stages, parser))
    return stages


def feed_poller(
    stores: Stores,
    fetcher: Fetching,
    parser: ParsePool,
    filling: Delivery,
    taking_in: Ingest,
    subscriber: Subscriber | None,
) -> Poller:
    """The service that polls one feed; `subscriber` gets the results."""
    return Poller(
        stores.feeds,
        stores.items,
        taking_in,
        DeadLetters(stores.redis),
        stores.events,
        fetcher,
        parser,
        mover=Mover(stores.feeds, stores.items, stores.channels, stores.schedule, filling.deliver_to),
        settings=stores.effective.instance,
        clock=stores.clock,
        on_answered=None if subscriber is None else subscriber.polled,
        on_turned=survey(stores).note,
        on_trouble=partial(
            notify_followers, stores.feeds, stores.channels, notifications(stores, taking_in), stores.effective.of
        ),
        require_room=stores.room.require,
    )


_PARSERS_KEPT = 86_400.0
"""Seconds for which a parser waits for a hub's next delivery: starting one takes longer than the rest."""


def _parser(settings: Settings) -> ParsePool:
    parser = ParsePool(TASKS) if callback_base(settings) is None else ParsePool(TASKS, idle=_PARSERS_KEPT)
    parser.warm()  # it starts while the first feeds are fetched
    return parser


_NOT_POLLED = frozenset({"unfollowed", "unknown", "internal"})


async def poll_now(settings: Settings, stores: Stores, urls: Sequence[str]) -> list[PollReport]:
    """Poll the followed feeds at `urls`, or all of them, and return when all are done.

    If a server is running, its worker does it. Raises NotFound for a URL that nobody follows.
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
        now = PollNow(stores.feeds, stores.schedule, worker, others=others, refused=refused)
        reports = (await now.poll(ids or await stores.feeds.all_ids())).values()
        # Formerly followed feeds are kept for their items; "all" doesn't include them.
        return [report for report in reports if urls or report.outcome not in _NOT_POLLED]


def delivery(stores: Stores, delivered: Delivered | None = None) -> Delivery:
    """The service that adds posts to timelines; `delivered` is called afterwards."""

    async def limits() -> DeliverySettings:
        return (await stores.effective.instance()).delivery

    return Delivery(
        stores.redis,
        stores.feeds,
        stores.items,
        stores.adder,
        stores.effective.of_users,
        Activity(stores.redis),
        limits,
        delivered=delivered,
        clock=stores.clock,
    )
