"""Posts, each stored once: ingest, duplicates, deletion; and the names of the library for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.library.post_store import *  # noqa: F403 - the names are the library's


def __getattr__(name: str) -> object:
    """A name of the library, imported on first use: the library imports everything else here."""
    if name == "open_post_store" or name[0].isupper():
        from microsub.library import post_store

        if name in post_store.__all__:
            return getattr(post_store, name)
    raise AttributeError(name)
