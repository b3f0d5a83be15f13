"""List, cards and whole posts in Chromium: how many fit, opened in place, by mouse, keys, touch, without scripts."""

from __future__ import annotations

import asyncio
import base64
import html
import itertools
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio
from playwright.async_api import Browser, CDPSession, Locator, Page, Route, expect

from tests.browser.accessibility import DESK, PHONE, violations
from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import Tab, tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

COUNT = 40
USERS = ("ann", "bea", "cat", "dan", "eve", "fay", "gus", "tim", "uma", "viv", "wes", "xia", "yan", "zoe")
WHOLE = """() => {
    const end = innerHeight - document.querySelector(".bottom").offsetHeight;
    const boxes = [...document.querySelectorAll(".post")].map((post) => post.getBoundingClientRect());
    return boxes.filter((box) => box.top >= 0 && box.height >= 24 && box.bottom <= end).length;
}"""
FOCUSED = "title => document.activeElement.querySelector('h2')?.innerText === title"
GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
STEP = "`${scrollY} ${document.querySelector('.post.is-open')?.dataset.id}`"
TEXT = f"<p>{'Words of a story that goes on. ' * 30}</p><p>The end of it.</p>"


def _pictures(feeds: Publisher) -> bytes:
    """A feed with one post, which has two pictures, one of them a link."""
    names = ("A cat", "A link", "A dog")
    urls = [feeds.serve_document(f"/{number}.gif", GIF, "image/gif") for number in range(3)]
    first, linked, last = (f"<img src='{url}' alt='{name}'>" for url, name in zip(urls, names, strict=True))
    story = feeds.serve_document("/story", b"<!doctype html><title>The story</title>", "text/html")
    body = html.escape(f"<p>{first}</p><p><a href='{story}'>{linked}</a></p><p>{last}</p>").encode()
    return rss([("art", "Art", dated(1)[0][2])]).replace(b"About Art<", body + b"<")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReadingServer]:
    """One reader of a feed whose posts have titles of one to three lines on a phone, and long bodies."""
    async with publisher() as feeds:
        document = rss(dated(COUNT))
        for number in range(1, COUNT + 1):
            title = f"<title>Post {number}</title>".encode()
            longer = f"<title>Post {number} {'and what it says ' * (number % 4)}</title>".encode()
            document = document.replace(title, longer)
            document = document.replace(f"About Post {number}<".encode(), f"{html.escape(TEXT)}<".encode())
        address = feeds.serve_document("/feed", document)
        short = feeds.serve_document(
            "/short", rss([(f"short-{n}", f"Short {n}", at) for n, (_, _, at) in zip((2, 1), dated(2), strict=True)])
        )
        channels = [
            {"uid": "home", "name": "Home", "feeds": [address]},
            {"uid": "none", "name": "Nothing new"},
            {"uid": "more", "name": "More", "feeds": [short]},
        ]
        art = {"uid": "art", "name": "Art", "feeds": [feeds.serve_document("/art", _pictures(feeds))]}
        users = {name: {"channels": [*channels, art] if name == "ann" else channels} for name in USERS}
        folder, settings = tmp_path_factory.mktemp("views"), {"first_fetch_unread": 1000}
        async with reading_server(folder, users, *USERS, polls=2, settings=settings) as made:
            yield made


async def look(page: Page, view: str) -> None:
    """Presses the button of that name."""
    async with page.expect_navigation(wait_until="load"):
        await page.get_by_role("group", name="View").get_by_role("button", name=view, exact=True).click()


async def test_a_list_shows_many_posts(browser: Browser, server: ReadingServer) -> None:
    """Fifteen whole lines on a desk and ten on a phone, each at least 24 pixels high."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home")
        for width, height, most in ((1280, 800, 15), (390, 844, 10)):
            await page.set_viewport_size({"width": width, "height": height})
            await look(page, "List")
            assert await page.evaluate(WHOLE) >= most
            top = await page.evaluate("document.querySelector('.post').getBoundingClientRect().top")
            assert top <= height / 4
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_large_text_is_that_of_posts(browser: Browser, server: ReadingServer) -> None:
    """In German on a phone, the first post of a channel and of a feed begins within a quarter of the screen.

    Lines are as high as with other text; an open one has the large text.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all", "List")
        feed = await page.locator(".post .from a").first.get_attribute("href")
        await page.set_extra_http_headers({"Accept-Language": "de"})
        await page.set_viewport_size({"width": 390, "height": 844})
        top = "document.querySelectorAll('.post')[2].getBoundingClientRect().top"
        for path in ("/channel/home?show=all", feed):
            await page.goto(f"{server.url}{path}")
            assert await page.locator("html").get_attribute("lang") == "de"
            before = await page.evaluate(top)
            await page.evaluate("document.documentElement.dataset.size = 'larger'")
            assert await page.evaluate(top) == before
            assert await page.evaluate("document.querySelector('.post').getBoundingClientRect().top") <= 844 / 4
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await page.get_by_role("button", name="Alle als gelesen").is_visible()
        await page.locator(".post h2 a").first.click()
        content = page.locator(".is-open .content")
        assert await content.evaluate("it => parseFloat(getComputedStyle(it).fontSize)") > 22


async def test_an_opened_line_shows_its_whole_title(browser: Browser, server: ReadingServer) -> None:
    """On a phone, where closed lines cut titles after two lines; a cut title reaches under no star."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all", "List")
        ends = "it => [it, it.closest('.post').querySelector('.acts')].map((one) => one.getBoundingClientRect())"
        await page.set_viewport_size({"width": 900, "height": 844})
        for link in await page.locator(".post h2 a").all():
            box, star = await link.evaluate(ends)
            assert box["right"] <= star["left"]
        await page.set_viewport_size({"width": 320, "height": 844})
        title = page.locator(".post").filter(has_text="Post 39").locator("h2 a")
        cut = "it => it.scrollHeight > it.clientHeight"
        assert await title.evaluate(cut)
        await title.click()
        await page.locator(".post.is-open").wait_for()
        assert not await title.evaluate(cut)


async def test_text_of_twice_the_size_leaves_titles_their_line(browser: Browser, server: ReadingServer) -> None:
    """A screen of 14 letters' heights is a phone's with such text: in German, no word of its bar is broken."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all", "List")
        await page.set_extra_http_headers({"Accept-Language": "de"})
        await page.set_viewport_size({"width": 280, "height": 600})
        await page.reload()
        title, post = (
            await page.locator(".post .text").first.bounding_box(),
            await page.locator(".post").first.bounding_box(),
        )
        assert title is not None
        assert post is not None
        assert title["width"] > post["width"] * 0.9
        broken = """() => [...document.querySelectorAll(".bottom a")].filter((link) => {
            const range = document.createRange();
            range.selectNodeContents(link.lastChild);
            return range.getClientRects().length > 1;
        }).map((link) => link.innerText)"""
        assert await page.evaluate(broken) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_views_are_accessible_and_valid(browser: Browser, server: ReadingServer) -> None:
    """With headings for days, on a desktop in light and on a phone in dark."""
    context = await browser.new_context(bypass_csp=True)
    page = await server.sign_in(Tab(context, await context.new_page()), "ann", "/channel/home?show=all")
    await page.get_by_text("Order", exact=True).click()
    async with page.expect_navigation(wait_until="load"):
        await page.get_by_role("button", name="Headings for days").click()
    for view in ("List", "Cards"):
        await look(page, view)
        assert await violations(page, server.url, ["/channel/home?show=all"]) == []
        await page.set_extra_http_headers({})
        await page.goto(f"{server.url}/channel/home?show=all")
    await context.close()


async def test_a_post_opens_in_place(browser: Browser, server: ReadingServer) -> None:
    """By click on its line or title and by key; it is marked as read, and the next one closes it."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        await page.keyboard.press("1")
        await page.locator(".post.list").first.wait_for()
        first, second = page.locator(".post").nth(0), page.locator(".post").nth(1)
        await first.locator(".text").click(position={"x": 3, "y": 3})
        await first.get_by_text("The end of it.").wait_for()
        await page.locator(".post.is-open.is-read").first.wait_for()
        assert await first.get_by_role("button", name="Mark read up to here").is_visible()
        await second.locator("h2 a").click()
        await second.get_by_text("The end of it.").wait_for()
        assert await page.locator(".post.is-open").count() == 1
        assert "/channel/home" in page.url
        await page.keyboard.press("o")
        await page.wait_for_function("() => !document.querySelector('.post.is-open')")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.locator(".post.is-open").nth(0).get_by_text("The end of it.").wait_for()
        await page.keyboard.press("s")
        await page.get_by_text("Saved.", exact=True).wait_for()
        await expect(page.locator("#done")).to_contain_class("quiet")  # the star shows it
        await page.keyboard.press("s")
        await page.get_by_text("Removed from saved posts.", exact=True).wait_for()
        for key, name in (("2", "cards"), ("3", "content")):
            async with page.expect_event("load"):
                await page.keyboard.press(key)
            await page.locator(f".{name}").first.wait_for()


async def test_a_long_post_opens_at_its_beginning(browser: Browser, server: ReadingServer) -> None:
    """Also below another long one, which is closed then."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all", "List")
        await page.set_viewport_size({"width": 1280, "height": 240})
        await here.keys("j", "o")
        for place in range(3):
            opened = page.locator(".post").nth(place)
            await opened.get_by_text("The end of it.").wait_for()
            box = await opened.bounding_box()
            assert box is not None
            assert box["height"] > 240
            assert box["y"] >= 0
            for said in ("Saved.", "Removed from saved posts."):
                await page.keyboard.press("s")
                await page.get_by_text(said, exact=True).wait_for()
                await expect(page.locator("#done")).not_to_contain_class("quiet")  # its star is below the window
            await page.keyboard.press("j")


async def test_a_list_works_without_scripts(browser: Browser, server: ReadingServer) -> None:
    """Its buttons lead to the list, and titles to the posts."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all", "List")
        assert await page.locator(".post.list").count() == COUNT
        await page.locator(".post h2 a").first.click()
        assert await page.get_by_text("The end of it.").count() == 1


async def test_reading_goes_on_in_the_next_channel(browser: Browser, server: ReadingServer) -> None:
    """By one key through all unread posts; by space through long ones; without scripts by a link."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/more")
        press = page.keyboard.press
        for number in (2, 1):
            await press("N")
            await page.wait_for_function(FOCUSED, arg=f"Short {number}")
            await press("m")
        await page.wait_for_function("() => document.querySelectorAll('.post.is-read').length === 2")
        await press("Space")
        await page.wait_for_url("**/channel/home#first")
        await page.wait_for_function("() => document.activeElement.matches('.post')")
        assert await page.evaluate("document.activeElement === document.querySelector('.post')")
        await page.evaluate("() => document.activeElement.blur()")
        for _ in range(4):  # also when no post has the focus
            # A press while a post is being fetched goes to that post, which is opening already.
            await page.wait_for_function("() => !document.querySelector('.post[aria-busy=true]')")
            before = await page.evaluate("[scrollY, document.activeElement.id]")
            await press("Space")
            # The next post has the focus, also if all of it was in view already.
            await page.wait_for_function(
                "([place, id]) => scrollY > place || document.activeElement.id !== id", arg=before
            )
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "bea", "/channel/more")
        await page.get_by_role("link", name="Next: Home").click()
        assert "/channel/home" in page.url


