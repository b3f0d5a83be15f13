"""Sign-in of native apps by app password, and the addresses of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from microsub.accounts import create_app_password
from microsub.base.rate_limits import RateLimiter
from microsub.greader.api import PATHS
from microsub.web.paths import ENDPOINT
from tests.support.native_app import ADDRESS, SITE, NativeApp
from tests.support.reader import Reader
from tests.support.readers import FEED, posts
from tests.support.world import World

LOGIN = f"{ADDRESS}/accounts/ClientLogin"


@pytest.fixture
async def password(server: World, alice: Reader) -> str:
    return await create_app_password(server.accounts, alice.name, "Reeder", server.now)


async def test_few_large_bodies_are_received_at_once(server: World, password: str) -> None:
    """Each takes memory until it is complete: the seventeenth of a user waits for room, and others have theirs."""
    auth = (await server.client.get(LOGIN, params={"Email": "alice", "Passwd": password})).text.splitlines()[2][5:]
    headers = {"Authorization": f"GoogleLogin auth={auth}", "Content-Type": "application/x-www-form-urlencoded"}
    complete = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"i=1&" * 20_000
        await complete.wait()
        yield b"a=user/-/state/com.google/read"

    address = f"{ADDRESS}/reader/api/0/edit-tag"
    sending = [asyncio.create_task(server.client.post(address, content=parts(), headers=headers)) for _ in range(17)]
    done, _ = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
    assert [one.result().status_code for one in done] == [429]
    complete.set()
    assert sorted(reply.status_code for reply in await asyncio.gather(*sending)) == [200] * 16 + [429]


async def test_every_form_of_sign_in(server: World, password: str) -> None:
    """Query, form and multipart, text and JSON, with unknown parameters; the password as people type it."""
    given = {"Email": "alice", "Passwd": password, "accountType": "HOSTED", "client": "x", "service": "reader"}
    asked = [
        await server.client.get(LOGIN, params=given),
        await server.client.post(LOGIN, data=given),
        await server.client.post(LOGIN, params=given),
        await server.client.post(LOGIN, files={name: (None, value) for name, value in given.items()}),
        await server.client.post(LOGIN, data={**given, "Passwd": password.replace("-", "").upper()}),
        await server.client.post(LOGIN, data={**given, "Email": "alice@reader.example"}),
    ]
    for reply in asked:
        assert reply.status_code == 200
        sid, lsid, auth = reply.text.splitlines()
        assert (sid[:4], lsid[:5], auth[:5]) == ("SID=", "LSID=", "Auth=")
        assert "=" not in auth[5:]
    as_json = (await server.client.post(LOGIN, data={**given, "output": "json"})).json()
    assert as_json["Auth"] == asked[0].text.splitlines()[2][5:]


async def test_wrong_names_and_passwords(server: World, alice: Reader, password: str) -> None:
    """The account's own token is no app password; nobody learns which of name and password is wrong."""
    for who, secret in (
        ("alice", "wrong"),
        ("bob", password),
        ("", ""),
        ("alice", alice.token),
        ("alice", alice.token.partition(".")[2]),
        ("a.b", password),
    ):
        reply = await server.client.post(LOGIN, data={"Email": who, "Passwd": secret})
        assert (reply.status_code, reply.text.strip()) == (401, "Error=BadAuthentication")


