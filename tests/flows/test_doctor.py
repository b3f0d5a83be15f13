"""The doctor's report on a page matches the problems that the apps then have, over real HTTP."""

from __future__ import annotations

from ipaddress import ip_network

import httpx
import pytest

from microsub.fetch import Fetcher, FetchSettings
from microsub.identity.page_check import PageDoctor
from microsub.identity.page_check.findings import CheckedAgainst, PageReport
from tests.support.parsing import PARSER
from tests.support.provider import Variant, provider
from tests.support.reader_apps import APPS, App, Monocle, MonocleOfOld
from tests.support.web import html_reply

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
    """The links that the report mentions for this client."""
    return {
        one.about for one in report.findings if one.level != "ok" and client in one.clients and one.about in ABOUT_LINKS
    }


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
@pytest.mark.parametrize(
    "kind", [MonocleOfOld if kind is Monocle else kind for kind in APPS], ids=lambda kind: kind.name
)
async def test_an_app_that_is_not_named_finds_everything(kind: type[App], variant: Variant) -> None:
    """An app that is named doesn't find everything: the advice is complete and not excessive."""
    async with httpx.AsyncClient(timeout=60) as http, provider(variant) as site:
        endpoint = site.page("/microsub", "", **{"Access-Control-Allow-Origin": "*"})
        site.pages["/microsub"] = html_reply("", 401, ("Access-Control-Allow-Origin", "*"))
        for me in (
            site.person("ann", microsub=endpoint, micropub=site.url("/micropub")).me,
            site.person("bea", microsub=endpoint).me,
        ):
            found = await kind(http).discover(me)
            report = await doctor().examine(me, CheckedAgainst())
            missing = [rel for rel in kind(http).wants if rel not in found]
            assert bool(missing) == bool(named(report, kind.name)), (missing, report.as_text())


async def test_an_http_issuer_is_reported_for_monocle() -> None:
    """Monocle accepts an issuer with http only on loopback, but the doctor reports it there too."""
    async with httpx.AsyncClient(timeout=60) as http, provider(Variant()) as site:
        me = site.person("ann").me
        with pytest.raises(AssertionError, match="refuses the issuer"):
            await Monocle(http, loopback=False).discover(me)
        report = await doctor().examine(me, CheckedAgainst())
    (advice,) = [one for one in report.findings if one.about == "issuer"]
    assert advice.clients == ("Monocle",)


def doctor() -> PageDoctor:
    return PageDoctor(Fetcher(FetchSettings(allow_private_networks=(ip_network("127.0.0.0/8"),))), PARSER, private=True)
