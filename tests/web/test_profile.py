"""The page that this server lends to who has no website."""

from __future__ import annotations

import pytest

from tests.support.local_sign_in import PASSWORD
from tests.support.readers import Instance
from tests.support.visitor import Visitor

LINES = {
    "indieauth-metadata": "https://reader.example/.well-known/oauth-authorization-server",
    "authorization_endpoint": "https://reader.example/auth",
    "token_endpoint": "https://reader.example/token",
    "microsub": "https://reader.example/microsub/carol",
}


async def test_the_lines_stand_in_head_and_headers(ann: Visitor) -> None:
    """For GET and HEAD alike; browsers may read them from elsewhere; nobody gets a cookie."""
    page = await ann.get("/u/carol")
    links = page.tree.css("html > head > link")
    found = {node.attributes["rel"]: node.attributes["href"] for node in links}
    assert LINES.items() <= found.items()
    header = ", ".join(f'<{url}>; rel="{rel}"' for rel, url in LINES.items())
    head = await ann.client.head("/u/carol")
    for response in (page.response, head):
        assert (response.status_code, response.headers["link"]) == (200, header)
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.headers["cache-control"] == "public, max-age=300"
        assert "set-cookie" not in response.headers
    card = page.tree.css_first(".h-card")
    assert (card.text(), card.attributes["href"]) == ("carol", "https://reader.example/u/carol")


async def test_it_tells_nobody_who_has_an_account(ann: Visitor) -> None:
    """Every name has one, and they differ in the name alone."""
    known, unknown = await ann.get("/u/ann"), await ann.get("/u/nobdy")
    assert known.status == unknown.status == 200
    assert unknown.response.text.replace("nobdy", "ann") == known.response.text
    assert known.response.headers["link"] == unknown.response.headers["link"].replace("nobdy", "ann")


@pytest.mark.parametrize("name", ["a.b", "x" * 65, "%3Cscript%3E", "a%20b"])
async def test_what_can_be_nobodys_name_has_none(ann: Visitor, name: str) -> None:
    """Names are letters, digits, _ and -."""
    assert (await ann.get(f"/u/{name}")).status == 404


async def test_a_slash_makes_nobody_another_person(ann: Visitor) -> None:
    """It leads to the one address for good."""
    shown = await ann.get("/u/carol/")
    assert (shown.status, shown.location) == (301, "https://reader.example/u/carol")


async def test_one_signs_in_by_it(server: Instance, ann: Visitor) -> None:
    """With the address in place of the name, and is shown with it."""
    await server.accounts.add_user("carol", "", server.now)
    await server.identity.local.enrolling.set_password("carol", PASSWORD, server.now)
    for who in ("https://reader.example/u/carol", "reader.example/u/carol", "carol"):
        page = await ann.get("/sign-in")
        shown = await ann.submit(page, "/sign-in/local", who=who, password=PASSWORD)
        assert shown.location == "/account", shown.text
    assert "https://reader.example/u/carol" in (await ann.get("/account")).text
