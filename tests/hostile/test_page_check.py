"""The check of a page, which is open to anybody: no access to private networks, few requests, and text stays text."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from tests.support.own_server import AppSite, Surfer, app_site
from tests.support.process import Installation, installation
from tests.support.web import Answer, html_reply

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

RELS = ("microsub", "indieauth-metadata", "authorization_endpoint", "token_endpoint", "micropub", "alternate")
RUNS = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


@dataclass
class World:
    """The instance may reach `site`, but not `inside`."""

    site: AppSite
    inside: AppSite
    installed: Installation
    url: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    private = {"MICROSUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32"}
    async with (
        app_site() as site,
        app_site("127.0.0.2") as inside,
        installation(tmp_path_factory.mktemp("reader"), {"users": {}}, **private) as installed,
    ):
        inside.pages["/"] = html_reply("<title>the secret of the house</title>")
        yield World(site, inside, installed, await installed.serve("web"))


class Stranger(Surfer):
    """A browser at an address of its own, which hasn't sent any request yet."""

    _addresses = itertools.count(1)

    def __init__(self, url: str) -> None:
        way = httpx.AsyncHTTPTransport(local_address=f"127.0.1.{next(self._addresses)}")
        super().__init__(http=httpx.AsyncClient(transport=way, timeout=60))
        self.url = url

    async def check(self, address: str) -> None:
        await self.goto(f"{self.url}/connect")
        await self.submit("/check", address=address)


async def test_private_addresses_are_not_requested(world: World) -> None:
    """No address, redirect or link of a page makes the server request a private address."""
    there = f"{world.inside.listening.base}/"
    world.site.pages["/links"] = html_reply("".join(f'<link rel="{rel}" href="{there}">' for rel in RELS))
    world.site.pages["/away"] = Answer(b"", 302, [("Location", there)])
    header = ", ".join(f'<{there}>; rel="{rel}"' for rel in RELS)
    world.site.pages["/header"] = html_reply("<!doctype html>", 200, ("Link", header))
    async with Stranger(world.url) as surfer:
        for address in (there, *(f"{world.site.listening.base}/{path}" for path in ("links", "away", "header"))):
            await surfer.check(address)
            assert surfer.reply.status_code < 500
            assert "the secret of the house" not in surfer.reply.text
    assert world.inside.asked == []
    assert "Traceback" not in world.installed.log


async def test_texts_of_pages_are_shown_as_text(world: World) -> None:
    """Markup and scripts in links, titles, metadata, headers and the address itself are shown as text."""
    hostile = RUNS.replace('"', "&quot;")
    world.site.pages["/runs"] = html_reply(
        f"<title>{RUNS}</title>" + "".join(f'<link rel="{rel}" href="https://x.example/{hostile}">' for rel in RELS)
    )
    metadata = {"/meta": b'{"issuer": "' + RUNS.replace('"', '\\"').encode() + b'"}'}
    world.site.pages["/meta"] = Answer(metadata["/meta"], 200, [("Content-Type", "application/json")])
    world.site.pages["/with-meta"] = html_reply(
        f'<link rel="indieauth-metadata" href="{world.site.listening.base}/meta"><link rel="{hostile}" href="/">'
    )
    world.site.pages["/type"] = Answer(b"x", 200, [("Content-Type", RUNS), ("Link", f'<{RUNS}>; rel="{RUNS}"')])
    async with Stranger(world.url) as surfer:
        for path in ("runs", "with-meta", "type"):
            await surfer.check(f"{world.site.listening.base}/{path}")
            assert surfer.reply.status_code < 500
            assert "<script>alert" not in surfer.reply.text
            assert not re.search(r"<[^>]*\sonerror=", surfer.reply.text)
            assert "unsafe" not in surfer.reply.headers["content-security-policy"]
        await surfer.check(RUNS)
        assert "<script>alert" not in surfer.reply.text
    code, out, err = await world.installed.run("doctor", f"{world.site.listening.base}/type")
    assert code in {0, 1}, err
    assert "\x1b" not in out + err


async def test_the_terminal_is_not_controlled(world: World) -> None:
    """Text of a page can't move the cursor or change colours in the terminal of the person who runs the command."""
    escape = "\x1b[2J\x1b]0;owned\x07\r\u202e"
    world.site.pages["/escape"] = Answer(
        f'<title>{escape}</title><link rel="microsub" href="https://x.example/{escape}">'.encode(),
        200,
        [("Content-Type", "text/html; charset=utf-8"), ("Server", "\x1b[31m"), ("Link", '<\x1b[1m>; rel="microsub"')],
    )
    _, out, err = await world.installed.run("doctor", f"{world.site.listening.base}/escape")
    assert not set("\x1b\x07\u202e\r") & set(out + err)


async def test_checks_of_a_site_are_limited(world: World) -> None:
    """A page causes few requests, however many links it has."""
    many = "".join(f'<link rel="{rel}" href="/x{number}">' for number in range(300) for rel in RELS)
    world.site.pages["/many"] = html_reply(many)
    world.site.asked.clear()
    async with Stranger(world.url) as surfer:
        await surfer.check(f"{world.site.listening.base}/many")
        assert len(world.site.asked) <= 15


async def test_requests_contain_no_secrets(world: World) -> None:
    """The requests of a check have no cookie, no authorization and no body."""
    rels = dict.fromkeys(("microsub", "token_endpoint", "authorization_endpoint"), f"{world.site.listening.base}/x")
    world.site.profile("plain", **rels)
    world.site.asked.clear()
    async with Stranger(world.url) as surfer:
        await surfer.check(f"{world.site.listening.base}/plain/")
    assert world.site.asked
    for request in world.site.asked:
        assert not {"cookie", "authorization"} & set(request.headers)
        assert len(request.body) < 200
