"""What timelines, rules and retention ask the post store (`posts.store.items.Items`, which lies in other slots of
Redis).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from microsub.model.reader import TimelineItem


class ItemLookup(Protocol):
    """The part of `posts.store.items.Items` that knows what an id stands for."""

    async def timeline_items(self, ids: Sequence[str]) -> list[TimelineItem]:
        """What timelines need of these items; those that don't exist any more are left out."""
        ...

    async def in_feed(self, feed_id: str, ids: Sequence[str]) -> set[str]:
        """Those of the ids that belong to the feed."""
        ...

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        """The named fields of each item."""
        ...
