"""The tutorial `docs/tutorial/your-own-domain.md` in Chromium, on loopback: from an empty page to every app."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.tab import Tab, tab
from tests.support.own_server import PASSWORD, AppSite, app_site
from tests.support.polling import dated, rss
from tests.support.process import Installation, installation
from tests.support.reader_apps import APPS, App
from tests.support.waiting import wait_until
from tests.support.web import Answer, Publisher, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


@dataclass
class World:
    """Alice has a static page and a server; nothing is on the page yet."""

    http: httpx.AsyncClient
    apps: AppSite
    static: Publisher
    installed: Installation
    url: str

    @property
    def me(self) -> str:
        return self.static.url("/")

    def write(self, *lines: str) -> None:
        """Put lines into the head of Alice's page."""
        html = "<!doctype html><title>Alice</title>" + "".join(lines) + "<p>Hello."
        self.static.serve("/", Answer(html.encode(), headers=[("Content-Type", "text/html")]))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        apps, static = await enter(app_site()), await enter(publisher())
        feed = static.serve_document("/feed", rss(dated(3)))
        users = {"alice": {"me": static.url("/"), "channels": [{"uid": "home", "feeds": [feed]}]}}
        folder: Path = tmp_path_factory.mktemp("reader")
        document = {"users": users, "settings": {"polling": {"host_interval": 0}}}
        installed = await enter(installation(folder, document))
        url = await installed.serve()
        await wait_until(lambda: '"feed polled"' in installed.log)
        yield World(http, apps, static, installed, url)


async def checked(here: Tab, address: str) -> str:
    """What the form says of a page."""
    await here.fill(address=address)
    await here.press("Check")
    return await here.text()


async def lines_on(here: Tab) -> list[str]:
    """The lines that somebody would copy, as they read them."""
    blocks = await here.page.locator("pre").all_inner_texts()
    return [line for block in blocks for line in block.splitlines()]


async def test_from_an_empty_page_to_reading(browser: Browser, world: World) -> None:
    """The check says what is missing; the lines of the first page correct it; and every app signs in by that page."""
    world.write()
    async with tab(browser) as here:
        await here.page.goto(world.url)
        first = await checked(here, world.me)
        assert "2 problems to correct" in first
        assert "Problem: microsub" in first

        _, out, _ = await world.installed.run("user", "invite", "alice")
        link = next(word for word in out.split() if "#" in word)
        await here.page.goto(f"{world.url}{urlsplit(link).path}#{urlsplit(link).fragment}")
        await here.page.fill("#password", PASSWORD)
        await here.page.fill("#again", PASSWORD)
        await here.press("Set the password")

        await here.page.goto(world.url)
        lines = await lines_on(here)
        await here.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await here.page.get_by_text("Copy", exact=True).first.click()
        await here.page.get_by_text("Copied", exact=True).wait_for()
        copied = await here.page.evaluate("navigator.clipboard.readText()")
        assert copied == (await here.page.locator("pre").all_inner_texts())[0]
        assert f'<link rel="microsub" href="{world.url}/microsub/alice">' in lines
        world.write(*lines)
        second = await checked(here, world.me)
        assert "Nothing is missing" in second
        assert f"the user alice of this server is {world.me}, which is this page" in second
        assert "Concerns IndiePass iOS" in second

        world.write(*lines, f'<link rel="micropub" href="{world.me}">')
        assert "IndiePass iOS" not in await checked(here, world.me)

        async def person(url: str) -> str:
            await here.page.goto(url)
            await here.press("Allow")
            return here.page.url

        for kind in APPS:
            app: App = kind(world.http, world.apps.home(kind.name))
            signed = await app.sign_in(world.me, person)
            assert len(await signed.read("home")) == 3, kind.name


@pytest.mark.parametrize("width", [320, 1200])
async def test_pages_fit_narrow_and_wide_screens(browser: Browser, world: World, width: int) -> None:
    """The first page and a report with long addresses make nobody scroll sideways."""
    world.write(f'<link rel="token_endpoint" href="https://provider.example/{"long" * 60}">')
    async with tab(browser) as here:
        await here.page.set_viewport_size({"width": width, "height": 800})
        await here.page.goto(world.url)
        assert await fits(here)
        await checked(here, world.me)
        assert re.search("Problem", await here.text())
        assert await fits(here)


async def fits(here: Tab) -> bool:
    return bool(await here.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))