async def test_a_channel_is_finished_by_one_key(browser: Browser, server: ReadingServer) -> None:
    """All its posts are read, the next channel is open, and the tab's title has the number of unread posts."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "cat", "/channel/more")
        assert (await page.title()).startswith(f"({COUNT + 2}) More")
        # Two at once: a second press that comes later may already mark the next channel.
        await page.evaluate(
            "for (const key of 'MM') document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))"
        )
        await page.wait_for_url("**/channel/home#first")
        await page.wait_for_function("start => document.title.startsWith(start)", arg=f"({COUNT}) Home")
        await page.get_by_text("2 posts marked as read in More.").wait_for()
        await page.keyboard.press("z")
        await page.wait_for_function("start => document.title.startsWith(start)", arg=f"({COUNT + 2}) Home")


async def test_keys_work_on_all_pages(browser: Browser, server: ReadingServer) -> None:
    """On pages with fields too, in which letters stay letters and space presses what has the focus."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "cat", "/settings")
        for path in ("/settings", "/channels", "/follow", "/display"):
            await page.goto(server.url + path)
            await page.evaluate("() => document.activeElement.blur()")
            await page.keyboard.press("?")
            await page.get_by_role("dialog").wait_for()
            await page.keyboard.press("?")
            await page.get_by_role("dialog").wait_for(state="hidden")
        choice = page.get_by_label("Only channels with unread posts")
        await choice.focus()
        await page.keyboard.press("Space")
        assert await choice.is_checked()
        await here.keys("g", "s")
        await page.wait_for_url("**/saved")


async def test_own_keys_work_instead_of_the_usual_ones(browser: Browser, server: ReadingServer) -> None:
    """Also the key of the table itself, which closes it again."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "eve", "/settings/shortcuts")
        await page.get_by_label("next post, not opened").fill("ArrowRight")
        await page.get_by_label("show keyboard shortcuts").fill("x y, Home")
        await here.press("Save changes")
        await page.goto(server.url + "/channel/home?show=all")
        await page.keyboard.press("n")
        assert await page.evaluate("document.activeElement === document.body")
        await page.keyboard.press("ArrowRight")
        assert await page.evaluate("document.activeElement === document.querySelector('.post')")
        await here.keys("x", "y")
        await page.get_by_role("dialog").wait_for()
        await page.keyboard.press("Home")
        await page.get_by_role("dialog").wait_for(state="hidden")
        await page.keyboard.press("?")
        assert await page.get_by_role("dialog").count() == 0
        await page.keyboard.press("w")
        await page.get_by_text("The settings have a page for services").wait_for()
        await page.goto(server.url + "/settings/services")
        bag = server.url.replace("localhost", "127.0.0.1") + "/bag"  # another host opens a tab
        await page.get_by_label("Service", exact=True).select_option("Wallabag")
        await page.get_by_label("Address", exact=True).fill(bag)
        await here.press("Add")
        await page.goto(server.url + "/channel/home?show=all")
        await page.keyboard.press("ArrowRight")
        link = page.locator(".post:focus .service").first
        wanted = await link.get_attribute("href")
        assert (wanted or "").startswith(f"{bag}/bookmarklet?url=http")
        async with page.context.expect_page() as opening:
            await page.keyboard.press("w")
        assert (await opening.value).url == wanted
        await page.goto(server.url + "/settings/services")
        async with page.expect_navigation(wait_until="load"):
            await page.get_by_role("button", name="Remove").click()
        await page.goto(server.url + "/settings/shortcuts")
        await here.press("Restore the usual keys")


async def test_own_keys_leave_controls_theirs(browser: Browser, server: ReadingServer) -> None:
    """Arrows still change a choice; and Shift, which some keyboards need for `/` too, doesn't end a sequence."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "fay", "/settings/shortcuts")
        await page.get_by_label("go to saved posts").fill("ArrowDown")
        await page.get_by_label("go to the page of your channels").fill("g E")
        await here.press("Save changes")
        await page.goto(server.url + "/display")
        choices = page.locator("[name=theme]")
        await choices.first.focus()
        await page.keyboard.press("ArrowDown")
        await expect(choices.nth(1)).to_be_checked()
        await here.keys("g", "Shift+E")
        await page.wait_for_url("**/channels")
        await page.goto(server.url + "/settings/shortcuts")
        await here.press("Restore the usual keys")


async def test_a_post_that_cannot_be_fetched_is_opened_by_its_page(browser: Browser, server: ReadingServer) -> None:
    """The page then says why; and a double click opens a post once."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "cat", "/channel/home?show=all", "List")
        row = page.locator(".post").nth(2)

        async def late(route: Route) -> None:
            await asyncio.sleep(0.5)
            await route.continue_()

        await page.route("**/post/*", late, times=1)
        await row.locator(".text").dblclick(position={"x": 3, "y": 3})
        await row.get_by_text("The end of it.").wait_for()
        await page.keyboard.press("o")
        await page.wait_for_function("() => !document.querySelector('.post.is-open')")
        await page.route("**/post/*", lambda route: route.fulfill(status=503), times=1)
        await page.locator(".post h2 a").nth(5).click()
        await page.wait_for_url("**/post/*")
        here.troubles.clear()


async def test_a_heading_stands_above_the_first_post_of_its_day(browser: Browser, server: ReadingServer) -> None:
    """In each view; and a click on it opens nothing."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/home?show=all")
        await page.get_by_text("Order").click()
        async with page.expect_navigation(wait_until="load"):
            await page.get_by_role("button", name="Headings for days").click()
        for view, width in itertools.product(("List", "Cards", "Full"), (1280, 390)):
            await page.set_viewport_size({"width": width, "height": 844})
            await look(page, view)
            heading = page.locator(".group").first
            above, title = await heading.bounding_box(), await page.locator(".post h2").first.bounding_box()
            assert above is not None
            assert title is not None
            assert above["y"] + above["height"] <= title["y"]
            await heading.click()
            assert await page.locator(".post.is-open").count() == 0


async def test_space_reads_a_list_line_by_line(browser: Browser, server: ReadingServer) -> None:
    """It opens the line that has the focus, pages down in it, and opens the very next one at its end."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "eve", "/channel/home", "List")
        await page.keyboard.press("N")
        for number in range(4):
            row = page.locator(".post").nth(number)
            # Pressed again only after a step has ended: two steps at once would open two posts.
            while not await row.evaluate("post => post.matches('.is-open.is-read')"):
                before = await page.evaluate(STEP)
                await page.keyboard.press("Space")
                ended = f"before => !document.querySelector('.post[aria-busy=true]') && {STEP} !== before"
                await page.wait_for_function(ended, arg=before)
            await row.get_by_text("The end of it.").wait_for()
            assert await row.evaluate("post => post === document.activeElement && post.matches('.is-open')")
        await page.keyboard.press("N")
        await expect(page.locator(".post").nth(4)).to_have_class(re.compile("is-open"))
        assert await page.locator(".post.is-open").count() == 1


async def test_full_posts_that_are_left_are_read(browser: Browser, server: ReadingServer) -> None:
    """By the next unread one and by Space, also the last one of a channel; a line that wasn't opened stays unread. The
    number in the tab's title is there before the script.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "gus", "/channel/more", "Full")
        await page.keyboard.press("N")
        assert await page.locator(".post.is-read").count() == 0
        await page.keyboard.press("N")
        await page.wait_for_function("() => document.querySelector('.post').matches('.is-read')")
        assert await page.locator(".post.is-read").count() == 1
        async with page.expect_event("load"):
            for _ in range(5):
                await page.keyboard.press("Space")
        assert page.url.startswith(f"{server.url}/channel/home")
        # A late Space may have left a post of the next page.
        assert re.search(r"<title>\(\d+\) Home", re.sub(" data-total=[^>]*", "", await (await page.reload()).text()))
        assert re.fullmatch(r"\(\d+\) Home – Reader", await page.title())
        await look(page, "List")
        await page.keyboard.press("N")
        await page.keyboard.press("N")
        assert await page.locator(".post.is-read").count() == 0


async def test_a_finished_channel_is_undone_in_the_next_one(browser: Browser, server: ReadingServer) -> None:
    """Undo is shown there too, and its key works; later pages don't show it."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/more")
        total = await page.title()
        await page.keyboard.press("M")
        await page.wait_for_url("**/channel/home#first")
        await page.get_by_text("2 posts marked as read in More.").wait_for()
        await page.keyboard.press("z")
        await page.get_by_text("2 posts marked as unread in More.").wait_for()
        assert (await page.title()).split()[0] == total.split()[0]
        await page.reload()
        assert not await page.locator("#done p").is_visible()


async def test_a_page_of_a_list_is_finished_by_one_key(browser: Browser, server: ReadingServer) -> None:
    """Its posts alone are marked, not those loaded ahead or left above; the next page follows, then the next channel.

    The menu beside *Mark all as read* and the end of the list have a button for it, and the key takes back each mark.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/home", "Full")
        read, said = page.locator(".post.is-read"), page.locator("#done [data-text]")
        at = "[...document.querySelectorAll('.post')].indexOf(document.activeElement)"
        await page.locator("#older").scroll_into_view_if_needed()
        await expect(page.locator(".post")).to_have_count(COUNT)
        await page.locator(".post").nth(2).focus()
        await page.keyboard.press("T")
        await expect(said).to_have_text("20 posts marked as read in Home.")
        await expect(read).to_have_count(20)
        await page.wait_for_function(f"() => {at} === 20")
        await page.keyboard.press("z")
        await expect(read).to_have_count(0)
        await page.get_by_title("More ways to mark as read").click()
        told = await here.holds("**/marks")
        await page.get_by_role("button", name="Mark this page as read, then go on").first.click()
        await expect(read).to_have_count(20)
        await expect(page.locator(".post").nth(19)).to_have_class(re.compile("is-read"))
        await page.keyboard.press("z")  # before the server has replied
        told.set()
        await expect(read).to_have_count(0)
        await page.locator(".paging").get_by_role("button", name="Mark this page as read, then go on").click()
        await page.wait_for_url("**/channel/more#first")
        await expect(said).to_have_text("20 posts marked as read in Home.")
        await page.keyboard.press("z")
        await expect(page.locator("[data-channel=home] [data-count]")).to_have_text(str(COUNT))


