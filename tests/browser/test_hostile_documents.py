"""Posts of feeds that attack their readers, open in the reader on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.accessibility import PHONE
from tests.browser.reading_server import reading_server
from tests.browser.tab import tab
from tests.hostile.documents import CASES
from tests.support import THOROUGH
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

SHOWN = {name: case for name, case in CASES.items() if case.posts}
# A page is too wide where something of it is. Left out: a text of more than 16,384 emoji in a row, which Chromium 156,
# now and then, doesn't break at its lines' ends.
TOO_WIDE = """() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    const found = [], nodes = document.createTreeWalker(document.documentElement, 5), range = document.createRange();
    for (let node = nodes.currentNode; node; node = nodes.nextNode()) {
        range.selectNode(node);
        if (node.nodeType === 3 && node.length > 32768) continue;
        const boxes = node.nodeType === 1 ? [node.getBoundingClientRect()] : [...range.getClientRects()];
        const right = Math.max(...boxes.map((box) => box.right));
        if (right > innerWidth) found.push(`${right}: ${(node.outerHTML ?? node.data).slice(0, 200)}`);
    }
    return found.slice(0, 5);
}"""
OPENED = "links => links.map((link) => link.href)"


async def is_in_order(page: Page) -> None:
    """The page is no wider than the phone, and its own form is there."""
    too_wide = await page.evaluate(TOO_WIDE)
    assert not too_wide, f"{page.url}: {too_wide}"
    assert await page.locator("#change").count() == 1


async def test_hostile_documents_break_no_page(browser: Browser, tmp_path: Path) -> None:
    """No script runs, nothing foreign is requested, no policy is violated, and no page is broken."""
    async with publisher() as feeds:
        followed = [feeds.serve(f"/{name}", case.act) for name, case in SHOWN.items()]
        users = {"ann": {"channels": [{"uid": "bad", "name": "Bad", "feeds": followed}]}}
        settings = {"first_fetch_unread": 1}
        async with (
            reading_server(tmp_path, users, "ann", polls=len(SHOWN), settings=settings) as server,
            tab(browser) as here,
        ):
            page = await server.sign_in(here, "ann")
            await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            asked: list[str] = []
            await page.add_init_script("window.ran = n => console.error('ran ' + n); window.alert = window.ran;")
            page.on("request", lambda request: asked.append(request.url))
            path: str | None = "/channel/bad"
            posts: list[str] = []
            while path:
                await page.goto(server.url + path)
                await is_in_order(page)
                posts += await page.locator(".post .byline small a:last-child").evaluate_all(OPENED)
                older = page.locator("#older [rel=next]")
                path = await older.get_attribute("href") if await older.count() else None
            assert len(posts) > 20
            for post in posts if THOROUGH else posts[::3]:
                await page.goto(post)
                await is_in_order(page)
            await page.goto(f"{server.url}/channels/bad")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert not [url for url in asked if not url.startswith((server.url, "data:"))]
            assert here.troubles == [one for one in here.troubles if "Failed to load resource" in one]
