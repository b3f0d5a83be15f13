"""The replays of reader apps sign in as the real apps were observed to, and fail where the real ones fail."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from tests.support.own_server import AppSite, app_site
from tests.support.provider import Fault, Provider, Variant, provider
from tests.support.reader_apps import (
    App,
    AppBreaks,
    Ek,
    Ekstereye,
    IndiePassAndroid,
    IndiePassIos,
    Monocle,
    MonocleOfOld,
    Notifier,
    Person,
    Together,
)
from tests.support.web import Answer, Asked, Publisher, json_reply, publisher

POST = {"type": "entry", "_id": "1", "_is_read": False, "_source": "f1"}
PAGE = {"items": [POST], "paging": {"before": "b1"}}


class Server:
    """A minimal Microsub server that records the requests."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.headers: list[tuple[str, str]] = []
        self.page: dict[str, Any] = PAGE
        self.listening: Publisher

    async def answer(self, request: Asked) -> Answer:
        self.asked.append(request)
        allowed = [
            ("Access-Control-Allow-Origin", "*"),
            ("Access-Control-Allow-Headers", "Authorization, Cache-Control"),
        ]
        if request.method == "OPTIONS":
            return Answer(b"", 204, allowed)
        action = (request.query | request.form).get("action")
        if action == "events":
            return json_reply({"error": "not_implemented"}, 400, *allowed)
        if action == "channels":
            found = json_reply({"channels": [{"uid": "notifications"}, {"uid": "home"}]}, 200, *allowed)
        else:
            found = json_reply(self.page, 200, *allowed)
        return Answer(found.body, 200, [*(self.headers or found.headers)])


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as made:
        yield made


@pytest.fixture
async def site() -> AsyncIterator[AppSite]:
    async with app_site() as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with publisher(made.answer) as made.listening:
        yield made


def in_a_browser(http: httpx.AsyncClient) -> Person:
    """A browser in which the provider redirects without a question."""

    async def person(url: str) -> str:
        reply = await http.get(url)
        assert reply.status_code == 302, reply.text
        return reply.headers["location"]

    return person


def alice(made: Provider, server: Server) -> str:
    endpoint = f"{server.listening.base}/microsub"
    return made.person("alice", microsub=endpoint, micropub=f"{server.listening.base}/micropub").me


async def test_peculiarities_of_signing_in(http: httpx.AsyncClient, site: AppSite, server: Server) -> None:
    """Double redemption, HEAD before GET, exact rels, a missing micropub rel, and an issuer without TLS."""
    person = in_a_browser(http)
    async with provider(Variant.lenient(twice=True)) as made:
        me = alice(made, server)
        app = Together(http, site.home("Together"), at_once=True)
        await app.sign_in(me, person)
        assert len({tuple(r.form.items()) for r in made.asked if r.path == "/token"}) == 1
        assert made.count("/token", "POST") == 2
        made.asked.clear()
        await Monocle(http, site.home("Monocle")).sign_in(me, person)
        assert [r.method for r in made.asked if r.path == "/alice/"] == ["HEAD", "GET"]
        with pytest.raises(AppBreaks, match="issuer"):
            await Monocle(http, site.home("Monocle"), loopback=False).sign_in(me, person)
        made.fault("redirect", Fault(change={"iss": "https://evil.example/"}))
        with pytest.raises(AppBreaks, match="was answered by"):
            await Monocle(http, site.home("Monocle")).sign_in(me, person)
        made.fault("redirect", Fault(change={"state": None}))
        with pytest.raises(AppBreaks, match="state"):
            await Ek(http, site.home("ek")).sign_in(me, person)
        made.fault("redirect", Fault(change={"me": None}))
        for kind in (Ekstereye, Notifier):
            with pytest.raises(AppBreaks, match="finds no me in"):
                await kind(http, site.home(kind.name)).sign_in(me, person)
        made.fault("redirect", Fault(change={"me": f"{me}x"}))
        with pytest.raises(AppBreaks, match="knows nobody called"):
            await Notifier(http, site.home("notifier")).sign_in(me, person)
        made.end_faults()
        bob = made.person("bob", microsub=f"{server.listening.base}/microsub").me
        for kind in (IndiePassIos, Ekstereye):
            with pytest.raises(AppBreaks, match="finds no micropub"):
                await kind(http, site.home(kind.name)).sign_in(bob, person)
    async with provider(Variant()) as made:
        with pytest.raises(AppBreaks, match="finds no authorization_endpoint"):
            await MonocleOfOld(http, site.home("Monocle")).sign_in(alice(made, server), person)
    for variant in (Variant.lenient(joined=True), Variant(), Variant.lenient(joined=True, links="header")):
        async with provider(variant) as made:
            with pytest.raises(AppBreaks, match="finds no"):
                await IndiePassAndroid(http, site.home("Android")).sign_in(alice(made, server), person)
    async with provider(Variant.lenient()) as made:
        with pytest.raises(AppBreaks, match="redeems in vain"):
            await Together(http, site.home("Together")).sign_in(alice(made, server), person)


