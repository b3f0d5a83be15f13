"""One reader with two channels on a Redis, and short names for what tests do with them."""

from __future__ import annotations

from microsub.identity.store.accounts import Accounts
from microsub.model.reader import PageQuery, TimelineItem
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.store.add import Added
from microsub.timelines.store.channels import Channels
from tests.support.known_items import KnownItems
from tests.support.timelines import Timelines

NOW = 1_700_000_000.5
ANN = "ann"


class OneReader:
    """One user with the channels `home` and `work`, the first following feed 1."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.items = KnownItems()
        self.accounts = Accounts(redis)
        self.channels = Channels(redis)
        self.timelines = Timelines(redis, self.items)

    async def begin(self) -> None:
        await self.accounts.add_user(ANN, "https://ann.example/", NOW)
        for uid in ("home", "work"):
            await self.channels.create(ANN, uid.title(), NOW, uid)
        await self.follow("home", "1")

    async def follow(self, uid: str, feed: str, now: float = NOW - 10_000) -> None:
        assert await self.channels.follow(ANN, uid, feed, f"https://{feed}.example/feed", now)
        await self.redis.command("DEL", keys.channel_unfilled(ANN, uid))

    async def add(self, uid: str, *items: TimelineItem, feed: str = "1", limit: int = 0) -> Added:
        self.items.know(feed, *items)
        return await self.timelines.add(ANN, uid, feed, items, now=NOW, limit=limit)

    async def ids(self, uid: str, **query: object) -> list[str]:
        page = await self.timelines.page(ANN, uid, PageQuery(**{"limit": 100, **query}), NOW)  # type: ignore[arg-type]
        return [row.id for row in page.rows]

    async def unread(self, uid: str) -> int:
        return {channel.uid: channel.unread for channel in await self.channels.list(ANN)}[uid]


def item(number: int, score: float | None = None, **more: object) -> TimelineItem:
    return TimelineItem(str(number), repr(score if score is not None else float(number)), **more)  # type: ignore[arg-type]
