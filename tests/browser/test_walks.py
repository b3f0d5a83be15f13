"""People filter, save and search, are mentioned, and listen to a screen reader, in Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PEOPLE = ("elder", "filterer", "saver", "seeker", "listener", "mentioned")
COUNT, LONG = 5, 45


@dataclass
class Server(ReadingServer):
    """Everybody follows one blog of five posts in `home`."""

    feeds: Publisher


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """The feed has been polled."""
    async with publisher() as feeds:
        feed = feeds.serve_document("/feed", rss(dated(COUNT)))
        users = {name: {"channels": [{"uid": "home", "name": "Home", "feeds": [feed]}]} for name in PEOPLE}
        long = feeds.serve_document("/long", rss(dated(LONG)))
        settings = {"first_fetch_unread": 1000}
        users["elder"]["channels"].append({"uid": "long", "name": "Long", "feeds": [long]})
        users["mentioned"]["me"] = feeds.url("/mine/")
        async with reading_server(tmp_path_factory.mktemp("walks"), users, *PEOPLE, polls=2, settings=settings) as made:
            yield Server(made.own, made.url, feeds)


async def unread(page: Page) -> int:
    """What the list of channels says of `home`."""
    shown = page.locator("[data-channel=home] .count")
    return int(await shown.locator("[data-count]").inner_text()) if await shown.is_visible() else 0


async def test_a_filter_is_tried_and_applied_to_what_is_there(browser: Browser, server: Server) -> None:
    """It shows what it would have kept out; the posts that it marks as read come back with one click."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "filterer", "/channels/home/filter")
        await here.fill(exclude_words="Post 2\nno such words")
        await here.press("Try")
        assert f"Of the newest {COUNT} posts 1 would have stayed out" in await here.text()
        assert "Post 2 has a word that is kept out" in await here.text()
        assert "Nothing is kept yet." in await here.text()
        assert await unread(page) == COUNT
        await here.press("Apply, and mark such posts as read")
        assert "1 post marked as read." in await here.text()
        assert await unread(page) == COUNT - 1
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_text("Marked as unread again.").wait_for()
        assert await unread(page) == COUNT


async def test_the_oldest_come_first(browser: Browser, server: Server) -> None:
    """If their reader wants them so, over all pages; a mark for all means all, and quiet channels may be left out."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "elder", "/display")
        await page.get_by_label("The oldest first").check()
        await page.get_by_label("Those with unread posts").check()
        await here.press("Keep")
        headings = page.locator(".post h2")
        await page.goto(f"{server.url}/channel/long?show=all")
        assert await headings.all_inner_texts() == [f"Post {n}" for n in range(1, 21)]
        for step, first in (("Newer posts", "Post 21"), ("Newer posts", "Post 41"), ("Older posts", "Post 21")):
            async with page.expect_navigation():
                await page.get_by_role("link", name=step).click()
            assert await headings.first.inner_text() == first
        await page.goto(f"{server.url}/channel/long")
        assert await page.locator("#channels [data-channel=long]").is_visible()
        await here.press("Mark all as read")
        assert "You have read everything." in await here.text()
        await page.goto(server.url)
        assert not await page.locator("#channels [data-channel=long]").is_visible()
        assert await page.locator("#channels [data-channel=home]").is_visible()


async def test_what_is_saved_stays_until_it_is_taken_out(browser: Browser, server: Server) -> None:
    """By a button or a key, whatever is marked elsewhere."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "saver", "/channel/home")
        await page.locator("#feed [data-act=save]").nth(2).click()
        await page.get_by_text("Saved.", exact=True).wait_for()
        await page.get_by_role("button", name="Mark all as read").click()
        await page.get_by_text("posts marked as read").wait_for()
        await page.goto(f"{server.url}/saved")
        assert await page.locator(".post h2").all_inner_texts() == ["Post 3"]
        await page.keyboard.press("j")
        await page.keyboard.press("s")
        await page.get_by_text("No longer saved.").wait_for()
        await page.reload()
        assert "Nothing is saved." in await here.text()


