"""Apps that post: the user chooses a channel on the consent page."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from microsub.identity.pages import consent
from tests.identity.provider.test_consent import APP, CONSENT, address, answer, redeem
from tests.support.apps import Apps
from tests.support.reader import Reader
from tests.support.reader_app import BUTTONS
from tests.support.reader_apps import (
    App,
    AppBreaks,
    Ekstereye,
    IndiePassAndroid,
    IndiePassIos,
    Monocle,
    Padd,
    Signed,
    Together,
)
from tests.support.visitor import Shown, Visitor, begin_session
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


async def test_an_app_does_only_what_was_granted(server: World, ann: Visitor, apps: Apps, signed_in: Any) -> None:
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
    """Its token has no `create`; it gets an empty configuration, and 403 with the reason for a post, never 401."""
    await signed_in(ann)
    given = await let_in(server, ann, "create read", channel="")
    headers = {"Authorization": f"Bearer {given['access_token']}"}
    seen = (await server.client.post("/introspect", data={"token": given["access_token"]}, headers=headers)).json()
    assert given["scope"] == seen["scope"] == "read"
    for q, expected in (("config", {"channels": [], "post-types": []}), ("channel", {"channels": []})):
        reply = await server.client.get("/micropub", params={"q": q}, headers=headers)
        assert (reply.status_code, reply.json() | expected) == (200, reply.json())
    picture = {"file": ("a.jpg", b"\xff\xd8\xff\xe0j", "image/jpeg")}
    for path, request in (
        ("/micropub", {"data": {"h": "entry", "content": "x"}}),
        ("/micropub", {"json": {"action": "delete", "url": "https://reader.example/posts/1"}}),
        ("/media", {"files": picture}),
    ):
        refused = await server.client.post(path, headers=headers, **request)
        assert (refused.status_code, refused.json()["error"]) == (403, "forbidden"), path
        assert "without a channel to post to; allow it again and choose one" in refused.json()["error_description"]
    assert await server.sources.all_of("ann") == []
    assert "read may not post" in (await ann.get("/account")).text


async def test_the_account_names_the_channel(server: World, ann: Visitor, apps: Apps, signed_in: Any) -> None:
    """Until the user ends that."""
    await signed_in(ann)
    await let_in(server, ann, channel="+", new_channel="From my app")
    assert "posts to the channel From my app" in (await ann.get("/account")).text
    (source,) = await server.sources.all_of("ann")
    await server.parts.following.unfollow("ann", "from-my-app", source.address, server.now)
    assert "may not post" in (await ann.get("/account")).text


async def test_a_new_channel_needs_a_name(server: World, ann: Visitor, apps: Apps, signed_in: Any) -> None:
    """The page shows the error, with everything as it was filled in; no code is issued."""
    await signed_in(ann)
    fields = {"decision": "allow", "channel": "+", "new_channel": " ", "grant": ["create", "read"]}
    shown = await ann.submit(await ann.get(address(scope="create read follow")), CONSENT, **fields)
    assert shown.status == 400
    assert "Enter a name for the new channel" in shown.tree.css_first("[role=alert]").text()
    assert ticked(shown) == ["read", "create"]
    told = answer(await ann.submit(shown, CONSENT, **{**fields, "new_channel": "Mine"}))
    assert (await redeem(server, told["code"]))["scope"] == "create read"
    assert [one.name for one in await server.channels.list("ann")] == ["Notifications", "Mine", "Saved"]


def ticked(page: Shown) -> list[str | None]:
    """The scopes with a ticked box."""
    return [box.attributes["value"] for box in page.tree.css("input[name=grant]") if "checked" in box.attributes]


def pressed(page: Shown) -> dict[str, Any]:
    """The fields that *Allow* sends from the unchanged page."""
    chosen = page.tree.css_first("select[name=channel] option[selected]")
    channel = {"channel": chosen.attributes["value"] or ""} if chosen else {}
    return {"decision": "allow", "grant": ticked(page), **channel}


async def test_a_post_only_app_gets_a_channel_of_its_own(
    server: World, ann: Visitor, apps: Apps, signed_in: Any
) -> None:
    """It is named after the app, unless a channel has this name; *Notifications* is offered last."""
    await signed_in(ann)
    await server.channels.create("ann", "Quill", server.now)
    apps.say(APP, {"client_id": APP, "client_name": "Quill"})
    with_name = await ann.get(address(scope="profile create media"))
    assert ticked(with_name) == ["profile", "create", "media"], "a name lets no app read"
    page = await ann.get(address(scope="create"))
    options = [option.text() for option in page.tree.css("select[name=channel] option")]
    assert options == ["A new channel, named below", "Quill", "Notifications"]
    given = await redeem(server, answer(await ann.submit(page, CONSENT, **pressed(page)))["code"])
    assert given["scope"] == "create"
    await post(server, given["access_token"], "one")
    assert await texts(server, "quill-2") == ["one"]
    again = await ann.get(address(scope="create read"))
    assert ticked(again) == ["read", "create"]
    assert pressed(again)["channel"] == "quill-2"
    await server.parts.provider.revoke_app("ann", APP)
    afterwards = await ann.get(address(scope="create read"))
    assert (ticked(afterwards), pressed(afterwards)["channel"]) == (["read"], "quill-2")


async def test_an_app_that_finds_no_endpoint_is_not_offered_posting(
    server: World, ann: Visitor, apps: Apps, signed_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user's page names none, until it does. A page that can't be read may name one."""
    await signed_in(ann)
    server.parts.profiles._sender = apps
    assert ticked(await ann.get(ASKED)) == ALL
    links = "<link rel=token_endpoint href=/t><link rel=authorization_endpoint href=/a>"
    apps.say("https://ann.example/", f"<head>{links}".encode())
    server.parts.profiles.forget("https://ann.example/")
    page = await ann.get(address(scope="create read"))
    assert (ticked(page), page.tree.css("select")) == (["read"], [])
    assert "your page names no address for that" in page.text
    told = answer(await ann.submit(page, CONSENT, decision="allow", grant=["create", "read"], channel="notifications"))
    assert (await redeem(server, told["code"]))["scope"] == "read"
    monkeypatch.setattr(consent, "PROFILE_RECENT", 0.0)
    apps.say("https://ann.example/", f"<head>{links}<link rel=micropub href=/mine>".encode())
    page = await ann.get(address(scope="create read"))
    assert (ticked(page), page.tree.css("select")) == (["read", "create"], [])


