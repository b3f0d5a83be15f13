"""One connection to Redis, all stores that use it, and the use cases that commands build on them.

A command needs a few of them, so each is loaded at its first use, by way of the features' faces.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from microsub import (
    accounts,
    admin,
    backend_file,
    feeds,
    identity,
    micropub,
    notices,
    outputs,
    posts,
    timelines,
    transfer,
)
from microsub.base.sealing import KeyFile
from microsub.base.settings import Settings, mask_password
from microsub.base.urls import is_loopback, parts_of
from microsub.configuration.effective import DeclaredSettings, EffectiveSettings
from microsub.model.settings import OwnChannelSettings
from microsub.redis.connect import connect, doubts
from microsub.redis.embedded.datafolder import require_data
from microsub.redis.embedded.server import Watch, start_embedded, watched
from microsub.redis.migrations import VERSION, check_layout, migrate
from microsub.redis.presence import Presence
from microsub.redis.protocol import Redis
from microsub.web.paths import HUB

if TYPE_CHECKING:
    from microsub.accounts import Accounts, PostRoom
    from microsub.feeds import Events, Feeds, Schedule, SignIns
    from microsub.outputs import OutputFeeds
    from microsub.parsing.pool import ParsePool

log = structlog.get_logger(__name__)


def tell_failure(task: asyncio.Task[None]) -> None:
    """Log the bug that ended a background task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a part of the server has ended; restart it", part=task.get_name(), exc_info=error)


class Stores:
    """One connection to the Redis at `url`, and its stores, each created on first use.

    `where` describes the location of the data for people; `watch` reports the end of an embedded Redis. `clock` returns
    Unix time in seconds, for everything built on the stores. `key_file` has the key that encrypts credentials of feeds.
    """

    def __init__(self, redis: Redis, url: str, where: str, watch: Watch) -> None:
        self.redis = redis
        self.url = url
        self.where = where
        self.watch = watch
        self.clock: Callable[[], float] = time.time
        self.key_file = Path("sealing-key")

    @cached_property
    def accounts(self) -> Accounts:
        """The users and their tokens."""
        return accounts.Accounts(self.redis)

    @cached_property
    def adder(self) -> timelines.Adder:
        """See `timelines.add`."""
        return timelines.Adder(self.redis, self.items)

    @cached_property
    def applied(self) -> backend_file.Applied:
        """See `backend_file.store`."""
        return backend_file.Applied(self.redis)

    @cached_property
    def channels(self) -> timelines.Channels:
        """See `timelines.channels`."""
        return timelines.Channels(self.redis)

    @cached_property
    def declared(self) -> DeclaredSettings:
        """See `configuration.effective`."""
        return DeclaredSettings(self.redis)

    @cached_property
    def events(self) -> Events:
        """See `feeds.events`."""
        return feeds.Events(self.redis)

    @cached_property
    def feeds(self) -> Feeds:
        """See `feeds.record`."""
        made = feeds.Feeds(self.redis)
        made.on_follower = admin.Survey(self.redis, made, self.schedule).note_follower
        return made

    @cached_property
    def items(self) -> posts.Items:
        """See `posts.items`."""
        return posts.Items(self.redis)

    @cached_property
    def outputs(self) -> OutputFeeds:
        """See `outputs.store`."""
        return outputs.OutputFeeds(self.redis)

    @cached_property
    def presence(self) -> Presence:
        """See `redis.presence`."""
        return Presence(self.redis)

    @cached_property
    def rules(self) -> timelines.Rules:
        """See `timelines.rules`."""
        return timelines.Rules(self.redis, self.items)

    @cached_property
    def schedule(self) -> Schedule:
        """See `feeds.hosts`."""
        return feeds.Schedule(self.redis)

    @cached_property
    def sign_ins(self) -> SignIns:
        """See `feeds.sign_ins`."""
        return feeds.SignIns(self.redis, KeyFile(self.key_file))

    @cached_property
    def effective(self) -> EffectiveSettings:
        """See `configuration.effective`."""
        return EffectiveSettings(self.declared, self.own_settings)

    @cached_property
    def room(self) -> PostRoom:
        """See `accounts.quotas`."""
        return accounts.PostRoom(self.redis, self.effective)

    async def own_settings(self, user: str, uid: str) -> OwnChannelSettings:
        """A channel's own settings. Raises NotFound."""
        return (await self.channels.get(user, uid)).settings

    async def prepare(self) -> None:
        """Bring the data to the current layout. In a new database, all feeds have automatic full texts."""
        if await migrate(self.redis) == 0:
            await self.channels.automatic_since()

    @cached_property
    def user_addresses(self) -> identity.UserAddresses:
        """See `identity.admission`."""
        return identity.UserAddresses(self.accounts)