async def test_marks_in_a_row_are_undone_by_one_key(browser: Browser, server: ReadingServer) -> None:
    """On a later page, the last one first: each message says which marks the key undoes next."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/more")
        total = await page.title()
        await page.keyboard.press("M")
        await page.wait_for_url("**/channel/home#first")
        await page.keyboard.press("A")
        said = page.locator("#done [data-text]")
        await expect(said).to_have_text(re.compile(r"\d+ posts marked as read in Home\."))
        await here.context.clear_cookies()
        await server.sign_in(here, "fay", "/channel/more")  # in the same tab
        await page.keyboard.press("z")
        await expect(said).to_have_text("There is nothing to undo.")
        await server.sign_in(here, "dan", "/channel/more")
        async with page.expect_event("load"):
            await here.keys("g", "a")
        for told in (
            re.compile(r"^\d+ posts marked as unread in Home\. Before that: 2 posts marked as read in More\.$"),
            "2 posts marked as unread in More.",
            "There is nothing to undo.",
        ):
            await page.keyboard.press("z")
            await expect(said).to_have_text(told)
        assert (await page.title()).split()[0] == total.split()[0]


async def test_a_mark_is_undone_on_later_pages(browser: Browser, server: ReadingServer) -> None:
    """By key, in whatever way they were reached, and if older posts came while a channel was being finished."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "fay", "/channel/more")
        await page.keyboard.press("A")
        await page.get_by_text("2 posts marked as read in More.").wait_for()
        for keys in (("K",), ("g", "f"), ("g", "a")):
            async with page.expect_event("load"):
                await here.keys(*keys)
        await page.get_by_text("2 posts marked as read in More.").wait_for()
        await page.keyboard.press("z")
        await page.get_by_text("2 posts marked as unread in More.").wait_for()
        await page.goto(server.url + "/channel/more")

        async def meanwhile(route: Route) -> None:
            await page.evaluate(
                "() => { const old = document.getElementById('older'); old.innerHTML = old.innerHTML; }"
            )
            await route.continue_()

        await page.route("**/marks/all", meanwhile)
        await page.keyboard.press("M")
        await page.wait_for_url("**/channel/home#first")
        await page.keyboard.press("z")
        await page.get_by_text("2 posts marked as unread in More.").wait_for()
        await page.goto(server.url + "/channel/more")
        assert not await page.locator("#done p").is_visible()
        await page.keyboard.press("A")
        await page.get_by_text("2 posts marked as read in More.").wait_for()
        await page.locator("#done [data-close]").click()
        await page.goto(server.url + "/channel/more?show=all")
        async with page.expect_event("load"):
            await page.goto(server.url + (await page.locator(".post h2 a").first.get_attribute("href") or ""))
        assert not await page.locator("#done p").is_visible()
        for key, said in (
            ("s", "Saved."),
            ("z", "Undone. Removed from saved posts."),
            ("z", "2 posts marked as unread in More."),  # for as long as the server can undo it
        ):
            await page.keyboard.press(key)
            await expect(page.locator("#done [data-text]")).to_have_text(said)
        await page.goto(server.url + "/channel/more?show=all")
        await page.keyboard.press("m")
        await expect(page.locator(".post.is-read")).to_have_count(1)
        async with page.expect_event("load"):
            await page.keyboard.press("J")
        await page.keyboard.press("z")
        await expect(page.locator("[data-channel=more] [data-count]")).to_have_text("2")


async def test_messages_leave_titles_and_actions_in_view(browser: Browser, server: ReadingServer) -> None:
    """On a desk they stand below the channels, whose list ends above them, in a list and on the page of a post."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "xia", "/channel/home?show=all")
        await page.set_viewport_size({"width": 1280, "height": 300})
        below = """() => {
            const box = (one) => document.querySelector(one).getBoundingClientRect();
            const said = box("#done p");
            return said.height > 0 && box("#channels").bottom <= said.top && said.right < box("main").left;
        }"""
        between = """() => document.querySelector("#done p").getBoundingClientRect().top
            - document.querySelector("#channels").getBoundingClientRect().bottom"""
        for path in ("/channel/home?show=all", await page.locator(".post h2 a").first.get_attribute("href")):
            await page.goto(f"{server.url}{path}")
            whole = "document.getElementById('channels').offsetHeight"
            before = await page.evaluate(whole)
            await here.keys("s", "z")
            await page.wait_for_function(below)
            await page.evaluate("scrollTo(0, 150)")
            await page.wait_for_function(f"() => ({below})() && ({between})() < 49")
            await page.evaluate("scrollTo(0, 0)")
            await page.wait_for_function(below)
            await page.locator("#done p").evaluate("(it) => (it.hidden = true)")
            await page.wait_for_function(f"before => {whole} === before", arg=before)


async def test_escape_leads_back_to_the_list(browser: Browser, server: ReadingServer) -> None:
    """From a field that a key has reached, and from the menus of the heading."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "eve", "/channel/home?show=all")
        await here.keys("j", "/")
        await expect(page.locator("#channels input")).to_be_focused()
        await here.keys("Escape", "j")
        await expect(page.locator(".post").nth(1)).to_be_focused()
        for menu in (".looks details", ".marking details"):
            await page.locator(f"{menu} summary").press("Enter")
            await page.locator(f"{menu}[open]").wait_for()
            await page.keyboard.press("Escape")
            await expect(page.locator(f"{menu}:not([open]) summary")).to_be_focused()
        await page.keyboard.press("/")
        await page.keyboard.type("lighthouse")
        await here.keys("Escape", "Escape", "j")
        await expect(page.locator("#channels input")).to_have_value("")


async def test_a_compact_list_shows_more_posts(browser: Browser, server: ReadingServer) -> None:
    """With the same titles; and so do cards."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "eve", "/channel/home?show=all")
        for view in ("List", "Cards"):
            await look(page, view)
            height = "document.querySelector('[role=feed]').offsetHeight"
            comfortable = await page.evaluate(height)
            title = "getComputedStyle(document.querySelector('.post h2')).fontSize"
            size = await page.evaluate(title)
            await page.evaluate("document.documentElement.dataset.density = 'compact'")
            assert await page.evaluate(height) < comfortable
            assert await page.evaluate(title) == size


async def test_an_open_post_has_its_times_as_others(browser: Browser, server: ReadingServer) -> None:
    """In the browser's time zone. Without a network, the list stays, and says why a post doesn't open."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "eve", "/channel/home?show=all", "List")
        time = "2026-12-06T13:53:48+00:00"
        body = f"<main><div data-body><p>When: <time datetime={time}>{time}</time></div>"
        await page.route("**/post/*", lambda route: route.fulfill(content_type="text/html", body=body))
        await here.keys("j", "o")
        await expect(page.locator(".is-open time").last).to_contain_text("Dec")
        await page.unroute("**/post/*")
        await here.context.set_offline(True)
        await page.keyboard.press("j")  # fetched before
        await page.locator(".post:nth-child(2).is-open").wait_for()
        await page.keyboard.press("j")
        await page.get_by_text("You are offline, and this browser hasn’t kept this post.").wait_for()
        assert await page.locator(".is-open").count() == 1
        here.troubles.clear()


async def test_a_closed_post_stays_in_view(browser: Browser, server: ReadingServer) -> None:
    """Also if it is closed at its end, so that nothing of it would be left where it ended."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "eve", "/channel/home?show=all", "List")
        await page.set_viewport_size({"width": 390, "height": 300})
        row = page.locator(".post").nth(3)
        await row.locator("h2 a").click()
        await row.get_by_text("The end of it.").wait_for()
        await row.get_by_role("button", name="Mark read up to here").scroll_into_view_if_needed()
        await page.keyboard.press("o")
        await page.wait_for_function("() => !document.querySelector('.post.is-open')")
        assert await row.evaluate("post => post.getBoundingClientRect().top") >= 0


async def test_the_bottom_bar_covers_nothing_that_has_the_focus(browser: Browser, server: ReadingServer) -> None:
    """On a phone with a keyboard, from the first control to the last line."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "eve", "/channel/home?show=all", "List")
        await page.set_viewport_size({"width": 390, "height": 500})
        for _ in range(60):
            await page.keyboard.press("Tab")
            await page.wait_for_function("""() => {
                const [at, bar] = [document.activeElement, document.querySelector(".bottom")];
                return bar.contains(at) || at.getBoundingClientRect().bottom <= bar.getBoundingClientRect().top;
            }""")


async def swipe(input_: CDPSession, row: Locator, far: float, down: float = 0, start: float = 195) -> None:
    """Moves a finger over a post."""
    box = await row.bounding_box()
    assert box is not None
    y = box["y"] + 20
    steps = [("touchStart", 0.0), *[("touchMove", step / 8) for step in range(1, 9)], ("touchEnd", None)]
    events = [
        {"type": kind, "touchPoints": [] if part is None else [{"x": start + far * part, "y": y + down * part}]}
        for kind, part in steps
    ]
    # All at once: a finger that rests for half a second selects text.
    await asyncio.gather(*(input_.send("Input.dispatchTouchEvent", event) for event in events))


async def test_the_message_of_a_swipe_soon_leaves_what_it_covers(browser: Browser, server: ReadingServer) -> None:
    """Its undo is beside it. One about many posts, which can't be changed back one by one, stays until closed."""
    context = await browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = await server.sign_in(Tab(context, await context.new_page()), "viv", "/channel/home?show=all")
    await page.clock.install()
    await page.reload()
    await page.locator(".swipes").wait_for()
    said = page.locator("#done p")
    input_ = await context.new_cdp_session(page)
    await swipe(input_, page.locator(".post").first, -120)
    await expect(said).to_contain_text("Saved.")
    places = [await said.locator(part).bounding_box() or {} for part in ("[data-text]", "[form=undo]")]
    assert places[0]["x"] + places[0]["width"] <= places[1]["x"]
    await said.get_by_role("button", name="Undo").click()
    await swipe(input_, page.locator(".post").first, 120)
    await expect(said).to_contain_text("Marked as")
    await page.clock.fast_forward(9000)
    await expect(said).to_be_hidden()
    await page.get_by_role("button", name="Mark all as read").click()
    await expect(said).to_contain_text("marked as read")
    await page.clock.fast_forward(9000)
    await expect(said).to_be_visible()
    await said.get_by_role("button", name="Close").click()
    await expect(said).to_be_hidden()
    await page.reload()
    await page.locator(".swipes").wait_for()
    await expect(said).to_be_hidden()
    await context.close()


async def test_another_tab_shows_what_is_read(browser: Browser, server: ReadingServer) -> None:
    """Of the same channel and of All, also with the oldest posts first; and which channels have feeds that fail."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "tim", "/channel/home?show=all")
        other = await here.context.new_page()
        signs = other.locator("#channels [data-channel=home] ~ .attention")

        async def with_sign(route: Route) -> None:
            reply = await route.fetch()
            sign = "<a class=attention href=/channels>2</a>"
            await route.fulfill(response=reply, json={**await reply.json(), "signs": {"home": sign}})

        for path in ("/channel/home?show=all", "/channel/global?show=all", ""):
            if path:
                await other.goto(server.url + path)
            else:
                await page.locator("summary", has_text="Order").click()
                async with page.expect_event("load"):
                    await page.get_by_role("button", name="Oldest first").click()
                await other.goto(page.url)
            await page.locator(".post").nth(1).focus()
            there = other.locator(f"#{await page.locator('.post').nth(1).get_attribute('id')}")
            await page.keyboard.press("m")
            await expect(there).to_have_class(re.compile("is-read"))
            await expect(other.locator(".post.is-read")).to_have_count(1)
            await page.keyboard.press("s")
            await expect(there.locator("[data-act=save]")).to_have_attribute("aria-pressed", "true")
            await page.keyboard.press("A")
            await expect(
                other.locator(f"#{await page.locator('.post').first.get_attribute('id')}.is-read")
            ).to_have_count(1)
            await page.keyboard.press("z")
            await expect(other.locator(".post.is-read")).to_have_count(1)
            await page.locator(".post").nth(1).focus()
            await page.keyboard.press("m")
            await page.keyboard.press("s")
            await expect(other.locator(".post.is-read")).to_have_count(0)
        for count in (1, 0):
            await (other.route("**/news?*", with_sign) if count else other.unroute("**/news?*"))
            await page.keyboard.press("s")
            await expect(signs).to_have_text(["2"] * count)
            if count:
                await signs.focus()
        await expect(other.locator("#channels [data-channel=home]")).to_be_focused()  # the sign that had it is gone


async def test_the_last_mark_of_a_post_is_undone_by_key(browser: Browser, server: ReadingServer) -> None:
    """The newest action first; then it is said that there is none, and which episode doesn't play."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "uma", "/channel/home?show=all")
        first, said = page.locator(".post").first, page.locator("#done [data-text]")
        await page.keyboard.press("z")
        await expect(said).to_have_text("There is nothing to undo.")
        await page.keyboard.press("t")
        await expect(said).to_contain_text("marked as read in Home.")
        await page.locator(".post").nth(3).focus()
        await page.keyboard.press("m")
        await expect(page.locator(".post.is-read")).to_have_count(2)
        await page.keyboard.press("z")
        await expect(said).to_have_text("Undone. Marked as unread. Before that: 1 post marked as read in Home.")
        await expect(page.locator(".post.is-read")).to_have_count(1)
        await expect(first).to_have_class(re.compile("is-read"))
        await page.keyboard.press("s")
        await expect(page.locator("[data-act=save][aria-pressed=true]")).to_have_count(1)
        await page.keyboard.press("P")
        await expect(said).to_have_text("There is no episode here to play.")
        await page.keyboard.press("z")
        await expect(page.locator("[data-act=save][aria-pressed=true]")).to_have_count(0)
        await expect(said).to_have_text("Undone. Removed from saved posts. Before that: 1 post marked as read in Home.")
        await page.keyboard.press("P")
        await expect(said).to_have_text("There is no episode here to play.")
        await page.keyboard.press("z")
        await expect(said).to_have_text("1 post marked as unread in Home.")
        await expect(page.locator(".post.is-read")).to_have_count(0)
        await page.keyboard.press("z")
        await expect(said).to_have_text("There is nothing to undo.")


