"""Workers process accepted deliveries: parsed as polled documents are, stored by `posts.ingest`.

Everything may run twice. A delivery's version is the time it was accepted, by Redis' clock, which also numbers the
readings of polls: an earlier delivery doesn't replace what a later poll found. A hub may send only what is new, so a
delivery doesn't change the feed's own data, its validators, or posts that it doesn't list.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import TYPE_CHECKING

import structlog

from microsub.base.digests import short_digest
from microsub.base.errors import ParseError, ParsingStopped, QuotaReached
from microsub.base.metrics import WEBSUB_DELIVERIES, WEBSUB_POSTS
from microsub.base.urls import host_of, mask_credentials, without_credentials
from microsub.posts import POSTS_IN, version_of
from microsub.redis.replies import text
from microsub.websub.subscriptions import spend

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord, Feeds, FeedToRead
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Ingest
    from microsub.websub.store import SubscriptionStore
    from microsub.work import Message

log = structlog.get_logger(__name__)

_SOME = 20


@dataclass(eq=False, repr=False)
class Deliveries:
    """Processes deliveries. `learned` returns the fields of a record that so many new posts change at a Unix time."""

    feeds: Feeds
    subscription_store: SubscriptionStore
    ingest: Ingest
    parser: ParsePool
    learned: Callable[[FeedRecord, int, float], dict[str, str]]
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    require_room: Callable[[Collection[str]], Awaitable[None]] | None = None

    async def handle(self, message: Message) -> None:
        """Process one delivery; its faults are counted, never raised. Raises StoreError."""
        feed_id, digest = text(message.fields["feed"]), short_digest(message.fields["body"])
        # Each round trip takes time next to other programs, because workers run at low priority.
        found, has_seen = await asyncio.gather(
            self.feeds.to_read(feed_id), self.subscription_store.has_seen(feed_id, digest)
        )
        if found is None or found[0].gone or not found[1]:
            end = "unfollowed"
        elif has_seen:
            end = "repeated"
        else:
            end = await self._take(found, message, digest)
        WEBSUB_DELIVERIES.labels(end).inc()

    async def _take(self, found: FeedToRead, message: Message, digest: str) -> str:
        (feed, followers, known), body, hub = found, message.fields["body"], text(message.fields["hub"])
        new, brought, seconds = 0, False, 0.0
        end = "unchanged"
        received = message.added
        if hashlib.sha256(body).hexdigest() != feed.body_hash:
            kind = message.fields["type"].decode("latin-1") or None
            users = tuple(islice(followers, _SOME))
            try:
                about = without_credentials(feed.url), kind, feed.url, known, received, None
                read, seconds = await self.parser.measured(POSTS_IN, feed.url, body, *about, keys=users)
            except ParseError as error:
                seconds = error.seconds if isinstance(error, ParsingStopped) else 0.0
                end = "unreadable"
                log.info("a delivery can't be read", feed=feed.id, hub=host_of(hub), why=error.detail)
            else:
                version = version_of(received)
                if read.items and self.require_room is not None:
                    try:
                        await self.require_room(followers)
                    except QuotaReached as error:
                        log.info("a delivery isn't stored", feed=feed.id, why=error.description)
                        await self._note(feed, hub, digest, 0, seconds, brought=False)
                        return "no_room"
                taken = await self.ingest.add(
                    feed,
                    read.items,
                    received,
                    version,
                    mostly_new=known is not None,
                    listing=read.listing,
                    followers=followers,
                )
                new = taken.new
                # After a crash it is processed again, and its posts aren't new any more.
                brought = bool(taken.new or taken.updated) or message.deliveries > 1
                end = "stored" if brought else "unchanged"
                log.info(
                    "feed pushed",
                    feed=feed.id,
                    url=mask_credentials(feed.url),
                    hub=host_of(hub),
                    new=taken.new,
                    updated=taken.updated,
                )
        await self._note(feed, hub, digest, new, seconds, brought=brought)
        return end

    async def _note(self, feed: FeedRecord, hub: str, digest: str, new: int, seconds: float, *, brought: bool) -> None:
        """Count the delivery, once, and trust its hub if it brought something."""
        now = self.clock()
        spent = spend((await self.subscription_store.get(feed.id)).spent, seconds, now)
        record = {"push_at": f"{now:.3f}", **self.learned(feed, new, now)} | ({"push": "1"} if brought else {})
        if await self.subscription_store.delivered(feed.id, digest, new, spent, record):
            WEBSUB_POSTS.inc(new)
            await self.subscription_store.count(hub, delivered=1, posts=new)