@contextlib.asynccontextmanager
async def open_stores(
    settings: Settings, *, create: bool = False, writes: bool = True, oldest: int = VERSION
) -> AsyncIterator[Stores]:
    """Connect to Redis, by default the embedded one, and migrate its data to the current layout.

    With `create`, a missing data folder is created, as for the processes of a server; without it, the data must exist.
    Without `writes`, nothing is migrated: data of a layout before `oldest` raises SchemaMismatch.
    Raises ConfigError, StoreUnavailable or SchemaMismatch, and NotFound if there is no data.
    """
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
        stores = Stores(redis, url, where, watch)
        stores.key_file = settings.sealing_key
        await (stores.prepare() if writes else check_layout(redis, oldest))
        yield stores


async def warn_of_losses(settings: Settings, stores: Stores) -> None:
    """Log which settings of an external Redis may lose data."""
    if not settings.embedded:
        for sentence in await doubts(stores.redis):
            log.warning(sentence)


def callback_base(settings: Settings) -> str | None:
    """`MICROSUB_BASE_URL` if callbacks there are safe for secrets: over https, or on this machine."""
    if settings.base_url is None or (parts := parts_of(settings.base_url)).scheme == "https":
        return settings.base_url
    return settings.base_url if is_loopback(parts.netloc) else None


def following(stores: Stores) -> timelines.Following:
    """The use case that connects channels with feeds."""
    return timelines.Following(
        stores.redis, stores.channels, stores.feeds, stores.items, stores.adder, stores.schedule, stores.effective.of
    )


def signed_feeds(stores: Stores) -> timelines.SignedFeeds:
    """The use cases on the credentials of followed feeds."""
    return timelines.SignedFeeds(stores.redis, stores.channels, stores.feeds, stores.sign_ins, following(stores))


def sources(stores: Stores) -> micropub.Sources:
    """The use cases of sources."""
    return micropub.Sources(stores.redis, stores.accounts, stores.channels, stores.feeds, following(stores))


def feed_lists(settings: Settings, stores: Stores, parser: ParsePool) -> transfer.FeedLists:
    """The import and export of lists of feeds."""
    private = settings.allow_private_networks
    displays = timelines.ChannelDisplays(stores.redis)
    return transfer.FeedLists(stores.channels, stores.feeds, following(stores), parser, displays, private)


def user_export(stores: Stores) -> transfer.UserExport:
    """The export of a user's data."""
    kept = (stores.channels, stores.rules, stores.feeds, stores.items, stores.outputs)
    return transfer.UserExport(stores.redis, *kept, sources(stores), timelines.ChannelDisplays(stores.redis))


async def unlimited(_user: str) -> int:
    """The quotas, which apply to changes made in apps, never to the admin's."""
    return 0


def output_contents(
    stores: Stores,
    most: outputs.MostItems = unlimited,
    search: outputs.ItemSearch | None = None,
    fill: outputs.FillTimelines | None = None,
    base_url: str | None = None,
    own_view: timelines.OwnView | None = None,
) -> outputs.OutputContents:
    """The use cases on items of output feeds, at most `most` of them, and items that `search` finds.

    `fill` adds waiting posts to timelines before they are read. Documents name our hub if there is a `base_url`. The
    `own_view` of pages remembers for documents, too.
    """
    hubs = () if base_url is None else (f"{base_url}{HUB}",)
    parts = (stores.outputs, stores.items, stores.feeds, most)
    own_view = own_view or timelines.OwnView(stores.channels, stores.feeds)
    return outputs.OutputContents(*parts, own_view=own_view, search=search, fill=fill, hubs=hubs)


def ingest(stores: Stores, notify: Callable[[], object] = lambda: None) -> posts.Ingest:
    """The service that stores all posts; `notify` is called when there is something to deliver."""
    parts = (stores.redis, stores.feeds, stores.items, stores.events)
    return posts.Ingest(*parts, clock=stores.clock, notify=notify, room=stores.room)


def notifications(stores: Stores, taking_in: posts.Ingest) -> notices.Notifications:
    """The service that writes notices into `notifications`."""
    parts = (stores.redis, stores.feeds, stores.items, following(stores), taking_in, stores.events, stores.outputs)
    return notices.Notifications(*parts, clock=stores.clock)


def catch_up(stores: Stores) -> timelines.CatchUp:
    """The service that fills timelines for users who were away."""
    settings = stores.effective.instance
    return timelines.CatchUp(stores.redis, stores.items, stores.adder, stores.effective.of, settings)