async def test_a_mark_before_that_of_all_posts_stays(browser: Browser, server: ReadingServer) -> None:
    """Also when the later ones can't be undone any more; what the server refuses isn't called undone."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "uma", "/channel/more?show=all")
        await page.clock.install()
        await page.reload()
        said, read = page.locator("#done [data-text]"), page.locator(".post.is-read")
        await page.keyboard.press("m")
        await expect(read).to_have_count(1)
        await page.keyboard.press("A")
        await expect(said).to_have_text("1 post marked as read in More.")
        await page.clock.fast_forward(61000)
        await expect(said).to_be_hidden()
        await page.clock.fast_forward(540000)
        await page.keyboard.press("z")
        await expect(said).to_have_text("There is nothing to undo.")
        async with page.expect_response("**/marks"):
            await page.keyboard.press("m")
        await expect(read).to_have_count(1)
        refusal = "<p role=alert>Not now.</p>"
        await page.route("**/marks", lambda route: route.fulfill(status=503, content_type="text/html", body=refusal))
        await page.keyboard.press("z")
        await expect(said).to_have_text("Not now.")
        await expect(read).to_have_count(1)


async def test_keys_find_nothing_unread(browser: Browser, server: ReadingServer) -> None:
    """In a list that was read, and where no other channel has unread posts."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "yan", "/channel/global")
        await page.keyboard.press("A")
        await page.get_by_text("marked as read in All.").wait_for()
        await page.locator("#done").get_by_role("button", name="Close").click()
        await page.goto(server.url + "/channel/home")
        said = page.locator("#done [data-text]")
        for key, text in (
            ("A", "There is no unread post here."),
            ("J", "No other channel has unread posts."),
            ("A", "There is no unread post here."),
            ("N", "No other channel has unread posts."),
            ("A", "There is no unread post here."),
            ("M", "No other channel has unread posts."),
            ("A", "There is no unread post here."),
            ("T", "No other channel has unread posts."),
        ):
            await page.keyboard.press(key)
            await expect(said).to_have_text(text)
        await here.context.set_offline(True)
        await page.keyboard.press("M")
        await expect(said).to_have_text("You are offline. Only what this browser has kept can be read.")
        await here.context.set_offline(False)
        here.troubles.clear()
        await page.goto(server.url + "/channel/home?show=all")
        await page.keyboard.press("m")
        await expect(page.locator(".post:not(.is-read)")).to_have_count(1)
        await page.keyboard.press("A")
        await page.get_by_text("1 post marked as read in Home.").wait_for()
        await page.keyboard.press("J")
        await page.keyboard.press("z")
        await expect(page.locator(".post:not(.is-read)")).to_have_count(1)
        # A list of unread posts that was emptied, on the way back: its page has no button.
        await page.goto(server.url + "/channel/home")
        await page.keyboard.press("A")
        await page.get_by_text("1 post marked as read in Home.").wait_for()
        async with page.expect_event("load"):
            await page.locator(".post h2 a").click()
        await page.go_back()
        for key in "AM":
            async with page.expect_response("**/marks"):
                await page.keyboard.press("m")
            await expect(page.locator(".post:not(.is-read)")).to_have_count(1)
            await page.keyboard.press(key)
            await page.get_by_text("1 post marked as read in Home.").wait_for()
            await expect(page.locator(".post.is-read")).to_have_count(1)
        await page.keyboard.press("z")
        await expect(page.locator(".post:not(.is-read)")).to_have_count(1)


async def test_keys_without_a_message_about_other_channels(browser: Browser, server: ReadingServer) -> None:
    """Where there are unread posts for which the key doesn't look, and in a window without room for the channels."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "zoe", "/channel/more?show=all")
        said = page.locator("#done [data-text]")  # kept when the message goes
        await page.locator(".post").last.focus()
        for key, text in (
            ("j", "No more posts. J opens Home."),
            ("j", "No more posts. J opens Home."),
            ("t", "2 posts marked as read in More."),
            ("n", "No more posts. J opens Home. Before that: 2 posts marked as read in More."),
            ("z", "2 posts marked as unread in More."),
        ):
            await page.keyboard.press(key)
            await expect(said).to_have_text(text)
        for path, keys in (("/channel/global", "K"), ("/search?q=Short", "mN")):
            await page.goto(server.url + path)
            await page.locator(".post").last.focus()
            for key in keys:
                await page.keyboard.press(key)
            await expect(said).to_have_text("")
        await page.goto(server.url + "/channel/more?show=all")
        async with page.expect_event("load"):
            await page.locator(".post h2 a").last.click()
        await page.keyboard.press("M")
        await expect(said).to_have_text("")
        await page.keyboard.press("j")
        await expect(said).to_have_text("No more posts. J opens Home.")
        await page.set_viewport_size({"width": 600, "height": 800})
        await page.goto(server.url + "/channel/more")
        async with page.expect_event("load"):
            await page.keyboard.press("J")
        assert page.url == server.url + "/channel/home"


async def test_swipes_in_a_list_mark_and_save(browser: Browser, server: ReadingServer) -> None:
    """By touch on a phone: right marks a post as read or unread, left saves it, and each can be undone. Short swipes
    and vertical ones do nothing, nor do swipes that begin at the edge of the screen.
    """
    context = await browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = await server.sign_in(Tab(context, await context.new_page()), "fay", "/channel/home?show=all")
    input_ = await context.new_cdp_session(page)

    for view in ("List", "Full"):
        await look(page, view)
        await page.locator(".swipes").wait_for()
        row, undo = page.locator(".post").first, page.get_by_role("button", name="Undo")
        for far, said, state in (
            (120, "Marked as read.", ".is-read"),
            (120, "Marked as unread.", ":not(.is-read)"),
            (-120, "Saved.", ":has([data-act=save][aria-pressed=true])"),
            (-120, "Removed from saved posts.", ":has([data-act=save][aria-pressed=false])"),
        ):
            was = await row.evaluate("(post, state) => !post.matches(state)", state)
            assert was
            await swipe(input_, row, far)
            await page.get_by_text(said, exact=True).wait_for()
            assert await row.evaluate("(post, state) => post.matches(state)", state)
            await undo.click()
            await page.get_by_text(re.compile(r"^Undone\.")).wait_for()
            assert not await row.evaluate("(post, state) => post.matches(state)", state)
            await swipe(input_, row, far, start=355 if far < 0 else 195)  # from the star
            await page.get_by_text(said, exact=True).wait_for()
        await page.reload()
        await page.locator(".swipes").wait_for()
        for other in ({"far": 40}, {"far": 60, "down": -90}, {"far": 120, "start": 10}):
            await swipe(input_, row, **other)  # type: ignore[arg-type]
        assert await page.locator(".post.is-read, .post.is-swiped, [data-act=save][aria-pressed=true]").count() == 0
        assert not await page.locator("#done p").is_visible()
    await context.close()


async def test_keys_open_the_next_post_where_one_is_open(browser: Browser, server: ReadingServer) -> None:
    """`j` and `k` do, `n` and `p` only move; without an open post all of them only move."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/home?show=all", "List")
        posts, press = page.locator(".post"), page.keyboard.press
        await here.keys("j", "j")
        await expect(posts.nth(1)).to_be_focused()
        await expect(page.locator(".is-open")).to_have_count(0)
        await press("o")
        for key, place in (("j", 2), ("j", 3), ("k", 2)):
            await press(key)
            await expect(posts.nth(place)).to_be_focused()
            await expect(posts.nth(place)).to_have_class(re.compile("is-open"))
            await expect(page.locator(".is-open")).to_have_count(1)
        for key, place in (("n", 3), ("n", 4), ("p", 3)):
            await press(key)
            await expect(posts.nth(place)).to_be_focused()
            await expect(posts.nth(2)).to_have_class(re.compile("is-open"))
        await expect(page.locator(".is-open")).to_have_count(1)
        ring = "parseFloat(getComputedStyle(document.activeElement).outlineOffset)"
        assert await page.evaluate(ring) <= -2  # it lies over no neighbour


async def list_read_from_the_first(here: Tab, server: ReadingServer) -> tuple[Page, list[str], list[str]]:
    """A list whose first post is being opened, the ids of its posts, and those that have been requested."""
    await here.intercepts()
    page = await server.sign_in(here, "dan", "/channel/home?show=all")
    await look(page, "List")
    asked: list[str] = []

    async def note(route: Route) -> None:
        asked.append(route.request.url.rpartition("/")[2])
        await route.continue_()

    await page.route("**/post/*", note)
    ids = await page.evaluate("[...document.querySelectorAll('.post')].map((post) => post.dataset.id)")
    await here.keys("j", "o")
    return page, ids, asked


async def test_the_next_post_is_fetched_in_advance(browser: Browser, server: ReadingServer) -> None:
    """Opening it needs no further request for it; browsers that save data fetch nothing in advance."""
    async with tab(browser) as here:
        page, ids, asked = await list_read_from_the_first(here, server)
        for place in range(3):
            await page.locator(f"#post-{ids[place]}.is-open").wait_for()
            await wait_until(lambda place=place: asked == ids[: place + 2])
            await page.keyboard.press("j")
        await page.evaluate("Object.defineProperty(navigator, 'connection', {value: {saveData: true}})")
        for place in (3, 4):
            await page.locator(f"#post-{ids[place]}.is-open").wait_for()
            await page.keyboard.press("j")
        await page.locator(f"#post-{ids[5]}.is-open").wait_for()
        assert asked == ids[:6]


