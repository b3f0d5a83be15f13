"""Feeds below their channels in the sidebar in Chromium: by mouse and keys, remembered, and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import tab
from tests.support.polling import dated, rss
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReadingServer]:
    """One reader of a feed with posts and an empty one."""
    async with publisher() as feeds:
        addresses = [feeds.serve_document("/feed", rss(dated(3))), feeds.serve_document("/empty", rss([]))]
        channels = [{"uid": "home", "name": "Home", "feeds": addresses}]
        folder = tmp_path_factory.mktemp("feeds")
        async with reading_server(folder, {"ann": {"channels": channels}}, "ann", polls=2) as made:
            yield made


async def test_a_channel_is_unfolded_by_key(browser: Browser, server: ReadingServer) -> None:
    """It stays unfolded on the next page; its feeds lead to their posts; the counts follow."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        button = page.get_by_role("button", name="Feeds in Home")
        await button.focus()
        await page.keyboard.press("Space")
        rows = page.locator(".channels .branch li")
        await expect(rows).to_have_count(2)
        assert await button.get_attribute("aria-expanded") == "true"
        assert await page.locator(".branch li.none").count() == 1
        await page.reload()
        await expect(rows).to_have_count(2)
        await page.get_by_role("button", name="Read", exact=True).first.click()
        await expect(page.locator(".channels .branch .count")).to_have_text("2 unread")
        await page.locator(".branch li:not(.none) a").click()
        await page.wait_for_url("**/feed/*?channel=home")
        assert await page.locator(".post").count() == 3
        await page.get_by_role("button", name="Feeds in Home").click()
        await expect(rows).to_have_count(0)


async def test_a_channel_without_scripts(browser: Browser, server: ReadingServer) -> None:
    """The arrow leads to a page with the feeds."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "ann", "/channel/home")
        await page.get_by_role("link", name="Feeds in Home").click()
        assert await page.locator("main .branch li").count() == 2
