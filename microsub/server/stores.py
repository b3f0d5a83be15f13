"""One connection to Redis and all stores that use it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from microsub.base.settings import Settings, mask_password

if TYPE_CHECKING:  # most commands need only a few of these, and each takes time to load
    from microsub.accounts import Accounts, PostRoom
    from microsub.backend_file.store import Applied
    from microsub.configuration.effective import DeclaredSettings, EffectiveSettings
    from microsub.delivery.delivery import Delivered, Delivery
    from microsub.feeds import Events, Feeds, Schedule
    from microsub.hub.topics import Topics
    from microsub.identity.admission import UserAddresses
    from microsub.micropub.sources import Sources
    from microsub.model.settings import OwnChannelSettings
    from microsub.notices import Notifications
    from microsub.outputs import FillTimelines, ItemSearch, MostItems, OutputContents, OutputFeeds
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Items
    from microsub.posts.ingest import Ingest
    from microsub.redis.embedded.server import Watch
    from microsub.redis.presence import Presence
    from microsub.redis.protocol import Redis
    from microsub.timelines.add import Adder
    from microsub.timelines.backlog import CatchUp
    from microsub.timelines.channels import Channels
    from microsub.timelines.follow import Following
    from microsub.timelines.rules import Rules
    from microsub.transfer import FeedLists, UserExport

log = structlog.get_logger(__name__)


def tell_failure(task: asyncio.Task[None]) -> None:
    """Log the bug that ended a background task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a part of the server has ended; restart it", part=task.get_name(), exc_info=error)


_PARTS = {
    "accounts": "accounts.store:Accounts",
    "adder": "timelines.add:Adder",
    "applied": "backend_file.store:Applied",
    "channels": "timelines.channels:Channels",
    "declared": "configuration.effective:DeclaredSettings",
    "events": "feeds.events:Events",
    "feeds": "feeds.record:Feeds",
    "items": "posts.items:Items",
    "outputs": "outputs.store:OutputFeeds",
    "presence": "redis.presence:Presence",
    "rules": "timelines.rules:Rules",
    "schedule": "feeds.hosts:Schedule",
}
"""The module of each store's class."""


class Stores:
    """One connection to the Redis at `url`, and its stores, each created on first use.

    `where` describes the location of the data for people; `watch` reports the end of an embedded Redis. `clock` returns
    Unix time in seconds, for everything built on the stores.
    """

    accounts: Accounts
    adder: Adder
    applied: Applied
    channels: Channels
    declared: DeclaredSettings
    events: Events
    feeds: Feeds
    items: Items
    outputs: OutputFeeds
    presence: Presence
    rules: Rules
    schedule: Schedule

    def __init__(self, redis: Redis, url: str, where: str, watch: Watch) -> None:
        self.redis = redis
        self.url = url
        self.where = where
        self.watch = watch
        self.clock: Callable[[], float] = time.time

    def __getattr__(self, name: str) -> object:
        if name not in _PARTS:
            raise AttributeError(name)
        module, _, kind = _PARTS[name].partition(":")
        more = (self.items,) if name in {"adder", "rules"} else ()
        part: object = getattr(import_module(f"microsub.{module}"), kind)(self.redis, *more)
        setattr(self, name, part)
        return part

    @cached_property
    def effective(self) -> EffectiveSettings:
        """See `configuration.effective`."""
        from microsub.configuration.effective import EffectiveSettings

        return EffectiveSettings(self.declared, self.own_settings)

    @cached_property
    def room(self) -> PostRoom:
        """See `accounts.quotas`."""
        from microsub.accounts import PostRoom

        return PostRoom(self.redis, self.effective)

    async def own_settings(self, user: str, uid: str) -> OwnChannelSettings:
        """A channel's own settings. Raises NotFound."""
        return (await self.channels.get(user, uid)).settings

    @cached_property
    def user_addresses(self) -> UserAddresses:
        """See `identity.admission`."""
        from microsub.identity.admission import UserAddresses

        return UserAddresses(self.accounts)


@contextlib.asynccontextmanager
async def open_stores(settings: Settings, *, create: bool = False, writes: bool = True) -> AsyncIterator[Stores]:
    """Connect to Redis, by default the embedded one, and migrate its data to the current layout.

    With `create`, a missing data folder is created, as for the processes of a server; without it, the data must exist.
    Without `writes`, nothing is migrated: data of an older layout raises SchemaMismatch.
    Raises ConfigError, StoreUnavailable or SchemaMismatch, and NotFound if there is no data.
    """
    from microsub.redis.connect import connect
    from microsub.redis.embedded.datafolder import require_data
    from microsub.redis.embedded.server import Watch, start_embedded, watched
    from microsub.server.migrations import check_layout, migrate

    if settings.embedded and not create:
        require_data(settings.data_dir)
    async with contextlib.AsyncExitStack() as stack:
        url = settings.redis_url
        where = f"Redis at {mask_password(url)}" if url else ""
        embedded = None
        if url is None:
            memory = None if settings.redis_memory_mb is None else settings.redis_memory_mb * 1024 * 1024
            embedded = await asyncio.to_thread(start_embedded, settings.data_dir, memory, settings.redis_server)
            stack.push_async_callback(asyncio.to_thread, embedded.stop)
            url, where = embedded.url, f"{embedded.data_dir} (embedded {embedded.engine})"
        redis = await connect(url, replicas=None if settings.embedded else settings.redis_replicas)
        stack.push_async_callback(redis.aclose)
        watch = Watch()
        if embedded is not None:
            watch = await stack.enter_async_context(watched(embedded, failed=tell_failure))
        await (migrate if writes else check_layout)(redis)
        yield Stores(redis, url, where, watch)


