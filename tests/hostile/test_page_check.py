"""The check of a page, which anybody may ask for: no door into private networks, no hammer, and text stays text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.support.own_server import AppSite, Surfer, app_site
from tests.support.process import Installation, installation
from tests.support.raw_http import Reply, html_reply

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

RELS = ("microsub", "indieauth-metadata", "authorization_endpoint", "token_endpoint", "micropub", "alternate")
RUNS = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


@dataclass
class World:
    """`site` may be reached by the instance, `inside` may not."""

    site: AppSite
    inside: AppSite
    folder: pytest.TempPathFactory

    async def check(self, surfer: Surfer, url: str, address: str) -> Surfer:
        await surfer.goto(f"{url}/")
        return await surfer.submit("/check", address=address)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with app_site() as site, app_site("127.0.0.2") as inside:
        inside.pages["/"] = html_reply("<title>the secret of the house</title>")
        yield World(site, inside, tmp_path_factory)


@pytest_asyncio.fixture(loop_scope="module")
async def served(world: World) -> AsyncIterator[tuple[Installation, str]]:
    """A fresh instance, whose allowances nobody has used yet."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(
            installation(world.folder.mktemp("reader"), {"users": {}}, MICROSUB_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32")
        )
        yield made, await made.serve("web")


async def test_nothing_inside_is_asked(world: World, served: tuple[Installation, str]) -> None:
    """Neither the address, nor a redirect, nor any link of a page makes the server ask what it may not reach."""
    installed, url = served
    there = f"{world.inside.listening.base}/"
    world.site.pages["/links"] = html_reply("".join(f'<link rel="{rel}" href="{there}">' for rel in RELS))
    world.site.pages["/away"] = Reply(b"", 302, [("Location", there)])
    header = ", ".join(f'<{there}>; rel="{rel}"' for rel in RELS)
    world.site.pages["/header"] = html_reply("<!doctype html>", 200, ("Link", header))
    async with Surfer() as surfer:
        for address in (there, *(f"{world.site.listening.base}/{path}" for path in ("links", "away", "header"))):
            await world.check(surfer, url, address)
            assert surfer.reply.status_code < 500
            assert "the secret of the house" not in surfer.reply.text
    assert world.inside.asked == []
    assert "Traceback" not in installed.log


async def test_what_pages_say_is_shown_as_text(world: World, served: tuple[Installation, str]) -> None:
    """Markup and scripts in links, titles, metadata, headers and the address itself stay what they are: text."""
    installed, url = served
    hostile = RUNS.replace('"', "&quot;")
    world.site.pages["/runs"] = html_reply(
        f"<title>{RUNS}</title>" + "".join(f'<link rel="{rel}" href="https://x.example/{hostile}">' for rel in RELS)
    )
    metadata = {"/meta": b'{"issuer": "' + RUNS.replace('"', '\\"').encode() + b'"}'}
    world.site.pages["/meta"] = Reply(metadata["/meta"], 200, [("Content-Type", "application/json")])
    world.site.pages["/with-meta"] = html_reply(
        f'<link rel="indieauth-metadata" href="{world.site.listening.base}/meta"><link rel="{hostile}" href="/">'
    )
    world.site.pages["/type"] = Reply(b"x", 200, [("Content-Type", RUNS), ("Link", f'<{RUNS}>; rel="{RUNS}"')])
    async with Surfer() as surfer:
        for path in ("runs", "with-meta", "type"):
            await world.check(surfer, url, f"{world.site.listening.base}/{path}")
            assert surfer.reply.status_code < 500
            assert "<script>alert" not in surfer.reply.text
            assert not re.search(r"<[^>]*\sonerror=", surfer.reply.text)
            assert "unsafe" not in surfer.reply.headers["content-security-policy"]
        await world.check(surfer, url, RUNS)
        assert "<script>alert" not in surfer.reply.text
    code, out, err = await installed.run("doctor", f"{world.site.listening.base}/type")
    assert code in {0, 1}, err
    assert "\x1b" not in out + err


async def test_the_terminal_is_not_controlled(world: World, served: tuple[Installation, str]) -> None:
    """What a page says can't move the cursor or colour the text of the person who runs the command."""
    installed, _ = served
    escape = "\x1b[2J\x1b]0;owned\x07\r\u202e"
    world.site.pages["/escape"] = Reply(
        f'<title>{escape}</title><link rel="microsub" href="https://x.example/{escape}">'.encode(),
        200,
        [("Content-Type", "text/html; charset=utf-8"), ("Server", "\x1b[31m"), ("Link", '<\x1b[1m>; rel="microsub"')],
    )
    _, out, err = await installed.run("doctor", f"{world.site.listening.base}/escape")
    assert not set("\x1b\x07\u202e\r") & set(out + err)


async def test_it_is_no_hammer(world: World, served: tuple[Installation, str]) -> None:
    """One page causes few requests, however many links it has."""
    _, url = served
    many = "".join(f'<link rel="{rel}" href="/x{number}">' for number in range(300) for rel in RELS)
    world.site.pages["/many"] = html_reply(many)
    world.site.asked.clear()
    async with Surfer() as surfer:
        await world.check(surfer, url, f"{world.site.listening.base}/many")
        assert len(world.site.asked) <= 15


async def test_nothing_secret_is_sent_along(world: World, served: tuple[Installation, str]) -> None:
    """The requests of a check carry neither cookie nor authorization, and no body."""
    _, url = served
    rels = dict.fromkeys(("microsub", "token_endpoint", "authorization_endpoint"), f"{world.site.listening.base}/x")
    world.site.profile("plain", **rels)
    world.site.asked.clear()
    async with Surfer() as surfer:
        await world.check(surfer, url, f"{world.site.listening.base}/plain/")
    assert world.site.asked
    for request in world.site.asked:
        assert not {"cookie", "authorization"} & set(request.headers)
        assert len(request.body) < 200
