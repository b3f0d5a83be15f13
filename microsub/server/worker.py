"""Builds the worker and its stages, and upkeep, periodic or by command."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gettext
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from microsub.base.errors import NotFound, StoreError
from microsub.base.settings import Settings
from microsub.server.stores import (
    Stores,
    callback_base,
    catch_up,
    delivery,
    following,
    hub_topics,
    ingest,
    notifications,
    output_contents,
    tell_failure,
)

if TYPE_CHECKING:  # a command needs only one of these, which is imported when it is built
    from microsub.admin.check.command import Checking
    from microsub.admin.figures import Figures
    from microsub.admin.follow_repair import FollowRepair
    from microsub.admin.post_bytes import PostBytes
    from microsub.admin.survey import Survey
    from microsub.admin.sweep import Sweeping
    from microsub.delivery.delivery import Delivery
    from microsub.delivery.look_ups import Completing
    from microsub.delivery.rebuilding import Rebuilding
    from microsub.delivery.stage import Stages
    from microsub.fetch import Fetching, HostPace, Sender
    from microsub.hub.worker import HubWorker
    from microsub.parsing.pool import ParsePool
    from microsub.polling.on_demand import PollReport
    from microsub.polling.poll import Poller, PollResult
    from microsub.polling.worker import Worker
    from microsub.post_store.store import PostStore
    from microsub.posts.ingest import Ingest
    from microsub.redis.tracking import Tracker
    from microsub.search import FollowTiming, IndexFollower, IndexReader, PostSearch
    from microsub.timelines.retention import Retention
    from microsub.transfer import ImportReport
    from microsub.transfer.ekster.imports import OldFile
    from microsub.webmention.verification import MentionVerifier
    from microsub.webpush.messages import DeviceMessages
    from microsub.websub.subscriber import Subscriber
    from microsub.work import DeadLetter, Handler, Patience

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
    from microsub.polling.worker import Turn, Worker, worker_name
    from microsub.redis import keys
    from microsub.redis.tracking import Tracker
    from microsub.server.fetching import open_caching_fetcher, open_completing

    await stores.effective.instance()  # so that even the first poll is planned with the settings, not the defaults
    parser = _parser(settings)
    async with (
        open_caching_fetcher(settings, stores) as fetcher,
        open_completing(settings, parser, stores) as completing,
    ):
        name = worker_name()
        filling = delivery(stores, None if hub_worker is None else hub_worker.delivered)
        tracker = Tracker(stores.url, keys.STREAM_PREFIX)
        stages = delivery_stages(stores, filling, completing, parser, name=name, tracker=tracker)
        poller = feed_poller(stores, fetcher, parser, filling, ingest(stores, stages.wake), subscriber)
        poller.on_refused = on_refused
        try:
            turn = Turn(stores.schedule, stores.feeds, poller, settings=stores.effective.instance_now)
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
    from microsub.delivery.stage import Stages

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


def hub_deliveries(stores: Stores, stages: Stages, parser: ParsePool) -> Handler:
    """The handler of what hubs delivered."""
    from microsub.polling.plan import pushed_fields
    from microsub.websub.deliveries import Deliveries
    from microsub.websub.store import SubscriptionStore

    taking_in, subscription_store = ingest(stores, stages.wake), SubscriptionStore(stores.redis, clock=stores.clock)
    return Deliveries(
        *(stores.feeds, subscription_store, taking_in, parser, pushed_fields),
        require_room=stores.room.require,
        clock=stores.clock,
    ).handle


QUEUES: Mapping[str, Callable[[Stores, Stages, ParsePool], Handler]] = {"pushed": hub_deliveries}
"""The queues of features by name, with what makes the handler of their messages."""

STAGES = ("stored", "incomplete", *QUEUES)
"""All queues: ids for timelines, ids to be completed, and those of features."""


def letter_retry(stores: Stores) -> Callable[[Sequence[DeadLetter]], Awaitable[list[str]]]:
    """The function that puts dead letters back, and returns failures as text; see `delivery.stage.retry`."""
    from microsub.delivery.stage import retry
    from microsub.work import DeadLetters

    return functools.partial(retry, DeadLetters(stores.redis), store=ingest(stores).add_found, stages=STAGES)


def feed_poller(
    stores: Stores,
    fetcher: Fetching,
    parser: ParsePool,
    filling: Delivery,
    taking_in: Ingest,
    subscriber: Subscriber | None,
) -> Poller:
    """The service that polls one feed; `subscriber` gets the results."""
    from microsub.notices import FeedTrouble
    from microsub.polling.move import Mover
    from microsub.polling.poll import Poller
    from microsub.work import DeadLetters

    trouble = FeedTrouble(stores.feeds, notifications(stores, taking_in), stores.effective.of, stores.clock)
    return Poller(
        stores.feeds,
        stores.items,
        taking_in,
        DeadLetters(stores.redis),
        stores.events,
        fetcher,
        parser,
        mover=Mover(stores.feeds, stores.items, stores.channels, stores.schedule, filling.deliver_to),
        settings=stores.effective.instance_now,
        clock=stores.clock,
        on_answered=None if subscriber is None else subscriber.polled,
        on_trouble=trouble.notify,
        require_room=stores.room.require,
    )


_PARSERS_KEPT = 86_400.0
"""Seconds for which a parser waits for a hub's next delivery: starting one takes longer than the rest."""


