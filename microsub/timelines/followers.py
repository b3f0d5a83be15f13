"""Ending a subscription on the feed's side, the last step of whatever ends one."""

from __future__ import annotations

from microsub.feeds.store.record import Feeds
from microsub.timelines.store.channels import Channels


async def unsubscribe(channels: Channels, feeds: Feeds, user: str, uid: str, feed_id: str) -> None:
    """Take a channel that has ended its subscription out of the feed's followers.

    It stays among them where it has followed the feed again in the meantime: else the new subscription would be dead.
    """
    await feeds.unsubscribe(feed_id, user, uid)
    if await channels.follows(user, uid, feed_id):
        await feeds.subscribe(feed_id, user, uid)