@dataclass
class Everyday:
    """Bob, who has no site of his own, allows real reader apps and then uses their buttons."""

    server: World
    browser: Visitor
    documents: Apps

    async def person(self, url: str, *more: str) -> str:
        """Press *Allow* on the page, after ticking `more`; returns where the browser is sent."""
        page = await self.browser.get(url.removeprefix(self.browser.address))
        fields = pressed(page)
        shown = await self.browser.submit(page, CONSENT, **{**fields, "grant": [*fields["grant"], *more]})
        assert shown.status == 303, shown.text
        return shown.location

    async def sign_in(self, kind: type[App], *more: str, home: str = "https://app.test/") -> Signed:
        app = kind(self.browser.client, home)
        self.documents.say(app.client_id, {"client_id": app.client_id, "client_name": kind.name})
        return await app.sign_in("https://reader.example/u/bob", partial(self._person, more))

    async def _person(self, more: tuple[str, ...], url: str) -> str:
        return await self.person(url, *more)


@pytest.fixture
async def bob(server: World, other: Visitor, apps: Apps) -> Everyday:
    await server.accounts.add_user("bob", "", server.now)
    await begin_session(other, server, "bob", "")
    return Everyday(server, other, apps)


@pytest.mark.parametrize(
    ("kind", "buttons"),
    [(Padd, BUTTONS), (Monocle, set()), (Together, BUTTONS), (Ekstereye, BUTTONS), (IndiePassAndroid, BUTTONS)],
)
async def test_reader_apps_that_are_just_allowed_can_read(bob: Everyday, kind: type[App], buttons: set[str]) -> None:
    """They don't get `create`; a button that they show fails with the reason, and nobody is signed out."""
    signed = await bob.sign_in(kind)
    assert not {"create", "post", "update"} & set(signed.scope.split())
    assert await signed.buttons() == buttons
    with pytest.raises(AppBreaks, match=r"403|nothing after") as stopped:
        await signed.like("https://liked.example/")
    assert kind is Monocle or "allow it again and choose one" in str(stopped.value)
    assert signed.app.items(signed.app.checked(await signed.app.get(signed, signed.app.page("notifications")))) == []


@pytest.mark.parametrize("kind", [Padd, Monocle, Together, Ekstereye, IndiePassAndroid])
async def test_likes_in_apps_arrive_read_with_the_user_as_author(bob: Everyday, kind: type[App]) -> None:
    """The author is the account; the app is in `_app`. The count stays 0."""
    signed = await bob.sign_in(kind, "create")
    assert await signed.buttons() == BUTTONS
    await signed.like("https://liked.example/")
    await bob.server.stages.run_once()
    reader = Reader("bob", await bob.server.grant("bob", "read"), bob.server.client)
    channel = next(one for one in (await reader.get(action="channels"))["channels"] if one["name"] == kind.name)
    (item,) = (await reader.get(action="timeline", channel=channel["uid"]))["items"]
    assert (item["_is_read"], channel["unread"]) == (True, 0)
    assert item["like-of"] == ["https://liked.example/"]
    assert item["author"] == {"type": "card", "name": "bob", "url": "https://reader.example/u/bob"}
    assert item["_app"] == {"name": kind.name, "url": signed.app.client_id}


async def test_indiepass_for_ios_gets_create_in_the_reply(bob: Everyday) -> None:
    """It ends the sign-in without `create` in the reply; its token has none, and no other app is told so."""
    signed = await bob.sign_in(IndiePassIos, home="https://indiepass.app/")
    assert signed.scope == "create read"
    headers = {"Authorization": f"Bearer {signed.token}"}
    seen = await bob.server.client.post("/introspect", data={"token": signed.token}, headers=headers)
    assert seen.json()["scope"] == "read"
    with pytest.raises(AppBreaks, match="wants at least create"):
        await bob.sign_in(IndiePassIos)


async def test_ekstereye_can_follow(bob: Everyday) -> None:
    """It never requests `follow`, so its user is offered it with `timeline`."""
    signed = await bob.sign_in(Ekstereye)
    assert signed.scope == "channels follow read timeline"
    fields = {"action": "follow", "channel": "notifications", "url": "https://feed.example/"}
    assert (await signed.app.post(signed, fields)).status_code == 200


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
