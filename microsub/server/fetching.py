"""Builds fetchers, with and without a cache of documents."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from microsub import discovery
from microsub.articles import IconFinder, PageReader
from microsub.base.settings import Settings
from microsub.base.urls import host_of
from microsub.cache import CachingFetcher, DirectoryMapping, FeedCache, MappingStorage
from microsub.cache.redis_storage import FeedCopies
from microsub.delivery import Completing
from microsub.fetch import LARGEST_BODY, TOTAL_SECONDS, Fetcher, FetchSettings, HostPace, IsOurs, SpacedFetcher
from microsub.parsing.pool import ParsePool
from microsub.server.stores import Stores


def _hosts_of_people(settings: Settings, stores: Stores | None) -> IsOurs:
    """The URLs whose hosts may be on this machine: the server's own, and those of users in `stores`."""
    here = host_of(settings.base_url or "")

    async def is_ours(host: str) -> bool:
        return host == here or (stores is not None and await stores.user_addresses.has_host(host))

    return is_ours


@contextlib.asynccontextmanager
async def open_fetcher(
    settings: Settings,
    stores: Stores | None = None,
    pace: HostPace | None = None,
    *,
    total: float = TOTAL_SECONDS,
    body: int = LARGEST_BODY,
) -> AsyncIterator[Fetcher]:
    """The fetcher; `pace` limits requests to one host; `total` seconds and the bytes of `body` bound each.

    On this machine's own addresses, it reads only pages of users in `stores`.
    """
    networks, proxy = settings.allow_private_networks, settings.http_proxy
    plain = FetchSettings(allow_private_networks=networks, proxy=proxy, total=total, body=body)
    named = replace(plain, about=settings.base_url) if settings.base_url else plain
    signed: Any = {} if stores is None else {"sign_in_of": stores.sign_ins.headers}
    fetcher = Fetcher(named, pace=pace, is_ours=_hosts_of_people(settings, stores), **signed)
    try:
        yield fetcher
    finally:
        await fetcher.aclose()


COPIES_KEPT = 3600.0
"""Seconds for which a copy of a document is kept after its last check. Redis is memory, and the content of followed
feeds is in the items. A search, a preview, a follow and the first poll happen within minutes.
"""


@contextlib.asynccontextmanager
async def open_caching_fetcher(
    settings: Settings, stores: Stores, *, shared: bool = False
) -> AsyncIterator[CachingFetcher]:
    """The fetcher with copies in Redis, which all processes share.

    With `shared`, each requester has a share of hosts and copies.
    """
    pace, copies = None, FeedCopies(stores.redis)
    if shared:
        pace, copies = HostPace(), FeedCopies(stores.redis, may_keep=discovery.CopyShares(COPIES_KEPT))
    async with open_fetcher(settings, stores, pace) as fetcher:
        yield CachingFetcher(copies, fetcher, keep=COPIES_KEPT)


@contextlib.asynccontextmanager
async def open_feed_cache(settings: Settings, folder: Path) -> AsyncIterator[FeedCache]:
    """The feed cache in a folder, for use without a server."""
    async with open_fetcher(settings) as fetcher, FeedCache(DirectoryMapping(folder), fetcher=fetcher) as cache:
        yield cache


@contextlib.asynccontextmanager
async def open_completing(
    settings: Settings, parser: ParsePool, stores: Stores | None = None
) -> AsyncIterator[Completing]:
    """Look-ups for entries, with the server's copies of documents, or with its own copies."""
    async with open_fetcher(settings, stores) as fetcher, contextlib.AsyncExitStack() as stack:
        copies: FeedCopies | MappingStorage = MappingStorage({}) if stores is None else FeedCopies(stores.redis)
        stack.push_async_callback(copies.aclose)
        yield Completing(CachingFetcher(copies, SpacedFetcher(fetcher), keep=COPIES_KEPT), parser)


LARGEST_PAGE = 4 * 1024 * 1024
"""Bytes of the page of one post: nobody waits for a larger one."""


def open_page_fetcher(settings: Settings, stores: Stores) -> contextlib.AbstractAsyncContextManager[Fetcher]:
    """The fetcher of pages that posts link to."""
    return open_fetcher(settings, stores, total=15.0, body=LARGEST_PAGE)


@contextlib.asynccontextmanager
async def open_page_reader(
    settings: Settings, parser: ParsePool, stores: Stores
) -> AsyncIterator[tuple[PageReader, IconFinder]]:
    """The reader of articles, and the finder of icons, with one request at a time to each host."""
    async with open_page_fetcher(settings, stores) as fetcher:
        spaced = SpacedFetcher(fetcher)
        yield PageReader(spaced, parser), IconFinder(spaced, parser)