async def test_a_post_that_was_open_opens_again_without_a_request(browser: Browser, server: ReadingServer) -> None:
    """With its whole text, forwards and backwards; of the posts opened long ago, the text is fetched again."""
    async with tab(browser) as here:
        page, ids, asked = await list_read_from_the_first(here, server)
        for key, place in (("j", 0), ("j", 1), ("k", 2), ("k", 1), ("j", 0), ("j", 1), ("o", 2)):
            await page.locator(f"#post-{ids[place]}.is-open").get_by_text("The end of it.").wait_for()
            await wait_until(lambda place=place: ids[place + 1] in asked)
            await page.keyboard.press(key)
        await page.locator(f"#post-{ids[2]}:not(.is-open)").wait_for()
        assert asked == ids[:4]
        await page.keyboard.press("o")
        for place in range(2, 14):
            await page.locator(f"#post-{ids[place]}.is-open").wait_for()
            await page.keyboard.press("j")
        await page.locator(f"#post-{ids[14]}.is-open").wait_for()
        assert asked.count(ids[0]) == 1
        await page.locator(f"#post-{ids[0]}").focus()
        await page.keyboard.press("o")
        await page.locator(f"#post-{ids[0]}.is-open").get_by_text("The end of it.").wait_for()
        assert asked.count(ids[0]) == 2


async def test_the_full_text_comes_in_place(browser: Browser, server: ReadingServer) -> None:
    """By one key in an open post, with a word while it is fetched; after an error, the text stays.

    Of a feed that cuts its posts, by itself: in a list, and on the post's own page. Until the text is here or can't be
    had, there is a line about it in view, and for screen readers; nothing moves when it goes.
    """
    async with tab(browser) as here:
        await here.intercepts()
        await here.page.add_init_script(
            "window.shifts = 0; new PerformanceObserver(l => l.getEntries().forEach(e => window.shifts += e.value))"
            ".observe({type: 'layout-shift', buffered: true});"
        )
        page = await server.sign_in(here, "dan", "/channel/home?show=all", "List")
        address, arrived = page.url, asyncio.Event()
        await here.keys("j", "o")
        post = page.locator(".is-open")
        await post.get_by_text("The end of it.").wait_for()
        await page.keyboard.press("d")
        await expect(page.locator("#done")).to_contain_text("posts.test")
        await expect(post).to_contain_text("The end of it.")

        async def later(route: Route) -> None:
            await arrived.wait()
            link = '<p class="more"><a href="x?text=own" data-full-text data-waits="Fetching">Text of the feed</a></p>'
            content = '<div class="content"><p>All of it.</p></div>'
            await route.fulfill(content_type="text/html", body=f"<main><div data-body>{content}{link}</div>")

        await page.route("**/post/*/text", later)
        await page.keyboard.press("d")
        await expect(post.get_by_role("button", name="Getting the full text …")).to_be_visible()
        arrived.set()
        await expect(post).to_contain_text("All of it.")
        await expect(post).to_be_focused()
        arrived.clear()
        await here.keys("j", "d")
        await expect(post.get_by_role("button", name="Getting the full text …")).to_be_visible()
        left = await post.get_attribute("id")
        await page.keyboard.press("j")
        await page.locator(f".is-open:not(#{left}):focus").wait_for()
        async with page.expect_event("requestfinished"):
            arrived.set()
        await page.locator(f"#{left}[aria-busy=false]").wait_for()
        await expect(post).to_be_focused()
        await expect(page.locator(f"#{left}")).not_to_contain_text("All of it.")
        await here.keys("o", "d")  # of a closed one, too
        await expect(post).to_contain_text("All of it.")
        await post.evaluate("post => post.querySelector('[data-full-text]').remove()")
        await page.keyboard.press("d")
        await page.get_by_text("No other text of this post can be fetched.").wait_for()
        assert page.url == address

        async def cut(route: Route) -> None:
            reply = await route.fetch()
            said = (await reply.text()).replace("data-full-text", "data-full-text data-at-once")
            await route.fulfill(response=reply, body=said)

        async def fails(route: Route) -> None:
            await arrived.wait()
            await route.abort()

        await page.route("**/post/*", cut)
        for answer in (fails, later):
            arrived.clear()
            await page.route("**/post/*/text", answer)
            await page.reload()
            await here.keys("j", "o")
            await expect(post.get_by_role("status")).to_have_text("Getting the full text …")
            await expect(post.get_by_role("button", name="Getting the full text …")).to_be_in_viewport(ratio=1)
            if answer is fails:
                await page.evaluate("window.shifts = 0")
                arrived.set()
                await expect(post.get_by_role("status")).to_have_text("")
                await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
                assert await page.evaluate("window.shifts") == 0
        arrived.set()
        await expect(post).to_contain_text("All of it.")
        await expect(post.get_by_role("link", name="Text of the feed")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        async with page.expect_response("**/marks"):
            await here.keys("o", "d", "m")  # opens it with the text that it has
        await expect(post).to_contain_text("All of it.")
        assert not [url for url in asked if "text=own" in url]
        await page.goto(f"{server.url}/post/{await post.get_attribute('data-id')}")
        await expect(page.locator(".post.whole .content")).to_have_text("All of it.")


@pytest.mark.parametrize("view", ["Cards", "Full"])
async def test_the_key_of_the_full_text_works_in_every_view(browser: Browser, server: ReadingServer, view: str) -> None:
    """It shows the post as a list does, with what is there for its text."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/home?show=all", view)
        await here.keys("j", "d")
        await expect(page.locator("#done")).to_contain_text("posts.test")  # where the page can't be fetched
        await expect(page.locator(".post").first).to_contain_text("The end of it.")
        await expect(page.locator(".post").first.get_by_role("button", name="Full text")).to_be_visible()


async def test_keys_of_posts_do_nothing_without_one(browser: Browser, server: ReadingServer) -> None:
    """In an empty channel."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/none")
        for key in "jkodvmst":
            await page.keyboard.press(key)
        await here.keys("g", "/")
        await page.wait_for_url("**/search")


@pytest.mark.parametrize("key", ["o", "d", "click", "A"])
async def test_a_fetch_that_ends_with_its_page_is_no_failure(browser: Browser, server: ReadingServer, key: str) -> None:
    """Firefox and Safari end it as soon as the next page is asked for: here the test does."""
    asked, left = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        if route.request.resource_type == "document":
            left.set()
            await ended.wait()
            await route.continue_()
        else:
            asked.set()
            await left.wait()
            await route.abort()
            ended.set()

    ended = asyncio.Event()
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "dan", "/channel/home?show=all", "List")
        await page.keyboard.press("j")
        for path in ("**/post/*", "**/marks/all", "**/*part=1", "**/channel/more*"):
            await page.route(path, hold)
        unfold = page.get_by_label("Feeds in Home")
        await unfold.click() if key == "click" else await page.keyboard.press(key)
        await asked.wait()
        await page.keyboard.press("J")
        await page.wait_for_url("**/channel/more*")
        assert await here.title() == "More"
        await expect(page.locator("#done p")).to_be_hidden()


async def test_keys_lead_from_channel_to_channel(browser: Browser, server: ReadingServer) -> None:
    """To those with unread posts, and in unfolded ones to feeds; the search of posts is reached from all pages."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/settings")
        for key, name in (("J", "All"), ("J", "Home"), ("J", "More"), ("J", "Home"), ("J", "More"), ("K", "Home")):
            async with page.expect_event("load"):
                await page.keyboard.press(key)
            assert await here.title() == name
        await page.get_by_label("Feeds in Home").click()
        await page.locator(".branch a").first.wait_for()
        for key, path in (("J", "/feed/"), ("J", "/channel/more"), ("K", "/feed/"), ("K", "/channel/home")):
            await page.keyboard.press(key)
            await page.wait_for_url(re.compile(path))
            await page.locator(".branch a").first.wait_for()
        for path in ("/channel/home?show=all", "/post/1"):
            await page.goto(server.url + path)
            await here.keys("j", "F") if "channel" in path else await page.keyboard.press("F")
            await page.wait_for_url(re.compile("/feed/"))
        for path in ("/feed", "/channel/home"):
            await page.goto(server.url + path)
            await here.keys("g", "/")
            await page.wait_for_url("**/search")
            await expect(page.get_by_role("searchbox", name="Words to search for")).to_be_focused()


async def test_another_view_goes_on_at_the_same_post(browser: Browser, server: ReadingServer) -> None:
    """So do all posts instead of the unread ones, a reload, and the browser's way back from the posts of a feed."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "gus", "/channel/home", "List")
        await here.keys("j", "j", "j", "j")
        place = await page.evaluate("document.activeElement.dataset.id")
        for key in ("2", "3", "1", "u", "u"):
            async with page.expect_event("load"):
                await page.keyboard.press(key)
            await expect(page.locator(f"#post-{place}")).to_be_focused()
        await page.reload()
        await expect(page.locator(f"#post-{place}")).to_be_focused()
        async with page.expect_event("load"):
            await page.keyboard.press("F")
        await page.go_back()
        await expect(page.locator(f"#post-{place}")).to_be_focused()
        unread = "document.querySelector('[data-channel=home] [data-count]').dataset.count"
        before = int(await page.evaluate(unread))
        await page.keyboard.press("o")
        await page.wait_for_function(f"() => {unread} === '{before - 1}'")
        async with page.expect_event("load"):
            await page.keyboard.press("F")
        await page.go_back()
        await expect(page.locator(f"#post-{place}.is-read.is-open")).to_be_focused()


async def test_another_view_goes_on_at_the_end_of_a_list(browser: Browser, server: ReadingServer) -> None:
    """So do all posts instead of the unread ones, though pages begin elsewhere; a read post stays if none is unread."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "gus", "/channel/home", "List")
        last = page.locator(".post").last
        await last.focus()
        for key in ("3", "u", "2", "u", "1"):
            place = page.locator(f"#{await last.get_attribute('id')}")
            async with page.expect_event("load"):
                await page.keyboard.press(key)
            await expect(place).to_be_focused()
        before = page.locator(f"#{await page.evaluate('document.activeElement.previousElementSibling.id')}")
        await page.keyboard.press("o")
        await expect(place).to_contain_class("is-read")
        async with page.expect_event("load"):
            await page.keyboard.press("2")
        await expect(before).to_be_focused()
        await page.goto(f"{server.url}/channel/more?show=all")
        while await page.locator(".post.is-read").count():
            await page.locator(".post.is-read").first.focus()
            async with page.expect_response("**/marks"):
                await page.keyboard.press("m")
        await page.goto(f"{server.url}/channel/more")
        for place in range(2):
            await page.locator(".post").nth(place).focus()
            async with page.expect_response("**/marks"):
                await page.keyboard.press("m")
        async with page.expect_event("load"):
            await page.keyboard.press("1")
        await expect(page.locator(".post").last).to_be_focused()


@pytest.mark.parametrize("view", ["List", "Cards", "Full"])
async def test_the_way_back_leads_to_the_same_place_of_the_window(
    browser: Browser, server: ReadingServer, view: str
) -> None:
    """After the page of a feed and a reload, and by the key of a post's page."""
    top = "Math.round(document.activeElement.getBoundingClientRect().top)"
    async with tab(browser) as here:
        page = await server.sign_in(here, "uma", "/channel/home?show=all", view)
        await page.set_viewport_size({"width": 1280, "height": 600})
        for number, leave in itertools.product((29, 11), ("F", "reload", "u")):
            post = page.locator(".post").filter(has_text=re.compile(rf"Post {number}\b")).first
            if not await post.count():
                await page.locator("#older").scroll_into_view_if_needed()
            await post.focus()
            await page.evaluate(f"scrollBy({{top: {top} - 250, behavior: 'instant'}})")
            left = await page.evaluate("document.activeElement.id")
            # The posts above it may be laid out only now.
            await page.evaluate(f"addEventListener('pagehide', () => sessionStorage.setItem('left at', {top}))")
            async with page.expect_event("load"):
                if leave == "F":
                    await page.keyboard.press("F")
                elif leave == "reload":
                    await page.reload()
                else:
                    path = await post.locator("h2 a").get_attribute("href")
                    await page.evaluate("path => location.assign(path)", path)
            if leave != "reload":
                async with page.expect_event("load"):
                    await (page.go_back() if leave == "F" else page.keyboard.press("u"))
            await expect(page.locator(f"#{left}")).to_be_focused()
            # Estimated heights of posts above it are a few pixels.
            await page.wait_for_function(f"() => Math.abs({top} - sessionStorage.getItem('left at')) < 24")


