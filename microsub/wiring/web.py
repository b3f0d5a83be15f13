"""The application that answers reader apps and programs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from starlette.types import ASGIApp

from microsub.app import create_app
from microsub.cache import CachingFetcher
from microsub.configuration.sync import Configuration
from microsub.discovery.directory import Directory
from microsub.discovery.search import PARSE_PATIENCE, PARSE_SECONDS, Search
from microsub.feeds.store.events import Events
from microsub.health import Health
from microsub.identity.activity import ActivityNotes
from microsub.identity.store.activity import Activity, TokenUse
from microsub.identity.store.service_tokens import ServiceTokens
from microsub.library.reading import Posts
from microsub.monitoring import Monitors
from microsub.parsing.pool import ParsePool
from microsub.redis import keys
from microsub.redis.tracking import Tracker
from microsub.settings import Settings
from microsub.surface import IdentityServices, Services
from microsub.timelines.catching_up import CatchingUp
from microsub.timelines.reading import ReaderViews
from microsub.timelines.store.add import Behind
from microsub.timelines.store.pages import ItemCache
from microsub.wiring.fetching import open_caching_fetcher, open_fetcher
from microsub.wiring.identity import open_identity
from microsub.wiring.stores import Stores, following
from microsub.wiring.upkeep import figures


@contextlib.asynccontextmanager
async def open_app(
    settings: Settings, stores: Stores, config: Configuration
) -> AsyncIterator[tuple[ASGIApp, Callable[[], None]]]:
    """The ASGI application with its cache of items; and what ends all parsing for good, so that requests that wait for
    it are answered at once. Call it before the server waits for them.
    """
    tracker = Tracker(stores.url, keys.ITEM_PREFIX)
    cache = ItemCache(stores.items, tracker, max_bytes=settings.item_cache_mb * 1024 * 1024)
    parser = ParsePool(seconds=PARSE_SECONDS, patience=PARSE_PATIENCE)
    async with (
        open_caching_fetcher(settings, stores, shared=True) as fetcher,
        open_fetcher(settings) as plain,
        open_identity(settings, stores.redis, plain, parser, stores.in_force.instance_now, stores.in_force) as identity,
    ):
        reading, used = _reading(stores, cache), ActivityNotes(TokenUse(stores.redis))
        try:
            services = replace(_services(stores, reading, fetcher, parser, config, identity), token_use=used)
            monitors = Monitors(settings.metrics_networks, settings.metrics_token, settings.trusted_proxies)
            yield create_app(services, base_url=settings.base_url, monitors=monitors), parser.stop
        finally:
            parser.stop()
            await reading.aclose()
            await used.aclose()
            await cache.aclose()


def _reading(stores: Stores, cache: ItemCache) -> ReaderViews:
    """What readers do, with timelines that are filled for who was away."""
    behind, delivery = Behind(stores.redis), stores.in_force.instance_now
    filling = CatchingUp(behind, stores.items, stores.adder, stores.in_force.of, delivery)
    style, seen = stores.in_force.unread_style, ActivityNotes(Activity(stores.redis))
    return ReaderViews(
        stores.redis,
        stores.channels,
        stores.feeds,
        stores.items,
        cache,
        style=style,
        catching_up=filling,
        seen=seen,
    )


def _services(
    stores: Stores,
    reading: ReaderViews,
    fetcher: CachingFetcher,
    parser: ParsePool,
    config: Configuration,
    identity: IdentityServices,
) -> Services:
    directory = Directory(stores.feeds, stores.in_force.instance_now)
    return Services(
        accounts=stores.accounts,
        reading=reading,
        redis=stores.redis,
        channels=stores.channels,
        items=stores.items,
        following=following(stores),
        rules=stores.rules,
        search=Search(fetcher, directory, parser),
        health=Health(stores.presence, lambda: config.status),
        figures=figures(stores),
        posts=Posts(stores.feeds, stores.items, Events(stores.redis)),
        service_tokens=ServiceTokens(stores.redis),
        identity=identity,
        changed=config.touched,
    )
