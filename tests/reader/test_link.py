"""The link that the server prints at its start signs in the person at the machine."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

from microsub.accounts.credentials import PASSKEY_CHALLENGE
from microsub.redis.protocol import Redis
from tests.support.readers import instance
from tests.support.visitor import Visitor
from tests.support.world import World

HERE = "http://127.0.0.1:8080"


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """A server on this machine, with the user ann."""
    async with instance(real_redis, base_url=None) as made:
        await made.accounts.add_user("ann", "https://ann.example/", made.now)
        yield made


async def link(server: World) -> str:
    return f"/sign-in/link?code={await server.parts.local.make_link('ann')}"


async def test_the_link_signs_in_once(server: World) -> None:
    """It works within five minutes, and leads to the page for new users."""
    path, first, second = await link(server), Visitor(server.app, HERE), Visitor(server.app, HERE)
    assert (await first.get(path)).location == "/"
    assert (await first.get("/")).title == "What do you want to read?"
    assert (await second.get(path)).status == 403 or "used" in (await second.get(path)).text
    assert (await second.get("/account")).location.startswith("/sign-in")
    keys = await server.redis.command("KEYS", "identity:ceremony:*")
    assert keys == []
    await link(server)
    (key,) = await server.redis.command("KEYS", "identity:ceremony:*")
    assert 0 < await server.redis.command("TTL", key) <= PASSKEY_CHALLENGE


@pytest.mark.parametrize(
    ("address", "client", "site"),
    [
        (HERE, "203.0.113.9", "none"),
        ("http://reader.example", "127.0.0.1", "none"),
        (HERE, "127.0.0.1", "cross-site"),
        (HERE, "127.0.0.1", "same-site"),
    ],
)
async def test_the_link_is_for_this_machine(server: World, address: str, client: str, site: str) -> None:
    """Other machines, other names and requests from other sites are refused; the link stays valid for its user."""
    path, other, own = await link(server), Visitor(server.app, address, client=client), Visitor(server.app, HERE)
    assert (await other.get(path, **{"sec-fetch-site": site})).status in {403, 404}
    assert (await own.get(path)).location == "/"


async def test_the_link_works_beside_a_service_worker(server: World) -> None:
    """The worker of an earlier server at this address requests the page in the browser's place."""
    path, visitor = await link(server), Visitor(server.app, HERE)
    asked = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "empty"}
    assert (await visitor.get(path, **asked)).location == "/"


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
async def test_the_link_is_not_passed_on(server: World, header: str) -> None:
    """A web server on this machine may forward anybody's request; a HEAD request doesn't use the link up."""
    path, visitor = await link(server), Visitor(server.app, HERE)
    assert (await visitor.get(path, **{header: "203.0.113.9"})).status == 404
    assert (await visitor.client.head(path)).status_code == 404
    assert (await visitor.get(path)).location == "/"


async def test_made_up_codes(server: World) -> None:
    """A made-up code doesn't sign anybody in; a passkey's challenge isn't a link."""
    asked = await server.parts.local.passkeys.ask_to_use("http://localhost:8080")
    visitor = Visitor(server.app, HERE)
    for code in ("", "x", "x" * 5000, asked.secret):
        reply = await visitor.get(f"/sign-in/link?code={code}")
        assert reply.status in {401, 403, 414}, code
    assert (await visitor.get("/account")).location.startswith("/sign-in")


@pytest.mark.parametrize(
    ("called", "command"),
    [
        (".venv/bin/microsub", ".venv/bin/microsub"),
        ("/home/ann/feeds/.venv/bin/microsub", "microsub"),
        ("/usr/lib/microsub/__main__.py", "python -m microsub"),
    ],
)
async def test_pages_name_the_command_as_it_was_called(
    server: World, monkeypatch: pytest.MonkeyPatch, called: str, command: str
) -> None:
    """After `make serve` it isn't on PATH; strangers don't see absolute paths."""
    monkeypatch.setattr(sys, "argv", [called])
    visitor = Visitor(server.app, HERE)
    spent = await visitor.get("/sign-in/link?code=x")
    assert f"or run {command} user invite NAME." in spent.text
    assert f" {command} user invite NAME prints one." in (await visitor.get("/sign-in")).text