async def test_posts_are_found(browser: Browser, server: Server) -> None:
    """By words from any page of reading, and what was found is marked."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "seeker", "/channel/home")
        await page.keyboard.press("/")
        await page.keyboard.type('"post 3"')
        async with page.expect_navigation():
            await page.keyboard.press("Enter")
        assert await here.title() == 'Search for “"post 3"”'
        assert await page.locator(".post h2").all_inner_texts() == ["Post 3"]
        await page.get_by_role("button", name="Mark this 1 post as read").click()
        await page.get_by_text("1 post marked as read.").wait_for()
        assert await unread(page) == COUNT - 1
        await page.fill("input[name=q]", "is:unread")
        async with page.expect_navigation():
            await page.keyboard.press("Enter")
        assert "Post 3" not in await page.locator(".post h2").all_inner_texts()
        await page.fill("input[name=q]", "nowhere")
        async with page.expect_navigation():
            await page.keyboard.press("Enter")
        assert "Nothing was found." in await here.text()


async def focus(page: Page) -> str:
    """The name of what has the focus."""
    return str(
        await page.evaluate(
            "(() => { const it = document.activeElement; const by = it.getAttribute('aria-labelledby');"
            " return (by ? document.getElementById(by) : it).innerText || it.name || it.tagName; })()"
        )
    )


async def test_what_a_screen_reader_says(browser: Browser, server: Server) -> None:
    """The parts of the page in their order, posts with name, place and state; the focus is never lost by an action."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "listener", "/channel/home")
        said = await page.locator("body").aria_snapshot()
        parts = (
            'link "Skip',
            "banner",
            'navigation "Pages"',
            'navigation "Channels"',
            "searchbox",
            "- main",
            "heading",
            "feed",
            "contentinfo",
        )
        places = [said.index(part) for part in parts]
        assert places == sorted(places)
        first = page.locator(".post").first
        assert await first.get_attribute("aria-posinset") == "1"
        assert await first.get_attribute("aria-setsize") == str(COUNT)
        assert 'article "Post 5"' in said
        assert await page.locator("[data-state]").first.inner_text() == "Unread"
        steps = (("read", "Read"), ("save", "Save"), ("above", "Read down to here"))
        for act, name in steps:
            button = first.locator(f"[data-act={act}]")
            await button.focus()
            await page.keyboard.press("Enter")
            assert await focus(page) == name
        await page.get_by_role("button", name="Mark all as read").focus()
        await page.keyboard.press("Enter")
        await page.get_by_text("posts marked as read").wait_for()
        assert await focus(page) == "Mark all as read"
        await page.get_by_role("button", name="Undo").focus()
        await page.keyboard.press("Enter")
        await page.get_by_text("Marked as unread again.").wait_for()
        assert await focus(page) == "Post 5"
        await page.keyboard.press("?")
        assert await focus(page) == "Close"
        await page.keyboard.press("Escape")
        assert await focus(page) == "Post 5"
        assert await page.locator("#done").get_attribute("role") == "status"


async def test_a_mention_is_received_and_taken_back(browser: Browser, server: Server) -> None:
    """It comes into the notifications; its page is looked at again no more."""
    target = server.feeds.url("/mine/page")
    source = server.feeds.serve_document(
        "/answer", f"<p class=h-entry><a href='{target}'>you</a></p>".encode(), "text/html"
    )
    async with httpx.AsyncClient() as client:
        sent = await client.post(f"{server.url}/webmention/mentioned", data={"source": source, "target": target})
    assert sent.status_code in {201, 202}, sent.text
    async with tab(browser) as here:
        page = await server.sign_in(here, "mentioned", "/channel/notifications")
        await page.locator(".post").wait_for()  # it comes by itself
        await page.goto(f"{server.url}/settings/webmentions")
        assert "in your notifications" in await here.text()
        await page.get_by_role("button", name="Delete").click()
        assert "That is done within seconds." in await here.text()

        async def gone() -> bool:
            await page.goto(f"{server.url}/channel/notifications?show=all")
            return await page.locator(".post").count() == 0

        await wait_until(gone)
