"""The post store as a library: `open_post_store` for Python programs that bring posts, or read them.

It works on the server's own Redis, beside the server or without one. What is saved here reaches timelines when a worker
runs (`microsub serve`, `microsub work`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from microsub import wiring
from microsub.errors import InvalidRequest, NotFound, PostDeleted, StoreError
from microsub.feeds.announcing import Announcing
from microsub.feeds.store.events import Event, Events
from microsub.feeds.store.record import FeedRecord
from microsub.library.post_store import PostStore, Saved
from microsub.library.reading import EventPage, FeedPage, Post, PostPage
from microsub.model.reader import Cursor
from microsub.posts.store_stage import StoreEntries
from microsub.redis.streams import Stream
from microsub.settings import read_settings

__all__ = [
    "Cursor",
    "Event",
    "EventPage",
    "FeedPage",
    "FeedRecord",
    "InvalidRequest",
    "NotFound",
    "Post",
    "PostDeleted",
    "PostPage",
    "PostStore",
    "Saved",
    "StoreError",
    "open_post_store",
]


@contextlib.asynccontextmanager
async def open_post_store(
    redis_url: str | None = None, data_dir: str | Path | None = None, *, create: bool = False
) -> AsyncIterator[PostStore]:
    """The post store on that Redis, or on the embedded one of a data folder.

    Without arguments the environment decides, as it does for the server (`MICROSUB_REDIS_URL`, `MICROSUB_DATA_DIR`).
    `create` makes a data folder where there is none. Raises NotFound where there is none otherwise, ConfigError for a
    setting that can't be used, StoreUnavailable and SchemaMismatch.
    """
    flags = {"redis_url": redis_url, "data_dir": None if data_dir is None else str(data_dir)}
    async with wiring.stores.open_stores(read_settings(os.environ, flags), create=create) as stores:
        yield post_store(stores)


def post_store(stores: wiring.stores.Stores) -> PostStore:
    """The post store on stores that are open."""
    redis = stores.redis
    announcing = Announcing(Events(redis))
    store = StoreEntries(
        redis, stores.feeds, stores.items, Stream(redis, "stored"), Stream(redis, "incomplete"), announcing
    )
    return PostStore(
        redis,
        stores.feeds,
        stores.items,
        stores.accounts,
        store,
        announcing,
        wiring.upkeep.sweeping(stores),
    )
