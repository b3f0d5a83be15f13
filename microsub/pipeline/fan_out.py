"""From stored items to the timelines of everybody who follows their feed.

Adding is idempotent and asks nothing of earlier attempts: a fan-out that broke off is simply done again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from microsub.metrics import ITEMS_DELIVERED
from microsub.store.messages import ItemsStored

if TYPE_CHECKING:
    from microsub.model.reader import TimelineItem
    from microsub.store.feeds import Feeds
    from microsub.store.items import Items
    from microsub.store.streams import Message
    from microsub.store.timelines import Timelines

_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class TimelineLimits:
    """`items`: how many a timeline holds (0: all). `fresh`: how many of a newly followed feed come in as unread."""

    items: int = 2000
    fresh: int = 10


LimitsOf = Callable[[str, str], Awaitable[TimelineLimits]]
"""User and channel uid to what holds there; asked for every subscriber, so it should remember."""


async def default_limits(_user: str, _uid: str) -> TimelineLimits:
    """The defaults for everybody."""
    return TimelineLimits()


class FanOut:
    """Puts items into timelines and tells timelines about edits."""

    def __init__(
        self,
        feeds: Feeds,
        items: Items,
        timelines: Timelines,
        limits: LimitsOf = default_limits,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._feeds = feeds
        self._items = items
        self._timelines = timelines
        self._limits = limits
        self._clock = clock

    async def handle(self, message: Message) -> None:
        """Handle `ItemsStored`. Raises StoreError; anything else is a message that isn't ours."""
        news = ItemsStored.of(message.fields)
        items = {item.id: item for item in await self._items.timeline_items(list({*news.new, *news.edited}))}
        new = [items[item_id] for item_id in news.new if item_id in items]
        now = self._clock()
        if news.target is not None:
            await self.deliver_to(*news.target, news.feed, new, now)
            return
        await self.deliver(news.feed, new, now)
        await self.recheck(news.feed, [items[item_id] for item_id in news.edited if item_id in items], now)

    async def deliver(self, feed_id: str, items: Sequence[TimelineItem], now: float) -> int:
        """Add `items` to the timelines of all subscribers; how many were taken in, over all of them."""
        if not items:
            return 0
        return sum(
            await self._for_subscribers(feed_id, lambda user, uid: self.deliver_to(user, uid, feed_id, items, now))
        )

    async def deliver_to(self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], now: float) -> int:
        """Add `items` to one timeline; how many it took in.

        All of them go in one call: how many of a first fill stay unread is decided there.
        """
        limits = await self._limits(user, uid)
        added = await self._timelines.add(user, uid, feed_id, items, now=now, limit=limits.items, fresh=limits.fresh)
        taken = len(added.added) + len(added.read) + len(added.hidden)
        ITEMS_DELIVERED.inc(taken)
        return taken

    async def recheck(self, feed_id: str, items: Sequence[TimelineItem], now: float) -> None:
        """Let every timeline hold edited items against the rules again: a new author may be muted or blocked."""
        if not items:
            return

        async def one(user: str, uid: str) -> int:
            moved = await asyncio.gather(*(self._timelines.recheck(user, uid, item, now) for item in items))
            return sum(moved)

        await self._for_subscribers(feed_id, one)

    async def _for_subscribers(self, feed_id: str, act: Callable[[str, str], Awaitable[int]]) -> list[int]:
        subscribers = await self._feeds.subscribers(feed_id)
        results: list[int] = []
        for start in range(0, len(subscribers), _AT_ONCE):
            batch = subscribers[start : start + _AT_ONCE]
            results += await asyncio.gather(*(act(user, uid) for user, uid in batch))
        return results
