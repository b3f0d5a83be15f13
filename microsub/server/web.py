"""Builds the web application for reader apps and programs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.types import ASGIApp

from microsub.accounts import ActivityNotes, TokenUse
from microsub.backend_file import Configuration
from microsub.base.settings import Settings
from microsub.discovery import PARSE_PATIENCE, PARSE_SECONDS
from microsub.parsing.pool import ParsePool
from microsub.reader.first.pages import starter_feeds
from microsub.redis import keys
from microsub.redis.foresight import Foresight
from microsub.redis.tracking import Tracker
from microsub.search import STANDING_BY, IndexFolder, IndexReader
from microsub.server.app import create_app
from microsub.server.fetching import open_caching_fetcher, open_fetcher, open_page_fetcher
from microsub.server.jobs import can_search, follower
from microsub.server.monitoring import Monitors
from microsub.server.parsers import TASKS
from microsub.server.parts import WebParts
from microsub.server.stores import Stores, tell_failure
from microsub.timelines import ItemCache, Listeners


@contextlib.asynccontextmanager
async def open_app(
    settings: Settings, stores: Stores, config: Configuration
) -> AsyncIterator[tuple[ASGIApp, Callable[[], None]]]:
    """The ASGI application with its cache of items, and a function that ends all parsing and event streams.

    Call the function before the server waits for open requests: those waiting for parsing are then answered at once.
    """
    tracker = Tracker(stores.url, keys.ITEM_PREFIX)
    cache = ItemCache(stores.items, tracker, max_bytes=settings.item_cache_mb * 1024 * 1024)
    parser = ParsePool(TASKS, seconds=PARSE_SECONDS, patience=PARSE_PATIENCE)
    listeners = Listeners(Tracker(stores.url, keys.LIVE_EVENTS_PREFIX))

    def stop() -> None:
        parser.stop()
        listeners.stop()

    async with (
        open_caching_fetcher(settings, stores, shared=True) as fetcher,
        open_fetcher(settings, stores) as plain,
        open_page_fetcher(settings, stores) as pages,
    ):
        parts = WebParts(
            settings, stores, config, cache, listeners, parser, searching=fetcher, pages=pages, plain=plain
        )
        used = ActivityNotes(TokenUse(stores.redis).note)
        parts.token_used = used.note
        parts.foresight = Foresight(stores.redis, getattr(stores.redis, "reporting", None))  # a cluster has none
        try:
            starters, monitors = starter_feeds(settings.starter_feeds), monitors_of(settings)
            async with _index(settings, stores) as parts.index:
                yield create_app(parts, base_url=settings.base_url, monitors=monitors, starters=starters), stop
        finally:
            stop()
            await parts.list_imports.aclose()
            parts.local.close()
            await parts.reading.aclose()
            await parts.foresight.aclose()
            await used.aclose()
            await cache.aclose()
            await listeners.aclose()


def monitors_of(settings: Settings) -> Monitors:
    """The clients that may read metrics and the details of /health."""
    return Monitors(settings.metrics_networks, settings.metrics_token, settings.trusted_proxies)


@contextlib.asynccontextmanager
async def _index(settings: Settings, stores: Stores) -> AsyncIterator[IndexReader | None]:
    """This machine's index of posts, if search is on. This process writes it if no worker here does."""
    if not can_search(settings):
        yield None
        return
    index = IndexReader(IndexFolder(settings.index))
    writing = asyncio.create_task(follower(settings, stores, STANDING_BY).run_forever(), name="search")
    writing.add_done_callback(tell_failure)
    try:
        yield index
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await asyncio.to_thread(index.close)
