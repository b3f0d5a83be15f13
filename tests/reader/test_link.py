"""The link that the server shows at its start signs in who sits at the machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.identity.limits import PASSKEY_CHALLENGE
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
    return f"/sign-in/link?code={await server.identity.local.make_link('ann')}"


async def test_the_link_signs_in_once(server: World) -> None:
    """Within five minutes, and leads to what a newcomer can read."""
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
    """Nobody from elsewhere, by another name, or on the way from another site; and it stays good for its user."""
    path, other, own = await link(server), Visitor(server.app, address, client=client), Visitor(server.app, HERE)
    assert (await other.get(path, **{"sec-fetch-site": site})).status in {403, 404}
    assert (await own.get(path)).location == "/"


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
async def test_the_link_is_not_passed_on(server: World, header: str) -> None:
    """By a web server on this machine, behind which anybody may be; and who asks what it is doesn't use it up."""
    path, visitor = await link(server), Visitor(server.app, HERE)
    assert (await visitor.get(path, **{header: "203.0.113.9"})).status == 404
    assert (await visitor.client.head(path)).status_code == 404
    assert (await visitor.get(path)).location == "/"


async def test_made_up_codes(server: World) -> None:
    """Nothing is signed in by what nobody was given; a passkey's challenge is no link."""
    asked = await server.identity.local.passkeys.ask_to_use("http://localhost:8080")
    visitor = Visitor(server.app, HERE)
    for code in ("", "x", "x" * 5000, asked.secret):
        reply = await visitor.get(f"/sign-in/link?code={code}")
        assert reply.status in {401, 403, 414}, code
    assert (await visitor.get("/account")).location.startswith("/sign-in")
