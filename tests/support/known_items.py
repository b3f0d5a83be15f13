"""A post store in memory, for tests of what stands above it: `timelines.store.timelinekeys.ItemLookup` over dicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from microsub.model.reader import TimelineItem


@dataclass
class KnownItems:
    """Items by id, the feed of each, and further fields."""

    items: dict[str, TimelineItem] = field(default_factory=dict)
    feeds: dict[str, str] = field(default_factory=dict)
    discovered: dict[str, float] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)

    def know(self, feed: str, *items: TimelineItem) -> tuple[TimelineItem, ...]:
        for item in items:
            self.items[item.id] = item
            self.feeds[item.id] = feed
        return items

    async def timeline_items(self, ids: Sequence[str]) -> list[TimelineItem]:
        return [self.items[item] for item in ids if item in self.items]

    async def in_feed(self, feed_id: str, ids: Sequence[str]) -> set[str]:
        return {item for item in ids if self.feeds.get(item) == feed_id}

    async def newest(self, feed_id: str, limit: int, since: float = float("-inf")) -> list[str]:
        mine = [item for item, feed in self.feeds.items() if feed == feed_id and float(self.items[item].score) >= since]
        return sorted(mine, key=lambda item: (float(self.items[item].score), item), reverse=True)[:limit]

    async def places(self, ids: Sequence[str]) -> list[str | None]:
        return [self.items[item].score if item in self.items else None for item in ids]

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        return [[self._field(item, name) for name in names] for item in ids]

    def _field(self, item: str, name: str) -> bytes | None:
        if item not in self.items:
            return None
        if name == "discovered":
            return str(self.discovered.get(item, self.items[item].score)).encode()
        if name == "Data":
            return self.data.get(item, b"{}")
        return {"feed": self.feeds[item], "score": self.items[item].score}.get(name, "").encode()
