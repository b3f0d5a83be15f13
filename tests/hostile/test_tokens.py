"""Tokens of providers that lie, break or are slow, and stolen tokens: over HTTP, on a real instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from tests.support.process import Installation, installation
from tests.support.provider import Fault, Provider, Variant, provider

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

BOTH = Variant.lenient()
OLDER = Variant.older()

# The provider's answer, at which endpoint, and the allowed statuses: never 200, never 500.
LIES: dict[str, tuple[str, Fault, set[int]]] = {
    "another user of the provider": ("introspection", Fault(change={"me": "BESIDE"}), {401, 403}),
    "a user of another provider": ("introspection", Fault(change={"me": "BOB"}), {401, 403}),
    "the same host, another path": ("introspection", Fault(change={"me": "NEAR"}), {401, 403}),
    "a path below": ("introspection", Fault(change={"me": "BELOW"}), {401, 403}),
    "me with a fragment": ("introspection", Fault(change={"me": "FRAGMENT"}), {401, 403, 503}),
    "me with a user": ("introspection", Fault(change={"me": "USERINFO"}), {401, 403, 503}),
    "me in two lines": ("introspection", Fault(change={"me": "LINES"}), {401, 403, 503}),
    "me that is a list": ("introspection", Fault(change={"me": ["ME", "BOB"]}), {401, 403, 503}),
    "no me": ("introspection", Fault(change={"me": None}), {401, 403, 503}),
    "active as a text": ("introspection", Fault(change={"active": "true"}), {401, 503}),
    "active as a number": ("introspection", Fault(change={"active": 1}), {401, 503}),
    "no active": ("introspection", Fault(change={"active": None}), {401, 503}),
    "expired": ("introspection", Fault(change={"exp": 1}), {401}),
    "an invalid expiry": ("introspection", Fault(change={"exp": "soon"}), {401, 503}),
    "no scope at all": ("introspection", Fault(change={"scope": None}), {403}),
    "scope of others": ("introspection", Fault(change={"scope": "create update"}), {403}),
    "scope in two lines": ("introspection", Fault(change={"scope": "read\r\nX-Injected: 1\x00"}), {401, 403, 503}),
    "too large": ("introspection", Fault(padding=200_000), {503}),
    "no JSON": ("introspection", Fault(body=b"<html>active</html>"), {401, 503}),
    "JSON of another kind": ("introspection", Fault(body=b'["active"]'), {401, 503}),
    "deep JSON": ("introspection", Fault(body=b"[" * 60_000), {401, 503}),
    "status 500": ("introspection", Fault(status=500), {503}),
    "status 500 with a good answer": ("introspection", Fault(status=502), {503}),
    "no answer": ("introspection", Fault(drop=True), {503}),
    "redirected": ("introspection", Fault(location="ELSEWHERE"), {401, 503}),
    "redirected to itself": ("introspection", Fault(location=""), {401, 503}),
    "older: another user": ("check", Fault(body=b"me=BOB&scope=read&client_id=x"), {401, 403}),
    "older: two users": ("check", Fault(body=b"me=ME&me=BOB&scope=read"), {401, 403, 503}),
    "older: a page": ("check", Fault(body=b"<html>me=ME</html>", content_type="text/html"), {401, 503}),
    "older: too large": ("check", Fault(padding=200_000), {503}),
    "older: status 500": ("check", Fault(status=500), {503}),
    "older: redirected": ("check", Fault(location="ELSEWHERE"), {401, 503}),
}


@dataclass
class World:
    """An instance with a user for each case, at two providers, and a third server that must get no request."""

    http: httpx.AsyncClient
    newer: Provider
    older: Provider
    bystander: Provider
    installed: Installation
    url: str

    async def ask(self, user: str | None, token: str, **more: str) -> httpx.Response:
        endpoint = f"{self.url}/microsub" + (f"/{user}" if user else "")
        headers = {"Authorization": f"Bearer {token}"}
        return await self.http.get(endpoint, params={"action": "channels", **more}, headers=headers)


def user_of(number: int) -> str:
    return f"u{number}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        newer, older = await enter(provider(BOTH)), await enter(provider(OLDER))
        bystander = await enter(provider(BOTH))
        bystander.person("bob")
        users = {"bob": {"me": bystander.people["bob"].me}}
        for number, (where, _, _) in enumerate(LIES.values()):
            made = older if where == "check" else newer
            users[user_of(number)] = {"me": made.person(user_of(number)).me}
        for name in ("ann", "beside", "crowd"):
            users[name] = {"me": newer.person(name).me}
        installed = await enter(installation(tmp_path_factory.mktemp("reader"), {"users": users}))
        yield World(http, newer, older, bystander, installed, await installed.serve("web"))


def told(fault: Fault, made: Provider, user: str, world: World) -> Fault:
    """The fault with the names of people filled in."""
    me = made.people[user].me
    names: dict[str, object] = {
        "BESIDE": made.people[user_of(0) if user != user_of(0) else user_of(1)].me if made is world.newer else me,
        "BOB": world.bystander.people["bob"].me,
        "NEAR": me.rstrip("/") + "-2/",
        "BELOW": me + "below/",
        "FRAGMENT": me + "#x",
        "USERINFO": me.replace("://", "://ann@"),
        "LINES": me + "\r\nX-Injected: 1",
    }
    change = {key: names.get(value, value) if isinstance(value, str) else value for key, value in fault.change.items()}
    body = fault.body
    if body is not None:
        body = body.replace(b"BOB", str(names["BOB"]).encode()).replace(b"ME", me.encode())
    location = world.bystander.url("/stolen") if fault.location == "ELSEWHERE" else fault.location
    return Fault(**{**fault.__dict__, "change": change, "body": body, "location": location})


@pytest.mark.parametrize("case", LIES)
async def test_lies_of_providers_open_no_account(world: World, case: str) -> None:
    """The account stays closed, with a matching JSON error, and no other server sees the token."""
    where, fault, statuses = LIES[case]
    user = user_of(list(LIES).index(case))
    made = world.older if where == "check" else world.newer
    token = made.grant(user, "read")
    seen = len(world.bystander.asked)
    made.fault(where, told(fault, made, user, world))
    try:
        reply = await world.ask(user, token)
    finally:
        made.end_faults()
    assert reply.status_code in statuses, reply.text
    error = reply.json()
    assert error["error"]
    assert "\r" not in reply.text
    assert "x-injected" not in reply.headers
    assert token not in reply.text
    assert len(world.bystander.asked) == seen
    assert token not in world.installed.log


async def test_the_same_tokens_are_good_when_nothing_is_wrong(world: World) -> None:
    """A user can read again once their provider answers correctly: the false answers have no lasting effect."""
    for number, (where, _, _) in enumerate(LIES.values()):
        made = world.older if where == "check" else world.newer
        reply = await world.ask(user_of(number), made.grant(user_of(number), "read"))
        assert reply.status_code == 200, reply.text


async def test_another_users_token_opens_no_account(world: World) -> None:
    """Substitution: a valid token of one person opens no other account of that provider, in any order."""
    mine = world.newer.grant("ann", "read")
    for user in ("beside", "bob"):
        assert (await world.ask(user, mine)).status_code in {401, 403}
    assert (await world.ask("ann", mine)).status_code == 200
    for user in ("beside", "bob", "nobody", "ann/../beside", "Ann", "ann%00"):
        reply = await world.ask(user, mine)
        assert reply.status_code in {400, 401, 403, 404}, (user, reply.text)


async def test_a_foreign_token_without_a_name_is_sent_nowhere(world: World) -> None:
    """At `/microsub`, where several users are, an unknown token is sent to none of their providers."""
    before = [len(made.asked) for made in (world.newer, world.older, world.bystander)]
    reply = await world.ask(None, world.newer.grant("ann", "read"))
    assert reply.status_code == 401
    assert "/microsub/" in reply.json()["error_description"]
    assert [len(made.asked) for made in (world.newer, world.older, world.bystander)] == before


async def test_guesses_dont_flood_the_provider(world: World) -> None:
    """Brute force: of 200 invented tokens few reach the provider, and the guesser is told to wait."""
    path = "/introspect"
    before = world.newer.count(path)
    replies = await asyncio.gather(*(world.ask("crowd", f"guess-{number}") for number in range(200)))
    assert {reply.status_code for reply in replies} == {401, 429}
    assert all(int(reply.headers["retry-after"]) > 0 for reply in replies if reply.status_code == 429)
    asked = world.newer.count(path) - before
    assert asked == sum(reply.status_code == 401 for reply in replies) <= 60


@pytest.mark.parametrize(
    "token",
    [
        *("", " ", "a b", "ann", "ann.", ".", "ann." + "x" * 5000, "\x01", "ann.x\r\nX: 1", "\u00e4" * 10),
        *("*", "ann.*", "{ann}", "ann}.x", "../ann", "%00", "Bearer", "null", "undefined"),
    ],
    ids=lambda token: repr(token)[:20],
)
async def test_texts_that_are_no_tokens(world: World, token: str) -> None:
    """Any text in place of a token gets 400 or 401, whichever way it is sent."""
    for user in ("bob", None):
        endpoint = f"{world.url}/microsub" + (f"/{user}" if user else "")
        reply = await world.http.get(endpoint, params={"action": "channels", "access_token": token})
        assert reply.status_code in {400, 401, 429}, reply.text