async def test_peculiarities_of_reading(http: httpx.AsyncClient, site: AppSite, server: Server) -> None:
    """Queries in POST, stored cursors, slashes, preflights, and cacheable replies."""
    person = in_a_browser(http)
    async with provider(Variant.lenient(twice=True)) as made:
        me = alice(made, server)

        async def read(app: App) -> list[Asked]:
            signed = await app.sign_in(me, person)
            server.asked.clear()
            for _ in range(2):
                await signed.read("home")
            await signed.mark_read("home", "1")
            return server.asked

        asked = await read(Ek(http, site.home("ek")))
        assert asked[0].query | {"channel": ""} == {"action": "timeline", "channel": "", "after": "", "before": ""}
        assert (asked[-1].body, asked[-1].query["method"]) == (b"", "mark_read")
        asked = await read(Notifier(http, site.home("notifier")))
        assert {request.path for request in asked} == {"/microsub/"}
        assert [request.query.get("before") for request in asked[:2]] == [None, "b1"]
        asked = await read(Ekstereye(http, site.home("Ekstereye")))
        assert [r.method for r in asked] == ["OPTIONS", "GET", "OPTIONS", "GET"] * 2 + ["OPTIONS", "POST"]
        assert len(await read(Together(http, site.home("Together")))) == 5
        server.headers = [("Content-Type", "application/json")]
        assert len(await read(Together(http, site.home("Together")))) == 3
        server.headers = [("Content-Type", "application/json; charset=utf-8")]
        with pytest.raises(AppBreaks, match="at a loss"):
            await read(IndiePassIos(http, site.home("iOS")))


BROKEN: list[tuple[type[App], Callable[[], dict[str, Any]]]] = [
    (Monocle, lambda: {"items": [POST | {"_source": {"_id": "f1"}}], "paging": {}}),
    (Ek, lambda: {"items": [POST | {"category": "one"}], "paging": {}}),
    (IndiePassIos, lambda: {"paging": {}}),
]


@pytest.mark.parametrize(("kind", "page"), BROKEN, ids=lambda value: getattr(value, "name", ""))
async def test_pages_that_break_apps(
    http: httpx.AsyncClient, site: AppSite, server: Server, kind: type[App], page: Callable[[], dict[str, Any]]
) -> None:
    """A source as an object, a list as a string, and a page without items break apps."""
    async with provider(Variant.lenient()) as made:
        signed = await kind(http, site.home(kind.name)).sign_in(alice(made, server), in_a_browser(http))
        server.page = page()
        with pytest.raises(AppBreaks):
            await signed.read("home")


async def test_app_pages(http: httpx.AsyncClient, site: AppSite) -> None:
    """An app's page has an h-app and links, or is a JSON document."""
    page = await http.get(site.home("One", redirects=("app://back",)))
    assert '<link rel="redirect_uri" href="app://back">' in page.text
    home = site.home("Two", document=True)
    about = json.loads((await http.get(home)).content)
    assert (about["client_id"], about["redirect_uris"]) == (home, [f"{home}back"])
