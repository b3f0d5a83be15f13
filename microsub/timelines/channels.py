"""What a reader does to channels: create, rename, delete, order."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.feeds.store.record import Feeds
from microsub.model.reader import Channel
from microsub.timelines.followers import unsubscribe
from microsub.timelines.store.channels import Channels


class Curating:
    """Changes to a user's channels. Every method raises NotFound for a channel that isn't there."""

    def __init__(self, channels: Channels, feeds: Feeds) -> None:
        self._channels = channels
        self._feeds = feeds

    async def create(self, user: str, name: str, now: float, *, most: int = 0) -> Channel:
        """Make a channel, or find the one of that name. Raises QuotaReached where there are `most` already (0: any)."""
        return await self._channels.create(user, name, now, most=most)

    async def rename(self, user: str, uid: str, name: str, now: float) -> Channel:
        """Give a channel another name; its uid stays."""
        return await self._channels.rename(user, uid, name, now)

    async def delete(self, user: str, uid: str) -> None:
        """Delete a channel with its timeline and subscriptions. Raises InvalidRequest for `notifications`.

        The subscriptions go first, because they are the truth; the feeds' own lists follow, and a crash between leaves
        only entries there that a sweep takes out.
        """
        for feed in await self._channels.delete(user, uid):
            await unsubscribe(self._channels, self._feeds, user, uid, feed)

    async def order(self, user: str, uids: Sequence[str]) -> list[Channel]:
        """Permute the named channels among the places that they hold. Returns all, in their new order."""
        return await self._channels.order(user, uids)
