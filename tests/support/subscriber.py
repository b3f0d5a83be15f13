"""Subscribers of our hub that follow https://www.w3.org/TR/websub/ exactly, and a server with topics for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from microsub.redis.protocol import Redis
from tests.support.posts import NOON
from tests.support.readers import FEED, Reader, instance, posts
from tests.support.web import Answer, Asked, Publisher, publisher
from tests.support.world import World, loopback

BASE = "https://reader.example"

__all__ = ["BASE", "HubClient", "WatchedCallback", "hub_client"]


@dataclass
class WatchedCallback:
    """A callback at `site` that confirms verifications, records deliveries, and replies to them as set."""

    site: Publisher
    path: str
    confirms: bool = True
    answer: Answer = field(default_factory=lambda: Answer(status=204))
    verifications: list[dict[str, str]] = field(default_factory=list)
    denials: list[dict[str, str]] = field(default_factory=list)
    deliveries: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site.serve(self.path, self.asked)

    @property
    def url(self) -> str:
        return self.site.url(self.path, "app.test")

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.deliveries]

    def asked(self, asked: Asked) -> Answer:
        if asked.method == "POST":
            self.deliveries.append(asked)
            return self.answer
        query = asked.query
        if query.get("hub.mode") == "denied":
            self.denials.append(query)
            return Answer(status=200)
        self.verifications.append(query)
        return Answer(query["hub.challenge"].encode()) if self.confirms else Answer(b"no", 404)


@dataclass
class HubClient:
    """Alice, whose server is a hub, with an output feed of her channel `home`, and a site with callbacks."""

    server: World
    alice: Reader
    site: Publisher
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return self.addresses["json"]

    def callback(self, path: str = "/callback") -> WatchedCallback:
        return WatchedCallback(self.site, path)

    async def ask(
        self, callback: str, topic: str | None = None, mode: str = "subscribe", **more: Any
    ) -> httpx.Response:
        """Send one request to the hub, and process it."""
        form = {"hub.mode": mode, "hub.callback": callback, "hub.topic": topic or self.topic}
        form |= {f"hub.{name}": str(value) for name, value in more.items()}
        reply = await self.post(form)
        await self.work()
        return reply

    async def post(self, form: dict[str, str]) -> httpx.Response:
        return await self.server.client.post("/hub", data=form)

    async def subscribe(self, topic: str | None = None, path: str = "/callback", **more: Any) -> WatchedCallback:
        """A callback with a verified subscription."""
        made = self.callback(path)
        reply = await self.ask(made.url, topic, **more)
        assert reply.status_code == 202, reply.text
        assert made.verifications
        await self.work(2)
        return made

    async def work(self, seconds: float = 0.2) -> int:
        """Advance the clock, and do the due work."""
        self.server.now += seconds
        return await self.server.hub_worker.run_once()

    async def arrive(self, *names: str, **more: Any) -> None:
        """Add posts to Alice's channel."""
        self.server.now += 1
        await self.server.publish(FEED, *posts(*names, at=self.server.now - 10, **more))

    async def publish(self, *names: str, **more: Any) -> None:
        """Add posts, and let the hub do the due work."""
        await self.arrive(*names, **more)
        await self.work()

    async def get(self, address: str) -> httpx.Response:
        return await self.server.client.get(address)


@asynccontextmanager
async def hub_client(redis: Redis, **parts: Any) -> AsyncIterator[HubClient]:
    """A world in which Alice has an output feed, and its addresses."""
    async with publisher() as site, instance(redis, **{"base_url": BASE, "resolver": loopback, **parts}) as server:
        alice = await server.reader("alice", "home", "later")
        await server.publish(FEED, *posts("first", at=NOON))
        await alice.post(action="follow", channel="home", url=FEED)
        made = await alice.post(action="outputs", method="create", output="picks", channel="home")
        client = HubClient(server, alice, site, made["addresses"])
        await client.get(client.topic)
        yield client