async def test_guessing_is_limited_and_locks_nobody_out(
    server: World, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a thousand wrong passwords is called wrong, soon with the time to wait; the right one still works."""
    (native,) = {route.endpoint for route in server.app.routes if route.path in PATHS}
    monkeypatch.setattr(native, "_limiter", RateLimiter(lambda: 0.0))
    wrong = {"Email": "alice", "Passwd": "wrong"}
    replies = [await server.client.post(LOGIN, data=wrong) for _ in range(1000)]
    assert {(one.status_code, one.text) for one in replies} == {(401, "Error=BadAuthentication\n")}
    assert [one.headers.get("retry-after") for one in replies] == [None] * 60 + ["60"] * 940
    right = await server.client.post(LOGIN, data={"Email": "alice", "Passwd": password})
    assert right.status_code == 200


async def test_the_header_decides(server: World, app: NativeApp, alice: Reader) -> None:
    """`T` is ignored; without a good header both bad-token headers are sent."""
    headers = {"Authorization": f"googlelogin auth={app.auth}"}
    for token in ("", app.auth, "stale\n"):
        reply = await server.client.get(f"{ADDRESS}/reader/api/0/user-info", params={"T": token}, headers=headers)
        assert reply.status_code == 200
    for value in (
        *("", "GoogleLogin auth=", "GoogleLogin auth=alice.x", f"GoogleLogin auth={alice.token}"),
        *(f"Bearer {app.auth}", alice.headers["Authorization"]),
    ):
        reply = await server.client.get(f"{ADDRESS}/reader/api/0/user-info", headers={"Authorization": value})
        assert (reply.status_code, reply.text) == (401, "Unauthorized\n")
        assert (reply.headers["x-reader-google-bad-token"], reply.headers["google-bad-token"]) == ("true", "true")


async def test_contents_without_a_header(server: World, alice: Reader, app: NativeApp) -> None:
    """Liferea 1.14 asks for contents with the value of `Auth` as `T` alone; nothing else is answered so."""
    contents = f"{ADDRESS}/reader/api/0/stream/items/contents"
    assert (await server.client.post(contents, data={"T": app.auth, "i": "1"})).json()["items"] == []
    await server.publish(FEED, *posts("b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    first, second = await app.ids()
    split = await server.client.post(contents, params={"output": "json", "i": first}, data={"T": app.auth, "i": second})
    assert len(split.json()["items"]) == 2
    bad = {"Authorization": "GoogleLogin auth=alice.x"}
    for reply in (
        await server.client.post(contents, data={"T": "alice.x", "i": "1"}),
        await server.client.post(contents, data={"T": app.auth, "i": "1"}, headers=bad),
        await server.client.post(contents, params={"T": app.auth}, data={"i": "1"}),
        await server.client.post(contents, params={"T[]": app.auth}, data={"i": "1"}),
        await server.client.post(contents, data={"T": app.auth, "i": ["1"] * 40_000}),
        await server.client.get(contents, params={"T": app.auth, "i": "1"}),
        await server.client.post(f"{ADDRESS}/reader/api/0/edit-tag", data={"T": app.auth, "i": "1", "a": "x"}),
    ):
        assert reply.status_code in (401, 400)


async def test_token_and_user_info(app: NativeApp) -> None:
    assert len((await app.get("token")).text) == 57
    info = await app.json("user-info")
    assert info == dict.fromkeys(("userId", "userName", "userProfileId", "userEmail"), "alice")


async def test_an_app_password_opens_this_api_alone(server: World, app: NativeApp) -> None:
    bearer = {"Authorization": f"Bearer {app.auth}"}
    for action, method in (("channels", ""), ("timeline", ""), ("timeline", "ids"), ("follow", ""), ("events", "")):
        asked = {"action": action, "method": method, "channel": "home"}
        assert (await server.client.get(ENDPOINT, params=asked, headers=bearer)).status_code == 403, action
    for action, method in (("channels", ""), ("timeline", "mark_read"), ("follow", "")):
        asked = {"action": action, "method": method, "channel": "home"}
        assert (await server.client.post(ENDPOINT, data=asked, headers=bearer)).status_code == 403, action
    for path in ("/opml", "/micropub?q=config", "/token", "/userinfo", "/store/feeds"):
        assert (await server.client.get(path, headers=bearer)).status_code in {401, 403}, path
    asked = await server.client.post("/introspect", data={"token": app.auth}, headers=bearer)
    assert "alice" not in asked.text
    assert (await server.client.get("/account", headers=bearer)).status_code == 303


async def test_a_revoked_password_ends_at_once(server: World, app: NativeApp) -> None:
    await app.get("user-info")
    credential = server.accounts.credential(app.auth)
    assert credential
    assert await server.accounts.revoke("alice", credential.digest)
    await app.get("user-info", 401)


@pytest.mark.parametrize(
    "address",
    [
        ADDRESS,
        "/greader",
        "",
        "/",
        f"{ADDRESS}/",
        "//greader//",
        f"{ADDRESS}{ADDRESS}",
        f"/greader{ADDRESS}/",
        "/api//greader.php",
    ],
)
async def test_every_form_of_address(server: World, app: NativeApp, password: str, address: str) -> None:
    app.address = address
    assert (await app.json("user-info"))["userName"] == "alice"
    reply = await server.client.get(
        f"{SITE}{address}/accounts/ClientLogin", params={"Email": "alice", "Passwd": password}
    )
    assert reply.status_code == 200


async def test_an_address_joined_without_a_slash(server: World, app: NativeApp, password: str) -> None:
    reply = await server.client.get(f"{ADDRESS}reader/api/0/user-info", headers=app.headers)
    assert reply.json()["userName"] == "alice"
    given = {"Email": "alice", "Passwd": password}
    assert (await server.client.get(f"{ADDRESS}accounts/ClientLogin", params=given)).status_code == 200


async def test_a_browser_is_told_what_the_address_is_for(server: World) -> None:
    """With the address of the account page, in its language; apps get what they got."""
    told = {
        "en": "This address is for apps. Enter it in an app, with your name and an app password, which you create at "
        f"{SITE}/account.\n",
        "de": "Diese Adresse ist für Apps. Geben Sie sie in einer App ein, mit Ihrem Namen und einem App-Passwort, "
        f"das Sie unter {SITE}/account erstellen.\n",
    }
    for path in (ADDRESS, f"{ADDRESS}/", "/greader"):
        for language, text in told.items():
            asked = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": language}
            reply = await server.client.get(path, headers=asked)
            assert (reply.status_code, reply.text) == (404, text)
            assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert (await server.client.get(path)).text == "there is nothing at this address\n"


async def test_unknown_names(server: World, app: NativeApp) -> None:
    """404 with one line of text, with and without a token."""
    reply = await app.get("nothing", 404)
    assert reply.text == "there is nothing at this address\n"
    for path in (ADDRESS, "/greader", "/greaders", f"{ADDRESS}/x", "/reader/x"):
        assert (await server.client.get(path)).status_code == 404
