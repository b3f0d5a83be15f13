"""The channel `notifications`: posts in internal feeds of its user, one feed for each kind of notice.

The posts are stored by `posts.ingest`, and the channel follows their feeds like any others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from microsub.feeds import NOTICES, Event, InternalAddress
from microsub.model.jf2 import Feed
from microsub.model.reader import GLOBAL, NOTIFICATIONS, Reason
from microsub.posts import garbage, items_to_store, version_of
from microsub.timelines import Leaving, OtherReferences, saved_among, take_out

if TYPE_CHECKING:
    from microsub.feeds import Events, Feeds
    from microsub.model.jf2 import Entry
    from microsub.posts import Ingest, Items
    from microsub.redis.protocol import Redis
    from microsub.timelines import Following


@dataclass(eq=False, repr=False)
class Notifications:
    """Writes the posts of `notifications`. Everything is idempotent and may be repeated after an error."""

    redis: Redis
    feeds: Feeds
    items: Items
    following: Following
    ingest: Ingest
    events: Events
    outputs: OtherReferences
    _: KW_ONLY
    clock: Callable[[], float] = time.time

    async def put(self, user: str, feed: str, title: str, guid: str, entry: Entry, at: float) -> None:
        """Add or update `entry` in the user's feed of that name, as published at the Unix time `at`.

        A removed post with that guid isn't added again. Raises NotFound for a user who is gone, and StoreError.
        """
        now, address = self.clock(), _address(user, feed)
        await self.following.follow(user, NOTIFICATIONS, address, now, title)
        record = await self.feeds.ensure(address, now)
        post = replace(entry, guid=guid, uid=guid, published=datetime.fromtimestamp(at, UTC))
        posts = items_to_store(Feed(address, "notices", entries=(post,)), now)
        await self.ingest.add(record, posts, now, version_of(now))

    async def remove(self, user: str, feed: str, guid: str) -> bool:
        """Delete the post with that guid; a saved post is only taken out of `notifications`.

        True if there was one. Its guid stays known, so it isn't added again. Raises StoreError.
        """
        feed_id = await self.feeds.find(_address(user, feed))
        item = await self.items.id_of(feed_id, guid) if feed_id is not None else None
        if feed_id is None or item is None:
            return False
        now = self.clock()
        if await saved_among(self.redis, user, [item]):
            await take_out(self.redis, user, NOTIFICATIONS, [item], Leaving(Reason.REMOVED), now)
            return True
        doomed = await garbage.candidates(self.redis, [item])
        if not doomed:
            return True
        retired = await garbage.retire(self.redis, doomed, now, wanted_too=True)
        await take_out(self.redis, user, GLOBAL, [item], Leaving(Reason.SWEPT), now)
        await self.outputs.withdraw(user, [item], now)
        await garbage.erase(self.redis, retired)
        await self.events.announce([Event("post_deleted", feed_id, now, item, guid)])
        return True


def _address(user: str, feed: str) -> str:
    return str(InternalAddress(user, NOTICES, feed))
