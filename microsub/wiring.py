"""The composition root: from settings to clients, from clients to stores, from stores to services and processes.

Everything is built here and passed on by argument. Each `open_…` is a context manager that takes down, in reverse,
what it put up.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from starlette.types import ASGIApp

from microsub.app import create_app
from microsub.cache import CachingFetcher, DirectoryMapping, FeedCache, MappingStorage
from microsub.config.document import check
from microsub.config.settings import Settings, mask_password
from microsub.errors import NotFound
from microsub.fetch import Fetcher, FetchSettings, SpacedFetcher
from microsub.formats.identity import mask_credentials
from microsub.model.scopes import ALL_SCOPES
from microsub.parsing.pool import ParsePool
from microsub.pipeline.fan_out import FanOut, Patient, TimelineLimits
from microsub.pipeline.import_report import ImportReport
from microsub.pipeline.importing import Importing, OldFile
from microsub.pipeline.moving import Mover
from microsub.pipeline.on_demand import PollNow, PollReport
from microsub.pipeline.poll import Poller, PollResult
from microsub.pipeline.runner import Worker, worker_name
from microsub.pipeline.stages import Stages
from microsub.pipeline.turn import Turn
from microsub.services.announcing import Announcing
from microsub.services.applying import Applier
from microsub.services.being_seen import BeingSeen
from microsub.services.bundle import Services
from microsub.services.catching_up import CatchingUp
from microsub.services.checking import Checking
from microsub.services.completing import Completing
from microsub.services.configuration import Configuration
from microsub.services.curating import Curating
from microsub.services.directory import Directory
from microsub.services.following import Following
from microsub.services.health import Health
from microsub.services.in_force import SettingsInForce
from microsub.services.mending import Mending
from microsub.services.posts import Posts
from microsub.services.reading import Reading
from microsub.services.rebuilding import Rebuilding
from microsub.services.reminding import Reminding
from microsub.services.retention import Retention
from microsub.services.rules import RuleBook
from microsub.services.search import PARSE_SECONDS, Search
from microsub.services.sweeping import SWEEPS, Sweeping
from microsub.store import keys
from microsub.store.accounts import Accounts
from microsub.store.activity import Activity
from microsub.store.applied import Applied
from microsub.store.behind import Behind
from microsub.store.channels import Channels
from microsub.store.connect import connect, doubts
from microsub.store.datafolder import has_data
from microsub.store.ekster import open_old
from microsub.store.embedded import start_embedded
from microsub.store.events import Events
from microsub.store.feedcopies import FeedCopies
from microsub.store.feeds import Feeds
from microsub.store.imported import Imported
from microsub.store.itemcache import ItemCache
from microsub.store.items import Items
from microsub.store.lease import leased
from microsub.store.migrations import migrate
from microsub.store.port import Redis
from microsub.store.presence import Presence
from microsub.store.revival import Watch, kept_alive
from microsub.store.rules import Rules
from microsub.store.schedule import Schedule
from microsub.store.servicetokens import ServiceTokens
from microsub.store.streams import Stream
from microsub.store.timelines import Timelines
from microsub.store.tracking import Tracker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """One connection and everything that stands on it. `where` tells people where the data is; `watch` is what is
    known of the life of an embedded Redis.
    """

    redis: Redis
    url: str
    where: str
    accounts: Accounts
    channels: Channels
    timelines: Timelines
    rules: Rules
    feeds: Feeds
    items: Items
    schedule: Schedule
    applied: Applied
    presence: Presence
    in_force: SettingsInForce
    watch: Watch


@contextlib.asynccontextmanager
async def open_stores(settings: Settings, *, existing: bool = False) -> AsyncIterator[Stores]:
    """Connect to Redis, the embedded one when no other is given, and bring its data to the present layout.

    `existing` is for commands that look at data or work on it: where the data folder holds none, nothing is made in it.
    Raises ConfigError, StoreUnavailable or SchemaMismatch, and NotFound for `existing` without data.
    """
    if existing and settings.embedded and not has_data(settings.data_dir):
        raise NotFound(
            f"there is no data in {settings.data_dir.resolve()}; say where it is with --data-dir or MICROSUB_DATA_DIR"
        )
    async with contextlib.AsyncExitStack() as stack:
        url = settings.redis_url
        where = f"Redis at {mask_password(url)}" if url else ""
        embedded = None
        if url is None:
            embedded = await asyncio.to_thread(start_embedded, settings.data_dir)
            stack.push_async_callback(asyncio.to_thread, embedded.stop)
            url, where = embedded.url, f"{embedded.data_dir} (embedded Redis {embedded.version})"
        redis = await connect(url, replicas=None if settings.embedded else settings.redis_replicas)
        stack.push_async_callback(redis.aclose)
        watch = Watch()
        if embedded is not None:
            watch = await stack.enter_async_context(kept_alive(embedded, redis, ended=_tell_failure))
        await migrate(redis)
        yield _stores(redis, url, where, watch)


async def warn_of_losses(settings: Settings, stores: Stores) -> None:
    """Log, for a Redis that isn't ours to configure, which of its settings may lose data."""
    if not settings.embedded:
        for sentence in await doubts(stores.redis):
            log.warning(sentence)