def _parser(settings: Settings) -> ParsePool:
    from microsub.parsing.pool import ParsePool
    from microsub.server.parsers import TASKS

    parser = ParsePool(TASKS) if callback_base(settings) is None else ParsePool(TASKS, idle=_PARSERS_KEPT)
    parser.warm()  # it starts while the first feeds are fetched
    return parser


@contextlib.asynccontextmanager
async def running_worker(settings: Settings, stores: Stores) -> AsyncIterator[Worker]:
    """A worker that polls and cleans up within the block, or until `stop`; ends within ten seconds."""
    async with (
        open_subscriber(settings, stores) as subscriber,
        open_hub_worker(settings, stores) as hub_worker,
        open_worker(settings, stores, subscriber=subscriber, hub_worker=hub_worker) as worker,
        open_verifier(settings, stores) as verifier,
        open_device_messages(settings, stores) as device_messages,
    ):
        polling = asyncio.create_task(worker.run(), name="worker")
        polling.add_done_callback(tell_failure)
        parts = upkeep(settings, stores, subscriber, verifier, device_messages, hub_worker)
        rounds = [asyncio.create_task(one, name=part) for part, one in parts.items()]
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
    """A heartbeat for a worker that is about to start, so that no other takes its place.

    It counts for a minute, like any other, or until the end of the block. An unreachable Redis is ignored here.
    """
    from microsub.polling.worker import worker_name
    from microsub.redis.presence import TO_COME

    name = f"{worker_name()}{TO_COME}"
    with contextlib.suppress(StoreError):
        await stores.presence.beat(name, time.time())
    try:
        yield
    finally:
        with contextlib.suppress(StoreError):
            await stores.presence.leave(name)


_NOT_POLLED = frozenset({"unfollowed", "unknown", "internal"})


async def poll_now(settings: Settings, stores: Stores, urls: Sequence[str]) -> list[PollReport]:
    """Poll the followed feeds at `urls`, or all of them, and return when all are done.

    If a server is running, its worker does it. Raises NotFound for a URL that nobody follows.
    """
    from microsub.base.urls import mask_credentials
    from microsub.polling.on_demand import PollNow

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
        await stores.effective.instance()
        now = PollNow(stores.feeds, stores.schedule, worker, others=others, refused=refused)
        reports = (await now.poll(ids or await stores.feeds.all_ids())).values()
        # Formerly followed feeds are kept for their items; "all" doesn't include them.
        return [report for report in reports if urls or report.outcome not in _NOT_POLLED]


