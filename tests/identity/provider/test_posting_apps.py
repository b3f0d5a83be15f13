"""Apps that post: the user chooses a channel on the consent page."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.identity.provider.test_consent import APP, CONSENT, address, answer, redeem
from tests.support.apps import Apps
from tests.support.reader import Reader
from tests.support.visitor import Visitor
from tests.support.world import World

ASKED = address(scope="create update delete media")
ALL = ["create", "update", "delete", "media"]


@pytest.fixture(autouse=True)
def today(server: World) -> None:
    """Use the real time, because Redis expires keys by its own clock."""
    server.now = time.time()


async def let_in(server: World, ann: Visitor, scope: str = "create update delete media", **fields: Any) -> Any:
    """The token that the app gets if the user fills in these fields."""
    page = await ann.get(address(scope=scope))
    told = answer(await ann.submit(page, CONSENT, decision="allow", grant=scope.split(), **fields))
    return await redeem(server, told["code"])


async def post(server: World, token: str, text: str, status: int = 201) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    reply = await server.client.post("/micropub", data={"h": "entry", "content": text}, headers=headers)
    assert reply.status_code == status, reply.text
    await server.stages.run_once()
    return str(reply.headers.get("location", ""))


async def texts(server: World, uid: str) -> list[str]:
    reader = Reader("ann", await server.grant("ann", "read"), server.client)
    return [one["content"]["text"] for one in (await reader.get(action="timeline", channel=uid))["items"]]


async def test_an_app_is_given_a_channel_that_is_there_or_made(
    server: World, ann: Visitor, apps: Apps, signed_in: Any
) -> None:
    """The token posts there and can't read. If the same app gets the same channel again, it keeps its source."""
    await signed_in(ann)
    apps.say(APP, b"<title>x</title>")
    given = await let_in(server, ann, channel="+", new_channel="From my app")
    assert given["scope"] == "create delete media update"
    address = await post(server, given["access_token"], "one")
    (source,) = await server.sources.all_of("ann")
    assert (source.app, await server.sources.channel_of(source)) == (APP, "from-my-app")
    again = await let_in(server, ann, channel="from-my-app")
    headers = {"Authorization": f"Bearer {again['access_token']}"}
    found = await server.client.get("/micropub", params={"q": "source", "url": address}, headers=headers)
    assert found.status_code == 200
    assert len(await server.sources.all_of("ann")) == 1
    other = await let_in(server, ann, channel="notifications")
    await post(server, other["access_token"], "two")
    assert (await texts(server, "from-my-app"), await texts(server, "notifications")) == (["one"], ["two"])
    refused = await server.client.get("/microsub?action=channels", headers=headers)
    assert refused.status_code == 403


async def test_an_app_does_what_it_was_granted_and_no_more(
    server: World, ann: Visitor, apps: Apps, signed_in: Any
) -> None:
    """An app that may create posts can't change or delete any, not even its own."""
    await signed_in(ann)
    apps.say(APP, b"<title>x</title>")
    given = await let_in(server, ann, scope="create", channel="+", new_channel="From my app")
    address = await post(server, given["access_token"], "one")
    headers = {"Authorization": f"Bearer {given['access_token']}"}
    picture = {"file": ("a.jpg", b"\xff\xd8\xff\xe0j", "image/jpeg")}
    for scope, path, request in (
        ("delete", "/micropub", {"data": {"action": "delete", "url": address}}),
        ("undelete", "/micropub", {"data": {"action": "undelete", "url": address}}),
        ("update", "/micropub", {"json": {"action": "update", "url": address, "replace": {"content": ["two"]}}}),
        ("delete", "/media", {"data": {"action": "delete", "url": address}}),
    ):
        refused = await server.client.post(path, headers=headers, **request)
        assert (refused.status_code, refused.json()["error"]) == (401, "insufficient_scope"), (scope, refused.text)
    assert (await server.client.post("/media", headers=headers, files=picture)).status_code == 201
    assert (await server.client.put("/micropub", headers=headers)).status_code == 405
    assert await texts(server, "from-my-app") == ["one"]


async def test_without_a_channel_it_may_not_post(server: World, ann: Visitor, apps: Apps, signed_in: Any) -> None:
    """This holds although its token has `create`, which IndiePass for iOS requires; it can read if that was ticked."""
    await signed_in(ann)
    given = await let_in(server, ann, "create read", channel="")
    assert given["scope"] == "create read"
    await post(server, given["access_token"], "x", 401)
    assert await server.sources.all_of("ann") == []


async def test_revoking_ends_what_the_app_was_granted(server: World, ann: Visitor, apps: Apps, signed_in: Any) -> None:
    """This ends access and refresh token; renewing before that keeps the source."""
    await signed_in(ann)
    given = await let_in(server, ann, channel="notifications")
    form = {"grant_type": "refresh_token", "client_id": APP, "refresh_token": given["refresh_token"]}
    renewed = (await server.client.post("/token", data=form)).json()
    await post(server, renewed["access_token"], "renewed")
    (source,) = await server.sources.all_of("ann")
    await server.sources.revoke("ann", source.id)
    await post(server, renewed["access_token"], "x", 401)
    form["refresh_token"] = renewed["refresh_token"]
    assert (await server.client.post("/token", data=form)).status_code == 400


async def test_a_channel_that_is_not_there_is_refused(server: World, ann: Visitor, apps: Apps, signed_in: Any) -> None:
    """`saved` is refused too; no code is issued."""
    await signed_in(ann)
    for channel in ("nowhere", "saved"):
        shown = await ann.submit(await ann.get(ASKED), CONSENT, decision="allow", grant=ALL, channel=channel)
        assert shown.status in {400, 404}
    assert await server.sources.all_of("ann") == []
