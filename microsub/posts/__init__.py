"""A post, once: ingest, duplicates, deletion; and the names of the library for programs."""

# ruff: noqa: F403, F405 - the names are the library's; it stands on everything else here, so it is imported late.

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.library.post_store import *

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


def __getattr__(name: str) -> object:
    """A name of the library, when it is first asked for."""
    if name not in __all__:
        raise AttributeError(name)
    from microsub.library import post_store

    return getattr(post_store, name)
