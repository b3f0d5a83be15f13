"""The page about apps, its form that checks a page, and the profile page of users without a website."""

from __future__ import annotations

import pytest

from microsub.fetch import FetchFailed, Sending, who_asks
from microsub.identity.limits import PAGE_CHECKS_OF_NETWORK
from microsub.redis.protocol import Redis
from tests.identity.conftest import ADDRESS
from tests.support.readers import instance
from tests.support.visitor import PASSWORD, Shown, Visitor
from tests.support.web import Answer, Publisher
from tests.support.world import World


def served(site: Publisher, html: str) -> str:
    """The URL of a page."""
    return site.serve("/", Answer(html.encode(), headers=[("Content-Type", "text/html")]))


async def check(visitor: Visitor, address: str) -> Shown:
    """Send the form of the page about apps."""
    return await visitor.submit(await visitor.get("/connect"), "/check", address=address)


async def test_it_says_what_belongs_on_ones_page(ann: Visitor) -> None:
    """It has the line for readers, the lines for this server as provider, the endpoint, and links to further pages."""
    shown = await ann.get("/connect")
    assert shown.title == "Connect an app or your website"
    for line in (
        '<link rel="microsub" href="https://reader.example/microsub/YOUR-NAME">',
        '<link rel="indieauth-metadata" href="https://reader.example/.well-known/oauth-authorization-server">',
        '<link rel="authorization_endpoint" href="https://reader.example/auth">',
        '<link rel="token_endpoint" href="https://reader.example/token">',
    ):
        assert line in shown.text
    links = {node.attributes.get("href") for node in shown.tree.css("a")}
    assert {"/sign-in?next=/", "/account#passwords"} <= links
    assert "/sign-in" not in links, "all lead to reading"
    assert not {"/health", "/metrics"} & links, "which are the admin's affair"


async def test_signed_in_users_get_lines_to_copy(ann: Visitor, signed_in) -> None:
    """The lines contain the user's name, and the form contains their address."""
    await signed_in(ann)
    shown = await ann.get("/connect")
    assert '<link rel="microsub" href="https://reader.example/microsub/ann">' in shown.text
    assert "YOUR-NAME" not in shown.text
    assert shown.form("/check", address="https://ann.example/")


async def test_the_lines_lead_where_this_server_answers(ann: Visitor) -> None:
    """All addresses in the lines exist."""
    shown = await ann.get("/connect")
    lines = [line for block in shown.tree.css("pre") for line in block.text().splitlines()]
    paths = [line.partition('href="')[2].partition('"')[0].removeprefix(ADDRESS) for line in lines]
    assert len(paths) == 5
    for path in paths:
        assert (await ann.client.get(path)).status_code in {200, 400, 401}, path


async def test_a_page_is_checked(ann: Visitor, site: Publisher) -> None:
    """The result has findings, missing links, corrections, and affected apps."""
    url = served(site, '<link rel="microsub" href="https://reader.example/microsub/ann">')
    shown = await check(ann, url)
    assert (shown.status, shown.title) == (200, f"Results for {url}")
    assert "Good: microsub – https://reader.example/microsub/ann, this server's endpoint for ann." in shown.text
    assert "Problem: provider" in shown.text
    assert '<link rel="token_endpoint" href="https://reader.example/token">' in shown.text
    assert "Concerns IndiePass iOS, Ekstereye." in shown.text
    assert shown.form("/check", address=url)


async def test_only_the_owner_sees_how_a_page_compares(
    ann: Visitor, other: Visitor, site: Publisher, signed_in
) -> None:
    """A stranger sees nobody's `me`, and can't find out whether a user exists."""
    url = served(site, '<link rel="microsub" href="https://reader.example/microsub/ann">')
    nobody = site.serve(
        "/nobody",
        Answer(
            b'<link rel="microsub" href="https://reader.example/microsub/nobody">',
            headers=[("Content-Type", "text/html")],
        ),
    )
    stranger = [await check(other, address) for address in (url, nobody)]
    assert not any(
        "https://ann.example/" in shown.text or "the address of the user" in shown.text for shown in stranger
    )
    await signed_in(ann)
    assert "the address of the user ann here is https://ann.example/" in (await check(ann, url)).text