async def test_keys_wait_for_the_page_to_which_one_led(browser: Browser, server: ReadingServer) -> None:
    """A name typed too early for the field of the next page goes there, and neither marks nor saves posts of this one.

    So it is with the words of a search that begins too early, also on the next page before its script runs.
    """
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "gus", "/channel/home?show=all")
        come = await here.holds(f"{server.url}/channel")
        changes: list[str] = []
        page.on("request", lambda request: changes.append(request.url) if request.method == "POST" else None)
        await page.keyboard.press("j")
        await here.keys("g", "l")
        await here.keys("s", "A", "r", "J")
        come.set()
        await page.wait_for_url(f"{server.url}/channel")
        await expect(page.locator("main [type=search]:focus")).to_have_value("sArJ")
        await page.go_back()
        await page.locator(".post").first.wait_for()
        come = await here.holds(f"{server.url}/saved")
        loaded = await here.holds("**/reader.js")
        await here.keys("g", "s")
        await here.keys("/", "s", "A")
        come.set()
        await page.wait_for_url(f"{server.url}/saved", wait_until="commit")
        await page.locator("footer").wait_for()
        await here.keys("J", "t")
        loaded.set()
        await expect(page.locator("#channels [type=search]:focus")).to_have_value("sAJt")
        await page.go_back()
        assert changes == []
        await page.locator(".post").first.wait_for()
        await page.keyboard.press("s")
        await page.get_by_text("Saved.").wait_for()
        # A program for mail is no page, and the next key is for this one.
        mail = "document.activeElement.insertAdjacentHTML('beforeend', '<a class=service href=mailto:>Email</a>')"
        await page.evaluate(mail)
        left = await page.evaluate("document.activeElement.id")
        await page.keyboard.press("w")
        await page.keyboard.press("j")
        await page.locator(f".post:not(#{left}):focus").wait_for()
        here.troubles.clear()  # the browser has no such program


async def test_a_press_beside_the_posts_keeps_the_place(browser: Browser, server: ReadingServer) -> None:
    """Unless the post where one was is out of view."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "gus", "/channel/home?show=all", "List")
        await here.keys("j", "j", "j")
        await page.locator("h1").click()
        assert await page.evaluate("document.activeElement === document.body")
        await page.keyboard.press("j")
        await expect(page.locator(".post").nth(3)).to_be_focused()
        await page.locator("h1").click()
        await page.evaluate("document.querySelectorAll('.post')[1].style.marginBottom = '200vh'")
        await page.keyboard.press("j")
        await expect(page.locator(".post").first).to_be_focused()


async def test_the_open_channel_is_as_wide_as_others(browser: Browser, server: ReadingServer) -> None:
    """So that no name breaks when its channel is opened."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "gus", "/channel/home?show=all")
        name = page.locator("#channels [data-channel=home] .name")
        widths = """name => {
            const range = document.createRange();
            range.selectNodeContents(name);
            return range.getBoundingClientRect().width;
        }"""
        opened = await name.evaluate(widths)
        await page.goto(f"{server.url}/channel/global?show=all")
        assert opened == await name.evaluate(widths)


async def test_a_heading_names_a_feed_once(browser: Browser, server: ReadingServer) -> None:
    """With headings for feeds; the key to the feed of a post works there, too."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/more?show=all", "List")
        name = page.locator(".post .from > a").first
        assert await name.is_visible()
        await page.get_by_text("Order").click()
        async with page.expect_navigation(wait_until="load"):
            await page.get_by_role("button", name="Headings for feeds").click()
        assert await page.locator(".group").count() == 1
        assert not await name.is_visible()
        async with page.expect_event("load"):
            await here.keys("j", "F")
        assert "/feed/" in page.url


RIGHTMOST = """async (png) => {
  const bytes = Uint8Array.from(atob(png), (one) => one.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes]));
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d", { willReadFrequently: true });
  canvas.drawImage(image, 0, 0);
  for (let x = image.width - 1; x >= 0; x -= 1) {
    const { data } = canvas.getImageData(x, 0, 1, image.height);
    const [red, blue] = [0, 2].map((one) => data.filter((_, at) => at % 4 === one));
    if (blue.some((one) => one < 215)) {
      return red.some((one, at) => one - blue[at] > 50);
    }
  }
}"""
"""Whether the last column of pixels that isn't empty has yellow ones."""


async def test_unread_posts_have_a_dot_in_every_view(browser: Browser, server: ReadingServer) -> None:
    """Until it is marked, which moves no title, open ones included, and apart from the title in either direction.

    Cards are as wide as the line above.

    On a phone, a long word breaks beside the dot. A mark that is cut off is none of its ellipsis.
    """
    dot = """title => {
      const { content, width, insetInlineStart } = getComputedStyle(title, "::before");
      const { paddingInlineStart } = getComputedStyle(title);
      const [indent, begins, wide] = [paddingInlineStart, insetInlineStart, width].map(parseFloat);
      return content === "none" ? 0 : indent - begins - wide >= 4 && wide;
    }"""
    begins = """title => {
      const words = document.createRange();
      words.selectNodeContents(title);
      return words.getBoundingClientRect().left;
    }"""
    async with tab(browser) as here:
        page = await server.sign_in(here, "wes", "/channel/home?show=all")
        for view in ("List", "Cards", "Full"):
            await look(page, view)
            title = page.locator(".post h2 a").first
            assert await title.evaluate(dot) >= 6, view
            left = await title.evaluate(begins)
            await page.locator(".post").first.focus()
            await page.keyboard.press("m")
            await page.locator(".post.is-read").wait_for()
            assert await title.evaluate(dot) == 0, view
            assert await title.evaluate(begins) == left, view
            if view != "Full":
                await page.keyboard.press("o")
                await page.locator(".post.is-open").wait_for()
                left = await title.evaluate(begins)
            await page.keyboard.press("m")
            await page.locator(".post.is-read").wait_for(state="detached")
            assert view == "Full" or await title.evaluate(begins) == left, view
            if view == "Cards":
                heading = await page.locator(".heading").bounding_box()
                card = await page.locator(".cards").first.bounding_box()
                assert heading is not None
                assert card is not None
                assert (heading["x"], heading["width"]) == (card["x"], card["width"])
            if view != "Full":
                long = page.locator(".post h2" if view == "List" else ".post .lead").first
                await page.reload()
                await long.evaluate(
                    """one => (one.querySelector("a") ?? one).innerHTML = `<mark>${"ferry ".repeat(200)}`"""
                )
                assert not await page.evaluate(RIGHTMOST, base64.b64encode(await long.screenshot()).decode()), view
            await page.set_viewport_size({"width": 390, "height": 844})
            first = """title => {
              title.textContent = "a".repeat(200);
              const words = document.createRange();
              words.selectNodeContents(title);
              const [top, line] = [...words.getClientRects()].map((one) => one.top);
              return [title.getBoundingClientRect().top - top, line - top].map((one) => Math.abs(one) < 8);
            }"""
            assert await title.evaluate(first) == [True, False], view
            await page.set_viewport_size({"width": 1280, "height": 800})


async def test_days_are_those_of_the_browser(browser: Browser, server: ReadingServer) -> None:
    """Also where they begin earlier than in UTC; the last two are called so, on a page that stays open, too."""
    context = await browser.new_context(timezone_id="America/New_York", locale="en-GB")
    page = await server.sign_in(Tab(context, await context.new_page()), "wes", "/channel/home?show=all")
    await page.locator("summary", has_text="Order").click()
    async with page.expect_navigation(wait_until="load"):
        await page.get_by_role("button", name="Headings for days").click()
    newest = await page.locator(".post time").first.get_attribute("datetime")
    day = datetime.fromisoformat(newest or "").astimezone(ZoneInfo("America/New_York"))
    await page.clock.install(time=day + timedelta(minutes=5))
    await page.reload()
    said = [f"{at.day} {at:%B %Y}" for at in (day, day - timedelta(days=1))]
    for view in ("List", "Full"):
        await look(page, view)
        shown = [await one.text_content() for one in await page.locator(".group").all()]
        assert shown[:2] == [f"Today, {said[0]}", f"Yesterday, {said[1]}"]
    await page.clock.fast_forward("48:00:00")
    await expect(page.locator(".group").first).to_have_text(said[0])
    assert [await one.text_content() for one in await page.locator(".group").all()][:2] == said
    await context.close()


async def test_the_heading_of_a_search_is_low(browser: Browser, server: ReadingServer) -> None:
    """It has the words once, and is one line on a desk; on a phone, what is found begins in the first quarter."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/search?q=post")
        await page.set_viewport_size({"width": 1280, "height": 800})
        for language in ("en", "de"):
            await page.set_extra_http_headers({"accept-language": language})
            await page.reload()
            first, field = (
                await page.locator(".post").first.bounding_box(),
                await page.locator("main [type=search]").bounding_box(),
            )
            assert first is not None
            assert field is not None
            assert first["y"] - field["y"] < 130, language
            await page.set_viewport_size({"width": 390, "height": 844})
            first = await page.locator(".post").first.bounding_box()
            assert first is not None
            assert first["y"] <= 200, language
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), language
            await page.set_viewport_size({"width": 1280, "height": 800})
        assert [await one.input_value() for one in await page.locator("[name=q]:visible").all()] == ["", "post"]


async def test_the_heading_of_a_channel_is_one_line(browser: Browser, server: ReadingServer) -> None:
    """On a desk, with the longer words of German, too; so is that of a feed, which has its channel whole on a phone."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all")
        await page.set_viewport_size({"width": 1280, "height": 800})
        feed = await page.locator(".post [data-its-feed]").first.get_attribute("href")
        for language, path in itertools.product(("en", "de"), ("/channel/home?show=all", feed)):
            await page.set_extra_http_headers({"accept-language": language})
            await page.goto(f"{server.url}{path}")
            name, tools = await page.locator("h1").bounding_box(), await page.locator(".looks").bounding_box()
            assert name is not None
            assert tools is not None
            assert tools["y"] < name["y"] + name["height"], language
            await page.evaluate("document.querySelector('h1').textContent = 'Wissenschaft'")
            whole = await page.locator("h1").bounding_box()
            assert whole is not None
            tools = await page.locator(".looks").bounding_box()
            assert tools is not None
            assert tools["y"] < whole["y"] + whole["height"] < 110, language
            await page.evaluate("document.querySelector('h1').textContent = 'https://example.net/'.padEnd(200, 'x')")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), language
            if path == feed:
                await page.set_viewport_size({"width": 390, "height": 844})
                for known in ("Wissenschaft", "Wissenschaft und Forschung"):
                    whole_name = "(it, known) => ((it.textContent = known), it.scrollWidth <= it.clientWidth)"
                    assert await page.locator(".up").evaluate(whole_name, known), language
                assert await page.locator(".views a").first.get_attribute("class") == "up", "the way back comes first"
                await page.set_viewport_size({"width": 1280, "height": 800})


