"""A post, once: ingest, duplicates, events, deletion; and `open_post_store`, the library for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.library.opening import *  # noqa: F403


def __getattr__(name: str) -> object:
    """A name of the library, which is imported when it is first asked for: it stands on everything else here."""
    from microsub.library import opening

    if name == "__all__":
        return opening.__all__
    if name in opening.__all__:
        return getattr(opening, name)
    raise AttributeError(name)
