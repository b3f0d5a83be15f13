"""Open registration, and people who want several accounts or another person's: over HTTP, on a real instance."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.own_server import Surfer
from tests.support.process import Installation, installation
from tests.support.provider import Fault, Provider, Variant, provider

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

QUOTAS = {"channels": 2, "feeds": 2, "tokens": 5, "requests": 8}
REGISTRATION = {"open": "everybody", "refuse": ["http://127.0.0.1:1/refused/"], "quotas": QUOTAS}

AT_ONCE = 5
"""Sign-ins of one person that may be pending (`identity.provider.client_limits`)."""


@dataclass
class World:
    """An instance with open registration and Ann, who had an account before; two providers, one of them Mallory's."""

    http: httpx.AsyncClient
    honest: Provider
    evil: Provider
    installed: Installation
    url: str

    async def sign_in(self, me: str, made: Provider, name: str) -> Surfer:
        """A browser after a sign-in as `me`, by the account `name` at that provider."""
        made.at_browser = name
        surfer = Surfer()
        await surfer.goto(f"{self.url}/sign-in")
        return await surfer.submit(me=me)

    async def user_of(self, surfer: Surfer) -> str | None:
        await surfer.goto(f"{self.url}/account")
        found = re.search(r"signed in as ([\w-]+)", surfer.text)
        await surfer.http.aclose()
        return found[1] if found and surfer.title == "Your account" else None

    async def users(self) -> dict[str, str]:
        """All users with their addresses."""
        _, out, err = await self.installed.run("user", "list", "--json")
        found: list[dict[str, Any]] = json.loads(out)
        assert not err
        return {user["name"]: user["me"] for user in found}


