"""Searches and display settings in Chromium: by mouse, by keys, without scripts, in German, checked by axe."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.accessibility import violations
from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import Tab, tab
from tests.support.polling import dated, rss
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

COUNT = 60
USERS = ("ann", "bea", "cat", "dan")
TEXT = f"<p>{'Words of a story that goes on. ' * 30}</p><p>A <b>lighthouse</b> at the end.</p>"
LONG = f"{' on the quay and the tide' * 6} and the harbourmaster{' and the boats that come in' * 4}"
SEARCH = "/search?q=lighthouse"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReadingServer]:
    """Readers of a feed, all whose posts speak of the lighthouse far behind their beginning."""
    async with publisher() as feeds:
        document = rss(dated(COUNT))
        for number in range(1, COUNT + 1):
            document = document.replace(f"About Post {number}<".encode(), f"{html.escape(TEXT)}<".encode())
            document = document.replace(f"<title>Post {number}<".encode(), f"<title>Post {number}{LONG}<".encode())
        channels = [{"uid": "home", "name": "Home", "feeds": [feeds.serve_document("/harbour", document)]}]
        users = {name: {"channels": channels} for name in USERS}
        folder, settings = tmp_path_factory.mktemp("search"), {"first_fetch_unread": 1000}
        async with reading_server(folder, users, *USERS, polls=1, settings=settings) as made:
            yield made


async def searching(here: Tab, server: ReadingServer, user: str, path: str = SEARCH) -> Page:
    """The page of a search, once all posts are in the index."""
    page = await server.sign_in(here, user, path)
    for _ in range(100):
        if await page.locator("#found").inner_text() == f"{COUNT} posts":
            return page
        await page.wait_for_timeout(200)
        await page.goto(server.url + path)
    raise AssertionError(await page.locator("main").inner_text())


async def test_a_search_by_mouse(browser: Browser, server: ReadingServer) -> None:
    """Each line shows its hit; a post opened in place has its marks, and so have those that are loaded later."""
    async with tab(browser) as here:
        page = await searching(here, server, "ann")
        async with page.expect_event("load"):
            await page.locator(".looks").get_by_role("button", name="List").click()
        await page.locator(".post.list").first.wait_for()
        first = page.locator(".post").first
        box = await first.locator("mark").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] < 1280
        await first.locator("h2 a").click()
        await first.locator(".content mark", has_text="lighthouse").wait_for()
        await page.evaluate("scrollTo(0, document.body.scrollHeight)")
        await page.locator(f".post:nth-child({COUNT}) mark").wait_for(state="attached")
        await page.locator("summary", has_text="Keep in the channel list").click()
        await page.get_by_label("Name").fill("Towers")
        async with page.expect_event("load"):
            await page.get_by_role("button", name="Keep", exact=True).click()
        assert await page.locator("#channels [aria-current]").inner_text() == "Towers"
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Best first").click()
        assert await page.locator("#channels [aria-current]").inner_text() == "Towers"
        await page.get_by_text("In the channel list as “Towers”").click()
        async with page.expect_event("load"):
            await page.get_by_role("button", name="Remove from the list").click()
        assert await page.locator("#kept").count() == 0


async def test_the_hit_of_a_long_title_is_in_view(browser: Browser, server: ReadingServer) -> None:
    """In a list, on a desk and a phone; an open post has its whole title."""
    async with tab(browser) as here:
        page = await searching(here, server, "dan", "/search?q=harbourmaster")
        async with page.expect_event("load"):
            await page.locator(".looks").get_by_role("button", name="List").click()
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 800})
            for mark in await page.locator(".post h2 mark").all():
                title, hit = [
                    await mark.evaluate(f"it => it{of}.getBoundingClientRect().toJSON()")
                    for of in (".closest('h2')", "")
                ]
                assert hit["right"] <= title["right"]
                assert hit["bottom"] <= title["bottom"]
        assert (await page.locator(".post .after-early").first.bounding_box() or {"x": 0})["x"] > 0
        await page.locator(".post h2 a").first.click()
        title = page.locator(".post.is-open h2")
        await title.wait_for()
        assert (await title.inner_text()).startswith("Post ")
        assert await title.locator(".early").evaluate("it => it.offsetWidth") > 100


async def test_a_search_by_keys(browser: Browser, server: ReadingServer) -> None:
    """From any page, through posts, and back to the search; the next post has marks, too."""
    async with tab(browser) as here:
        await searching(here, server, "bea")
        page, press = here.page, here.page.keyboard.press
        await page.goto(f"{server.url}/settings")
        await press("/")
        await page.keyboard.type("lighthouse")
        async with page.expect_event("load"):
            await press("Enter")
        await press("/")
        assert await page.evaluate("document.activeElement.closest('main') !== null")
        await press("Escape")
        title = page.locator(".post h2 a").first
        async with page.expect_event("load"):
            await title.click()
        assert await page.locator(".content mark").count() == 1
        async with page.expect_event("load"):
            await press("j")
        assert await page.locator("h1").inner_text() == f"Post {COUNT - 1}{LONG}"
        assert await page.locator(".content mark").count() == 1
        async with page.expect_event("load"):
            await press("u")
        assert page.url.endswith(SEARCH)
        first = await page.locator(".post").count()
        more = "document.querySelectorAll('.post').length > first"
        await page.wait_for_function(  # the page scrolls to where it stood, too
            f"first => (document.getElementById('older').scrollIntoView(), {more})", arg=first
        )
        await page.evaluate("scrollTo(0, 0)")
        await page.get_by_role("button", name="Mark these posts as read").click()
        await page.get_by_text(f"{first - 2} posts marked as read.").wait_for()  # two were opened
        await page.locator("#done [data-close]").click()
        for end in ("+is%3Aunread", SEARCH):
            async with page.expect_event("load"):
                await press("u")
            assert page.url.endswith(end)
        await page.goto(f"{server.url}/search?q=nosuchword")
        await press("M")
        await page.get_by_text("There is no unread post here.").wait_for()


async def test_searches_work_without_scripts(browser: Browser, server: ReadingServer) -> None:
    """Sorting, keeping, marking, and its place on a phone."""
    async with tab(browser, scripts=False) as here:
        page = await searching(here, server, "cat")
        await page.get_by_role("link", name="Best first").click()
        await page.locator("summary", has_text="Keep in the channel list").click()
        await page.get_by_role("button", name="Keep", exact=True).click()
        await page.set_viewport_size({"width": 1280, "height": 480})
        await page.get_by_role("button", name="Mark these posts as read").click()
        listed, said = [await page.locator(one).bounding_box() for one in ("#channels", "#done p")]
        assert listed is not None
        assert said is not None
        assert listed["y"] + listed["height"] <= said["y"], "the message covers no kept search"
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(f"{server.url}/")
        await page.locator("#channels").get_by_role("link", name="lighthouse").click()
        assert await page.locator("[type=search]:visible").input_value() == "lighthouse"
        assert await page.locator("mark").count() > 0
        await page.locator("summary", has_text="What you can type").click()
        assert await page.get_by_text("is:unread").is_visible()


async def test_searches_and_display_settings_are_accessible(browser: Browser, server: ReadingServer) -> None:
    """With everything open, with a mistake, in German, in both schemes; with each font, width and height."""
    context = await browser.new_context(bypass_csp=True)
    page = await searching(Tab(context, await context.new_page()), server, "dan")
    await page.locator("summary", has_text="Keep in the channel list").click()
    async with page.expect_event("load"):
        await page.get_by_role("button", name="Keep", exact=True).click()
    await page.goto(f"{server.url}/display")
    for name in ("Serif", "Larger", "Loose", "Wide", "Minutes that a post takes, beside its date"):
        await page.get_by_label(name, exact=True).check()
        await page.locator("#saved").wait_for()
    assert await page.evaluate("document.documentElement.dataset.font") == "serif"
    await page.reload()
    found = await page.evaluate("getComputedStyle(document.querySelector('.content')).fontFamily")
    assert found.startswith("Charter")
    paths = [SEARCH, "/search", "/search?q=kind:poem", "/search?q=home+harbour", "/display", "/channel/home?show=all"]
    assert await violations(page, server.url, paths) == []
    await context.close()
