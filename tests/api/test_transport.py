"""Addresses, methods, bodies, tokens, headers: the requests of real clients, and the replies to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from microsub.accounts.store import Accounts
from microsub.api import endpoint
from microsub.base.errors import StoreFull, StoreUnavailable
from microsub.model.reader import Credential, Grant
from microsub.web.params import LARGE_BODIES_AT_ONCE, UNCHECKED_BODY, UNCHECKED_PARTS, Pairs, RequestBody, body_pairs
from tests.support.readers import ENDPOINT, Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("path", ["/microsub/alice/x", "/microsub//", "/microsub//alice", "/microsubs", "/other"])
async def test_other_addresses_are_not_found(alice: Reader, path: str) -> None:
    """In the same form as every error."""
    response = await alice.client.get(path, headers=alice.headers)
    assert Reader.checked(response, 404)["error"] == "not_found"


async def test_another_users_endpoint_is_forbidden(alice: Reader, bob: Reader) -> None:
    """Whether that user exists or not: the reply is the same."""
    replies = []
    for name in ("bob", "nobody"):
        for request in (
            alice.client.get(f"/microsub/{name}?action=channels", headers=alice.headers),
            alice.client.get(f"/microsub/{name}?action=timeline&channel=home", headers=alice.headers),
            alice.client.post(f"/microsub/{name}?action=channels&name=x", headers=alice.headers),
        ):
            reply = Reader.checked(await request, 403)
            assert reply["error"] == "forbidden"
            replies.append(reply["error_description"].replace(name, ""))
    assert len(set(replies)) == 1


async def test_other_methods_are_refused(alice: Reader) -> None:
    """The reply lists the allowed methods."""
    for method in ("PUT", "DELETE", "PATCH"):
        response = await alice.client.request(method, ENDPOINT, headers=alice.headers)
        assert Reader.checked(response, 405)["error"] == "invalid_request"
        assert response.headers["allow"] == "GET, POST, OPTIONS"


MARK: dict[str, Any] = {"action": "timeline", "method": "mark_read", "channel": "home"}


@pytest.fixture
async def two(alice: Reader, server: World) -> list[str]:
    """The ids of two unread items in Alice's channel `home`."""
    await server.publish(FEED, *posts("a", "b"))
    await alice.post(action="follow", channel="home", url=FEED)
    return await alice.ids("home")


async def test_the_token_as_a_parameter(alice: Reader) -> None:
    """In query, form and JSON; another kind of Authorization header doesn't matter."""
    token = {"access_token": alice.token}
    Reader.checked(await alice.client.get(ENDPOINT, params={"action": "channels", **token}), 200)
    Reader.checked(await alice.client.post(ENDPOINT, data={"action": "channels", "name": "x", **token}), 200)
    Reader.checked(await alice.client.post(ENDPOINT, json={"action": "channels", "name": "x", **token}), 200)
    basic = {"Authorization": "Basic YTpi"}
    Reader.checked(await alice.client.get(ENDPOINT, params={"action": "channels", **token}, headers=basic), 200)


async def test_without_a_valid_token(alice: Reader, server: World) -> None:
    """401 with `WWW-Authenticate: Bearer` for every request, even for an invalid or unknown one."""
    revoked = await server.grant("alice", "read")
    (digest,) = [token.digest for token in await server.accounts.tokens("alice") if token.scopes == {"read"}]
    await server.accounts.revoke("alice", digest)
    expired = await server.accounts.create_token("alice", ["read"], "tests", server.now - 10, server.now - 1)
    for token in (None, "", "x", "alice", "alice.", "alice.wrong", "nobody.x", "bob.x" * 200, "é.x", revoked, expired):
        headers = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
        for params in (
            {"action": "channels"},
            {"action": "timeline", "channel": "home"},
            {"action": "timeline", "channel": "nowhere", "after": "!"},
            {"action": "nonsense"},
            {"action": "follow", "channel": "home"},
            {},
        ):
            response = await server.client.get(ENDPOINT, params=params, headers=headers)  # type: ignore[arg-type]
            assert Reader.checked(response, 401)["error"] == "unauthorized"
            assert response.headers["www-authenticate"] == "Bearer"


