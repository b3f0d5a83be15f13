"""A feed that has moved for good: it takes its new address, or becomes one with the feed that lives there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.errors import NotFound
from microsub.formats.identity import canonical_feed_url, host_of, mask_credentials

if TYPE_CHECKING:
    from microsub.model.reader import TimelineItem
    from microsub.pipeline.fan_out import FanOut
    from microsub.store.channels import Channels
    from microsub.store.feeds import FeedRecord, Feeds
    from microsub.store.items import Items
    from microsub.store.schedule import Schedule

log = structlog.get_logger(__name__)

_MOST_ITEMS = 300


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a feed is polled from now on; `merged_into` is the feed that has taken its place, if one has."""

    host: str
    merged_into: str | None = None


class Mover:
    """Moves feeds. Everything it does may be done again: a move that broke off is finished by the next poll."""

    def __init__(self, feeds: Feeds, items: Items, channels: Channels, schedule: Schedule, fan_out: FanOut) -> None:
        self._feeds = feeds
        self._items = items
        self._channels = channels
        self._schedule = schedule
        self._fan_out = fan_out

    async def move(self, feed: FeedRecord, url: str, now: float) -> Moved:
        """Let `feed` live at `url`. Ids, items and read state stay as they are where `url` was unknown."""
        owner = await self._feeds.rename(feed.id, url)
        log.info("feed moved", feed=feed.id, url=mask_credentials(feed.url), to=mask_credentials(url), known_as=owner)
        if owner is None:
            await self._feeds.update(feed.id, {"moved_to": None, "moved_seen": None, "moved_since": None})
            return Moved(host_of(canonical_feed_url(url)))
        known = await self._feeds.get(owner)
        if known is None or known.gone:
            return Moved(host_of(feed.url))  # its own redirect still brings news, that feed wouldn't
        await self._merge(feed, known, now)
        return Moved(host_of(feed.url), owner)

    async def _merge(self, feed: FeedRecord, owner: FeedRecord, now: float) -> None:
        """Let everybody who follows `feed` follow `owner`.

        The subscription changes first; then the owner's copies of the posts take the places of the old ones, with
        their read state, because a twin whose feed isn't followed any more hands over its place.
        """
        for user, uid in await self._feeds.subscribers(feed.id):
            await self._feeds.subscribe(owner.id, user, uid)
            try:
                await self._channels.update_subscription(user, uid, feed.id, new_feed=owner.id)
            except NotFound:
                # The list of subscribers is derived; a channel that was deleted may stand in it for a while.
                await self._feeds.unsubscribe(owner.id, user, uid)
            await self._fan_out.deliver_to(user, uid, owner.id, await self._newest(owner.id), now)
            await self._feeds.unsubscribe(feed.id, user, uid)
        await self._schedule.add(owner.id, host_of(owner.url), owner.next_poll or now)

    async def _newest(self, feed_id: str) -> list[TimelineItem]:
        return await self._items.timeline_items(await self._items.newest(feed_id, _MOST_ITEMS))