class Noted:
    """A network without hosts; records for each request whether only ports 80 and 443 are allowed, and the client."""

    def __init__(self) -> None:
        self.asked: set[tuple[bool, str]] = set()

    async def send(self, sending: Sending) -> FetchFailed:
        self.asked.add((sending.web_ports, who_asks()))
        return FetchFailed(sending.url, "dns", "the host has no address")


async def test_strangers_checks_use_only_website_ports(
    server: World, signed_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise strangers could find out which ports are open; users may have pages on other ports. The work counts for
    the network or the user.
    """
    noted = Noted()
    monkeypatch.setattr(server.parts.doctor, "_sender", noted)
    visitor = Visitor(server.app, ADDRESS, client="8.8.4.4")
    await check(visitor, "https://eve.example/")
    assert noted.asked == {(True, "network 8.8.4.4")}
    noted.asked.clear()
    await signed_in(visitor)
    await check(visitor, "https://eve.example/")
    assert noted.asked == {(False, "user ann")}


async def test_invalid_addresses_use_up_no_check(ann: Visitor, site: Publisher) -> None:
    """Only real checks count, however often invalid input is sent."""
    for address in ("", " ", "nonsense nonsense", "ftp://a.example/", "http://") * PAGE_CHECKS_OF_NETWORK.most:
        assert (await check(ann, address)).status == 400
    assert (await check(ann, served(site, ""))).status == 200


async def test_without_a_base_url_the_page_has_a_message(real_redis: Redis) -> None:
    """Forms can't be trusted at a host name other than loopback; the lines show the address that the browser uses."""
    async with instance(real_redis) as made:
        strange, near = Visitor(made.app, "http://reader.lan"), Visitor(made.app, "http://127.0.0.1:8080")
        shown = await strange.get("/connect")
        assert "http://reader.lan/microsub" in shown.text
        assert "MICROSUB_BASE_URL" in shown.text
        assert not shown.tree.css("form")
        assert (await near.get("/connect")).form("/check")


LINES = {
    "indieauth-metadata": "https://reader.example/.well-known/oauth-authorization-server",
    "authorization_endpoint": "https://reader.example/auth",
    "token_endpoint": "https://reader.example/token",
    "microsub": "https://reader.example/microsub/carol",
    "micropub": "https://reader.example/micropub",
    "webmention": "https://reader.example/webmention/carol",
}


async def test_the_lines_are_in_head_and_headers(ann: Visitor) -> None:
    """GET and HEAD are alike; browsers may read the page from other origins; no cookie is set."""
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


async def test_it_doesnt_reveal_accounts(ann: Visitor) -> None:
    """Every name has a page, and these differ only in the name."""
    known, unknown = await ann.get("/u/ann"), await ann.get("/u/nobdy")
    assert known.status == unknown.status == 200
    assert unknown.response.text.replace("nobdy", "ann") == known.response.text
    assert known.response.headers["link"] == unknown.response.headers["link"].replace("nobdy", "ann")


@pytest.mark.parametrize("name", ["a.b", "x" * 65, "%3Cscript%3E", "a%20b"])
async def test_invalid_names_have_no_page(ann: Visitor, name: str) -> None:
    """A name consists of letters, digits, _ and -."""
    assert (await ann.get(f"/u/{name}")).status == 404


async def test_a_final_slash_is_redirected(ann: Visitor) -> None:
    """It redirects permanently to the address without it."""
    shown = await ann.get("/u/carol/")
    assert (shown.status, shown.location) == (301, "https://reader.example/u/carol")


async def test_one_signs_in_by_it(server: World, ann: Visitor) -> None:
    """The address works in place of the name, and is shown on the account page."""
    await server.accounts.add_user("carol", "", server.now)
    await server.parts.local.set_password("carol", PASSWORD, server.now)
    for who in ("https://reader.example/u/carol", "reader.example/u/carol", "carol"):
        page = await ann.get("/sign-in")
        shown = await ann.submit(page, "/sign-in/local", who=who, password=PASSWORD)
        assert shown.location == "/", shown.text
    assert "https://reader.example/u/carol" in (await ann.get("/account")).text
