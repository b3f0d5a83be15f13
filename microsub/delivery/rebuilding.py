"""Timelines from the store: for one that was lost, is new, or was left alone while its reader was away.

What a timeline needs travels through the same stream as new posts, marked for it alone; so any worker does it, and all
that keeps an item out of a timeline (a rule, a removal, what cleanup took) keeps it out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from microsub.configuration.model import InstanceSettings
from microsub.errors import NotFound
from microsub.posts.messages import ItemsStored
from microsub.timelines.catching_up import MOST_ITEMS, oldest
from microsub.timelines.store.remove import Left, left_of, restore_lost

if TYPE_CHECKING:
    from microsub.posts.store.items import Items
    from microsub.redis.protocol import Redis
    from microsub.redis.streams import Stream
    from microsub.timelines.store.channels import Channels


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was sent on its way to one channel: posts of so many feeds. `lost` says that the timeline was empty, so
    that what is older than the newest few comes in as read.
    """

    user: str
    uid: str
    feeds: int
    items: int
    lost: bool


class Rebuilding:
    """Sends stored posts to timelines again. Doing it twice changes nothing more."""

    def __init__(
        self,
        redis: Redis,
        channels: Channels,
        items: Items,
        stored: Stream,
        settings: Callable[[], InstanceSettings] = InstanceSettings,
    ) -> None:
        self._channels = channels
        self._redis = redis
        self._items = items
        self._stored = stored
        self._settings = settings

    async def rebuild(self, user: str, uid: str | None, now: float) -> list[Rebuilt]:
        """Rebuild one channel of a user, or all that follow feeds. Posts arrive as the workers come to them; `now` is
        Unix time. A channel without feeds has nothing to come back: its posts have their place in its timeline alone.

        Raises NotFound where the user has no such channel, and StoreError.
        """
        followed = await self._channels.all_subscriptions(user)
        if uid is not None and uid not in followed:
            known = ", ".join(followed) or "none"
            raise NotFound(f"{user} has no channel '{uid}'; channels: {known}")
        wanted = [uid] if uid is not None else [one for one in followed if followed[one]]
        return [await self._channel(user, one, [sub.feed for sub in followed[one]], now) for one in wanted]

    async def _channel(self, user: str, uid: str, feeds: Sequence[str], now: float) -> Rebuilt:
        since = oldest(self._settings().delivery, now)
        left = await left_of(self._redis, user, uid, now)
        # First what is known for sure, also of posts that are too old to be sent.
        await restore_lost(self._redis, self._items, user, uid, now)
        doubt = left is Left.UNREAD
        count = 0
        for feed in feeds:
            ids = await self._items.newest(feed, MOST_ITEMS, since)
            if ids:
                await self._stored.add([ItemsStored(feed, tuple(ids), target=(user, uid), doubt=doubt).to_fields()])
                count += len(ids)
        return Rebuilt(user, uid, len(feeds), count, left is Left.BLANK)
