"""The lines on the first page are sufficient: pages that contain only these work with the reader apps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx
import pytest
import pytest_asyncio
from selectolax.lexbor import LexborHTMLParser

from tests.support.own_server import Approver, AppSite, Surfer, app_site, enrolled
from tests.support.process import Installation, installation
from tests.support.provider import Provider, Variant, provider
from tests.support.reader_apps import APPS, App, IndiePassDesktop, Monocle, MonocleOfOld
from tests.support.web import html_reply

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@dataclass
class World:
    """Ann uses this provider, Far his own, Carol has no site; `lines` are those of the first page, in order."""

    http: httpx.AsyncClient
    site: AppSite
    far: Provider
    installed: Installation
    url: str
    lines: list[str]
    browsers: dict[str, Surfer] = field(default_factory=dict)

    def person(self, user: str) -> Approver:
        """The user, in a browser with a lasting session."""
        surfer = self.browsers.setdefault(user, Surfer())
        return Approver(self.site, user, channel="notifications", surfer=surfer)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http, site = await enter(httpx.AsyncClient(timeout=60)), await enter(app_site())
        far = await enter(provider(Variant.lenient(twice=True)))
        users: dict[str, dict[str, str]] = {name: {"me": f"{site.listening.base}/{name}/"} for name in ("ann", "far")}
        users["carol"] = {}
        installed = await enter(installation(tmp_path_factory.mktemp("reader"), {"users": users}))
        url = await installed.serve("web")
        await enrolled(installed, url, "ann", "carol")
        async with Surfer() as surfer:
            await surfer.goto(f"{url}/connect")
            blocks = LexborHTMLParser(surfer.reply.text).css("pre code")
        lines = [line for block in blocks for line in block.text().splitlines() if line.strip()]
        site.pages["/ann/"] = html_reply("<!doctype html>" + "\n".join(lines).replace("YOUR-NAME", "ann"))
        own = f'<link rel="authorization_endpoint" href="{far.url("/auth")}">'
        own += f'<link rel="token_endpoint" href="{far.url("/token")}">'
        far.person("far", me=users["far"]["me"])
        site.pages["/far/"] = html_reply(f"<!doctype html>{own}{lines[0].replace('YOUR-NAME', 'far')}")
        yield World(http, site, far, installed, url, lines)


async def test_each_line_is_one_link_with_one_relation(world: World) -> None:
    """Some apps require an exact match of the relation."""
    rels = [LexborHTMLParser(line).css_first("link").attributes["rel"] for line in world.lines]
    assert rels == ["microsub", "indieauth-metadata", "authorization_endpoint", "token_endpoint", "micropub"]


@pytest.mark.parametrize("user", ["ann", "carol"])
@pytest.mark.parametrize("kind", [*APPS, MonocleOfOld], ids=lambda kind: kind.__name__)
async def test_with_this_server_as_provider(world: World, kind: type[App], user: str) -> None:
    """With all lines on a static page, or with the server's page for a user without one, every app can sign in."""
    app = kind(world.http, world.site.home(kind.name))
    profile = f"{world.site.listening.base}/ann/" if user == "ann" else f"{world.url}/u/carol"
    signed = await app.sign_in(profile, world.person(user))
    assert signed.me == profile
    assert signed.microsub == f"{world.url}/microsub/{user}"
    assert await signed.read("notifications") == []
    checked = await world.http.get(f"{world.url}/token", headers={"Authorization": f"Bearer {signed.token}"})
    assert checked.json()["me"] == profile


async def test_a_token_that_is_pasted_reads(world: World) -> None:
    """IndiePass Desktop accepts endpoint and token, and shows channels and posts."""
    token = await world.installed.token("ann")
    for endpoint in (f"{world.url}/microsub", f"{world.url}/microsub/ann"):
        assert await IndiePassDesktop(world.http).pasted(endpoint, token).read() == []


@pytest.mark.parametrize("kind", [kind for kind in APPS if "micropub" not in kind.wants], ids=lambda kind: kind.name)
async def test_with_a_provider_of_ones_own(world: World, kind: type[App]) -> None:
    """The first line is enough next to those of one's own provider, which needn't know about this server."""

    async def person(url: str) -> str:
        return (await world.http.get(url)).headers["location"]

    signed = await kind(world.http, world.site.home(kind.name)).sign_in(f"{world.site.listening.base}/far/", person)
    assert signed.microsub == f"{world.url}/microsub/far"
    assert await signed.read("notifications") == []


async def test_the_check_finds_nothing_that_is_missing(world: World) -> None:
    """It reports success for both pages, on the page about apps and on the command line, and notices a missing line."""
    for page in (*(f"{world.site.listening.base}/{name}/" for name in ("ann", "far")), f"{world.url}/u/carol"):
        _, out, _ = await world.installed.run("doctor", page)
        async with Surfer() as surfer:
            await surfer.goto(f"{world.url}/connect")
            await surfer.submit("/check", address=page)
            assert surfer.reply.status_code == 200
            for text in (out, surfer.text):
                assert "Everything is set up" in text, text
    ann = world.site.pages["/ann/"]
    world.site.pages["/ann-less/"] = html_reply(ann.body.decode().replace("token_endpoint", "x-token-endpoint"))
    _, out, _ = await world.installed.run("doctor", f"{world.site.listening.base}/ann-less/")
    assert "Everything is set up" not in out
    assert "token_endpoint" in out


async def test_the_check_advises_nothing_for_the_page_here(world: World) -> None:
    """The page's user is known, and feed and `micropub` aren't required, because the user can't add them."""
    page = f"{world.url}/u/carol"
    code, out, err = await world.installed.run("doctor", page, "--json", "--base-url", world.url)
    assert code == 0, err
    findings = json.loads(out)["findings"]
    # With https there is no advice at all.
    assert {one["about"] for one in findings if one["level"] == "advice"} == {"issuer"}
    assert "account" in {one["about"] for one in findings}


async def test_a_later_profile_url_ends_no_token(world: World) -> None:
    """A token for the page on this server remains valid."""
    app = Monocle(world.http, world.site.home("Monocle"))
    signed = await app.sign_in(f"{world.url}/u/carol", world.person("carol"))
    await world.installed.run_each("user me carol https://carol.example/")
    assert await signed.read("notifications") == []