CORNERS = """all => all.filter((it) => it.checkVisibility()).map((it) => {
  const { x, y } = it.getBoundingClientRect();
  return `${it.localName} ${Math.round(x)} ${Math.round(y)} ${getComputedStyle(it).fontSize}`;
})"""


SHOWN = "#channels a, #channels input, main h1, main .views a, main th a, main p, .bottom a:has(+ a)"


async def beginning(page: Page, url: str, cut: str) -> list[str]:
    """The corners of the shown elements of a page as long as only its part before `cut` has come."""

    async def begin(route: Route) -> None:
        whole = await (await route.fetch()).text()
        assert cut in whole
        body = whole.partition(cut)[0].replace('rel="expect"', 'rel="help"')  # some browsers wait for no whole heading
        await route.fulfill(body=body, content_type="text/html")

    await page.route(url, begin)
    await page.goto(url)
    found = await page.locator(SHOWN).evaluate_all(CORNERS)
    await page.unroute(url)
    return list(found)


async def test_the_rest_of_a_page_moves_nothing(browser: Browser, server: ReadingServer) -> None:
    """A slow connection brings a page in parts: the first ones stay where they are when the rest comes.

    A page whose heading never comes is painted nevertheless, after a while.
    """
    parts = [
        *(("/saved", '<form class="looks"'), ("/feed", "<tbody>"), ("/channel/home?show=all", "<article")),
        *(("/feed", '<form method="post" action="/feed/refresh"'), ("/channels", '<a href="/follow"><svg')),
    ]
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "bea", "/channel/home?show=all", "List")
        for (path, cut), size in itertools.product(parts, (DESK, PHONE)):
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            before = await beginning(page, f"{server.url}{path}", cut)
            await page.goto(f"{server.url}{path}")
            after = await page.locator(SHOWN).evaluate_all(CORNERS)
            assert set(before) <= set(after), (path, size, set(before) - set(after))
        await expect(page.locator("link[rel=expect]")).to_have_count(0)


async def test_the_heading_of_saved_posts_is_one_line_on_a_phone(browser: Browser, server: ReadingServer) -> None:
    """In both languages; with unread ones there, two: what marks them stands beside the name, not alone on a line.

    The list of channels says at once how many are saved.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all")
        await page.keyboard.press("s")
        await page.get_by_text("Saved.").wait_for()
        await expect(page.locator("#channels [data-channel=saved] .number")).to_have_text("1")
        await page.set_viewport_size({"width": 390, "height": 844})
        for language in ("en", "de"):
            await page.set_extra_http_headers({"accept-language": language})
            await page.goto(f"{server.url}/saved")
            boxes = "['h1', '.marking', '.looks'].map((it) => document.querySelector(it).getBoundingClientRect())"
            name, mark, looks = await page.evaluate(boxes)
            assert mark["height"] == 0, language
            assert looks["top"] < name["bottom"], language
            await here.keys("j", "m")
            await page.locator(".marking").wait_for()
            name, mark, looks = await page.evaluate(boxes)
            assert mark["top"] < name["bottom"], language
            assert looks["top"] < mark["bottom"] + 16, language
            assert looks["bottom"] > mark["bottom"], language
            async with page.expect_response("**/marks"):
                await page.keyboard.press("m")


async def test_open_posts_begin_at_one_height(browser: Browser, server: ReadingServer) -> None:
    """One after the other, by keys; the line before each stays in view."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all", "List")
        await here.keys("j", "o")
        tops = set()
        for place in range(1, 13):
            await page.locator(f".post:nth-child({place}).is-open").wait_for()
            tops.add(await page.evaluate("Math.round(document.querySelector('.is-open').getBoundingClientRect().top)"))
            await page.keyboard.press("j")
        first, *others = sorted(tops, reverse=True)
        assert others[0] - others[-1] <= 1, tops  # rounded
        assert 24 <= others[0] < first


HEAD = """(post) => {
  const boxes = [post, post.previousElementSibling, ...post.querySelectorAll("h2, .from, .face, time")];
  const [own, line, ...parts] = boxes.map((one) => one.getBoundingClientRect());
  const [icon, title, from, time] = parts;
  const style = getComputedStyle(post.querySelector("h2"));
  const middle = title.top - own.top + parseFloat(style.lineHeight) / 2;
  const places = [middle, icon.top - own.top, line.top - own.top];
  return [parseFloat(style.fontSize), from.top - title.bottom, time.width, places];
}"""


@pytest.mark.parametrize("view", ["List", "Cards"])
async def test_an_open_post_has_a_head(browser: Browser, server: ReadingServer, view: str) -> None:
    """A large title, and below it the feed and the exact time, which leads to its page. In a list it has room above it,
    and its icon beside it; what stands above it stays in place.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/home?show=all", view)
        post = page.locator(".post").nth(4)
        for size in (DESK, PHONE):
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            await post.focus()
            title, _, age, before = await post.evaluate(HEAD)
            await page.keyboard.press("o")
            await post.get_by_text("The end of it.").wait_for()
            opened, gap, exact, now = await post.evaluate(HEAD)
            assert opened > 1.3 * title
            assert gap >= 0
            assert exact > 2 * age
            title_by, icon_by, line_by = (one - other for one, other in zip(now, before, strict=True))
            assert 5 <= title_by <= 10 if view == "List" else abs(title_by) <= 2, (before, now)
            assert abs(icon_by - title_by) <= 2, (before, now)
            assert abs(line_by) <= 2, (before, now)
            await page.keyboard.press("o")
            await expect(post.locator(".from a:has(time)")).to_have_count(0)
        await page.keyboard.press("o")
        await post.locator(".from a:has(time)").click()
        await page.wait_for_url("**/post/*")


async def test_all_keys_are_seen_at_once(browser: Browser, server: ReadingServer) -> None:
    async with tab(browser) as here:
        page = await server.sign_in(here, "dan", "/channel/home")
        await page.set_viewport_size({"width": 1280, "height": 800})
        for language in ("de", "en"):
            await page.set_extra_http_headers({"accept-language": language})
            await page.reload()
            await page.keyboard.press("?")
            dialog = await page.query_selector("#keys")
            assert await page.evaluate("keys => keys.scrollHeight <= keys.clientHeight", dialog), language
        await expect(page.get_by_text("Swipe right in a list")).to_be_hidden()


CHAPTERS = """<ol class=chapters><li><span>0:00</span> <a href="/" data-start=0>Tide</a> <a href="/">↗</a></li></ol>
    <div class=content><p><a href="/"><img hidden alt=""><br>Film</a></p></div>"""


async def test_a_finger_has_room(browser: Browser, server: ReadingServer) -> None:
    """Browsers there take the last place that was touched for the pointer's: it looks like the others.

    Buttons say how the post is, and nothing beside them moves. Chapters are high enough. A film whose picture fails
    leaves no gap.
    """
    context = await browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page = await server.sign_in(Tab(context, await context.new_page()), "gus", "/channel/more?show=all")
    # A tap in a list would open the post in its place, if the script came first.
    await page.goto(server.url + (await page.locator(".post h2 a").first.get_attribute("href") or ""))
    save = page.locator(".post.whole [data-act=save]")
    assert await save.inner_text() == "Save"
    corner = await page.locator(".post.whole .acts [data-original]").evaluate_all(CORNERS)
    await page.locator(".post.whole").evaluate("(it, more) => it.insertAdjacentHTML('beforeend', more)", CHAPTERS)
    for chapter in await page.locator(".chapters a").all():
        box = await chapter.bounding_box()
        assert box is not None
        assert box["height"] >= 40
    assert (
        await page.locator(".content:has(br)").last.evaluate("it => it.querySelector('br').getClientRects().length")
        == 0
    )
    await save.tap()
    await page.get_by_text("Saved.").wait_for()
    assert await save.inner_text() == "Saved"
    assert corner == await page.locator(".post.whole .acts [data-original]").evaluate_all(CORNERS)
    ground = "it => getComputedStyle(it).backgroundColor"
    assert await save.evaluate(ground) == await page.locator(".post.whole [data-original]").evaluate(ground)
    await context.close()


async def test_a_field_takes_the_focus_only_beside_a_keyboard(browser: Browser, server: ReadingServer) -> None:
    """On a phone, the keyboard would cover what else the page offers."""
    for touch in (False, True):
        context = await browser.new_context(has_touch=touch, is_mobile=touch)
        page = await server.sign_in(Tab(context, await context.new_page()), "dan", "/follow")
        for path in ("/follow", "/search", "/channel"):
            await page.goto(server.url + path)
            assert await page.evaluate("document.activeElement.matches('main input')") is not touch
        await context.close()


async def test_a_picture_is_shown_whole(browser: Browser, server: ReadingServer) -> None:
    """With its description, and the next one by key, button or swipe; Esc returns to the post, whose keys wait."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/art?show=all")
        async with page.expect_event("load"):
            await page.keyboard.press("3")
        await page.locator(".content a[data-whole]").first.press("Enter")
        shown = page.get_by_role("dialog", name="Pictures")
        await shown.get_by_text("A cat", exact=True).wait_for()
        await page.keyboard.press("ArrowRight")
        await shown.get_by_text("A dog", exact=True).wait_for()
        await page.keyboard.press("m")
        await shown.get_by_role("button", name="Next picture").click()
        await shown.get_by_text("A cat", exact=True).wait_for()
        await shown.evaluate(
            """(one) => ["touchstart", "touchend"].forEach((kind, place) => {
                const touch = new Touch({identifier: 1, target: one, clientX: 200 - 100 * place, clientY: 50});
                one.dispatchEvent(new TouchEvent(kind, {touches: place ? [] : [touch], changedTouches: [touch]}));
            })"""
        )
        await shown.get_by_text("A dog", exact=True).wait_for()
        await page.keyboard.press("Escape")
        assert not await shown.is_visible()
        assert await page.locator(".post.is-read").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
async def test_originals_open_beside_the_list(browser: Browser, server: ReadingServer, *, scripts: bool) -> None:
    """From the text, by the button and by key; the list stays as it is, with the post marked as read."""
    async with tab(browser, scripts=scripts) as here:
        page = await server.sign_in(here, "ann", "/channel/art?show=all", "Full")
        post = page.locator(".post")
        for way in ("text", "button", "key") if scripts else ("text", "button"):
            if scripts and await post.locator("[data-act=read][aria-pressed=true]").count():
                await post.locator("[data-act=read]").click()
                await expect(post).not_to_contain_class("is-read")
            async with here.context.expect_page() as opened:
                if way == "key":
                    await here.keys("j", "v")
                else:
                    await post.locator("a img[alt='A link']" if way == "text" else "[data-original]").click()
            beside = await opened.value
            if way == "text":
                assert await beside.title() == "The story"
            await beside.close()
            if scripts and way != "text":
                await expect(post).to_contain_class("is-read")
        assert page.url.endswith("/channel/art?show=all")


