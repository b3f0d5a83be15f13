"""What the doctor says of a page is what the apps then come upon: real HTTP, real processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from microsub.fetch import Fetcher, FetchSettings
from microsub.identity.page_check import PageDoctor
from microsub.identity.page_check.findings import CheckedAgainst, PageReport
from tests.support.own_server import Surfer, links
from tests.support.parsing import PARSER
from tests.support.process import Installation, installation
from tests.support.provider import Provider, Variant, provider
from tests.support.raw_http import html_reply
from tests.support.reader_apps import APPS, App, Monocle, MonocleOfOld

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

VARIANTS = {
    "newer": Variant(),
    "newer, in headers": Variant(links="header"),
    "both": Variant.lenient(),
    "both, in separate headers": Variant.lenient(links="separate"),
    "both, in headers and page": Variant.lenient(links="both"),
    "both, several values in one rel": Variant.lenient(joined=True),
    "both, several values in one rel, in headers": Variant.lenient(joined=True, links="header"),
    "both, relative": Variant.lenient(relative=True),
    "older": Variant.older(),
}
ABOUT_LINKS = {"microsub", "micropub", "provider", "authorization_endpoint", "token_endpoint"}


def named(report: PageReport, client: str) -> set[str]:
    """What of its links the report says in the client's name."""
    return {
        one.about for one in report.findings if one.level != "ok" and client in one.clients and one.about in ABOUT_LINKS
    }


@pytest.mark.parametrize("micropub", [True, False])
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
@pytest.mark.parametrize(
    "kind", [MonocleOfOld if kind is Monocle else kind for kind in APPS], ids=lambda kind: kind.name
)
async def test_an_app_that_is_not_named_finds_everything(kind: type[App], variant: Variant, micropub: bool) -> None:
    """And one that is named doesn't: the advice is neither too little nor too much."""
    async with httpx.AsyncClient(timeout=60) as http, provider(variant) as site:
        endpoint = site.page("/microsub", "", **{"Access-Control-Allow-Origin": "*"})
        site.pages["/microsub"] = html_reply("", 401, ("Access-Control-Allow-Origin", "*"))
        more = {"micropub": site.url("/micropub")} if micropub else {}
        me = site.person("ann", microsub=endpoint, **more).me
        found = await kind(http).discover(me)
        report = await doctor().examine(me, CheckedAgainst())
        missing = [rel for rel in kind(http).wants if rel not in found]
        assert bool(missing) == bool(named(report, kind.name)), (missing, report.as_text())


async def test_an_issuer_by_http_is_told_in_the_name_of_monocle() -> None:
    """It lets none pass but on loopback, and the doctor says so there too."""
    async with httpx.AsyncClient(timeout=60) as http, provider(Variant()) as site:
        me = site.person("ann").me
        with pytest.raises(AssertionError, match="refuses the issuer"):
            await Monocle(http, loopback=False).discover(me)
        report = await doctor().examine(me, CheckedAgainst())
    (advice,) = [one for one in report.findings if one.about == "issuer"]
    assert advice.clients == ("Monocle",)


def doctor() -> PageDoctor:
    return PageDoctor(Fetcher(FetchSettings(allow_private_networks=(ip_network("127.0.0.0/8"),))), PARSER, private=True)


@dataclass
class World:
    """An instance with the user ann, and the site on which she has her page."""

    installed: Installation
    url: str
    site: Provider

    def page(self, **rels: str) -> str:
        """Ann's page names these."""
        html = "".join(
            f'<link rel="{rel.replace("indieauth_", "indieauth-")}" href="{to}">' for rel, to in rels.items()
        )
        return self.site.page("/home/", f"<!doctype html><title>Ann</title>{html}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(provider())
        users = {"ann": {"me": site.url("/home/"), "channels": []}}
        folder: Path = tmp_path_factory.mktemp("reader")
        installed = await stack.enter_async_context(installation(folder, {"users": users}))
        yield World(installed, await installed.serve(), site)


async def test_the_command_and_the_first_page_lead_somebody_from_nothing_to_all(world: World) -> None:
    """Both say what is missing; with the lines of the first page on the page nothing is, whichever is asked."""
    me = world.page()
    code, out, err = await world.installed.run("doctor", me, "--json", "--base-url", world.url)
    assert code == 1, err
    problems = {one["about"] for one in json.loads(out)["findings"] if one["level"] == "problem"}
    assert problems == {"microsub", "provider"}
    async with Surfer() as surfer:
        await surfer.goto(f"{world.url}/")
        await surfer.submit("/check", address=me)
        assert "2 problems to correct" in surfer.text
        world.page(**links(world.url, "ann"))
        await surfer.submit("/check", address=me)
        assert "Nothing is missing" in surfer.text
    code, out, err = await world.installed.run("doctor", me, "--base-url", world.url)
    assert code == 0, out + err
    said = " ".join(out.split())
    assert f"the user ann of this server is {me}, which is this page" in said
    assert f"{world.url}/microsub/ann answers, and wants a token" in said
    assert f"{world.url}/auth answers" in said


async def test_the_check_may_be_asked_too_often(world: World) -> None:
    """Then 429 with Retry-After, and no page is asked."""
    async with Surfer() as surfer:
        for _ in range(20):
            await surfer.goto(f"{world.url}/check")
            before = world.site.count("/home/")
            await surfer.submit("/check", address=world.page())
            if surfer.reply.status_code == 429:
                break
        assert surfer.reply.status_code == 429
        assert int(surfer.reply.headers["retry-after"]) > 0
        assert world.site.count("/home/") == before