@asynccontextmanager
async def running(folder: Path, most: int) -> AsyncIterator[World]:
    """An instance that accepts that many new users."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        honest, evil = await enter(provider(Variant.lenient())), await enter(provider(Variant.lenient()))
        evil.person("mallory")
        backend = {
            "users": {"ann": {"me": honest.person("ann").me}},
            "settings": {"registration": {**REGISTRATION, "most": most}},
        }
        installed = await enter(installation(folder, backend))
        yield World(http, honest, evil, installed, await installed.serve("web"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with running(tmp_path_factory.mktemp("open"), 100) as made:
        yield made


async def test_one_person_is_one_account(world: World) -> None:
    """Any spelling of the address and any redirect to it is the same account, both in sequence and at once."""
    me = world.honest.person("new").me
    alias = world.honest.redirect("/new-alias", me, 301)
    for_now = world.honest.redirect("/new-for-now", me, 302)
    before, users = await world.users(), set()
    for entered in (me, me.upper().replace("/NEW/", "/new/"), alias, for_now, me):
        users.add(await world.user_of(await world.sign_in(entered, world.honest, "new")))
    surfers = await asyncio.gather(*(world.sign_in(me, world.honest, "new") for _ in range(AT_ONCE)))
    users |= {await world.user_of(surfer) for surfer in surfers}
    assert len(users) == 1
    assert None not in users
    assert (await world.users()).keys() - before.keys() == users


async def test_concurrent_registrations_make_one_account(world: World) -> None:
    """As many browsers as may sign in at once, for one person who has no account yet."""
    before, me = await world.users(), world.honest.person("fresh").me
    surfers = await asyncio.gather(*(world.sign_in(me, world.honest, "fresh") for _ in range(AT_ONCE)))
    users = {await world.user_of(surfer) for surfer in surfers}
    assert len(users) == 1
    assert {name: of for name, of in (await world.users()).items() if name not in before} == dict.fromkeys(users, me)


async def test_claims_and_links_dont_open_anothers_account(world: World) -> None:
    """Claims, redirects, rel=me and names get Mallory an account of her own at most."""
    ann = world.honest.people["ann"].me
    evil = world.evil
    leads = evil.redirect("/to-ann", ann, 301)
    related = evil.page(
        "/related",
        f'<link rel="authorization_endpoint" href="{evil.url("/auth")}"><link rel="token_endpoint" '
        f'href="{evil.url("/token")}"><link rel="me" href="{ann}"><a rel="me" href="{ann}">me</a>'
        f'<link rel="canonical" href="{ann}"><a class="h-card u-url u-uid" href="{ann}">Ann</a>',
    )
    evil.person("ann", me=ann)
    evil.person("related", me=related)
    world.honest.at_browser = "ann"
    attempts = [
        (evil.people["mallory"].me, "ann"),  # her provider says that she is Ann
        (evil.url("/ann/"), "ann"),  # a page of the same path that names her provider
        (ann, "mallory"),  # Ann's own page, which Mallory doesn't control
        (related, "related"),  # a page that calls itself Ann's
    ]
    for entered, name in attempts:
        if entered == ann:
            continue
        user = await world.user_of(await world.sign_in(entered, evil, name))
        assert user != "ann", entered
    # A page that redirects to Ann's leads to Ann's provider: a person who signs in there is Ann.
    world.honest.at_browser = "ann"
    surfer = await world.sign_in(leads, evil, "mallory")
    assert [hop for hop in surfer.hops if hop.startswith(world.honest.url("/auth"))]
    assert (await world.users())["ann"] == ann


async def test_moved_users_keep_the_account(world: World) -> None:
    """Either the old page redirects, or the two pages link to each other."""
    old, other = world.honest, world.evil
    for name in ("by redirect", "by link"):
        number = len(await world.users())
        me = old.person(f"mover{number}").me
        there = other.page(
            f"/moved{number}",
            f'<link rel="authorization_endpoint" href="{other.url("/auth")}"><link rel="token_endpoint" '
            f'href="{other.url("/token")}"><link rel="me" href="{me}">',
        )
        other.person(f"moved{number}", me=there)
        user = await world.user_of(await world.sign_in(me, old, f"mover{number}"))
        assert user is not None
        before = await world.users()
        if name == "by redirect":
            old.redirect(f"/mover{number}/", there, 301)
        else:
            old.page(f"/mover{number}/", f'<link rel="me" href="{there}">')
        for entered in (there, *([me] if name == "by redirect" else [])):
            assert user == await world.user_of(await world.sign_in(entered, other, f"moved{number}")), (name, entered)
        assert await world.users() == before


async def test_a_taken_name_is_not_given_twice(world: World) -> None:
    """Two people with similar addresses get different names, and nobody gets a name that the protocol reserves."""
    seen = await world.users()
    for made in (world.honest, world.evil):
        for name in ("same", "global"):
            me = made.person(name).me
            user = await world.user_of(await world.sign_in(me, made, name))
            assert user is not None
            assert user not in seen
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", user)
            assert user not in {"global", "notifications", "saved", "admin", "root"}
            seen[user] = me
    assert await world.users() == seen


async def test_there_is_an_end_to_accounts(tmp_path: Path) -> None:
    """One person with many addresses gets at most the free places; existing users stay."""
    async with running(tmp_path, 3) as world:
        users = []
        for number in range(5):
            me = world.evil.person(f"sock{number}").me
            users.append(await world.user_of(await world.sign_in(me, world.evil, f"sock{number}")))
        assert None not in users[:3]
        assert users[3:] == [None] * 2
        me = world.evil.people["sock0"].me
        assert await world.user_of(await world.sign_in(me, world.evil, "sock0")) == users[0]
        ann = await world.sign_in(world.honest.people["ann"].me, world.honest, "ann")
        assert await world.user_of(ann) == "ann"


async def test_quotas_limit_registered_users(world: World) -> None:
    """Channels, feeds and requests are limited by the quotas, with matching errors, and only for that user."""
    me = world.evil.person("greedy").me
    user = await world.user_of(await world.sign_in(me, world.evil, "greedy"))
    scopes = ("read", "follow", "channels")
    greedy = world.evil.grant("greedy", *scopes)
    ann = world.honest.grant("ann", *scopes)

    async def post(who: str | None, token: str, **form: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return await world.http.post(f"{world.url}/microsub/{who}", data=form, headers=headers)

    made = [await post(user, greedy, action="channels", name=f"Channel {number}") for number in range(4)]
    assert [reply.status_code for reply in made[:2]] == [200, 200]
    assert made[2].status_code in {400, 403, 429}
    assert made[2].json()["error"]
    assert made[3].status_code == made[2].status_code
    rest = [await post(user, greedy, action="channels", name="More") for _ in range(10)]
    assert rest[-1].status_code == 429
    assert 0 < int(rest[-1].headers["retry-after"]) <= 60
    assert rest[-1].json()["error"]
    for number in range(12):
        assert (await post("ann", ann, action="channels", name=f"Channel {number}")).status_code == 200


async def test_a_lying_provider_registers_no_account(world: World) -> None:
    """A provider with wrong answers causes no account, and an instance with closed registration creates none."""
    before = await world.users()
    liar = world.evil.person("liar").me
    lies = [
        ("redeemed", Fault(change={"me": world.evil.url("/nobody/")})),
        ("redeemed", Fault(change={"me": "https://unreachable.example/"})),
        ("redeemed", Fault(change={"me": "http://10.0.0.1/"})),
        ("redeemed", Fault(change={"me": liar + "#x"})),
        ("redirect", Fault(change={"iss": "https://other.example/"})),
        ("redeemed", Fault(status=500)),
    ]
    for where, fault in lies:
        world.evil.fault(where, fault)
        surfer = await world.sign_in(liar, world.evil, "liar")
        world.evil.end_faults()
        assert await world.user_of(surfer) is None, fault
    assert await world.users() == before
