"""A native app and a Microsub app that speak to two web processes in turn: each sees at once what the other changed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import httpx

from microsub.accounts import create_app_password
from microsub.redis.connect import connect
from tests.support.cluster import running_server
from tests.support.native_app import ADDRESS, NativeApp
from tests.support.polling import world
from tests.support.process import Installation
from tests.support.reader import Reader
from tests.support.readers import FEED, posts

READ, STARRED = "user/-/state/com.google/read", "user/-/state/com.google/starred"
ALL, HOME = "user/-/state/com.google/reading-list", "user/-/label/Home"
CHANGES = 60


class TwoServers(httpx.AsyncBaseTransport):
    """Sends each request to another process than the one before."""

    def __init__(self, addresses: list[str]) -> None:
        self._urls = [httpx.URL(address) for address in addresses]
        self._inner = httpx.AsyncHTTPTransport()
        self._sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._sent += 1
        url = self._urls[self._sent % 2]
        request.url = request.url.copy_with(scheme="http", host=url.host, port=url.port)
        return await self._inner.handle_async_request(request)


async def states(app: NativeApp) -> dict[str, set[str]]:
    """The requests of a sync, and what they say: the feeds, the unread items and the starred ones."""
    await app.json("tag/list")
    feeds = await app.json("subscription/list")
    return {
        "feeds": {one["title"] for one in feeds["subscriptions"]},
        "unread": set(await app.ids(ALL, xt=READ)),
        "starred": set(await app.ids(STARRED)),
        "home": set(await app.ids(HOME)),
    }


async def test_changes_are_seen_at_once(tmp_path: Path) -> None:
    """Replies that a process keeps for a sync are gone when they are out of date; a revoked password is refused."""
    chance = random.Random(4)
    with running_server(tmp_path / "redis") as node:
        url = f"redis://127.0.0.1:{node.port}"
        redis, installed = await connect(url), Installation(tmp_path, {"MICROSUB_REDIS_URL": url})
        installed.write({"users": {}})
        try:
            servers = [await installed.serve("web") for _ in range(2)]
            async with world(redis) as it, httpx.AsyncClient(transport=TwoServers(servers)) as client:
                reader = replace(await it.reader("alice", "home"), client=client, endpoint=f"{servers[0]}/microsub")
                await it.follow(FEED)
                await it.publish(FEED, *posts(*map(str, range(12)), at=it.clock()), title="A blog")
                password = await create_app_password(it.accounts, "alice", "An app", it.clock())
                sign_in = {"Email": "alice", "Passwd": password, "output": "json"}
                reply = await client.post(f"{servers[0]}{ADDRESS}/accounts/ClientLogin", data=sign_in)
                app = NativeApp(reply.json()["Auth"], client)
                await agree_after_changes(chance, app, reader)
                credential = it.accounts.credential(app.auth)
                assert credential is not None
                assert await it.accounts.revoke("alice", credential.digest)
                for _ in servers:
                    await app.get("tag/list", status=401)
        finally:
            await installed.stop()
            await redis.aclose()


async def agree_after_changes(chance: random.Random, app: NativeApp, reader: Reader) -> None:
    expected = await states(app)
    items = {str(10**15 + int(one)): one for one in await reader.ids("home")}
    assert expected["home"] == set(items)
    for number in range(CHANGES):
        item = chance.choice(list(items))
        kind = chance.choice(["read", "unread", "star", "unstar", "rename", "remove"])
        if kind in {"read", "unread"}:
            await reader.post(action="timeline", method=f"mark_{kind}", channel="home", entry=items[item])
            (expected["unread"].discard if kind == "read" else expected["unread"].add)(item)
        elif kind == "remove" and item not in expected["starred"]:
            await reader.post(action="timeline", method="remove", channel="home", entry=items.pop(item))
            expected["unread"].discard(item)
            expected["home"].discard(item)
        elif kind in {"rename", "remove"}:
            expected["feeds"] = {f"Blog {number}"}
            await app.post("subscription/edit", ac="edit", s=await feed_of(app), t=f"Blog {number}")
        else:
            await app.post("edit-tag", i=item, **{"a" if kind == "star" else "r": STARRED})
            (expected["starred"].add if kind == "star" else expected["starred"].discard)(item)
        assert await states(app) == expected, (number, kind, item)


async def feed_of(app: NativeApp) -> str:
    (feed,) = (await app.json("subscription/list"))["subscriptions"]
    return str(feed["id"])
