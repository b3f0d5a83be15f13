"""The items' wire JSON, kept by each web process, so that a page needs no more than its ids from Redis.

Redis reports what changes (`redis.tracking`), and a report drops the copy. Where nothing is reported (the connection
for it is broken, or there is none) everything is dropped every few seconds instead.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from microsub.redis import keys
from microsub.redis.tracking import Tracker

UNTRACKED_LIFE = 2.0
"""Seconds that a copy may serve while changes aren't reported."""

_OVERHEAD = 150
"""Bytes that an entry costs besides its JSON, roughly."""


class ItemSource(Protocol):
    """The part of `posts.store.items.Items` that fills the cache."""

    async def data(self, ids: Sequence[str]) -> list[bytes | None]:
        """The wire JSON of these items, None where there is none."""
        ...


class _Read:
    """A look-up under way: what was reported as changed since it began must not be kept."""

    __slots__ = ("all_spoiled", "spoiled")

    def __init__(self) -> None:
        self.spoiled: set[str] = set()
        self.all_spoiled = False


class ItemCache:
    """At most `max_bytes` of item JSON, the least recently used leaving first. Belongs to one event loop.

    Listens to `tracker` from the first `get` on, until `aclose`. Missing items aren't remembered.
    """

    def __init__(
        self,
        items: ItemSource,
        tracker: Tracker | None,
        max_bytes: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._items = items
        self._tracker = tracker
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._reads: set[_Read] = set()
        self._flush_at: float | None = 0.0
        self._listening = False

    async def get(self, ids: Sequence[str]) -> list[bytes | None]:
        """The wire JSON of these items, None where an item is gone. At most one round trip, none where all is kept."""
        if self._flush_at is not None:
            self._flush_when_due(self._flush_at)
        found: list[bytes | None] = list(map(self._kept.get, ids))
        missing = [item_id for item_id, data in zip(ids, found, strict=True) if data is None] if None in found else []
        for item_id in ids if not missing else set(ids).difference(missing):
            self._kept.move_to_end(item_id)
        if not missing:
            return found
        read = dict(zip(missing, await self._read(missing), strict=True))
        return [read[item_id] if data is None else data for item_id, data in zip(ids, found, strict=True)]

    async def aclose(self) -> None:
        """Stop listening and forget everything."""
        if self._tracker is not None:
            await self._tracker.aclose()
        self._flush()

    # --- what the tracker tells ------------------------------------------------------------------------------------

    def tracked(self) -> None:
        """See `tracking.Listener`."""
        self._flush()
        self._flush_at = None

    def untracked(self) -> None:
        """See `tracking.Listener`."""
        self._flush()
        self._flush_at = self._clock() + UNTRACKED_LIFE

    def changed(self, names: list[str] | None) -> None:
        """See `tracking.Listener`."""
        if names is None:
            self._flush()
            return
        for name in names:
            item_id = name.removeprefix(keys.ITEM_PREFIX)
            dropped = self._kept.pop(item_id, None)
            if dropped is not None:
                self._bytes -= len(dropped) + _OVERHEAD
            for read in self._reads:
                read.spoiled.add(item_id)

    # --- inside ----------------------------------------------------------------------------------------------------

    async def _read(self, missing: Sequence[str]) -> list[bytes | None]:
        read = _Read()
        self._reads.add(read)
        try:
            values = await self._items.data(missing)
        finally:
            self._reads.discard(read)
        if not read.all_spoiled:
            for item_id, data in zip(missing, values, strict=True):
                if data is not None and item_id not in read.spoiled:
                    self._keep(item_id, data)
        return values

    def _keep(self, item_id: str, data: bytes) -> None:
        before = self._kept.pop(item_id, None)
        if before is not None:
            self._bytes -= len(before) + _OVERHEAD
        self._kept[item_id] = data
        self._bytes += len(data) + _OVERHEAD
        while self._bytes > self._max_bytes and self._kept:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest) + _OVERHEAD

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
        self._bytes = 0
        for read in self._reads:
            read.all_spoiled = True
