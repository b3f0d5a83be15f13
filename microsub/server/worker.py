"""Builds a worker: polling, the answers to hubs, webmentions, devices, and upkeep."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gettext
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

from microsub.accounts import Activity, Sessions
from microsub.admin import Hours
from microsub.base.periodic import RoundTiming, run_periodically
from microsub.base.settings import Settings
from microsub.delivery import Reminder, retry_look_ups
from microsub.fetch import HostPace, Sender
from microsub.hub import HubWorker
from microsub.identity.pages import FOLDER as IDENTITY_FOLDER
from microsub.micropub import Media
from microsub.parsing.pool import ParsePool
from microsub.polling import Worker
from microsub.reader import FOLDERS
from microsub.redis.lease import take_turn
from microsub.search import IndexFolder, IndexReader, PostSearch
from microsub.server.fetching import open_fetcher
from microsub.server.jobs import (
    can_search,
    figures,
    follow_repair,
    follower,
    gone_repacking,
    post_bytes,
    repacking,
    retention,
    survey,
    sweeping,
)
from microsub.server.parsers import TASKS
from microsub.server.poller import open_worker
from microsub.server.stores import Stores, callback_base, catch_up, ingest, notifications, output_contents, tell_failure
from microsub.server.topics import hub_topics
from microsub.timelines import RESTORABLE, ItemCache, ReaderViews
from microsub.web.pages import FOLDER, Templates
from microsub.webmention import MentionStore, MentionVerifier
from microsub.webpush import DeviceMessages
from microsub.websub import Hubs, Subscriber, SubscriptionStore
from microsub.work import Stream, run_daily


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
async def open_subscriber(settings: Settings, stores: Stores) -> AsyncIterator[Subscriber]:
    """The service for subscriptions to hubs; it needs a `MICROSUB_BASE_URL` that is https or loopback."""
    async with open_fetcher(settings, stores) as sender:
        yield hub_subscriber(settings, stores, sender)


def hub_subscriber(settings: Settings, stores: Stores, sender: Sender) -> Subscriber:
    """See `open_subscriber`."""
    base = callback_base(settings)
    hubs, subscription_store = None if base is None else Hubs(sender, base), SubscriptionStore(stores.redis)
    return Subscriber(stores.redis, stores.feeds, stores.schedule, subscription_store, hubs, clock=stores.clock)


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings, stores: Stores) -> AsyncIterator[MentionVerifier]:
    """The verifier of webmentions, with its own parser, so that strangers don't delay feeds."""
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
    async with open_fetcher(settings, stores) as sender:
        yield device_messages(settings, stores, sender)


def device_messages(settings: Settings, stores: Stores, sender: Sender) -> DeviceMessages:
    """See `open_device_messages`."""
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
    return Templates([FOLDER, IDENTITY_FOLDER, *FOLDERS]).texts(language)


@contextlib.asynccontextmanager
async def open_hub_worker(settings: Settings, stores: Stores) -> AsyncIterator[HubWorker | None]:
    """The service of our hub, if the server has a public URL."""
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
    pace = RoundTiming(turn=functools.partial(take_turn, stores.redis))
    postponed = stores.redis, stores.items, Stream(stores.redis, "incomplete")
    return {
        "retention": retention(settings, stores).run_forever(),
        "follow_repair": follow_repair(stores).run_forever(),
        "daily": run_daily(stores.redis, daily_jobs(settings, stores, subscriber, verifier)),
        "reminding": Reminder(stores.feeds, stores.items, Stream(stores.redis, "stored"), stores.events).run_forever(),
        "look_up_retry": run_periodically(lambda _: retry_look_ups(*postponed), "look_up_retry", pace),
        "figures": figures(stores).publish_forever(Hours(stores.redis)),
        "survey": survey(stores).run_forever(pace),
        **({"search": follower(settings, stores).run_forever()} if can_search(settings) else {}),
        "websub": subscriber.run_forever(pace),
        **({} if hub_worker is None else hub_worker.parts(pace)),
        "mentions": verifier.run(),
        "devices": device_messages.run_forever(pace),
        "mutes": run_periodically(stores.rules.lift_ended, "mutes", pace),
        "packing": run_periodically(repacking(stores).run, "packing", pace),
        "packing_timelines": run_periodically(gone_repacking(stores).run, "packing", pace),
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


async def _forget_outputs(stores: Stores, now: float) -> None:
    names = [user.name for user in await stores.accounts.users()]
    await stores.outputs.forget_removed(names, now - RESTORABLE)


async def sweep_media(stores: Stores, now: float) -> None:
    """Delete files from sources that no post has shown for a month."""
    media = Media(stores.redis)
    for user in await stores.accounts.users():
        await media.sweep(user.name, stores.items, now)
