"""The cache of items' JSON in each web process, so that a page reads only its ids from Redis."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from microsub.base.bounded_cache import BoundedCache
from microsub.formats.wire import not_ahead
from microsub.posts import AWAY, PIECE, Items, Texts, within
from microsub.redis import keys
from microsub.redis.tracking import Tracker

_SHORT = 64 * 1024
"""Bytes of an item's JSON up to which it is read without asking for its size: 100 of them are a little over a page."""

UNTRACKED_LIFE = 2.0
"""Seconds for which a copy is used while changes aren't reported."""

_LARGEST = 1024 * 1024
"""Bytes of the largest item that is cached: a few larger ones would evict those of everybody."""

_OVERHEAD = 150
"""Approximate bytes that an entry takes in addition to its JSON."""


class _CacheRead:
    """A read in progress: items reported as changed since it began aren't cached."""

    __slots__ = ("all_stale", "stale")

    def __init__(self) -> None:
        self.stale: set[str] = set()
        self.all_stale = False


class ItemCache:
    """A cache of at most `max_bytes` of item JSON; the least recently used items are evicted first.

    Items that have a full text are kept with both texts. The JSON lacks its opening brace, because each reply puts its
    user's members in front: cutting the brace off for every page would copy the page again. Redis reports changes
    (`redis.tracking`), and a report drops the copy. Without reports, because their connection is broken or there is
    none, everything is dropped every few seconds. Listens to `tracker` from the first `get` until `aclose`. Missing
    items aren't remembered. Belongs to one event loop.
    """

    def __init__(
        self,
        items: Items,
        tracker: Tracker | None,
        max_bytes: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`clock` counts seconds; `now` is Unix time: no item is later."""
        self._now = now
        self._items = items
        self._tracker = tracker
        self._clock = clock
        self._kept: BoundedCache[str, bytes | Texts] = BoundedCache(max_bytes, lambda data: _size(data) + _OVERHEAD)
        self._reads: set[_CacheRead] = set()
        self._flush_at: float | None = 0.0
        self._listening = False

    async def get(self, ids: Sequence[str], *, within_reach: bool = False) -> list[bytes | Texts | None]:
        """The wire JSON of these items without its opening brace, None if an item no longer exists or is corrupt.

        Both texts of those that have a full text. Of items that are large together, only the first ones, up to `PIECE`.
        At most one round trip, none if all are cached, and another one for large items. `within_reach`: `AWAY` for
        items that can't be read now because their master is away, instead of StoreUnavailable.
        """
        if self._flush_at is not None:
            self._flush_when_due(self._flush_at)
        found: list[bytes | Texts | int | None] = list(map(self._kept.get, ids))
        missing = [] if all(found) else [item_id for item_id, data in zip(ids, found, strict=True) if data is None]
        for item_id in ids if not missing else set(ids).difference(missing):
            self._kept.touch(item_id)
        if missing:
            read = dict(zip(missing, await self._read(missing, _SHORT, within_reach), strict=True))
            found = [read[item_id] if data is None else data for item_id, data in zip(ids, found, strict=True)]
        sizes = [_size(data) for data in found]
        count = len(found) if sum(sizes) <= PIECE else within(sizes, PIECE)
        found = found[:count]
        large = [item_id for item_id, data in zip(ids, found, strict=False) if isinstance(data, int)]
        if large:
            whole = dict(zip(large, await self._read(large, sys.maxsize, within_reach), strict=True))
            found = [whole.get(one) if isinstance(data, int) else data for one, data in zip(ids, found, strict=False)]
        return [None if isinstance(data, int) else data for data in found]

    async def aclose(self) -> None:
        """Stop listening and forget everything."""
        if self._tracker is not None:
            await self._tracker.aclose()
        self._flush()

    # --- reports of the tracker (`tracking.Listener`) --------------------------------------------------------------

    def tracked(self) -> None:
        """Changes are reported from now on; copies made before may be out of date."""
        self._flush()
        self._flush_at = None

    def untracked(self) -> None:
        """Changes are no longer reported."""
        self._flush()
        self._flush_at = self._clock() + UNTRACKED_LIFE

    def changed(self, names: list[str] | None) -> None:
        """Drop the copies of these keys; None: drop all."""
        if names is None:
            self._flush()
            return
        for name in names:
            item_id = name.removeprefix(keys.ITEM_PREFIX)
            self._kept.pop(item_id)
            for read in self._reads:
                read.stale.add(item_id)

    # --- implementation --------------------------------------------------------------------------------------------

    async def _read(self, missing: Sequence[str], most: int, within_reach: bool) -> list[bytes | Texts | int | None]:
        """These items from the store; the sizes of those with more than `most` bytes."""
        read = _CacheRead()
        self._reads.add(read)
        try:
            found = await self._items.texts_up_to(missing, most, within_reach=within_reach)
            now = self._now()
            values = [data if isinstance(data, int) else _opened(data, now) for data in found]
        finally:
            self._reads.discard(read)
        if not read.all_stale:
            for item_id, data in zip(missing, values, strict=True):
                cached = None if isinstance(data, int) or not data or item_id in read.stale else data
                if cached is not None and _size(cached) <= _LARGEST:
                    self._kept[item_id] = cached
        return values

    def _flush_when_due(self, flush_at: float) -> None:
        if self._tracker is not None and not self._listening:
            self._listening = True
            self._tracker.start(self)
        now = self._clock()
        if now >= flush_at:
            self._flush()
            self._flush_at = now + UNTRACKED_LIFE

    def _flush(self) -> None:
        self._kept.clear()
        for read in self._reads:
            read.all_stale = True


def _size(data: bytes | Texts | int | None) -> int:
    """The bytes of an item, or its size itself if it is too large to be read at once."""
    if type(data) is bytes:
        return len(data)
    if isinstance(data, Texts):
        return len(data.own) + len(data.full)
    return data if isinstance(data, int) else 0


def _opened(data: bytes | Texts | None, now: float) -> bytes | Texts | None:
    """An item without its opening brace, and not later than `now`; None for what can't be unpacked, which is no JSON.

    `AWAY` stays what it is.
    """
    if isinstance(data, Texts):
        return data._replace(own=not_ahead(data.own, now)[1:], full=not_ahead(data.full, now)[1:])
    return not_ahead(data, now)[1:] if data is not None and data[:1] in {b"{", AWAY} else None