@contextlib.asynccontextmanager
async def open_subscriber(settings: Settings, stores: Stores) -> AsyncIterator[Subscriber]:
    """The service for subscriptions to hubs; it needs a `MICROSUB_BASE_URL` that is https or loopback."""
    from microsub.server.fetching import open_fetcher

    async with open_fetcher(settings, stores) as sender:
        yield hub_subscriber(settings, stores, sender)


def hub_subscriber(settings: Settings, stores: Stores, sender: Sender) -> Subscriber:
    """See `open_subscriber`."""
    from microsub.websub.hubs import Hubs
    from microsub.websub.store import SubscriptionStore
    from microsub.websub.subscriber import Subscriber

    base = callback_base(settings)
    hubs, subscription_store = None if base is None else Hubs(sender, base), SubscriptionStore(stores.redis)
    return Subscriber(stores.redis, stores.feeds, stores.schedule, subscription_store, hubs, clock=stores.clock)


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings, stores: Stores) -> AsyncIterator[MentionVerifier]:
    """The verifier of webmentions, with its own parser, so that strangers don't delay feeds."""
    from microsub.parsing.pool import ParsePool
    from microsub.server.fetching import open_fetcher
    from microsub.server.parsers import TASKS

    parser = ParsePool(TASKS, processes=1)
    async with open_fetcher(settings, stores) as sender:
        try:
            yield mention_verifier(stores, sender, parser)
        finally:
            parser.close()


def mention_verifier(
    stores: Stores,
    sender: Sender,
    parser: ParsePool,
    pace: HostPace | None = None,
) -> MentionVerifier:
    """See `open_verifier`; `pace` limits requests to one host."""
    from microsub.webmention.store import MentionStore
    from microsub.webmention.verification import MentionVerifier

    return MentionVerifier(
        MentionStore(stores.redis),
        stores.accounts,
        stores.rules,
        stores.effective,
        notifications(stores, ingest(stores)),
        sender,
        parser,
        pace=pace,
        clock=stores.clock,
    )


@contextlib.asynccontextmanager
async def open_device_messages(settings: Settings, stores: Stores) -> AsyncIterator[DeviceMessages]:
    """The service that notifies devices, with its own fetcher, so that push services don't delay polls."""
    from microsub.server.fetching import open_fetcher

    async with open_fetcher(settings, stores) as sender:
        yield device_messages(settings, stores, sender)


def device_messages(settings: Settings, stores: Stores, sender: Sender) -> DeviceMessages:
    """See `open_device_messages`."""
    from microsub.accounts import Activity, Sessions
    from microsub.webpush.messages import DeviceMessages

    return DeviceMessages(
        stores.redis,
        Sessions(stores.redis),
        Activity(stores.redis),
        stores.channels,
        stores.items,
        sender,
        page_texts,
        contact=settings.base_url or "",
        clock=stores.clock,
    )


@functools.cache
def page_texts(language: str) -> gettext.NullTranslations:
    """The texts of all pages in that language, for a worker's messages."""
    from microsub.identity.pages import FOLDER as IDENTITY_FOLDER
    from microsub.reader import FOLDERS
    from microsub.web.pages import FOLDER, Templates

    return Templates([FOLDER, IDENTITY_FOLDER, *FOLDERS]).texts(language)


@contextlib.asynccontextmanager
async def open_hub_worker(settings: Settings, stores: Stores) -> AsyncIterator[HubWorker | None]:
    """The service of our hub, if the server has a public URL."""
    from microsub.hub.worker import HubWorker
    from microsub.server.fetching import open_fetcher

    async with contextlib.AsyncExitStack() as stack:
        filling = catch_up(stores)
        stack.push_async_callback(filling.aclose)
        finding = stack.enter_context(_finding(settings, stores)) if settings.base_url else None
        contents = output_contents(stores, search=finding, fill=filling.fill, base_url=settings.base_url)
        topics = hub_topics(settings, stores, contents, filling.fill)
        if topics is None:
            yield None
            return
        sender = await stack.enter_async_context(open_fetcher(settings, stores))
        yield HubWorker(stores.redis, topics, sender)


