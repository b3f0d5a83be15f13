"""The stage that stores: a document's news are written once, and the next stages hear of them.

Nothing of what follows from a message is forgotten: an item stands in its feed's pending set from the moment that it is
written until all who must know have been told. After a crash the message comes again, and so does everything pending.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from microsub.feeds.store.events import Event
from microsub.metrics import ITEMS_NEW, ITEMS_UPDATED
from microsub.posts.asking_again import LOOK_UPS, look_ups_of
from microsub.posts.messages import EntriesFound, ItemIncomplete, ItemsStored
from microsub.posts.values import WRITTEN_GUID
from microsub.redis.replies import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from microsub.feeds.announcing import Announcing
    from microsub.feeds.store.record import FeedRecord, Feeds
    from microsub.posts.store.items import Items
    from microsub.posts.values import Stored
    from microsub.redis.protocol import Redis, ScriptCall
    from microsub.redis.streams import Message, Stream

log = structlog.get_logger(__name__)


class StoreEntries:
    """Handles `EntriesFound`. `announcing` publishes events of feeds and posts that were created or modified."""

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        stored: Stream,
        incomplete: Stream,
        announcing: Announcing,
        *,
        clock: Callable[[], float] = time.time,
        told: Callable[[], object] = lambda: None,
    ) -> None:
        """`told` is called when there is news for the next stages."""
        self._redis = redis
        self._feeds = feeds
        self._items = items
        self._stored = stored
        self._incomplete = incomplete
        self._announcing = announcing
        self._clock = clock
        self._told = told

    async def __call__(self, message: Message) -> Sequence[ScriptCall]:
        """Store what the message holds, and tell; that all were told comes with the end of the message. Raises
        StoreError; anything else is a message that isn't ours.
        """
        found = EntriesFound.of(message.fields)
        feed, stored = await self._items.store_in(found.feed, found.items, found.found, found.version)
        if feed is None:
            log.info("posts of a deleted feed are dropped", feed=found.feed, posts=len(found.items))
            return ()
        ITEMS_NEW.inc(len(stored.new))
        ITEMS_UPDATED.inc(len(stored.updated))
        pending = await self._tell(feed, stored)
        return [self._items.handling(feed.id, pending, message.id)]

    async def tell(self, feed: FeedRecord, stored: Stored) -> None:
        """Tell the next stages and the world of what was stored just now, and of what is pending since a crash."""
        await self._items.done(feed.id, await self._tell(feed, stored))

    async def _tell(self, feed: FeedRecord, stored: Stored) -> list[str]:
        """Which items needn't be pending any more."""
        written = {item.id for item in stored.new} | {item.id for item in stored.updated}
        # Another process that stores posts of the same feed at the same time may have announced ours with its own.
        found = await self._items.pending(feed.id) if stored.pending is None else stored.pending
        pending = sorted({*found, *written}, key=int)
        if not pending:
            return []
        new = [item.id for item in stored.new]
        same_author = {item.id for item in stored.updated if item.author == item.author_before}
        edited = [item.id for item in stored.updated if item.id not in same_author]
        # Of what an earlier attempt left behind nobody knows any more which it was, so both is done with it.
        left = sorted(set(pending) - written, key=int)
        reworded = tuple(item.id for item in stored.updated if item.id in same_author)
        news = ItemsStored(feed.id, (*new, *left), (*edited, *left), reworded=reworded)
        calls: list[ScriptCall] = []
        if news.new or news.edited or news.reworded:
            calls.append(self._stored.adding([news.to_fields()]))
        incomplete = [item.id for item in stored.new if item.incomplete]
        incomplete += [item.id for item in stored.updated if item.incomplete]
        wanted = [ItemIncomplete(item_id, stored.version).to_fields() for item_id in incomplete]
        if left:
            wanted += [one.to_fields() for one in await look_ups_of(self._items, left)]
        if wanted:
            calls.append(self._incomplete.adding_within(LOOK_UPS, wanted))
        events = self._events(feed.id, stored, await self._guids_of(left))
        # In one round trip, and in this order: what nobody who waits for the post has to wait for comes last.
        replies = await self._redis.scripts([*calls, *self._announcing.publishing(events)])
        self._told()
        if wanted and not replies[len(calls) - 1]:
            log.info("the queue of look-ups is full; look-ups are postponed", posts=len(wanted))
        await self._announcing.published(events)
        await self._items.told(stored.updated)
        return pending

    async def _guids_of(self, ids: Sequence[str]) -> dict[str, str]:
        """What identifies these items in their feed; those that are gone, of which others tell, are left out."""
        rows = await self._items.fields(ids, (WRITTEN_GUID, "guid")) if ids else []
        found = zip(ids, (written or guid for written, guid in rows), strict=True)
        return {item_id: text(guid) for item_id, guid in found if guid}

    def _events(self, feed_id: str, stored: Stored, left: Mapping[str, str]) -> list[Event]:
        now = self._clock()
        new = [Event("post_created", feed_id, now, item.id, item.guid) for item in stored.new]
        edited = [Event("post_modified", feed_id, now, item.id, item.guid, item.changed) for item in stored.updated]
        unsaid = [Event("post_modified", feed_id, now, item_id, guid) for item_id, guid in left.items()]
        return new + edited + unsaid
