"""The post store as a library: `open_post_store`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from microsub.base.errors import InvalidRequest, NotFound, PostDeleted, StoreError
from microsub.base.settings import read_settings
from microsub.feeds import Event, FeedRecord
from microsub.model.reader import Cursor
from microsub.post_store import EventPage, FeedPage, Post, PostPage, PostStore, Saved
from microsub.server.jobs import store_of_posts
from microsub.server.stores import open_stores

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

    Without arguments it uses the same environment variables as the server (`MICROSUB_REDIS_URL`, `MICROSUB_DATA_DIR`).
    `create` creates a missing data folder; otherwise NotFound is raised. Raises ConfigError for an invalid setting,
    StoreUnavailable and SchemaMismatch.
    """
    flags = {"redis_url": redis_url, "data_dir": None if data_dir is None else str(data_dir)}
    async with open_stores(read_settings(os.environ, flags), create=create) as stores:
        yield store_of_posts(stores)
