"""Reader apps sign in at an instance that is its users' provider, and read there or at another of our instances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.own_server import Approver, AppSite, Surfer, app_site, enrolled, links, sign_in
from tests.support.polling import dated, rss
from tests.support.process import Installation, installation
from tests.support.reader_apps import APPS, App, AppBreaks, IndiePassAndroid, Monocle, Notifier, Together
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

QUICK = {"polling": {"host_interval": 0}, "identity": {"token_cache": 1}}


@dataclass
class World:
    """`own` is the provider of both users; Ann reads there, Beth at `other`, to which her page links."""

    http: httpx.AsyncClient
    site: AppSite
    own: Installation
    own_url: str
    other: Installation
    other_url: str
    browsers: dict[str, Surfer] = field(default_factory=dict)

    def app(self, kind: type[App], **more: bool) -> App:
        return kind(self.http, self.site.home(kind.name), **more)

    def profile(self, user: str) -> str:
        return f"{self.site.listening.base}/{user}/"

    async def post(self, path: str, **form: str) -> httpx.Response:
        return await self.http.post(f"{self.own_url}{path}", data=form)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        site, feeds = await enter(app_site()), await enter(publisher())
        channels = [{"uid": "home", "feeds": [feeds.serve_document("/feed", rss(dated(3)))]}]
        users = {name: {"me": f"{site.listening.base}/{name}/", "channels": channels} for name in ("ann", "beth")}
        own = await enter(installation(tmp_path_factory.mktemp("own"), {"users": users, "settings": QUICK}))
        other = await enter(
            installation(tmp_path_factory.mktemp("other"), {"users": {"bee": users["beth"]}, "settings": QUICK})
        )
        own_url, other_url = await asyncio.gather(own.serve(), other.serve())
        site.profile("ann", **links(own_url))
        site.profile("beth", in_header=True, **links(own_url, microsub=f"{other_url}/microsub/bee"))
        await enrolled(own, own_url, "ann", "beth")
        for made in (own, other):
            await wait_until(lambda made=made: '"feed polled"' in made.log)
        yield World(http, site, own, own_url, other, other_url)


def person(world: World, user: str, **more: object) -> Approver:
    """The user, in a browser with a lasting session; `more` changes the decision from allowing everything."""
    surfer = world.browsers.setdefault(user, Surfer())
    return Approver(world.site, user, surfer=surfer, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("user", ["ann", "beth"])
@pytest.mark.parametrize("kind", APPS, ids=lambda kind: kind.name)
async def test_every_app_signs_in_and_reads(world: World, kind: type[App], user: str) -> None:
    """With our pages and a password, here and at an instance that checks the token here; links in HTML and in HTTP."""
    visitor = person(world, user)
    signed = await world.app(kind).sign_in(world.profile(user), visitor)
    assert signed.me == world.profile(user)
    meant = {"read", "follow"} if "timeline" in kind.scopes else set()
    once = {"post"} if "create" in kind.scopes.split() else set()  # two names of one scope
    assert set(signed.scope.split()) == set(kind.scopes.split()) - once | meant
    # Clients on this machine aren't fetched (section 4.2 of the spec): their address is shown.
    assert signed.app.client_id in visitor.seen[0]
    items = await wait_until(lambda: signed.read("home"))  # a poll is logged before its posts are delivered
    assert len(items) == 3
    await signed.mark_read("home", items[-1]["_id"])
    if kind is not Notifier:
        assert (await signed.read("home"))[-1]["_is_read"] is True


async def test_together_redeems_twice_and_both_tokens_are_one(world: World) -> None:
    """Sequential and concurrent redemptions get the same reply with one grant, and the token works."""
    for at_once in (False, True):
        app = world.app(Together, at_once=at_once)
        signed = await app.sign_in(world.profile("ann"), person(world, "ann"))
        assert isinstance(app, Together)
        first, second = app.redeemed
        assert first["access_token"] == second["access_token"]
        assert await signed.read("home")


async def test_fewer_scopes(world: World) -> None:
    """The app gets only the ticked scopes, at both instances; scopes that it didn't request can't be added."""
    for user in ("ann", "beth"):
        visitor = person(world, user, grants=["read", "mute"])
        signed = await world.app(IndiePassAndroid).sign_in(world.profile(user), visitor)
        assert set(signed.scope.split()) == {"read", "mute"}
        assert len(await signed.read("home")) == 3
        refused = await signed.app.post(signed, {"action": "channels", "name": "Mine"})
        assert (refused.status_code, refused.json()["error"]) == (403, "insufficient_scope")
    visitor = person(world, "ann", grants=["read", "channels", "follow"])
    signed = await world.app(Notifier).sign_in(world.profile("ann"), visitor)
    assert signed.scope == "read"


async def test_saying_no(world: World) -> None:
    """The app gets `access_denied`, with its state and our issuer."""
    with pytest.raises(AppBreaks, match="access_denied"):
        await world.app(Monocle).sign_in(world.profile("ann"), person(world, "ann", allows=False))


async def test_taking_an_app_out_ends_its_tokens_everywhere(world: World) -> None:
    """They end here at once, and at the other instance with its next check."""
    for user in ("ann", "beth"):
        visitor = person(world, user)
        signed = await world.app(IndiePassAndroid).sign_in(world.profile(user), visitor)
        assert await signed.read("home")
        surfer = visitor.surfer
        await surfer.goto(f"{world.own_url}/account")
        assert signed.app.client_id in surfer.text
        await surfer.submit("/account/apps/end", client=signed.app.client_id)

        async def shut_out(signed=signed) -> bool:
            return (await signed.app.get(signed, {"action": "channels"})).status_code == 401

        if user == "ann":
            assert await shut_out()
        else:
            await wait_until(shut_out)


async def test_signing_in_to_another_instance(world: World) -> None:
    """Our pages are a client of our own provider: Beth signs in at the other instance with her password at this one."""
    # Another host name, because cookies ignore ports.
    other = world.other_url.replace("127.0.0.1", "localhost")
    async with Surfer() as surfer:
        await surfer.goto(f"{other}/sign-in?next=/account")
        await surfer.submit(me=world.profile("beth"))
        assert surfer.here.startswith(world.own_url)
        await sign_in(surfer, "beth")
        assert f"{other}/client" in surfer.text
        await surfer.submit("/auth/consent", decision="allow")
        assert surfer.here == f"{other}/account"
        assert "signed in as bee" in surfer.text


ACCEPTS = (
    "application/json",
    "*/*",
    "",
    "text/html,application/xhtml+xml,*/*;q=0.8",
    "application/json;q=0.5, */*;q=0.1",
    "application/json, application/x-www-form-urlencoded",
    "text/plain",
    "application/x-www-form-urlencoded",
)


@pytest.mark.parametrize("accept", ACCEPTS)
async def test_tokens_are_json_for_any_accept_header(world: World, accept: str) -> None:
    """The content type is exactly JSON and not cacheable, because apps send different headers but all read JSON."""

    class Choosy(Notifier):
        async def redeem(self, endpoint: str, form: Mapping[str, str], profile: str) -> dict[str, Any]:
            reply = await self.http.post(endpoint, data=dict(form), headers={"Accept": accept})
            assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json"), reply.text
            assert reply.headers["cache-control"] == "no-store"
            assert reply.headers["access-control-allow-origin"] == "*"
            return dict(reply.json())

    signed = await world.app(Choosy).sign_in(world.profile("beth"), person(world, "beth"))
    assert signed.token


async def test_the_ways_in_which_apps_show_a_token(world: World) -> None:
    """The header in any case of its scheme, the query and the form work, for own and for foreign tokens."""
    for user in ("ann", "beth"):
        signed = await world.app(IndiePassAndroid).sign_in(world.profile(user), person(world, user))
        asked = {"action": "channels"}
        for scheme in ("Bearer", "bearer", "BEARER"):
            headers = {"Authorization": f"{scheme} {signed.token}"}
            assert (await world.http.get(signed.microsub, params=asked, headers=headers)).status_code == 200
            assert (await world.http.get(f"{signed.microsub}/", params=asked, headers=headers)).status_code == 200
        with_token = asked | {"access_token": signed.token}
        assert (await world.http.get(signed.microsub, params=with_token)).status_code == 200
        made = await world.http.post(signed.microsub, data=with_token | {"name": "Made"})
        assert made.status_code == 200, made.text