@contextlib.contextmanager
def _finding(settings: Settings, stores: Stores) -> Iterator[PostSearch | None]:
    """The search for output feeds, if this machine has an index."""
    if not can_search(settings):
        yield None
        return
    from microsub.search import IndexFolder, IndexReader, PostSearch
    from microsub.timelines.item_cache import ItemCache
    from microsub.timelines.views import ReaderViews

    index = IndexReader(IndexFolder(settings.index))
    reading = ReaderViews(stores.redis, stores.channels, stores.feeds, stores.items, ItemCache(stores.items, None, 0))
    try:
        yield PostSearch(stores.redis, stores.channels, stores.feeds, reading, index, visits=False)
    finally:
        index.close()


def upkeep(
    settings: Settings,
    stores: Stores,
    subscriber: Subscriber,
    verifier: MentionVerifier,
    device_messages: DeviceMessages,
    hub_worker: HubWorker | None = None,
) -> dict[str, Coroutine[None, None, None]]:
    """Continuous jobs besides polling, by name; each runs in one worker at a time.

    Only reminding remembers its last round, so each worker has its own.
    """
    from microsub.admin.hours import Hours
    from microsub.base.periodic import RoundTiming, run_periodically
    from microsub.delivery.look_ups import LookUpRetry
    from microsub.delivery.reminding import Reminder
    from microsub.redis.lease import take_turn
    from microsub.work import Stream, run_daily

    pace = RoundTiming(turn=functools.partial(take_turn, stores.redis))
    return {
        "retention": retention(settings, stores).run_forever(),
        "follow_repair": follow_repair(stores).run_forever(),
        "daily": run_daily(stores.redis, daily_jobs(settings, stores, subscriber, verifier)),
        "reminding": Reminder(stores.feeds, stores.items, Stream(stores.redis, "stored"), stores.events).run_forever(),
        "look_up_retry": LookUpRetry(stores.redis, stores.items, Stream(stores.redis, "incomplete")).run_forever(pace),
        "figures": figures(stores).publish_forever(Hours(stores.redis)),
        "survey": survey(stores).run_forever(pace),
        **({"search": follower(settings, stores).run_forever()} if can_search(settings) else {}),
        "websub": subscriber.run_forever(pace),
        **({} if hub_worker is None else hub_worker.parts(pace)),
        "mentions": verifier.run(),
        "devices": device_messages.run_forever(pace),
        "mutes": run_periodically(stores.rules.lift_ended, "mutes", pace),
    }


def daily_jobs(
    settings: Settings, stores: Stores, subscriber: Subscriber, verifier: MentionVerifier
) -> dict[str, Callable[[float], Awaitable[object]]]:
    """Daily jobs by name; each is called with Unix time."""
    return {
        "sweep": sweeping(stores).run,
        "follows": follow_repair(stores).run_daily,
        "retention": retention(settings, stores).look_for_channels,
        "outputs": functools.partial(_forget_outputs, stores),
        "media": functools.partial(sweep_media, stores),
        "posts": post_bytes(stores).run,
        "websub": subscriber.look_at_all,
        "mentions": verifier.look_at_all,
    }


def can_search(settings: Settings) -> bool:
    """Whether search is on and this machine's SQLite supports it."""
    from microsub.search import is_supported

    if settings.search and not is_supported():
        log.warning("posts can't be searched: the SQLite of this Python is older than 3.34, or has no FTS5")
        return False
    return settings.search


def follower(settings: Settings, stores: Stores, timing: FollowTiming | None = None) -> IndexFollower:
    """The service that updates this machine's index of posts."""
    from microsub.search import IndexFolder, IndexFollower

    folder = IndexFolder(settings.index)
    return IndexFollower(stores.redis, stores.items, stores.events, folder, timing=timing)


async def _forget_outputs(stores: Stores, now: float) -> None:
    from microsub.timelines.retention import RESTORABLE

    names = [user.name for user in await stores.accounts.users()]
    await stores.outputs.forget_removed(names, now - RESTORABLE)


