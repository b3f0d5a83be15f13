"""A native app that speaks the Google Reader API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from microsub.accounts import create_app_password
from tests.support.posts import candidate
from tests.support.reader import Reader, assert_no_null
from tests.support.world import World

ADDRESS = "/api/greader.php"
SITE = "http://server.test"


def numbered(ids: list[str]) -> list[str]:
    """Ids of the Microsub API as lists of the Google Reader API have them."""
    return [str(10**15 + int(item)) for item in ids]


async def publish_notice(server: World, reader: Reader) -> None:
    """A notice of feed problems in the reader's channel `notifications`."""
    address = f"microsub:{reader.name}/notices/feeds"
    await server.following.follow(reader.name, "notifications", address, server.now, "Feeds")
    await server.publish(address, candidate("notice", at=server.now, host="notice.example"), title="Feeds")


@dataclass
class NativeApp:
    """An app with the value of `Auth`; `get` and `post` return the reply after checking its status."""

    auth: str
    client: httpx.AsyncClient
    address: str = ADDRESS

    @classmethod
    async def signed_in(cls, server: World, user: str) -> NativeApp:
        """An app after its sign-in with an app password of its own."""
        password = await create_app_password(server.accounts, user, "NetNewsWire", server.now)
        reply = await server.client.post(
            f"{ADDRESS}/accounts/ClientLogin", data={"Email": user, "Passwd": password, "service": "reader"}
        )
        assert reply.status_code == 200, reply.text
        lines = dict(line.split("=") for line in reply.text.splitlines())
        assert set(lines) == {"SID", "LSID", "Auth"}
        return cls(lines["Auth"], server.client)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"GoogleLogin auth={self.auth}"}

    async def get(self, name: str, status: int = 200, **params: Any) -> httpx.Response:
        reply = await self.client.get(f"{SITE}{self.address}/reader/api/0/{name}", params=params, headers=self.headers)
        assert reply.status_code == status, reply.text
        return reply

    async def post(self, name: str, status: int = 200, **data: Any) -> httpx.Response:
        reply = await self.client.post(f"{SITE}{self.address}/reader/api/0/{name}", data=data, headers=self.headers)
        assert reply.status_code == status, reply.text
        return reply

    async def json(self, name: str, **params: Any) -> dict[str, Any]:
        document: dict[str, Any] = (await self.get(name, **params, output="json")).json()
        assert_no_null(document)
        return document

    async def ids(self, stream: str = "user/-/state/com.google/reading-list", **params: Any) -> list[str]:
        """The ids of items on all pages, in their order."""
        found: list[str] = []
        while True:
            page = await self.json("stream/items/ids", s=stream, **params)
            assert all(set(one) == {"id"} for one in page["itemRefs"])
            found += [one["id"] for one in page["itemRefs"]]
            if "continuation" not in page:
                return found
            assert page["itemRefs"], "no continuation with an empty page"
            params["c"] = page["continuation"]
