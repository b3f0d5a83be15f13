"""One reader with two channels on a Redis, and short names for operations in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from microsub.accounts.store import Accounts
from microsub.model.reader import PageQuery, TimelineItem
from microsub.redis.protocol import Redis
from microsub.timelines import READ_EVERYWHERE, Channels
from microsub.timelines.add import Added
from microsub.timelines.rules import Rules
from microsub.timelines.sync.arrivals import Arrival, ArrivalQuery, Arrivals, keep_order, read_arrivals
from tests.support.timelines import Timelines

NOW = 1_700_000_000.5
ANN = "ann"


class OneReader:
    """One user with the channels `home` and `work`, each with its own read state, and the order of arrival.

    `home` follows feed 1.
    """

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.items = KnownItems()
        self.accounts = Accounts(redis)
        self.channels = Channels(redis)
        self.timelines = Timelines(redis, self.items)
        self.rules = Rules(redis, self.items)

    async def begin(self) -> None:
        await self.accounts.add_user(ANN, "https://ann.example/", NOW)
        await self.accounts.set_settings(ANN, {READ_EVERYWHERE: "no"})
        for uid in ("home", "work"):
            await self.channels.create(ANN, uid.title(), NOW, uid)
        await self.follow("home", "1")
        await keep_order(self.redis, self.items, ANN, NOW - 100_000)

    async def follow(self, uid: str, feed: str, now: float = NOW - 10_000) -> None:
        assert await self.channels.follow(ANN, uid, feed, f"https://{feed}.example/feed", now)
        await self.channels.set_unread_from(ANN, uid, feed, 0.0)

    async def add(self, uid: str, *items: TimelineItem, feed: str = "1", limit: int = 0) -> Added:
        self.items.know(feed, *items)
        return await self.timelines.add(ANN, uid, feed, items, now=NOW, limit=limit)

    async def ids(self, uid: str, **query: object) -> list[str]:
        page = await self.timelines.page(ANN, uid, PageQuery(**{"limit": 100, **query}), NOW)  # type: ignore[arg-type]
        return [row.id for row in page.rows]

    async def arrivals_page(self, uid: str, **query: Any) -> Arrivals:
        return (await read_arrivals(self.redis, ANN, uid, ArrivalQuery(**query), NOW))[1]

    async def arrivals(self, uid: str = "global", oldest_first: bool = True, size: int = 7) -> list[Arrival]:
        """All arrivals, read in pages of this size."""
        rows: list[Arrival] = []
        after = ""
        while True:
            page = await self.arrivals_page(uid, limit=size, oldest_first=oldest_first, after=after)
            rows += page.rows
            if page.resume is None:
                return rows
            after = str(page.resume)

    async def unread(self, uid: str) -> int:
        return {channel.uid: channel.unread for channel in await self.channels.list(ANN)}[uid]


def item(number: int, score: float | None = None, **more: object) -> TimelineItem:
    return TimelineItem(str(number), repr(score if score is not None else float(number)), **more)  # type: ignore[arg-type]


@dataclass
class KnownItems:
    """Items by id, with their feeds and further fields."""

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

    async def duplicates(self, ids: Sequence[str]) -> dict[str, set[str]]:
        pairs = [(item.id, other.item) for item in self.items.values() for other in item.duplicates]
        found = dict[str, set[str]]()
        for one, other in [*pairs, *((other, one) for one, other in pairs)]:
            if one in ids:
                found.setdefault(one, set()).add(other)
        return found

    async def in_feed(self, feed_id: str, ids: Sequence[str]) -> set[str]:
        return {item for item in ids if self.feeds.get(item) == feed_id}

    async def newest(self, feed_id: str, limit: int, since: float = float("-inf")) -> list[str]:
        mine = [item for item, feed in self.feeds.items() if feed == feed_id and float(self.items[item].score) >= since]
        return sorted(mine, key=lambda item: (float(self.items[item].score), item), reverse=True)[:limit]

    async def scores(self, ids: Sequence[str]) -> list[str | None]:
        return [self.items[item].score if item in self.items else None for item in ids]

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        return [[self._field(item, name) for name in names] for item in ids]

    async def pieces(self, ids: Sequence[str]) -> AsyncIterator[dict[str, bytes]]:
        yield {item: data for item in ids if (data := self._field(item, "Data")) is not None}

    def _field(self, item: str, name: str) -> bytes | None:
        if item not in self.items:
            return None
        if name == "discovered":
            return str(self.discovered.get(item, self.items[item].score)).encode()
        if name == "Data":
            return self.data.get(item, b"{}")
        return {"feed": self.feeds[item], "score": self.items[item].score}.get(name, "").encode()
