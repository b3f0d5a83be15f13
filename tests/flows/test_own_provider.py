"""Reader apps sign in with a person's own domain, whose static page names this server as the provider."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from microsub.identity.clients import ClientApps
from microsub.identity.page_check import PageDoctor
from microsub.identity.page_check.findings import CheckedAgainst
from microsub.redis.protocol import Redis
from tests.support.apps import Apps
from tests.support.parsing import PARSER
from tests.support.reader_app import App, Person
from tests.support.reader_apps import (
    APPS,
    AppBreaks,
    IndiePassDesktop,
    IndiePassIos,
    Monocle,
    MonocleOfOld,
    Notifier,
    Together,
)
from tests.support.readers import Instance, instance, posts
from tests.support.visitor import Visitor

ADDRESS, HOME = "https://reader.example", "https://ann.example/"
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "be-your-own-provider.md"


def page(more: str = "") -> bytes:
    """A static page with the lines that the how-to tells to put there, with ann's name."""
    (lines,) = re.findall(r"```html\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    lines = lines.replace("/microsub/alice", "/microsub/ann")
    return f"<!doctype html><html><head><title>Ann</title>{lines}{more}</head><body>Ann</body></html>".encode()


PAGE = page('<link rel="micropub" href="https://ann.example/micropub">')


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[Instance]:
    """An instance with the user ann, who follows a feed of three posts. It is today."""
    async with instance(real_redis, base_url=ADDRESS, now=time.time()) as made:
        apps = Apps()
        made.identity.provider.clients = ClientApps(apps, PARSER)
        apps.say(HOME, PAGE)
        made.identity.profiles._sender = apps
        ann = await made.reader("ann", "home")
        await made.publish("https://b.example/feed", *posts("one", "two", "three", at=made.now - 100))
        await ann.post(action="follow", channel="home", url="https://b.example/feed")
        yield made


@pytest.fixture
async def http(server: Instance) -> AsyncIterator[httpx.AsyncClient]:
    """What an app reaches: our server, and ann's page."""

    async def static(scope: Scope, receive: Receive, send: Send) -> None:
        await HTMLResponse(PAGE)(scope, receive, send)

    mounts = {ADDRESS: httpx.ASGITransport(server.app), HOME[:-1]: httpx.ASGITransport(static)}
    async with httpx.AsyncClient(mounts=mounts, timeout=60) as made:
        yield made


@pytest.fixture
async def person(server: Instance) -> AsyncIterator[Person]:
    """Ann at her browser, signed in here: she allows what is asked for."""
    async with at_the_browser(server, "ann", HOME) as allows:
        yield allows


@asynccontextmanager
async def at_the_browser(server: Instance, user: str, me: str) -> AsyncIterator[Person]:
    """Somebody who is signed in, and allows everything."""
    visitor = Visitor(server.app, ADDRESS)
    cookie = await server.identity.sessions.begin(user, me, "by password", "", server.now)
    visitor.client.cookies.set("__Host-microsub-session", cookie, domain="reader.example", path="/")

    async def allows(url: str) -> str:
        assert url.startswith(f"{ADDRESS}/auth?")
        shown = await visitor.get(url.removeprefix(ADDRESS))
        boxes = [box.attributes["value"] for box in shown.tree.css("input[name=grant]")]
        answer = await visitor.submit(shown, "/auth/consent", decision="allow", grant=boxes)
        assert answer.status == 303, answer.text
        return answer.location

    yield allows
    await visitor.aclose()


@pytest.mark.parametrize("kind", APPS, ids=lambda kind: kind.name)
async def test_every_app_signs_in_and_reads(
    server: Instance, http: httpx.AsyncClient, person: Person, kind: type[App]
) -> None:
    """With its own way of asking and redeeming; it is granted what it asked for, and stands in the list of apps."""
    app = kind(http, "https://app.example/", **({"loopback": False} if kind is Monocle else {}))
    signed = await app.sign_in(HOME, person)
    assert signed.me == HOME
    implied = {"read"} if "timeline" in app.asks.split() else set()
    assert set(signed.scope.split()) == {*app.asks.split(), *implied}
    if "read" in signed.scope.split():
        assert [item["name"] for item in await signed.read("home")] == ["one", "two", "three"]
    (listed,) = await server.identity.provider.apps("ann")
    assert listed.client == app.client_id


@pytest.mark.parametrize("kind", [*APPS, MonocleOfOld], ids=lambda kind: kind.__name__)
async def test_who_has_no_website_is_known_by_the_page_here(
    server: Instance, http: httpx.AsyncClient, kind: type[App]
) -> None:
    """Every app finds all on it, but the two that want to post, and reads; also when the person has a site later."""
    page = f"{ADDRESS}/u/carol"
    await server.accounts.add_user("carol", "", server.now)
    app = kind(http, "https://app.example/", **({"loopback": False} if issubclass(kind, Monocle) else {}))
    async with at_the_browser(server, "carol", "") as carol:
        if "micropub" in kind.wants:
            with pytest.raises(AppBreaks, match="finds no micropub"):
                await app.sign_in(page, carol)
            return
        signed = await app.sign_in(page, carol)
    assert signed.me == page
    assert signed.microsub == f"{ADDRESS}/microsub/carol"
    assert await signed.read("notifications") == []
    checked = await http.get(f"{ADDRESS}/token", headers={"Authorization": f"Bearer {signed.token}"})
    assert checked.json()["me"] == page
    await server.accounts.set_me("carol", "https://carol.example/")
    assert await signed.read("notifications") == []


async def test_the_doctor_finds_the_page_here_good(server: Instance, http: httpx.AsyncClient) -> None:
    """Nothing is missing on it, it is known whose it is, and no feed and no `micropub` are advised: its user can't add
    any.
    """
    url = f"{ADDRESS}/u/carol"
    apps = Apps()
    reply = await http.get(url)
    apps.say(url, reply.content)
    report = await PageDoctor(apps, PARSER).examine(url, CheckedAgainst(ADDRESS, {"carol": url}))
    assert report.is_complete, report.as_text()
    assert [one.text for one in report.findings if one.level == "advice"] == []
    assert "account" in {one.about for one in report.findings}


async def test_a_token_that_is_pasted_reads(server: Instance, http: httpx.AsyncClient) -> None:
    """IndiePass on the desktop takes endpoint and token, and shows channels and posts."""
    token = await server.accounts.create_token("ann", ["read"], "desktop", server.now)
    for endpoint in (f"{ADDRESS}/microsub", f"{ADDRESS}/microsub/ann"):
        signed = IndiePassDesktop(http).pasted(endpoint, token)
        assert [item["name"] for item in await signed.read()] == ["one", "two", "three"]


async def test_who_enters_another_spelling_is_found_again(http: httpx.AsyncClient, person: Person) -> None:
    """By the app that looks people up by what comes back: the address is written as the app wrote it."""
    for entered in ("https://ann.example", "https://ann.example/"):
        signed = await Notifier(http, "https://app.example/").sign_in(entered, person)
        assert signed.me == HOME


@pytest.mark.parametrize("at_once", [False, True])
async def test_together_redeems_twice(http: httpx.AsyncClient, person: Person, server: Instance, at_once: bool) -> None:
    """One after the other or at once: both replies are the same, and the token reads."""
    app = Together(http, "https://app.example/", at_once=at_once)
    signed = await app.sign_in(HOME, person)
    assert app.redeemed[0] == app.redeemed[1]
    assert await signed.read("home")
    assert len(await server.identity.provider.apps("ann")) == 1


async def test_the_token_works_at_the_users_own_endpoint_too(http: httpx.AsyncClient, person: Person) -> None:
    """It is one of ours, so nobody has to be asked."""
    signed = await Monocle(http, "https://app.example/").sign_in(HOME, person)
    headers = {"Authorization": f"Bearer {signed.token}"}
    reply = await http.get(f"{ADDRESS}/microsub/ann?action=channels", headers=headers)
    assert reply.status_code == 200


async def test_an_app_that_only_wants_to_know_who_it_is(http: httpx.AsyncClient, person: Person) -> None:
    """As other sites sign people in: no scope, the code goes to the authorization endpoint."""
    query = {"client_id": "https://site.example/", "redirect_uri": "https://site.example/in", "state": "1", "me": HOME}
    back = await person(f"{ADDRESS}/auth?{httpx.QueryParams({**query, 'response_type': 'id'})}")
    told = httpx.QueryParams(urlsplit(back).query)
    form = {"code": told["code"], "client_id": query["client_id"], "redirect_uri": query["redirect_uri"]}
    assert (await http.post(f"{ADDRESS}/auth", data=form)).json() == {"me": HOME}


async def test_ios_gets_replies_of_exactly_its_kind(http: httpx.AsyncClient, person: Person) -> None:
    """It is at a loss with any other type or status."""
    assert (await IndiePassIos(http, "https://app.example/").sign_in(HOME, person)).token
