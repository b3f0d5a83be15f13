"""People follow feeds and tend their channels in Chromium: by pasting, by drag, by keys, and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PEOPLE = ("follower", "orderer", "plain")
CHANNELS = [{"uid": uid, "name": uid.title()} for uid in ("home", "news", "fun")]


@dataclass
class Server(ReadingServer):
    """There is a feed at `feed`, which nobody follows."""

    feed: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """Everybody has three empty channels."""
    async with publisher() as feeds:
        feed = feeds.serve_document("/feed", rss(dated(3)))
        users = {name: {"channels": CHANNELS} for name in PEOPLE}
        async with reading_server(tmp_path_factory.mktemp("tend"), users, *PEOPLE) as made:
            yield Server(made.own, made.url, feed)


async def _names(page: Page) -> list[str]:
    return await page.locator("[data-order] a").all_inner_texts()


async def test_a_pasted_address_becomes_posts(browser: Browser, server: Server) -> None:
    """In a channel that is made on the way; everything by keys."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "follower", "/follow")
        await page.keyboard.insert_text(server.feed)  # the field has the focus
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="Look at").first.click()
        await page.get_by_role("heading", name="Post 3").wait_for()
        await page.get_by_label("Channel", exact=True).select_option("+")
        await page.get_by_label("Name of the new channel").fill("Harbour")
        await here.press("Follow")
        assert "You follow" in await here.text()
        await page.get_by_role("link", name="Read it").click()
        await page.locator(".post").first.wait_for()  # they come by themselves

        async def arrived() -> bool:
            await page.reload()
            return await page.locator("article.post").count() == 3

        await wait_until(arrived)
        assert await here.title() != ""


async def test_channels_are_ordered_by_drag_and_by_keys(browser: Browser, server: Server) -> None:
    """And the order is there after the page is loaded again."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "orderer", "/channels")
        assert await _names(page) == ["Home", "News", "Fun"]
        grip, first = page.locator("[data-uid=fun] .grip"), page.locator("[data-uid=home]")
        await grip.hover()
        await page.mouse.down()
        box = await first.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 20, box["y"] + 2, steps=5)
        async with page.expect_navigation():
            await page.mouse.up()
        assert await _names(page) == ["Fun", "Home", "News"]
        await page.get_by_role("link", name="Fun", exact=True).last.focus()
        async with page.expect_navigation():
            await page.keyboard.press("Alt+ArrowDown")
        assert await _names(page) == ["Home", "Fun", "News"]
        assert await page.evaluate("document.activeElement.innerText") == "Fun"


async def test_all_of_it_works_without_scripts(browser: Browser, server: Server) -> None:
    """Order, filter, deletion and its undo."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "plain", "/channels")
        await here.press("Move News up")
        assert await _names(page) == ["News", "Home", "Fun"]
        await page.goto(f"{server.url}/channels/home/filter")
        await here.fill(exclude_words="Post 2")
        await here.press("Try")
        assert "Of the newest 0 posts" in await here.text()
        await here.press("Apply")
        assert "The filter holds" in await here.text()
        await page.goto(f"{server.url}/channels/home")
        await here.press("Delete the channel")
        assert await _names(page) == ["News", "Fun"]
        await here.press("Undo")
        assert sorted(await _names(page)) == ["Fun", "Home", "News"]
