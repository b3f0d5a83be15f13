"""The daily correction of users' shares of the bytes of posts, which their quota limits.

The bytes of a feed are shared in equal parts among all its followers. Posts that a user keeps without following their
feed count for that user alone, unless the feed has other followers; so do picked and imported posts. Kept are those in
channels, removed ones included, and in output feeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from microsub.admin.sweep import Bitmap
from microsub.posts import COPY, garbage
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import batches
from microsub.timelines import references

if TYPE_CHECKING:
    from microsub.accounts import Accounts, PostRoom
    from microsub.feeds import Feeds
    from microsub.posts import Items
    from microsub.timelines import Channels, OtherReferences

_FEEDS, _BATCH = 50, 500
_PAUSE = 0.005
"""Seconds after each batch, so that Redis has time for users' requests."""


@dataclass(eq=False, repr=False)
class PostBytes:
    """Counts the bytes of each user who has a quota of them."""

    redis: Redis
    accounts: Accounts
    feeds: Feeds
    channels: Channels
    items: Items
    outputs: OtherReferences
    room: PostRoom
    _: KW_ONLY
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, now: float) -> None:
        """Count once. Posts stored meanwhile may be missing until the next count. Raises StoreError."""
        mark, shares = await garbage.newest_id(self.redis), dict[str, int]()
        for user in await self.accounts.users():
            if await self.room.most(user):
                await self._correct(user.name, mark, shares)

    async def correct(self, user: str) -> int:
        """Count for one user, and return the bytes."""
        return await self._correct(user, await garbage.newest_id(self.redis), {})

    async def _correct(self, user: str, mark: int, shares: dict[str, int]) -> int:
        size = await self._of(user, mark, shares)
        await self.room.correct(user, size)
        return size

    async def _of(self, user: str, mark: int, shares: dict[str, int]) -> int:
        """The user's bytes; `shares` remembers the bytes of feeds for each of their followers."""
        followed = await self.channels.followed_feeds(user)
        received, kept = Bitmap(mark), Bitmap(mark)
        for part in batches([*followed], _FEEDS):
            lists = await asyncio.gather(*map(self.feeds.item_ids, part))
            for feed, ids in zip(part, lists, strict=True):
                received.add(ids)
                if feed not in shares:
                    shares[feed] = await self._bytes(ids) // max(1, await self.feeds.subscriber_count(feed))
            await self.pause(_PAUSE)
        for referring in (references(self.redis, user), self.outputs.references(user)):
            async for batch in referring:
                kept.add(batch)
        return sum(shares[feed] for feed in followed) + await self._alone(user, kept.but_not(received, _BATCH))

    async def _alone(self, user: str, kept: Iterable[list[str]]) -> int:
        """The bytes of posts that no other user receives."""
        is_alone, size = {"": True}, 0
        for ids in kept:
            rows = [(text(feed or b""), copy) for feed, copy in await self.items.fields(ids, ("feed", COPY))]
            for feed in {feed for feed, _ in rows} - is_alone.keys():
                is_alone[feed] = {name for name, _ in await self.feeds.subscribers(feed)} <= {user}
            size += await self._bytes(
                [item for item, (feed, copy) in zip(ids, rows, strict=True) if copy or is_alone[feed]]
            )
            await self.pause(_PAUSE)
        return size

    async def _bytes(self, ids: Sequence[str]) -> int:
        return sum([sum(await self.items.sizes(part)) for part in batches(ids, _BATCH)])
