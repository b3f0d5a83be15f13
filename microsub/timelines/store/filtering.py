"""Which items a channel's filters let in, asked where items come into timelines (`Timelines.add_to`).

An item that is filtered out leaves no trace in the timeline, so that an edit of it, which may read otherwise, can bring
it in; what stands in a timeline isn't filtered any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import orjson

from microsub.logs import LibraryLogger
from microsub.model.filters import Filter, Searched
from microsub.model.reader import TimelineItem
from microsub.redis.protocol import Arg
from microsub.timelines.store.adding import item_args, newest_first
from microsub.timelines.store.lookup import ItemLookup
from microsub.timelines.store.timelinekeys import batches

log = LibraryLogger(__name__)


@lru_cache(maxsize=1024)
def filter_of(filters: bytes) -> Filter | None:
    """The filter in the field of that name of a channel; None where there is none, or where it can't be read."""
    if not filters:
        return None
    try:
        made = Filter.of(orjson.loads(filters))
    except (ValueError, AttributeError, TypeError):
        return None
    if made.broken:
        log.warning("filters with an expression that can't be used; it is left out", settings=made.broken)
    return made


class Delivery:
    """Items of one feed on their way to timelines, and which of them each channel takes. Made once, for any number of
    timelines: the posts are read once, and only if somebody filters.

    `feed` is '' for items of no feed. `unfiltered` items come in whatever a channel filters. `again` is `adding.AGAIN`
    or `DOUBT` for what may have been in the timeline before.
    """

    def __init__(
        self, lookup: ItemLookup, feed: str, items: Sequence[TimelineItem], now: float, *, unfiltered: bool = False,
        again: str = "",
    ) -> None:  # fmt: skip
        self.feed = feed
        self.now = f"{now:.6f}"
        self.unfiltered = unfiltered
        self._again = again
        self._lookup = lookup
        self._items = newest_first(items)
        self._posts: dict[str, Searched] | None = None
        self._args: dict[bytes, list[list[Arg]]] = {}

    async def args(self, filters: bytes) -> list[list[Arg]]:
        """What a channel with these filters takes, as arguments of one script call after the other."""
        known = self._args.get(filters)
        if known is None:
            rule = None if self.unfiltered else filter_of(filters)
            chosen = self._items
            if rule is not None:
                posts = await self._read()
                chosen = [item for item in self._items if item.id in posts and rule.takes(posts[item.id])]
            known = [item_args(batch, self._again) for batch in batches(chosen)]
            if not known and self._items:
                known = [[]]  # that nothing is left of a first fill must be told too
            self._args[filters] = known
        return known

    async def _read(self) -> dict[str, Searched]:
        if self._posts is None:
            ids = [item.id for item in self._items]
            rows = await self._lookup.fields(ids, ("Data",))
            # One that was deleted in this moment has no text any more, and no place in a timeline either.
            self._posts = {
                item_id: Searched.of(orjson.loads(data))
                for item_id, (data,) in zip(ids, rows, strict=True)
                if data is not None
            }
        return self._posts
