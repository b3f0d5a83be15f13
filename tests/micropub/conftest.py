"""A server with one of Alice's sources, and requests of a sender."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from microsub.feeds.sources import Source
from microsub.redis.protocol import Redis
from tests.support.reader import Reader
from tests.support.readers import instance
from tests.support.world import World

BASE = "http://server.test"


class SourceClient:
    """A sender with the token of a source."""

    def __init__(self, server: World, source: Source, token: str) -> None:
        self.server = server
        self.source = source
        self.token = token

    async def send(
        self, status: int = 201, *, token: str | None = "", path: str = "/micropub", **request: Any
    ) -> httpx.Response:
        """Sends a POST, expects the given status, and delivers the stored posts; returns the reply."""
        headers = {**request.pop("headers", {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.token}"
        reply = await self.server.client.post(path, headers=headers, **request)
        assert reply.status_code == status, reply.text
        await self.server.stages.run_once()
        return reply

    async def post(self, status: int = 201, **request: Any) -> str:
        """Sends a post and returns its URL."""
        return str((await self.send(status, **request)).headers.get("location", ""))

    async def note(self, text: str, **fields: Any) -> str:
        """Sends a note as a form."""
        return await self.post(data={"h": "entry", "content": text, **fields})

    async def get(self, status: int = 200, **params: Any) -> Any:
        """Sends a query."""
        headers = {"Authorization": f"Bearer {self.token}"}
        reply = await self.server.client.get("/micropub", params=params, headers=headers)
        assert reply.status_code == status, reply.text
        return reply.json()

    async def stored(self, address: str) -> dict[str, Any]:
        """The properties of a post as they were sent."""
        found: dict[str, Any] = (await self.get(q="source", url=address))["properties"]
        return found


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application with empty stores on a real Redis."""
    async with instance(real_redis) as made:
        yield made


@pytest.fixture
async def sender(server: World, alice: Reader) -> SourceClient:
    """A source that posts into Alice's channel `home`."""
    return await source_of(server, "alice")


async def source_of(server: World, user: str, uid: str = "home", name: str = "Backups") -> SourceClient:
    """Creates another source."""
    made = await server.sources.create(user, uid, name, server.now)
    return SourceClient(server, made, await server.sources.renew_token(user, made.id, server.now))


async def items(reader: Reader, uid: str = "home") -> list[dict[str, Any]]:
    """The timeline of a channel."""
    found: list[dict[str, Any]] = (await reader.get(action="timeline", channel=uid, limit=100))["items"]
    return found