async def test_a_get_changes_nothing(alice: Reader, two: list[str]) -> None:
    """Writes need a POST; the message reports this."""
    reply = await alice.get(400, **MARK, entry=two[0])
    assert reply["error"] == "invalid_request"
    assert "found GET, expected POST" in reply["error_description"]
    for action in ("unfollow", "unmute", "unblock"):
        assert (await alice.get(400, action=action, channel="home", url=FEED))["error"] == "invalid_request"
    assert await alice.unread("home") == 2


async def test_a_large_body_is_parsed_only_with_a_valid_token(alice: Reader) -> None:
    """Its token is in the header or the query, and is checked before the body is parsed."""
    body = b"action=channels&name=x&pad=" + b"x" * UNCHECKED_BODY
    large = {"content": body, "headers": FORM}
    token = alice.headers["Authorization"].removeprefix("Bearer ")
    Reader.checked(await alice.client.post(ENDPOINT, **large), 401)
    Reader.checked(await alice.client.post(f"{ENDPOINT}?access_token={token}x", **large), 401)
    Reader.checked(
        await alice.client.post(ENDPOINT, content=body + f"&access_token={token}".encode(), headers=FORM), 401
    )
    Reader.checked(await alice.client.post(f"{ENDPOINT}?access_token={token}", **large), 200)
    Reader.checked(await alice.client.post(ENDPOINT, content=body, headers=FORM | alice.headers), 200)


class Sent:
    """A body in parts of 64 KiB; `taken` are those that were asked for. It ends after `go_on`."""

    def __init__(self) -> None:
        self.taken = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(15):
            self.taken += 1
            yield b"x" * UNCHECKED_BODY
        await self.go_on.wait()


@pytest.mark.parametrize("path", [ENDPOINT, "/micropub", "/token", "/introspect", "/revoke"])
async def test_a_large_body_is_received_only_with_a_valid_token(alice: Reader, path: str) -> None:
    """Strangers' connections held a megabyte each for two minutes, and were refused after that."""
    body = Sent()
    reply = await alice.client.post(path, content=body, headers=FORM)
    assert (reply.status_code, body.taken) == (413, 2)


async def test_large_bodies_of_a_user_that_are_received_at_once_are_limited(alice: Reader, bob: Reader) -> None:
    """240 connections that never end their bodies held 240 MB for two minutes."""
    bodies = [Sent() for _ in range(LARGE_BODIES_AT_ONCE.most + 1)]
    for body in bodies:
        body.go_on.clear()
    sending = [
        asyncio.create_task(alice.client.post(ENDPOINT, content=body, headers=FORM | alice.headers)) for body in bodies
    ]
    done, _ = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
    assert [one.result().status_code for one in done] == [429]
    await bob.post(action="channels", name="Other")
    for body in bodies:
        body.go_on.set()
    assert sorted({reply.status_code for reply in await asyncio.gather(*sending)}) == [400, 429]


async def test_parts_are_parsed_only_with_a_valid_token(alice: Reader) -> None:
    """They cost eight times as much as a form; a head of some thousand semicolons took 30 ms."""
    head = b'Content-Disposition: form-data; name="action"' + b";" * UNCHECKED_PARTS
    content = b"--x\r\n" + head + b"\r\n\r\nchannels\r\n--x--\r\n"
    large = {"content": content, "headers": {"Content-Type": "multipart/form-data; boundary=x"}}
    token = alice.headers["Authorization"].removeprefix("Bearer ")
    Reader.checked(await alice.client.post(ENDPOINT, **large), 401)
    Reader.checked(await alice.client.post(f"{ENDPOINT}?access_token={token}", **large), 400)


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", FORM["Content-Type"]])
@pytest.mark.parametrize("token", ["alice.wrong", "nonsense", "nobody.secret"])
async def test_a_wrong_token_in_the_header_is_enough(
    alice: Reader, monkeypatch: pytest.MonkeyPatch, kind: str, token: str
) -> None:
    """A stranger's body is neither parsed nor read: whatever it contains, the reply is 401."""

    async def never(*_: Any) -> Any:
        raise AssertionError("read")

    monkeypatch.setattr(endpoint, "read_body", never)
    headers = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
    response = await alice.client.post(ENDPOINT, content=b"{" * 1000, headers=headers)
    assert Reader.checked(response, 401)["error"] == "unauthorized"


