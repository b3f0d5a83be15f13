"""A reader who passes posts of her channel on in output feeds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from microsub.redis.protocol import Redis
from tests.support.readers import FEED, Reader, instance, posts
from tests.support.world import World


@dataclass
class Publisher:
    """Alice, her items by name, and requests to the addresses of her feeds."""

    server: World
    reader: Reader

    async def items(self) -> dict[str, str]:
        return {item["name"]: item["_id"] for item in await self.reader.timeline("home")}

    async def make(self, name: str = "picks", **settings: Any) -> dict[str, str]:
        """Create a feed; its addresses."""
        made = await self.reader.post(action="outputs", method="create", output=name, **settings)
        addresses: dict[str, str] = made["addresses"]
        return addresses

    async def add(self, *ids: str, name: str = "picks", method: str = "add") -> dict[str, Any]:
        self.server.now += 1
        return await self.reader.post(action="outputs", method=method, output=name, **{"entry[]": list(ids)})

    async def get(self, address: str, method: str = "GET", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.server.client.request(method, address, headers=named)

    async def shown(self, address: str) -> list[str]:
        """The titles in a JSON Feed, newest first."""
        reply = await self.get(address)
        assert reply.status_code == 200, reply.text
        return [item["title"] for item in reply.json()["items"]]

    async def state(self, name: str = "picks") -> dict[str, tuple[str, int]]:
        """State and impressions of each item in the feed, by title."""
        names = {item: title for title, item in (await self.items()).items()}
        found = await self.reader.get(action="outputs", output=name, limit=100)
        return {names.get(item["id"], item["id"]): (item["state"], item["impressions"]) for item in found["items"]}

    async def publish(self, *names: str, **more: Any) -> None:
        await self.server.publish(FEED, *posts(*names, **more))


@pytest.fixture
async def server(redis: Redis, tmp_path: Path) -> AsyncIterator[World]:
    async with instance(redis, file=tmp_path / "backend.json") as made:
        yield made


@pytest.fixture
async def alice(server: World) -> Publisher:
    """Alice follows one feed with the posts `a`, `b` and `c`, newest first."""
    reader = await server.reader("alice", "home", "later")
    made = Publisher(server, reader)
    await made.publish("a", "b", "c")
    await reader.post(action="follow", channel="home", url=FEED)
    return made