async def sweep_media(stores: Stores, now: float) -> None:
    """Delete files from sources that no post has shown for a month."""
    from microsub.micropub.media import Media

    media = Media(stores.redis)
    for user in await stores.accounts.users():
        await media.sweep(user.name, stores.items, now)


def post_bytes(stores: Stores) -> PostBytes:
    """The service that corrects users' shares of the bytes of posts."""
    from microsub.admin.post_bytes import PostBytes

    parts = (stores.channels, stores.items, stores.outputs, stores.room)
    return PostBytes(stores.redis, stores.accounts, stores.feeds, *parts)


def figures(stores: Stores, index: IndexReader | None = None) -> Figures:
    """The service for the counts of users and feeds, and of all processes."""
    from microsub.admin.figures import Figures
    from microsub.redis.presence import ProcessCounts

    counts = ProcessCounts(stores.redis)
    return Figures(stores.feeds, stores.accounts, stores.presence, counts, index, stores.events)


def survey(stores: Stores) -> Survey:
    """The service that surveys all feeds regularly."""
    from microsub.admin.survey import Survey

    return Survey(stores.redis, stores.feeds, stores.schedule)


def rebuilding(stores: Stores) -> Rebuilding:
    """The service that fills timelines from the store."""
    from microsub.delivery.rebuilding import Rebuilding
    from microsub.work import Stream

    stored = Stream(stores.redis, "stored")
    return Rebuilding(
        stores.redis, stores.channels, stores.items, stored, stores.effective.instance_now, stores.effective.of
    )


def sweeping(stores: Stores) -> Sweeping:
    """The service that deletes posts to which no timeline refers."""
    from microsub.admin.sweep import Sweeping

    def kept() -> int:
        return stores.effective.instance_now().keep_per_feed or sys.maxsize

    return Sweeping(stores.redis, stores.accounts, stores.feeds, stores.outputs, kept=kept)


def post_store(stores: Stores) -> PostStore:
    """The post store on open stores."""
    from microsub.post_store.store import PostStore

    parts = (stores.redis, stores.feeds, stores.items, ingest(stores), stores.events, sweeping(stores))
    return PostStore(*parts, clock=stores.clock)


def retention(settings: Settings, stores: Stores) -> Retention:
    """The service that removes read and old items, and data that was removed long ago."""
    from microsub.timelines.retention import Retention

    async def declared() -> Collection[str] | None:
        if not settings.backend.exists():
            return ()
        from microsub.configuration.document import check

        found = (await asyncio.to_thread(check, settings.backend, os.environ)).document
        return None if found is None else found.backend.users.keys()

    return Retention(stores.redis, stores.accounts, stores.channels, stores.items, stores.effective.of, declared)


def follow_repair(stores: Stores) -> FollowRepair:
    """The repair of feeds' followers and of the schedule from the channels."""
    from microsub.admin.follow_repair import FollowRepair

    return FollowRepair(
        stores.redis, stores.accounts, stores.channels, stores.feeds, stores.schedule, following(stores)
    )


async def import_ekster(stores: Stores, file: OldFile, url: str, user: str, *, dry_run: bool) -> ImportReport:
    """Import the older Go server's file and Redis for a user. Raises what `open_old` raises."""
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Imported
    from microsub.server.backend import applier
    from microsub.server.parsers import TASKS
    from microsub.transfer.ekster.imports import Importing
    from microsub.transfer.ekster.store import open_old

    parser = ParsePool(TASKS)
    importing = Importing(stores.redis, stores.accounts, stores.channels, stores.feeds, stores.items, stores.adder,
                          stores.schedule, Imported(stores.redis), stores.effective.of,
                          applier(stores), parser)  # fmt: skip
    try:
        async with open_old(url, stores.redis) as source:
            return await importing.run(user, file, source, time.time(), dry_run=dry_run)
    finally:
        parser.close()


def checking(stores: Stores) -> Checking:
    """The check of all invariants, and their repair."""
    from microsub.admin.check.command import Checking

    return Checking(stores.redis, follow_repair(stores), clock=stores.clock)