async def warn_of_losses(settings: Settings, stores: Stores) -> None:
    """Log which settings of an external Redis may lose data."""
    from microsub.redis.connect import doubts

    if not settings.embedded:
        for sentence in await doubts(stores.redis):
            log.warning(sentence)


def callback_base(settings: Settings) -> str | None:
    """`MICROSUB_BASE_URL` if callbacks there are safe for secrets: over https, or on this machine."""
    from microsub.base.urls import parts_of

    if settings.base_url is None or (parts := parts_of(settings.base_url)).scheme == "https":
        return settings.base_url
    from microsub.web.headers import is_loopback  # imports Starlette, which no command needs

    return settings.base_url if is_loopback(parts.netloc) else None


def following(stores: Stores) -> Following:
    """The use case that connects channels with feeds."""
    from microsub.timelines.follow import Following

    return Following(
        stores.redis, stores.channels, stores.feeds, stores.items, stores.adder, stores.schedule, stores.effective.of
    )


def sources(stores: Stores) -> Sources:
    """The use cases of sources."""
    from microsub.micropub.sources import Sources

    return Sources(stores.redis, stores.accounts, stores.channels, stores.feeds, following(stores))


def feed_lists(settings: Settings, stores: Stores, parser: ParsePool) -> FeedLists:
    """The import and export of lists of feeds."""
    from microsub.transfer import FeedLists

    private = settings.allow_private_networks
    return FeedLists(stores.channels, stores.feeds, following(stores), parser, private)


def user_export(stores: Stores) -> UserExport:
    """The export of a user's data."""
    from microsub.transfer import UserExport

    kept = (stores.channels, stores.rules, stores.feeds, stores.items, stores.outputs)
    return UserExport(stores.redis, *kept, sources(stores))


async def unlimited(_user: str) -> int:
    """The quotas, which apply to changes made in apps, never to the admin's."""
    return 0


def output_contents(
    stores: Stores,
    most: MostItems = unlimited,
    search: ItemSearch | None = None,
    fill: FillTimelines | None = None,
    base_url: str | None = None,
) -> OutputContents:
    """The use cases on items of output feeds, at most `most` of them, and items that `search` finds.

    `fill` adds waiting posts to timelines before they are read. Documents name our hub if there is a `base_url`.
    """
    from microsub.outputs import OutputContents
    from microsub.web.paths import HUB

    hubs = () if base_url is None else (f"{base_url}{HUB}",)
    return OutputContents(stores.outputs, stores.items, stores.feeds, most, search=search, fill=fill, hubs=hubs)


def hub_topics(
    settings: Settings,
    stores: Stores,
    contents: OutputContents,
    fill: FillTimelines | None = None,
) -> Topics | None:
    """The topics of our hub; None if the server has no public URL."""
    if settings.base_url is None:
        return None
    from microsub.hub.topics import ChannelTopics, Topics
    from microsub.web.pages import FOLDER, Templates

    return Topics(
        settings.base_url,
        ChannelTopics(stores.redis, settings.base_url),
        stores.outputs,
        contents,
        stores.feeds,
        stores.items,
        stylesheet=Templates([FOLDER], urlsplit(settings.base_url).path).static("pages.css"),
        fill=fill,
        stored_feeds=settings.hub_feeds,
        any_port=bool(settings.allow_private_networks),
        clock=stores.clock,
    )


def ingest(stores: Stores, notify: Callable[[], object] = lambda: None) -> Ingest:
    """The service that stores all posts; `notify` is called when there is something to deliver."""
    from microsub.posts.ingest import Ingest

    parts = (stores.redis, stores.feeds, stores.items, stores.events)
    return Ingest(*parts, clock=stores.clock, notify=notify, room=stores.room)


def notifications(stores: Stores, taking_in: Ingest) -> Notifications:
    """The service that writes notices into `notifications`."""
    from microsub.notices import Notifications

    parts = (stores.redis, stores.feeds, stores.items, following(stores), taking_in, stores.events, stores.outputs)
    return Notifications(*parts, clock=stores.clock)


def delivery(stores: Stores, delivered: Delivered | None = None) -> Delivery:
    """The service that adds posts to timelines; `delivered` is called afterwards."""
    from microsub.accounts import Activity
    from microsub.delivery.delivery import Delivery
    from microsub.timelines.backlog import TimelineBacklog

    return Delivery(
        stores.redis,
        stores.feeds,
        stores.items,
        stores.adder,
        stores.effective.of_users,
        Activity(stores.redis),
        TimelineBacklog(stores.redis),
        lambda: stores.effective.instance_now().delivery,
        delivered=delivered,
        clock=stores.clock,
    )


def catch_up(stores: Stores) -> CatchUp:
    """The service that fills timelines for users who were away."""
    from microsub.timelines.backlog import CatchUp, TimelineBacklog

    settings = stores.effective.instance_now
    return CatchUp(TimelineBacklog(stores.redis), stores.items, stores.adder, stores.effective.of, settings)
