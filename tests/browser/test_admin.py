"""An admin looks after the server in Chromium, without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.tab import Tab, tab
from tests.support.own_server import PASSWORD, enrolled
from tests.support.polling import dated, rss
from tests.support.process import installation
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PATHS = tuple(f"/admin{path}" for path in ("", "/feeds", "/feeds/1", "/letters", "/hubs", "/users", "/configuration"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a server of Ann's, who is admin, and of Bob's; one of her feeds can't be had."""
    async with publisher() as feeds:
        followed = [feeds.serve_document("/feed", rss(dated(3))), feeds.url("/absent")]
        users = {"ann": {"admin": True, "channels": [{"uid": "home", "name": "Home", "feeds": followed}]}, "bob": {}}
        settings = {"polling": {"host_interval": 0}}
        async with installation(tmp_path_factory.mktemp("admin"), {"users": users, "settings": settings}) as own:
            url = (await own.serve("serve", "--show-token")).replace("127.0.0.1", "localhost")
            await enrolled(own, url, "ann", "bob")
            yield url


async def sign_in(here: Tab, url: str, user: str) -> Page:
    await here.page.goto(f"{url}/sign-in?next=/channels")
    await here.fill(who=user, password=PASSWORD)
    await here.press("Sign in")
    return here.page


async def test_an_admin_finds_what_fails(browser: Browser, server: str) -> None:
    """From the link in the head to the feed, which is asked for again."""
    async with tab(browser, scripts=False) as here:
        page = await sign_in(here, server, "ann")
        await page.get_by_role("link", name="Administration").click()

        async def looked() -> bool:
            await page.reload()
            return "1 feed can’t be read" in await here.text()

        await wait_until(looked)
        await page.get_by_role("link", name="1 feed can’t be read").click()
        await page.get_by_role("link", name="/absent").click()
        assert "404" in await here.text()
        await here.press("Ask for it now")
        await here.press("Ask for it now")
        assert "less than a minute ago" in await here.text()
        await page.get_by_role("link", name="Configuration").click()
        assert "channel ann/home added" in await here.text()


async def test_others_dont_see_it(browser: Browser, server: str) -> None:
    """No link, and nothing there."""
    async with tab(browser) as here:
        page = await sign_in(here, server, "bob")
        assert await page.get_by_role("link", name="Administration").count() == 0
        await page.goto(f"{server}/admin")
        assert await here.title() == "There is nothing here"