async def test_large_text_leaves_cards_and_pages_their_words(browser: Browser, server: ReadingServer) -> None:
    """A card with a picture has room for its title; a screen of 195 pixels is a phone's with text of twice the size."""
    width = "it => it.getBoundingClientRect().width"
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/art?show=all", "Cards")
        for screen, least in ((390, 0.55), (195, 0.9)):
            await page.set_viewport_size({"width": screen, "height": screen * 2})
            assert await page.locator(".post .thumbnail").is_visible()
            assert await page.locator(".post .text").evaluate(width) > least * await page.locator(".post").evaluate(
                width
            )
            right = "it => it.getBoundingClientRect().right"
            star, end = [await page.locator(one).evaluate(right) for one in (".post [data-act=save]", ".post")]
            assert star <= end
        await page.set_extra_http_headers({"Accept-Language": "de"})
        post = await page.locator(".post h2 a").get_attribute("href")
        for path in ("/channel/art?show=all", str(post), "/account", "/channels"):
            await page.goto(f"{server.url}{path}")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert await page.locator(".ordered a").first.evaluate(width) > 195 / 2
        await page.goto(f"{server.url}/settings")
        word = page.get_by_role("heading", name="Einstellungen")
        assert await word.evaluate("it => it.offsetHeight / parseFloat(getComputedStyle(it).lineHeight)") < 1.5


async def test_an_opened_first_post_is_the_place(browser: Browser, server: ReadingServer) -> None:
    """By `o` without a place before; so `j` leads to the second one. The same holds for marks."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "viv", "/channel/home?show=all", "List")
        await page.keyboard.press("o")
        await page.locator(".post.is-open").wait_for()
        assert await page.evaluate("document.activeElement === document.querySelector('.post')")
        await page.keyboard.press("j")
        await page.locator(".post:nth-child(2).is-open").wait_for()
        for key in ("m", "s"):
            await page.reload()
            await page.evaluate("(document.activeElement.blur(), scrollTo(0, 0))")
            await page.goto(f"{server.url}/channel/home?show=all")
            async with page.expect_response("**/marks"):
                await page.keyboard.press(key)
            assert await page.evaluate("document.activeElement === document.querySelector('.post')")


async def test_an_undone_change_is_named(browser: Browser, server: ReadingServer) -> None:
    """By its key, perhaps far from the post."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "yan", "/channel/home?show=all", "List")
        for key, said in (("s", "Undone. Removed from saved posts."), ("m", "Undone. Marked as unread.")):
            await page.keyboard.press("N")
            async with page.expect_response("**/marks"):
                await page.keyboard.press(key)
            await page.keyboard.press("z")
            await page.get_by_text(said, exact=True).wait_for()


async def test_menus_of_the_heading_are_in_view(browser: Browser, server: ReadingServer) -> None:
    """In both languages, on small and large phones and on a desk, also below a long name."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bea", "/channel/none?show=all")
        for language, width in itertools.product(("en", "de"), (320, 390, 1280)):
            await page.set_extra_http_headers({"Accept-Language": language})
            await page.set_viewport_size({"width": width, "height": 844})
            await page.goto(f"{server.url}/channel/more?show=all")
            await page.locator(".marking").evaluate("(it) => (it.hidden = false)")  # nothing is unread there
            for name in ("More", "Cooking and Bread", "Der Sonntagskolumnist"):
                await page.locator("h1").evaluate("(it, name) => (it.textContent = name)", name)
                for menu in await page.locator(".heading details").all():
                    await menu.locator("summary").click()
                    box = await menu.locator("summary + *").bounding_box()
                    assert box is not None
                    assert box["x"] >= 0, (language, width, name)
                    assert box["x"] + box["width"] <= width, (language, width, name)
                    await page.keyboard.press("Escape")


async def test_keys_in_a_list_show_what_comes(browser: Browser, server: ReadingServer) -> None:
    """Below the line that has the focus, as above it, two others are whole."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "viv", "/channel/home?show=all", "List")
        await page.set_viewport_size({"width": 1280, "height": 500})
        for key, step, times in (("n", 1, 25), ("p", -1, 20)):
            for _ in range(times):
                await page.keyboard.press(key)
            ahead = f"""() => {{
                const all = [...document.querySelectorAll(".post")];
                const box = all[all.indexOf(document.activeElement) + 2 * {step}].getBoundingClientRect();
                return box.top >= 0 && box.bottom <= innerHeight;
            }}"""
            assert await page.evaluate(ahead)


async def test_reading_times_have_their_place(browser: Browser, server: ReadingServer) -> None:
    """Under no star, in both languages: on a feed's own page, below headings of feeds, and beside names."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "wes", "/display")
        await page.get_by_label("Minutes that a post takes, beside its date").check()
        async with page.expect_navigation(wait_until="load"):
            await page.locator(".display form").evaluate("form => form.submit()")
        await page.goto(f"{server.url}/channel/home?show=all")
        await look(page, "List")
        feed = await page.locator(".post .from a").first.get_attribute("href")
        apart = """() => [...document.querySelectorAll(".post")].every((post) => {
            const time = post.querySelector("time");
            time.textContent = "59 Min.";
            const [star, minutes] = [".acts", ".minutes"].map((one) => post.querySelector(one).getBoundingClientRect());
            return star.right <= minutes.left;
        })"""
        for language, path in itertools.product(("en", "de"), ("/channel/home?show=all", feed)):
            await page.set_extra_http_headers({"Accept-Language": language})
            await page.goto(f"{server.url}{path}")
            assert await page.evaluate(apart), language
            await page.evaluate("document.getElementById('feed').dataset.group = 'feed'")
            assert await page.evaluate(apart), language


async def test_an_open_post_stays_inside_its_frame(browser: Browser, server: ReadingServer) -> None:
    """On a desk with wide text and beside half a window."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "xia", "/channel/home?show=all", "List")
        await page.evaluate("document.documentElement.dataset.width = 'wide'")
        await here.keys("j", "o")
        await page.locator(".post.is-open").wait_for()
        right = "document.querySelector(it).getBoundingClientRect().right"
        ends = f"['.is-open', '.is-open .content'].map((it) => {right})"
        for width in (1280, 900):
            await page.set_viewport_size({"width": width, "height": 800})
            frame, text = await page.evaluate(ends)
            assert text <= frame - 8


async def test_the_post_at_which_one_is_isnt_dimmed(browser: Browser, server: ReadingServer) -> None:
    """In full, once it is read; others are."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "zoe", "/channel/home?show=all", "Full")
        colour = "it => getComputedStyle(it.querySelector('.content')).color"
        first = page.locator(".post").first
        before = await first.evaluate(colour)
        await page.keyboard.press("j")
        await page.keyboard.press("m")
        await page.locator(".post.is-read").first.wait_for()
        assert await first.evaluate(colour) == before
        await page.keyboard.press("j")
        assert await first.evaluate(colour) != before


async def test_full_text_looks_alike_whether_it_is_here_or_not(browser: Browser, server: ReadingServer) -> None:
    """Its link and its button: without a frame, underlined."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all", "List")
        await here.keys("j", "o")
        button = page.locator(".post.is-open button[data-full-text]")
        await button.wait_for()
        assert await button.evaluate("it => getComputedStyle(it).borderTopWidth") == "0px"
        assert "underline" in await button.evaluate("it => getComputedStyle(it).textDecorationLine")


async def test_a_line_is_marked_by_mouse(browser: Browser, server: ReadingServer) -> None:
    """Without being opened, by a button that moves nothing; and a reply that isn't allowed is no silent key."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "gus", "/channel/home?show=all", "List")
        line = page.locator(".post:not(.is-read)").nth(2)
        number = await line.get_attribute("data-id")
        line, mark = page.locator(f"#post-{number}"), page.locator(f"#post-{number} [data-act=read]")
        before = await line.locator(".text").bounding_box()
        await expect(mark).to_be_hidden()
        await line.locator("h2 a").hover()
        await expect(mark).to_be_visible()
        await expect(line.locator("[data-act=above]")).to_be_visible()
        assert before == await line.locator(".text").bounding_box()
        await mark.click()
        await expect(line).to_contain_class("is-read")
        assert await page.locator(".post.is-open").count() == 0
        await page.keyboard.press("e")
        await page.get_by_text("You can reply from your own site once you allow it in the settings.").wait_for()


async def test_a_screen_of_lines_is_turned_by_key(browser: Browser, server: ReadingServer) -> None:
    """With and without a place, which is then the first line in view; also after the wheel. Lines that pass are
    read, if users have chosen that.
    """
    top = "document.activeElement.closest('.post')?.getBoundingClientRect().top"
    async with tab(browser) as here:
        page = await server.sign_in(here, "viv", "/display")
        async with page.expect_response("**/display"):
            await page.get_by_label("Posts are marked as read as you scroll past them").check()
        await page.set_viewport_size({"width": 1280, "height": 500})
        await page.goto(server.url + "/channel/home?show=all")
        await look(page, "List")
        await page.wait_for_timeout(1700)  # until then, the browser itself may scroll
        for screen in range(1, 3):
            await page.keyboard.press("PageDown")
            assert await page.evaluate("scrollY") == screen * (500 - 48)
            assert 0 <= await page.evaluate(top) < 60
            await page.wait_for_timeout(1000)
        await expect(page.locator(".post.is-read")).not_to_have_count(0)
        await page.keyboard.press("PageUp")
        assert await page.evaluate("scrollY") == 500 - 48
        await page.keyboard.press("PageDown")
        await page.mouse.move(600, 300)
        await page.mouse.wheel(0, -2000)
        await page.wait_for_function("() => scrollY === 0")
        await page.keyboard.press("j")
        assert await page.evaluate("scrollY") == 0
        assert 0 <= await page.evaluate(top) < 500


async def test_channels_narrow_while_one_types(browser: Browser, server: ReadingServer) -> None:
    """On the page to which a key leads; Enter opens the only one."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "zoe", "/channel/home?show=all")
        async with page.expect_event("load"):
            await here.keys("g", "l")
        names = page.locator("main .found > :not([hidden]) .name")
        every = await names.all_inner_texts()
        await page.locator("#words").press_sequentially("mo")
        await expect(names).to_have_text(["More"])
        await expect(page.locator("#found")).to_have_text("1 channel")
        await page.locator("#words").fill("")
        await expect(names).to_have_text(every)
        await page.locator("#words").press_sequentially("mo")
        await expect(names).to_have_text(["More"])
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/channel/more")


@pytest.mark.parametrize("leave", ["F", "reload"])
async def test_the_way_back_leads_into_an_open_post(browser: Browser, server: ReadingServer, leave: str) -> None:
    """To the same line of its text; one that was marked as unread stays closed."""
    top = "Math.round(document.activeElement.getBoundingClientRect().top)"
    async with tab(browser) as here:
        page = await server.sign_in(here, "uma", "/channel/home?show=all", "List")
        await page.set_viewport_size({"width": 1280, "height": 240})
        opened = page.locator(".post").nth(4)
        for is_read in (True, False):
            await opened.focus()
            # The list that comes back has the states that the server has by then.
            async with page.expect_response("**/marks"):
                await page.keyboard.press("o" if is_read else "m")
            await page.locator(".post.is-open").wait_for()
            await page.evaluate(f"scrollBy({{top: {top} + 60, behavior: 'instant'}})")
            async with page.expect_event("load"):
                await (page.keyboard.press("F") if leave == "F" else page.reload())
            if leave == "F":
                await page.go_back()
            await expect(opened).to_be_focused()
            if is_read:
                await expect(opened).to_contain_class("is-open")
                await page.wait_for_function(f"() => Math.abs({top} + 60) < 24")
            else:
                assert await page.locator(".post.is-open").count() == 0
