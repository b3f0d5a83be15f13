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
from microsub.posts.messages import EntriesFound, ItemsStored
from microsub.posts.values import WRITTEN_GUID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from microsub.feeds.announcing import Announcing
    from microsub.feeds.store.record import FeedRecord, Feeds
    from microsub.posts.store.items import Items
    from microsub.posts.values import Stored
    from microsub.redis.streams import Message, Stream

log = structlog.get_logger(__name__)


class StoreEntries:
    """Handles `EntriesFound`. `announcing` tells of feeds and posts that were created or modified."""

    def __init__(
        self,
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
        self._feeds = feeds
        self._items = items
        self._stored = stored
        self._incomplete = incomplete
        self._announcing = announcing
        self._clock = clock
        self._told = told

    async def __call__(self, message: Message) -> None:
        """Store what the message holds, and tell. Raises StoreError; anything else is a message that isn't ours."""
        found = EntriesFound.of(message.fields)
        feed = await self._feeds.get(found.feed)
        if feed is None:
            log.info("posts of a feed that is gone", feed=found.feed, posts=len(found.items))
            return
        stored = await self._items.store(feed, found.items, found.found, found.version)
        ITEMS_NEW.inc(len(stored.new))
        ITEMS_UPDATED.inc(len(stored.updated))
        await self.tell(feed, stored)

    async def tell(self, feed: FeedRecord, stored: Stored) -> None:
        """Tell the next stages and the world of what was stored just now, and of what is pending since a crash."""
        written = {item.id for item in stored.new} | {item.id for item in stored.updated}
        # Somebody who stores posts of the same feed at the same time may have told of ours as of theirs.
        pending = sorted({*await self._items.pending(feed.id), *written}, key=int)
        if not pending:
            return
        new = [item.id for item in stored.new]
        same_author = {item.id for item in stored.updated if item.author == item.author_before}
        edited = [item.id for item in stored.updated if item.id not in same_author]
        # Of what an earlier attempt left behind nobody knows any more which it was, so both is done with it.
        left = sorted(set(pending) - written, key=int)
        reworded = tuple(item.id for item in stored.updated if item.id in same_author)
        news = ItemsStored(feed.id, (*new, *left), (*edited, *left), reworded=reworded)
        if news.new or news.edited or news.reworded:
            await self._stored.add([news.to_fields()])
            self._told()  # what follows here, nobody who waits for the post has to wait for
        await self._ask_for_look_ups(pending)
        await self._announcing.tell(self._events(feed.id, stored, await self._guids_of(left)))
        await self._items.told(stored.updated)
        await self._items.done(feed.id, pending)
        self._told()

    async def _ask_for_look_ups(self, ids: Sequence[str]) -> None:
        wanted = await look_ups_of(self._items, ids)
        if not await self._incomplete.add_within(LOOK_UPS, [one.to_fields() for one in wanted]):
            log.info("look-ups are left for later", posts=len(ids))

    async def _guids_of(self, ids: Sequence[str]) -> dict[str, str]:
        """What identifies these items in their feed; those that are gone, of which others tell, are left out."""
        rows = await self._items.fields(ids, (WRITTEN_GUID, "guid")) if ids else []
        found = zip(ids, (written or guid for written, guid in rows), strict=True)
        return {item_id: guid.decode("utf-8", "replace") for item_id, guid in found if guid}

    def _events(self, feed_id: str, stored: Stored, left: Mapping[str, str]) -> list[Event]:
        now = self._clock()
        new = [Event("post_created", feed_id, now, item.id, item.guid) for item in stored.new]
        edited = [Event("post_modified", feed_id, now, item.id, item.guid, item.changed) for item in stored.updated]
        unsaid = [Event("post_modified", feed_id, now, item_id, guid) for item_id, guid in left.items()]
        return new + edited + unsaid
