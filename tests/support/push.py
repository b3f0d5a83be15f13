"""One feed with a hub, and the traffic between publisher, hub and server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from microsub.feeds.push_state import PushHealth, push_health
from microsub.feeds.record import FeedRecord
from microsub.redis.protocol import Redis
from microsub.websub.subscriptions import FeedSubscriptions
from tests.support.hub import Hub, hub
from tests.support.polling import World, world
from tests.support.web import Publisher, publisher

BASE = "https://reader.example"


@dataclass
class Push:
    """One feed that Alice follows, with a hub."""

    it: World
    site: Publisher
    hub: Hub
    names: list[str] = field(default_factory=lambda: ["first"])

    @property
    def topic(self) -> str:
        return self.site.url("/feed", "blog.test")

    def document(self, *more: str) -> bytes:
        """The feed with further posts, which are the newest."""
        self.names[:0] = more
        return self.hub.document(self.topic, *self.names)

    def publish(self, *more: str) -> bytes:
        """Publish these posts, also for polls."""
        body = self.document(*more)
        self.site.serve_document("/feed", body)
        return body

    async def follow(self, user: str = "alice") -> FeedRecord:
        self.publish()
        return await self.it.follow(self.topic, user)

    async def poll(self, feed: FeedRecord) -> None:
        await self.it.poll(await self.it.record(feed))

    async def subscribe(self) -> FeedRecord:
        """Poll the feed and subscribe to it; the hub has verified the subscription."""
        feed = await self.follow()
        await self.poll(feed)
        await self.look()
        return feed

    async def look(self) -> int:
        """Process due subscriptions, and the hub's reactions."""
        done = await self.it.subscriber.visit_due(self.it.now)
        await self.hub.settle()
        return done

    async def deliver(self, body: bytes) -> list[int]:
        """Let the hub deliver, and the workers process the delivery."""
        statuses = await self.hub.publish(self.topic, body)
        await self.it.stages.run_once()
        return statuses

    async def health(self, feed: FeedRecord) -> PushHealth:
        return push_health(await self.it.record(feed), self.it.now)

    async def shown(self) -> list[str]:
        """The names in Alice's timeline, newest first."""
        return [text.split('"name":"')[1].partition('"')[0] for text in await self.it.texts()]

    async def subscriptions(self, feed: FeedRecord) -> FeedSubscriptions:
        return await self.it.subscription_store.get(feed.id)


@asynccontextmanager
async def pushing(redis: Redis) -> AsyncIterator[Push]:
    """A world that hubs can reach, a publisher, and a hub that sends requests to the application in this process."""
    async with world(redis, base_url=BASE) as it, publisher() as site, hub(site, it.client) as made:
        made.clock = it.clock
        yield Push(it, site, made)