def _stores(redis: Redis, url: str, where: str, watch: Watch) -> Stores:
    items = Items(redis)
    channels = Channels(redis)
    applied = Applied(redis)
    return Stores(
        redis=redis,
        url=url,
        where=where,
        accounts=Accounts(redis),
        channels=channels,
        timelines=Timelines(redis, items),
        rules=Rules(redis, items),
        feeds=Feeds(redis),
        items=items,
        schedule=Schedule(redis),
        applied=applied,
        presence=Presence(redis),
        in_force=SettingsInForce(applied, channels),
        watch=watch,
    )


def following(stores: Stores) -> Following:
    """The use case that connects channels with feeds."""
    return Following(
        stores.channels, stores.feeds, stores.items, stores.timelines, stores.schedule, _TimelineLimits(stores)
    )


class _TimelineLimits:
    """What a timeline takes, from the settings in force."""

    def __init__(self, stores: Stores) -> None:
        self._in_force = stores.in_force

    async def __call__(self, user: str, uid: str) -> TimelineLimits:
        limits = await self._in_force.limits(user, uid)
        return TimelineLimits(items=limits.max_items or 0, fresh=limits.first_fetch_unread or 0)


def fan_out(stores: Stores) -> FanOut:
    """What brings posts into timelines."""

    async def limits() -> Callable[[str], TimelineLimits]:
        of_user = await stores.in_force.limits_of_users()
        made: dict[int, TimelineLimits] = {}  # most of thousands of users share one value, which `of_user` holds

        def known(user: str) -> TimelineLimits:
            limits = of_user(user)
            if (found := made.get(id(limits))) is None:
                found = made[id(limits)] = TimelineLimits(limits.max_items or 0, limits.first_fetch_unread or 0)
            return found

        return known

    delivery = Patient(Activity(stores.redis), Behind(stores.redis), lambda: stores.in_force.instance_now().delivery)
    return FanOut(stores.feeds, stores.items, stores.timelines, limits, patient=delivery)


# --- configuration -------------------------------------------------------------------------------------------------


