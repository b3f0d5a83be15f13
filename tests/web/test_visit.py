"""Pages and forms with nothing but sessions behind them."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from microsub.model.session import SignedIn
from microsub.web.display import Display
from microsub.web.looks import Looks
from microsub.web.routes import page
from microsub.web.visit import PageSite, PageVisit
from tests.support.visitor import SESSION, Visitor

ADDRESS, NOW = "https://reader.example", 1_700_000_000.0


class OneSession:
    """Ann's session, by the cookie `here`; `confirmed`: her identity was confirmed lately."""

    confirmed = False

    async def find(self, cookie: str, now: float) -> SignedIn | None:
        return SignedIn("ann", "https://ann.example/", "1", "with a password", now, False) if cookie == "here" else None

    async def is_confirmed(self, session: SignedIn, now: float) -> bool:
        return self.confirmed


@pytest.fixture
def sessions() -> OneSession:
    return OneSession()


@pytest.fixture
def site(sessions: OneSession) -> PageSite:
    return PageSite.at(sessions, lambda: NOW, ADDRESS)


@pytest.fixture
def ann(site: PageSite) -> Visitor:
    async def greet(visit: PageVisit) -> Response:
        return visit.message("Hello", f"This is {visit.require_session().user}", "done")

    async def change(visit: PageVisit) -> Response:
        await visit.require_confirmed()
        return visit.message("Changed", "", "done")

    async def leave(visit: PageVisit) -> Response:
        await visit.change_session(None)
        return visit.message("Bye", visit.user, "done")

    routes = [page(site, "/", greet), page(site, "/leave", leave), page(site, "/change", change)]
    return Visitor(Starlette(routes=routes), ADDRESS)


def come_in(visitor: Visitor) -> None:
    """Give the browser the cookie of the session."""
    visitor.client.cookies.set(SESSION, "here", domain="reader.example", path="/")


async def test_only_signed_in_users_see_a_page_that_needs_a_session(ann: Visitor) -> None:
    """Others are led to the sign-in, and a cookie of no session is deleted."""
    ann.client.cookies.set(SESSION, "elsewhere", domain="reader.example", path="/")
    assert (await ann.get("/")).location == "/sign-in?next=%2F"
    assert SESSION not in ann.cookies
    come_in(ann)
    assert "This is ann" in (await ann.get("/")).text


async def test_a_change_of_credentials_needs_a_recent_confirmation(ann: Visitor, sessions: OneSession) -> None:
    """The session alone isn't enough."""
    come_in(ann)
    assert (await ann.get("/change")).status == 403
    sessions.confirmed = True
    assert (await ann.get("/change")).status == 200


async def test_a_browser_without_a_session_keeps_none(ann: Visitor) -> None:
    """When a session ends, its cookie, the form's secret and stored pictures go with it."""
    come_in(ann)
    await ann.get("/")
    shown = await ann.get("/leave")
    assert shown.response.headers["clear-site-data"] == '"cache"'
    assert SESSION not in ann.cookies


def test_values_are_escaped(site: PageSite) -> None:
    """Markup in a name is shown as text."""
    values = {"title": "<b>", "text": "<script>x</script>", "kind": "done", "session": None, "path": "/"}
    text = site.pages.render("message.html", {**values, "display": Display(), "looks": Looks()})
    assert "<script>x" not in text
    assert "&lt;b&gt;" in text


async def test_numbers_in_messages_have_spaces_between_thousands(site: PageSite) -> None:
    """As those in templates."""

    async def count(visit: PageVisit) -> Response:
        return visit.message(visit.translate_count("%(num)s post", "%(num)s posts", 1697), "", "done")

    visitor = Visitor(Starlette(routes=[page(site, "/", count)]), ADDRESS)
    assert "1\u202f697 posts" in (await visitor.get("/")).response.text


@pytest.mark.parametrize(
    "base", [ADDRESS, f"{ADDRESS}/reader", "https://Reader.example:443", "https://xn--bcher-kva.example"]
)
def test_own_addresses_stay_in_the_tab(sessions: OneSession, base: str) -> None:
    """Also with the host in capitals, or a query or fragment after it."""
    visit = PageVisit(PageSite.at(sessions, lambda: NOW, base), Request({"type": "http", "headers": []}))
    for own in (base, base.upper().replace("/READER", "/reader"), f"{base}?q=1", f"{base}#x", f"{base}/feed?a=/"):
        assert not visit.leaves(own), own
    assert not visit.leaves(base.replace("xn--bcher-kva", "Bücher"))
    assert not visit.leaves(base.replace("https", "http").replace(":443", "") + "/")  # which leads to https
    for other in (
        "https://reader.example.org/",
        f"{ADDRESS}:8443/",
        f"{ADDRESS}er/",
        "https://a.example/?https://reader.example",
    ):
        assert visit.leaves(other), other
    assert not visit.leaves("mailto:ann@reader.example")
