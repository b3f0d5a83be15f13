"""A reader app with a token, at a server or at an application in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.waiting import wait_until

ENDPOINT = "/microsub"


@dataclass
class Reader:
    """A user with a token; `get` and `post` return the decoded object after checking status and type."""

    name: str
    token: str
    client: httpx.AsyncClient
    endpoint: str = ENDPOINT

    async def get(self, status: int = 200, **params: Any) -> dict[str, Any]:
        return self.checked(await self.client.get(self.endpoint, params=params, headers=self.headers), status)

    async def post(self, status: int = 200, **params: Any) -> dict[str, Any]:
        return self.checked(await self.client.post(self.endpoint, data=params, headers=self.headers), status)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def channels(self) -> dict[str, dict[str, Any]]:
        return {channel["uid"]: channel for channel in (await self.get(action="channels"))["channels"]}

    async def items(self, channel: str = "home", **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(action="timeline", channel=channel, **params))["items"]
        return found

    async def names(self, channel: str = "home", **params: Any) -> list[str]:
        return [item["name"] for item in await self.items(channel, **params)]

    async def ids(self, channel: str = "home", **params: Any) -> list[str]:
        return [item["_id"] for item in await self.items(channel, **params)]

    async def unread(self, channel: str = "home") -> int:
        unread: int = (await self.channels())[channel]["unread"]
        return unread

    async def timeline(self, channel: str = "home", **params: Any) -> list[dict[str, Any]]:
        """The items of all pages, following `after` to the end."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = await self.get(action="timeline", channel=channel, after=after, **{"limit": 100, **params})
            found += page["items"]
            after = page["paging"].get("after")
        return found

    async def has(self, count: int, channel: str = "home") -> None:
        """Wait until the channel has this many items."""

        async def there() -> bool:
            return len(await self.timeline(channel)) == count

        await wait_until(there)

    async def walk(self, channel: str = "home", **params: Any) -> list[str]:
        """The ids of the items on all pages."""
        return [item["_id"] for item in await self.timeline(channel, **{"limit": 20, **params})]

    @staticmethod
    def checked(response: httpx.Response, status: int) -> dict[str, Any]:
        assert response.status_code == status, response.text
        assert response.headers.get_list("content-type") == ["application/json"]
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["access-control-allow-origin"] == "*"
        document = response.json()
        assert isinstance(document, dict)
        assert_no_null(document)
        return document


def assert_no_null(value: Any) -> None:
    """Properties without a value are omitted, never null."""
    assert value is not None
    if isinstance(value, Mapping):
        for member in value.values():
            assert_no_null(member)
    elif isinstance(value, list):
        for member in value:
            assert_no_null(member)