def configuration(settings: Settings, stores: Stores) -> Configuration:
    """The service that keeps backend.json and the stores in step."""
    applier = Applier(stores.accounts, stores.channels, stores.feeds, stores.rules, following(stores), stores.applied)
    return Configuration(
        settings.backend,
        stores.applied,
        applier,
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
    task.add_done_callback(_tell_failure)
    try:
        yield service
    finally:
        stop.set()
        await task


# --- fetching and polling ------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def open_fetcher(settings: Settings) -> AsyncIterator[Fetcher]:
    """The door to the web."""
    plain = FetchSettings(allow_private_networks=settings.allow_private_networks, proxy=settings.http_proxy)
    fetcher = Fetcher(replace(plain, about=settings.base_url) if settings.base_url else plain)
    try:
        yield fetcher
    finally:
        await fetcher.aclose()


COPIES_KEPT = 3600.0
"""Seconds for which the server keeps a copy of a document beyond its last check: Redis is memory, and what followed
feeds say is in the items. A search, a preview, a follow and its first poll come within minutes.
"""


@contextlib.asynccontextmanager
async def open_caching_fetcher(settings: Settings, stores: Stores) -> AsyncIterator[CachingFetcher]:
    """The door to the web with copies in Redis behind it, which all processes share."""
    async with open_fetcher(settings) as fetcher:
        yield CachingFetcher(FeedCopies(stores.redis), fetcher, keep=COPIES_KEPT)


@contextlib.asynccontextmanager
async def open_feed_cache(settings: Settings, folder: Path) -> AsyncIterator[FeedCache]:
    """The feed cache on a folder, for use without a server."""
    async with open_fetcher(settings) as fetcher, FeedCache(DirectoryMapping(folder), fetcher=fetcher) as cache:
        yield cache


@contextlib.asynccontextmanager
async def open_completing(settings: Settings, stores: Stores | None = None) -> AsyncIterator[Completing]:
    """Look-ups for entries, with the server's copies of documents, or without `stores` with copies of its own."""
    async with open_fetcher(settings) as fetcher, contextlib.AsyncExitStack() as stack:
        copies: FeedCopies | MappingStorage = MappingStorage({}) if stores is None else FeedCopies(stores.redis)
        stack.push_async_callback(copies.aclose)
        yield Completing(CachingFetcher(copies, SpacedFetcher(fetcher), keep=COPIES_KEPT))


@contextlib.asynccontextmanager
async def open_worker(
    settings: Settings, stores: Stores, *, on_refused: Callable[[PollResult], object] | None = None
) -> AsyncIterator[Worker]:
    """A worker that hasn't begun yet. `on_refused`: see `Poller`."""
    await stores.in_force.instance()  # so that the very first poll is planned with the settings, not the defaults
    async with open_caching_fetcher(settings, stores) as fetcher, open_completing(settings, stores) as completing:
        parser = ParsePool()
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
            many = settings.fetch_concurrency
            yield Worker(stores.schedule, turn, stores.presence, stages, name=name, hosts_at_once=many)
        finally:
            parser.close()


@contextlib.asynccontextmanager
async def running_worker(settings: Settings, stores: Stores) -> AsyncIterator[Worker]:
    """A worker that polls and cleans up within the block, or until its `stop`; it ends within ten seconds."""
    async with open_worker(settings, stores) as worker:
        polling = asyncio.create_task(worker.run(), name="worker")
        cleaning = asyncio.create_task(retention(settings, stores).run_for_ever(), name="retention")
        sweep = functools.partial(leased, stores.redis, keys.sweep_lease())
        swept = asyncio.create_task(sweeping(stores).run_for_ever(sweep, SWEEPS), name="sweep")
        mending = asyncio.create_task(_mending(stores).run_for_ever(), name="mending")
        reminding = Reminding(stores.feeds, stores.items, Stream(stores.redis, "stored"))
        reminded = asyncio.create_task(reminding.run_for_ever(), name="reminding")
        for task in (polling, cleaning, swept, mending, reminded):
            task.add_done_callback(_tell_failure)
        try:
            yield worker
        finally:
            cleaning.cancel()
            swept.cancel()
            reminded.cancel()
            mending.cancel()
            worker.stop()
            await asyncio.gather(polling, cleaning, swept, mending, reminded, return_exceptions=True)


def _tell_failure(task: asyncio.Task[None]) -> None:
    """A background task that ends in a bug must not do so silently."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a part of the server has ended; restart it", part=task.get_name(), exc_info=error)


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


def rebuilding(stores: Stores) -> Rebuilding:
    """The service that fills timelines from the store."""
    stored = Stream(stores.redis, "stored")
    return Rebuilding(stores.channels, stores.timelines, stores.items, stored, stores.in_force.instance_now)


def sweeping(stores: Stores) -> Sweeping:
    """The service that lets items go which nobody refers to."""

    def kept() -> int:
        return stores.in_force.instance_now().keep_per_feed or sys.maxsize

    return Sweeping(stores.redis, stores.accounts, stores.feeds, kept=kept)


def retention(settings: Settings, stores: Stores) -> Retention:
    """The service that lets read and old items go, and what was removed long ago."""

    async def declared() -> Collection[str] | None:
        if not settings.backend.exists():
            return ()
        found = (await asyncio.to_thread(check, settings.backend, os.environ)).document
        return None if found is None else found.backend.users.keys()

    return Retention(stores.accounts, stores.channels, stores.timelines, stores.items, stores.in_force.limits, declared)


def _mending(stores: Stores) -> Mending:
    """The service that brings feeds' followers and the schedule to what the channels say."""
    return Mending(stores.accounts, stores.channels, stores.feeds, stores.schedule, following(stores))


async def import_ekster(stores: Stores, file: OldFile, url: str, user: str, *, dry_run: bool) -> ImportReport:
    """Take over the older Go server's file and its Redis at `url` for a user. Raises what `open_old` raises."""
    importing = Importing(stores.accounts, stores.channels, stores.feeds, stores.items, stores.timelines,
                          stores.schedule, Imported(stores.redis), _TimelineLimits(stores))  # fmt: skip
    async with open_old(url, stores.redis) as source:
        return await importing.run(user, file, source, time.time(), dry_run=dry_run)


def checking(stores: Stores) -> Checking:
    """The service that examines all invariants, and mends them."""
    return Checking(stores.redis, _mending(stores))


# --- the web -------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def open_app(settings: Settings, stores: Stores, config: Configuration) -> AsyncIterator[ASGIApp]:
    """The ASGI application with its cache of items."""
    tracker = Tracker(stores.url, keys.ITEM_PREFIX)
    cache = ItemCache(stores.items, tracker, max_bytes=settings.item_cache_mb * 1024 * 1024)
    async with open_caching_fetcher(settings, stores) as fetcher:
        parser = ParsePool(seconds=PARSE_SECONDS)
        reading = _reading(stores, cache)
        try:
            yield create_app(_services(stores, reading, fetcher, parser, config), base_url=settings.base_url)
        finally:
            parser.close()
            await reading.aclose()
            await cache.aclose()


def _reading(stores: Stores, cache: ItemCache) -> Reading:
    """What readers do, with timelines that are filled for who was away."""
    behind, delivery = Behind(stores.redis), stores.in_force.instance_now
    filling = CatchingUp(behind, stores.items, stores.timelines, _TimelineLimits(stores), delivery)
    style, seen = stores.in_force.unread_style, BeingSeen(Activity(stores.redis))
    return Reading(
        stores.channels,
        stores.timelines,
        stores.feeds,
        stores.items,
        cache,
        style=style,
        catching_up=filling,
        seen=seen,
    )


def _services(
    stores: Stores, reading: Reading, fetcher: CachingFetcher, parser: ParsePool, config: Configuration
) -> Services:
    directory = Directory(stores.feeds, stores.in_force.instance_now)
    return Services(
        accounts=stores.accounts,
        reading=reading,
        curating=Curating(stores.channels, stores.feeds),
        following=following(stores),
        rules=RuleBook(stores.rules, stores.channels),
        search=Search(fetcher, directory, stores.feeds, parser),
        health=Health(stores.presence, lambda: stores.watch.trouble),
        posts=Posts(stores.feeds, stores.items, Events(stores.redis)),
        service_tokens=ServiceTokens(stores.redis),
        changed=config.touched,
    )


# --- people at the command line ------------------------------------------------------------------------------------


async def require_user(settings: Settings, stores: Stores, name: str) -> None:
    """Make sure that there is a user of that name, looking into backend.json where the store doesn't know it yet.

    Raises NotFound, naming the users that there are.
    """
    if await stores.accounts.user(name) is None:
        await configuration(settings, stores).look()
    if await stores.accounts.user(name) is None:
        known = ", ".join(user.name for user in await stores.accounts.users()) or "none"
        raise NotFound(f"there is no user '{name}'; users: {known}")


GREETING = "shown at start"
"""The client name of the token in the greeting."""


async def greeting_token(stores: Stores, now: float) -> str | None:
    """A token for the first user, good for a day; those of earlier starts end by themselves. None without users."""
    users = sorted(user.name for user in await stores.accounts.users() if user.disabled is None)
    if not users:
        return None
    return await stores.accounts.create_token(users[0], ALL_SCOPES, GREETING, now, now + 86_400)