async def test_a_token_in_the_header_is_checked_once(alice: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round trip to the store."""
    checked: list[str] = []
    verify = Accounts.verify

    async def count(self: Accounts, credential: Credential, now: float) -> Grant:
        checked.append(credential.user)
        return await verify(self, credential, now)

    monkeypatch.setattr(Accounts, "verify", count)
    await alice.post(action="channels", name="x")
    assert checked == ["alice"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{", "application/json"), (b"[]", "application/json"), (b"x", "multipart/form-data"), (b"<x/>", "text/xml")],
)
async def test_broken_bodies(alice: Reader, content: bytes, kind: str) -> None:
    """400, never 500."""
    headers = alice.headers | {"Content-Type": kind}
    reply = Reader.checked(await alice.client.post(ENDPOINT, content=content, headers=headers), 400)
    assert reply["error"] == "invalid_request"


async def test_a_store_that_fails(alice: Reader, server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 server_error, for reads and writes, without internals."""

    def fail(error: Exception) -> Any:
        async def script(*_: Any) -> Any:
            raise error

        return script

    monkeypatch.setattr(server.redis, "script", fail(StoreUnavailable("redis://:sesame@10.0.0.1 refused")))
    for reply in (
        await alice.get(503, action="channels"),
        await alice.get(503, action="timeline", channel="home"),
        await alice.post(503, action="channels", name="x"),
    ):
        assert reply["error"] == "server_error"
        assert "sesame" not in json.dumps(reply)
    monkeypatch.setattr(server.redis, "script", fail(StoreFull("OOM")))
    assert "full" in (await alice.post(503, action="channels", name="x"))["error_description"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"action": "dance"}, "expected one of"),
        ({"action": "timeline", "method": "dance"}, "expected one of"),
        ({"action": "unfollow", "method": "x"}, "expected none for action=unfollow"),
    ],
)
async def test_unknown_actions_and_methods(alice: Reader, params: dict[str, str], expected: str) -> None:
    """400 not_implemented, with the existing ones."""
    for reply in (await alice.get(400, **params), await alice.post(400, **params)):
        assert reply["error"] == "not_implemented"
        assert f"found '{params.get('method', params['action'])}', {expected}" in reply["error_description"]


async def test_large_bodies_of_a_user_are_parsed_one_at_a_time(
    alice: Reader, bob: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seventy at once left no thread for other users' pages for a second and a half."""
    go_on, begun = asyncio.Event(), asyncio.Event()
    under_way = most = 0

    async def held(body: RequestBody, client: str) -> Pairs:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        begun.set()
        if len(body.content) > UNCHECKED_BODY:
            await go_on.wait()
        under_way -= 1
        return await body_pairs(body, client)

    monkeypatch.setattr(endpoint, "body_pairs", held)
    large = {"action": "channels", "name": "Large", "padding": "x" * UNCHECKED_BODY}
    sent = [asyncio.create_task(alice.client.post(ENDPOINT, data=large, headers=alice.headers)) for _ in range(4)]
    await begun.wait()
    await bob.post(action="channels", name="Other")
    go_on.set()
    assert {reply.status_code for reply in await asyncio.gather(*sent)} == {200}
    assert most == 2, "one of each user"


async def test_scopes_are_checked_before_parameters(alice: Reader, server: World) -> None:
    """A token without the scope doesn't learn what is wrong with the parameters, nor which channels exist."""
    token = await server.grant("alice", "follow")
    reader = Reader("alice", token, server.client)
    for channel in ("home", "nowhere", "!"):
        await reader.get(403, action="timeline", channel=channel)
    await reader.get(403, action="timeline", channel="home", after="!")
    await reader.post(403, action="mute")
