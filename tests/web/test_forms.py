"""Forms do nothing unless one of our own pages in the same browser asked for it."""

from __future__ import annotations

import re

import pytest
from starlette.routing import Route

from microsub.identity.web.routing import is_form
from tests.support.readers import Instance
from tests.support.visitor import Visitor, fields_of

END_ALL = "/account/sessions/end-all"


async def test_a_form_of_our_own_page_works(ann: Visitor, signed_in) -> None:
    """Its token, the cookies and the origin fit."""
    await signed_in(ann)
    page = await ann.get("/account")
    assert (await ann.submit(page, "/sign-out")).title == "You are signed out"


async def test_every_form_refuses_what_has_no_token(server: Instance, ann: Visitor, signed_in) -> None:
    """All routes of forms are walked: without a token nothing is done."""
    await signed_in(ann)
    forms = [route for route in server.app.routes if isinstance(route, Route) and is_form(route)]
    assert len(forms) >= 3
    for route in forms:
        shown = await ann.post(re.sub(r"\{.*?\}", "x", route.path), {"session": "x"})
        assert shown.status == 403, route.path
        assert "form" in shown.text.lower()
    assert len(await server.identity.sessions.all("ann")) == 1


async def test_every_post_of_the_pages_is_a_form(server: Instance) -> None:
    """No route of the pages takes a POST past the check of its token."""
    for route in server.app.routes:
        if isinstance(route, Route) and "POST" in (route.methods or ()):
            assert is_form(route), route.path


@pytest.mark.parametrize(
    ("why", "headers"),
    [
        ("another site, by the browser's word", {"sec_fetch_site": "cross-site"}),
        ("another host of the domain", {"sec_fetch_site": "same-site"}),
        ("another origin, in an older browser", {"sec_fetch_site": "", "origin": "https://evil.example"}),
        ("a sandboxed frame", {"sec_fetch_site": "", "origin": "null"}),
        ("http instead of https", {"sec_fetch_site": "", "origin": "http://reader.example"}),
        ("another port", {"sec_fetch_site": "", "origin": "https://reader.example:8443"}),
    ],
)
async def test_a_form_from_elsewhere_is_refused(ann: Visitor, signed_in, why: str, headers: dict[str, str]) -> None:
    """Even with a good token."""
    await signed_in(ann)
    page = await ann.get("/account")
    shown = await ann.post(END_ALL, fields_of(page.form(END_ALL)), **headers)
    assert shown.status == 403, why
    assert "sent from another site" in shown.text


async def test_a_browser_that_says_nothing_of_origins_passes_by_its_token(ann: Visitor, signed_in) -> None:
    """Very old ones send neither header."""
    await signed_in(ann)
    page = await ann.get("/account")
    shown = await ann.post(END_ALL, fields_of(page.form(END_ALL)), sec_fetch_site="", origin="")
    assert shown.status == 200


async def test_a_token_is_good_for_its_own_form_only(ann: Visitor, signed_in) -> None:
    """That of one path opens no other."""
    await signed_in(ann)
    page = await ann.get("/account")
    shown = await ann.post("/sign-out", fields_of(page.form(END_ALL)))
    assert shown.status == 403


async def test_a_token_is_good_in_its_own_browser_only(ann: Visitor, other: Visitor, signed_in) -> None:
    """An attacker's own token doesn't work in somebody else's browser, signed in or not."""
    await signed_in(ann)
    await signed_in(other)
    mine = fields_of((await other.get("/account")).form(END_ALL))
    await ann.get("/account")
    assert (await ann.post(END_ALL, mine)).status == 403


async def test_a_token_ends_with_the_session(ann: Visitor, signed_in) -> None:
    """What was asked for before a sign-in can't be sent after it."""
    await signed_in(ann)
    fields = fields_of((await ann.get("/account")).form(END_ALL))
    await signed_in(ann)
    assert (await ann.post(END_ALL, fields)).status == 403


async def test_without_cookies_the_page_says_so(ann: Visitor, signed_in) -> None:
    """A browser that keeps none can't send forms."""
    await signed_in(ann)
    fields = fields_of((await ann.get("/account")).form(END_ALL))
    ann.client.cookies.clear()
    shown = await ann.post(END_ALL, fields)
    assert shown.status == 403
    assert "keep cookies" in shown.text


async def test_what_is_no_form_is_refused(ann: Visitor, signed_in) -> None:
    """Other types of content, and bodies that are too large."""
    await signed_in(ann)
    for body, kind, status in [(b"{}", "application/json", 400), (b"a=" + b"b" * 70_000, None, 413)]:
        headers = {"content-type": kind or "application/x-www-form-urlencoded"}
        response = await ann.client.post(END_ALL, content=body, headers=headers)
        assert response.status_code == status


async def test_tokens_differ_from_page_to_page(ann: Visitor, signed_in) -> None:
    """Nothing that stays the same can be guessed from the sizes of compressed pages."""
    await signed_in(ann)
    first, second = await ann.get("/account"), await ann.get("/account")
    assert fields_of(first.form(END_ALL))["form_token"] != fields_of(second.form(END_ALL))["form_token"]
