"""An admin checks the server in Chromium, without scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.reading_server import reading_server
from tests.browser.tab import Tab, tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


async def test_an_admin_finds_what_fails(browser: Browser, tmp_path: Path) -> None:
    """From the link in the page's header to the feed, which is polled again."""
    async with publisher() as feeds, tab(browser, scripts=False) as here:
        followed = [feeds.serve_document("/feed", rss(dated(3))), feeds.url("/absent")]
        ann = {"admin": True, "channels": [{"uid": "home", "name": "Home", "feeds": followed}]}
        async with reading_server(tmp_path, {"ann": ann}, "ann") as server:
            page = await server.sign_in(here, "ann", "/channels")
            await wait_until(lambda: '"feed could not be polled"' in server.own.log)
            await _finds_what_fails(here, page)


async def _finds_what_fails(here: Tab, page: Page) -> None:
    await page.get_by_role("link", name="Administration").click()

    async def looked() -> bool:
        await page.reload()
        return "1 feed can’t be read" in await here.text()

    await wait_until(looked)
    await page.get_by_role("link", name="1 feed can’t be read").click()
    await page.get_by_role("link", name="/absent").click()
    assert "404" in await here.text()
    await here.press("Poll now")
    await here.press("Poll now")
    assert "less than a minute ago" in await here.text()
    await page.get_by_role("link", name="Configuration").click()
    assert "channel ann/home added" in await here.text()
