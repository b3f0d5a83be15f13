"""Rebuilding of timelines: their feeds' stored posts are sent to them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from microsub.base.errors import NotFound
from microsub.configuration.model import InstanceSettings
from microsub.model.settings import SettingsOf
from microsub.posts import ItemsStored
from microsub.timelines import MOST_ITEMS, Left, left_of, oldest, repair_all_arrivals, restore_lost

if TYPE_CHECKING:
    from microsub.posts import Items
    from microsub.redis.protocol import Redis
    from microsub.timelines import Channels
    from microsub.work import Stream


@dataclass(eq=False, repr=False)
class Rebuilding:
    """Sends stored posts to timelines again. Idempotent."""

    redis: Redis
    channels: Channels
    items: Items
    stored: Stream
    settings: Callable[[], Awaitable[InstanceSettings]]
    channel_settings: SettingsOf

    async def rebuild(self, user: str, uid: str | None, now: float) -> dict[str, tuple[int, int, bool]]:
        """Rebuild one channel of a user, or all that follow feeds.

        Posts arrive when the workers deliver them; `now` is Unix time. A channel without feeds gets nothing back: its
        timeline alone refers to its posts. Returns for each uid how many feeds it follows, how many posts were sent,
        and whether its timeline was empty, so that all but the newest few are added as read.

        Raises NotFound if the user has no such channel, and StoreError.
        """
        followed = await self.channels.all_subscriptions(user)
        if uid is not None and uid not in followed:
            known = ", ".join(followed) or "none"
            raise NotFound(f"{user} has no channel '{uid}'; channels: {known}")
        wanted = [uid] if uid is not None else [one for one in followed if followed[one]]
        # Lost posts are added as if they were new, so their former places must be removed first.
        await repair_all_arrivals(self.redis, user, now)
        return {one: await self._channel(user, one, [sub.feed for sub in followed[one]], now) for one in wanted}

    async def _channel(self, user: str, uid: str, feeds: Sequence[str], now: float) -> tuple[int, int, bool]:
        since = oldest((await self.settings()).delivery, now)
        left = await left_of(self.redis, user, uid)
        # First the items whose state is known, also those that are too old to be sent.
        await restore_lost(self.redis, self.items, user, uid, now)
        fresh = (await self.channel_settings(user, uid)).first_fetch_unread or 0 if left is Left.BLANK else 0
        count = 0
        for feed in feeds:
            ids = await self.items.newest(feed, MOST_ITEMS, since)
            if left is not Left.ENOUGH:
                # Their read state is lost, so most are added as read, as in the first fill of a new feed.
                scores = sorted(float(score) for (score,) in await self.items.fields(ids, ("score",)) if score)
                unread_from = min([now, *scores[-fresh:][:1]]) if fresh else now
                await self.channels.set_unread_from(user, uid, feed, unread_from)
            if ids:
                await self.stored.add([ItemsStored(feed, tuple(ids), target=(user, uid)).to_fields()])
                count += len(ids)
        return len(feeds), count, left is Left.BLANK
