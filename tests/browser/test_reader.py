"""Reading in Chromium: by keys, by buttons, by scrolling, without scripts, in the dark, on a phone."""

from __future__ import annotations

import asyncio
import html
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.accessibility import DESK, PHONE, violations
from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import Tab, tab
from tests.browser.techniques import as_markup, techniques
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

READERS = (
    "alone",
    "buttons",
    "late",
    "scroller",
    "plain",
    "looks",
    "waits",
    "hostile",
    "leafs",
    "many",
    "older",
    "both",
)
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
AT_ONCE = 12
"""Techniques in one post."""
COUNT = 45
SWIPE = """(far) => {
  const post = document.querySelector(".post");
  const send = (kind, x) => {
    const touch = new Touch({ identifier: 1, target: post, clientX: x, clientY: 300 });
    const touches = kind === "touchstart" ? [touch] : [];
    post.dispatchEvent(new TouchEvent(kind, { bubbles: true, touches, changedTouches: [touch] }));
  };
  send("touchstart", 300);
  send("touchend", 300 + far);
}"""
COVERED = """() => {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  const others = ["body > header", ".heading", "#done p", ".bottom"].filter((one) => box(one).height);
  const bar = box("#news");
  const inside = bar.left >= 0 && bar.right <= innerWidth && bar.bottom <= innerHeight;
  const meets = (one) => one.bottom > bar.top && one.top < bar.bottom && one.right > bar.left && one.left < bar.right;
  return others.filter((one) => meets(box(one))).concat(inside ? [] : "outside");
}"""
"""The parts of the page that the bar of new posts covers."""
LONG = f"<p>{'A long story. ' * 400}</p><p>The end of it.</p>"


@dataclass
class Library(ReadingServer):
    """A server with readers, each of whom follows one blog of 45 posts in `home`."""

    feeds: Publisher


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def library(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Library]:
    """The server, with everything polled."""
    async with publisher() as feeds:
        document = rss(dated(COUNT))
        for long in (b"About Post 45", b"About Post 41"):
            document = document.replace(long, html.escape(LONG).encode())
        address = feeds.serve_document("/feed", document)
        hostile = feeds.serve_document("/hostile", hostile_feed())
        users = {name: {"channels": [{"uid": "home", "name": "Home", "feeds": [address]}]} for name in READERS}
        users["hostile"]["channels"].append({"uid": "bad", "name": "Bad", "feeds": [hostile]})
        folder, settings = tmp_path_factory.mktemp("reader"), {"first_fetch_unread": 1000}
        users["many"]["channels"] += [{"uid": f"c{number}", "name": f"Channel {number}"} for number in range(120)]
        async with reading_server(folder, users, *READERS[1:], polls=2, settings=settings) as made:
            yield Library(made.own, made.url, feeds)


def hostile_feed() -> bytes:
    """A feed with posts of every known way past a filter."""
    payloads = [text for technique in techniques() for text in as_markup(technique)]
    posts = [
        f"<item><guid isPermaLink='false'>h{first}</guid><title>{html.escape(payloads[first])}</title>"
        f"<description>{html.escape(' '.join(payloads[first : first + AT_ONCE]))}</description></item>"
        for first in range(0, len(payloads), AT_ONCE)
    ]
    document = f"<?xml version='1.0'?><rss version='2.0'><channel><title>H</title>{''.join(posts)}</channel></rss>"
    return CONTROLS.sub("", document).encode("utf-8", "replace")


@asynccontextmanager
async def window(browser: Browser, *, scripts: bool = True) -> AsyncIterator[Tab]:
    async with tab(browser, scripts=scripts) as made:
        await made.page.set_viewport_size(DESK)  # type: ignore[arg-type]
        yield made


async def count(page: Page) -> int:
    """The unread count of `home` in the list of channels."""
    shown = page.locator("[data-channel=home] .count")
    return int(await shown.locator("[data-count]").inner_text()) if await shown.is_visible() else 0


async def focused(page: Page) -> str:
    """The heading of the post that has the focus; empty if none has."""
    return str(await page.evaluate("document.activeElement.closest('.post')?.querySelector('h2').innerText ?? ''"))


async def settled(page: Page, wanted: int) -> None:
    """Waits until the server has reported this unread count."""
    await page.wait_for_function(
        "n => { const c = document.querySelector('[data-channel=home] .count');"
        " return (c.hidden ? 0 : Number(c.querySelector('[data-count]').innerText)) === n; }",
        arg=wanted,
    )


_TEXT_COLOUR = "getComputedStyle(document.activeElement.querySelector('.content')).color"


async def test_two_long_posts_are_opened_at_once(browser: Browser, library: Library) -> None:
    """Where posts are shown in full, opening one closes no other, even if both are being fetched."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await library.sign_in(here, "both", "/channel/home?show=all")
        async with page.expect_navigation(wait_until="load"):
            await page.get_by_role("button", name="Full", exact=True).click()
        arrived = await here.holds("**/post/*")
        long = page.locator(".post:has(.more)")
        await expect(long).to_have_count(2)
        for link in await page.locator(".more [data-open]").all():
            await link.click()
        arrived.set()
        await expect(page.get_by_text("The end of it.")).to_have_count(2)


async def test_reading_with_only_the_keyboard(browser: Browser, library: Library) -> None:
    """By keys, from the server's start link through posts, marks, saves, the list of keys and other pages; the
    focus stays with the post after each.
    """
    greeting = (library.own.folder / "0.out").read_text()
    link = next(line.split()[1] for line in greeting.splitlines() if line.startswith("read "))
    async with window(browser) as here:
        page = here.page
        await page.goto(link.replace("127.0.0.1", "localhost"))
        assert page.url == f"{library.url}/"
        assert await count(page) == COUNT
        press = page.keyboard.press
        await press("j")
        assert await focused(page) == "Post 45"
        await press("o")
        await page.get_by_text("The end of it.").wait_for()
        await settled(page, COUNT - 1)
        assert await focused(page) == "Post 45"
        assert await page.evaluate(_TEXT_COLOUR) == await page.evaluate("getComputedStyle(document.body).color")
        await press("o")
        assert await page.get_by_text("The end of it.").count() == 0
        await press("n")
        assert await focused(page) == "Post 44"
        await press("m")
        await settled(page, COUNT - 2)
        await press("m")
        await settled(page, COUNT - 1)
        await press("s")
        await page.get_by_text("Saved.", exact=True).wait_for()
        assert await focused(page) == "Post 44"
        await press("PageDown")
        await press("PageDown")
        assert await focused(page) == "Post 42"
        await press("PageUp")
        await press("t")
        await page.get_by_text("2 posts marked as read in All.").wait_for()
        await settled(page, COUNT - 3)
        assert await focused(page) == "Post 43"
        await press("z")
        await settled(page, COUNT - 1)
        await press("A")
        await page.get_by_text("44 posts marked as read in All.").wait_for()
        await settled(page, 0)
        await press("z")
        await settled(page, COUNT - 1)
        assert await focused(page) == "Post 43"
        await press("?")
        assert await page.get_by_role("dialog").is_visible()
        assert await page.evaluate("document.querySelector('dialog').scrollTop") == 0
        await press("Escape")
        await press("k")
        assert await focused(page) == "Post 44"
        await press("Control+End")
        assert await focused(page) == ""
        await press("/")
        assert await page.evaluate("document.activeElement.name") == "q"
        await page.keyboard.type("j")
        assert await page.locator("input[name=q]").input_value() == "j"
        await press("Escape")
        await page.evaluate("document.activeElement.blur()")
        for second, path in (("s", "/saved"), ("r", "/read"), ("a", "/channel/global?show=all"), ("h", "/")):
            await here.keys("g", second)
            await page.wait_for_url(library.url + path)
    async with window(browser) as other:
        await other.page.goto(link.replace("127.0.0.1", "localhost"))
        assert "has already been used" in await other.text()


async def test_marking_and_undo_by_buttons(browser: Browser, library: Library) -> None:
    """Nothing reloads, the button keeps the focus, and an undo takes effect at once."""
    async with window(browser) as here:
        page = await library.sign_in(here, "buttons", "/channel/home")
        await page.evaluate("window.same = true")
        first = page.locator(".post").first
        button = first.locator("[data-act=read]")
        await button.click()
        await settled(page, COUNT - 1)
        assert await button.get_attribute("aria-pressed") == "true"
        assert await page.evaluate("document.activeElement.dataset.act") == "read"
        await first.locator("[data-act=save]").click()
        await page.get_by_text("Saved.", exact=True).wait_for()
        await page.get_by_role("button", name="Mark all as read").click()
        await settled(page, 0)
        assert await page.locator(".post:not(.is-read)").count() == 0
        await page.get_by_role("button", name="Undo").click()
        await settled(page, COUNT - 1)
        assert await page.locator(".post.is-read").count() == 1
        assert await page.evaluate("window.same")
        await page.reload()
        assert await count(page) == COUNT - 1


async def test_older_posts_are_marked_by_key_and_by_button(browser: Browser, library: Library) -> None:
    """The page shows which of its posts are read now, and their undo after a second press, too; without a network, the
    mark is sent later."""
    async with window(browser) as here:
        page = await library.sign_in(here, "older", "/channel/home?show=all")
        await page.keyboard.press("D")
        await settled(page, 0)
        assert await page.locator(".post:not(.is-read)").count() == 0
        async with page.expect_response("**/marks/all"):
            await page.keyboard.press("D")  # which finds nothing
        async with page.expect_response("**/marks"):
            await page.get_by_role("button", name="Mark read up to here").first.click()  # neither does this
        await page.get_by_role("button", name="Undo").click()
        await settled(page, COUNT)
        assert await page.locator(".post.is-read").count() == 0
        await page.locator(".marking summary").click()
        await here.context.set_offline(True)
        await page.get_by_role("button", name="Mark posts older than a day as read").click()
        await page.get_by_text("You are offline.").wait_for()
        assert not await page.get_by_role("button", name="Mark posts older than a day as read").is_visible()
        await here.context.set_offline(False)
        await settled(page, 0)


ANOTHER_READER = """() => {
  const lists = JSON.parse(sessionStorage.lists).map(([path, html, , view]) => [path, html, "bob", view]);
  sessionStorage.lists = JSON.stringify(lists);
}"""
"""The lists that this tab remembers become those of another user."""
SENT_AT_ONCE = """async (address) => {
  const { send } = await import(address);
  const fields = { unread: document.querySelector(".post").dataset.id, more: "x".repeat(18000) };
  const told = await Promise.all(Array.from({ length: 5 }, () => send(document.getElementById("change"), fields)));
  return told.map((one) => one.waits ?? false);
}"""
"""Five changes, in all longer than what browsers send after a page is left; whether each waits for the network."""


async def test_a_change_that_waits_is_sent_before_the_next_one(browser: Browser, library: Library) -> None:
    """The server was away for a moment, of which a browser with a network gets no event: the last choice holds."""
    async with window(browser) as here:
        await here.intercepts()
        page = await library.sign_in(here, "late", "/channel/home?show=all")
        await page.route("**/marks", lambda route: route.abort())
        await page.keyboard.press("n")
        await page.keyboard.press("s")
        await page.get_by_text("Your change is sent when").wait_for()
        await page.unroute("**/marks")
        async with page.expect_response(lambda reply: "unsave" in (reply.request.post_data or "")):
            await page.keyboard.press("s")
        assert await page.evaluate("Object.values(localStorage).join()") == "[]"
        await page.reload()
        assert await page.locator(".post [data-act=save][aria-pressed=true]").count() == 0
        address = await page.locator("script[src$='/reader.js']").get_attribute("src") or ""
        assert await page.evaluate(SENT_AT_ONCE, address.replace("reader.js", "marks.js")) == [False] * 5
        here.troubles.clear()  # those of the requests that were aborted


async def test_a_late_reply_doesnt_cover_the_undo_of_a_newer_action(browser: Browser, library: Library) -> None:
    """The reply to *Save* comes after that to *Mark all as read*."""
    async with window(browser) as here:
        await here.intercepts()
        page = await library.sign_in(here, "late", "/channel/home")
        marked, replied = asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            reply = await route.fetch()
            await marked.wait()
            await route.fulfill(response=reply)
            replied.set()

        await page.route(lambda address: "/marks" in address, hold, times=1)
        await page.locator(".post").first.locator("[data-act=save]").click()
        await page.get_by_role("button", name="Mark all as read").click()
        await page.get_by_text("posts marked as read").wait_for()
        marked.set()
        await replied.wait()
        assert await page.evaluate("new Promise((done) => requestIdleCallback(() => done(true)))")
        await page.get_by_role("button", name="Undo").click(timeout=20_000)
        await settled(page, COUNT)


async def test_an_icon_that_failed_before_the_script_ran_is_its_letter(browser: Browser, library: Library) -> None:
    """Scripts come late on slow networks, after the pictures."""
    async with window(browser) as here:
        await here.intercepts()
        page = await library.sign_in(here, "late", "/channel/home")

        async def put_in(route: Route) -> None:
            body = await (reply := await route.fetch()).text()
            icon = '<img class="face" loading="lazy" alt="" width="40" height="40" data-letter="X" src="/nothing.png">'
            await route.fulfill(response=reply, body=re.sub("(<article[^>]*>)", rf"\1{icon}", body, count=1))

        await page.route("**/channel/home", put_in)
        failed = await here.holds("**/reader.*js*")
        page.on("response", lambda reply: failed.set() if reply.url.endswith("/nothing.png") else None)
        await page.reload(wait_until="commit")
        await page.locator(".post span.face", has_text="X").wait_for(timeout=20_000)
        assert await page.locator("img[data-letter=X]").count() == 0


async def test_an_opened_post_is_read_and_links_to_the_next(browser: Browser, library: Library) -> None:
    """To the next one of the list that it was opened from, by keys, by links and by swiping; and back to its place
    in the list.
    """
    async with window(browser) as here:
        await here.page.add_init_script("navigator.share = async (what) => { window.shared = what.title; };")
        page = await library.sign_in(here, "leafs", "/channel/home?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Post 44", exact=True).click()
        await settled(page, COUNT - 1)
        for key, heading in (("j", "Post 43"), ("k", "Post 44")):
            async with page.expect_event("load"):
                await page.keyboard.press(key)
            await page.get_by_role("heading", name=heading).wait_for()
        await settled(page, COUNT - 2)
        await page.keyboard.press("m")
        await settled(page, COUNT - 1)
        await page.keyboard.press("s")
        await page.get_by_text("Saved.", exact=True).wait_for()
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Previous post").click()
        assert await here.title() == "Post 45"
        assert not await page.get_by_role("link", name="Previous post").is_visible()
        await page.get_by_role("button", name="Share").click()
        assert await page.evaluate("window.shared") == "Post 45"
        async with page.expect_event("load"):
            await page.evaluate(SWIPE, -200)
        assert await here.title() == "Post 44"
        async with page.expect_event("load"):
            await page.keyboard.press("u")
        assert page.url == f"{library.url}/channel/home?show=all"
        assert await focused(page) == "Post 44"
        await page.set_viewport_size({"width": 360, "height": 700})
        for control, heading in (("a >> text='Post 44'", "Post 44"), ("[data-next]", "Post 43")):
            async with page.expect_event("load"):
                await page.locator(control).click()
            assert await here.title() == heading
        for action in await page.locator(".post.whole .acts > :is(a, button)").all():
            box = await action.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= 360
            assert box["height"] <= 50
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Back", exact=True).click()
        assert await focused(page) == "Post 43"
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.goto(f"{library.url}/channel/home")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Post 38", exact=True).click()
        await settled(page, COUNT - 4)
        async with page.expect_event("load"):
            await page.go_back()
        assert await focused(page) == "Post 38"
        for key, post in (("k", "Post 39"), ("j", "Post 38"), ("j", "Post 37")):
            await page.keyboard.press(key)
            assert await focused(page) == post
        assert await page.locator(".post.is-read").count() == 1
        await page.reload()
        await expect(page.get_by_role("link", name="Post 38", exact=True)).to_have_count(0)
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Post 37", exact=True).click()
        await settled(page, COUNT - 5)
        # Another user of this tab gets nothing of it, and no post that this tab hasn't read comes back.
        await page.evaluate(ANOTHER_READER)
        async with page.expect_event("load"):
            await page.go_back()
        await expect(page.get_by_role("link", name="Post 37", exact=True)).to_have_count(0)
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Post 36", exact=True).click()
        async with page.expect_event("load"):
            await page.keyboard.press("F")
        assert page.url.endswith("&show=unread")  # as the list was


async def test_further_posts_come_by_scrolling(browser: Browser, library: Library) -> None:
    """Each position has an address, which can be opened again; the complete list shows its length."""
    async with window(browser) as here:
        page = await library.sign_in(here, "buttons", "/channel/home?show=all")
        assert await page.locator(".post").first.get_attribute("aria-setsize") == "-1"

        async def ended() -> bool:
            await page.mouse.wheel(0, 4000)
            return await page.get_by_text("No more posts.").is_visible()

        await wait_until(ended)
        posts = page.locator(".post")
        assert await posts.count() == COUNT
        assert await posts.last.get_attribute("aria-posinset") == str(COUNT)
        assert await posts.first.get_attribute("aria-setsize") == str(COUNT)
        await page.wait_for_function("() => location.search.includes('after=')")
        address = page.url
        await page.goto(address)
        assert await page.locator(".post").count() < COUNT
        assert await page.locator("[rel=prev]").count() == 1


async def test_scrolling_marks_what_was_in_view(browser: Browser, library: Library) -> None:
    """Only with that setting. A restored position, a jump by keys and loading mark nothing."""
    async with window(browser) as here:
        page = await library.sign_in(here, "scroller", "/display")
        async with page.expect_response("**/display"):
            await page.get_by_label("Posts are marked as read as you scroll past them").check()
        await page.goto(f"{library.url}/channel/home?show=all")
        await page.wait_for_timeout(1700)
        await page.mouse.move(600, 500)
        read, said = page.locator(".post.is-read"), page.locator("#done [data-text]")
        for undo in ("offered", "z", ""):
            for step in range(60):  # on a busy machine several steps come at once, which is too fast for reading
                await page.mouse.wheel(0, 60)
                await page.wait_for_timeout(140)
                if step >= 13 and await read.count() > 1:
                    break
            await page.wait_for_timeout(1000)  # the last step of the wheel is over
            passed = await read.count()
            await settled(page, COUNT - passed)
            assert 2 <= passed <= 5
            assert not await said.is_visible()
            if undo == "offered":  # to a user who turns back
                for _ in range(3):
                    await page.mouse.wheel(0, -150)
                await expect(said).to_have_text("Marked as read while you scrolled.")
                await page.get_by_role("button", name="Undo").click()
            elif undo:
                await page.keyboard.press(undo)
            if undo:
                await expect(said).to_have_text(f"Undone. {passed} posts marked as unread.")
                await settled(page, COUNT)
                await expect(read).to_have_count(0)
                await page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
                await page.keyboard.press("z")
                await expect(said).to_have_text("There is nothing to undo.")
                await page.locator("#done p").evaluate("(it) => (it.hidden = true)")
        tops = "[...document.querySelectorAll('.post')].map(p => Math.round(p.getBoundingClientRect().height))"
        heights = await page.evaluate(tops)
        assert len(heights) >= 20
        await page.wait_for_timeout(300)
        # A jump, there and back.
        for _ in range(6):
            await page.keyboard.press("j")
        await page.wait_for_timeout(1200)
        assert await page.locator(".post.is-read").count() == passed
        # A restored position: the browser scrolls there automatically.
        await page.reload()
        await page.wait_for_function("() => scrollY > 300")
        await page.wait_for_timeout(2000)
        await page.evaluate("scrollTo({top: scrollY + 1500, behavior: 'instant'})")
        await page.wait_for_timeout(1200)
        assert await count(page) == COUNT - passed


async def test_without_scripts(browser: Browser, library: Library) -> None:
    """Reading, marking, undoing, saving, paging and searching are links and forms."""
    async with window(browser, scripts=False) as here:
        page = await library.sign_in(here, "plain", "/channel/home")
        async with page.expect_event("load"):
            await page.locator(".post [data-act=read]").first.click()
        assert await count(page) == COUNT - 1
        await here.press("Mark all as read")
        assert "You have read everything." in await here.text()
        await here.press("Undo")
        assert await count(page) == COUNT - 1
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Older posts").press("Enter")
        assert await page.locator(".post").count() == 20
        async with page.expect_event("load"):
            await page.locator(".post h2 a").first.click()
        opened = await here.title()
        await here.press("Mark as read and go on")
        assert "Post" in (following := await here.title())
        assert following != opened
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Next post").click()
        assert await here.title() not in {opened, following}
        async with page.expect_event("load"):
            await page.get_by_role("button", name="Save").click()
        await page.goto(f"{library.url}/saved")
        assert await page.locator(".post").count() == 1
        await page.fill("input[name=q]", "post")
        async with page.expect_event("load"):
            await page.keyboard.press("Enter")
        assert "Search for “post”" in await here.text()


async def test_in_the_dark_and_on_a_telephone(browser: Browser, library: Library) -> None:
    """Colours follow the device or the choice; nothing is wider than the screen, and buttons are large enough."""
    async with window(browser) as here:
        page = await library.sign_in(here, "looks", "/channel/home")
        ground = "getComputedStyle(document.body).backgroundColor"
        light = await page.evaluate(ground)
        await page.emulate_media(color_scheme="dark")
        dark = await page.evaluate(ground)
        assert light != dark
        await page.emulate_media(media="print", color_scheme="dark")
        assert await page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 28, 32)"
        assert not await page.locator("#channels, .acts, .views, .top").first.is_visible()
        await page.emulate_media(media="screen", color_scheme="dark")
        await page.goto(f"{library.url}/display")
        async with page.expect_response("**/display"):
            await page.get_by_label("Light").check()
        assert await page.evaluate(ground) == light
        await page.set_viewport_size({"width": 320, "height": 800})
        for path in ("/", "/channel/home?show=all", "/saved", "/search", "/display"):
            await page.goto(library.url + path)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        await page.goto(f"{library.url}/search?q=post")
        assert await page.locator("[type=search]:visible").input_value() == "post"
        assert not await page.locator("#channels ul").is_visible()
        await page.goto(f"{library.url}/channel/home")
        assert not await page.locator("#channels").is_visible()
        for button in await page.locator(".acts button").all():
            box = await button.bounding_box()
            assert box is not None
            assert box["height"] >= 24
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Channels", exact=True).last.click()
        assert await page.locator("#channels").is_visible()


async def test_new_posts_wait_behind_a_bar(browser: Browser, library: Library) -> None:
    """The page shows their number, and nothing on it moves."""
    async with window(browser) as here:
        page = await library.sign_in(here, "waits", "/channel/home")
        first = page.locator(".post").first
        before = await first.bounding_box()
        library.feeds.serve_document("/feed", rss(dated(COUNT + 2)))
        assert (await library.own.run("poll", library.feeds.url("/feed")))[0] == 0
        await page.locator("#news").wait_for()
        assert await page.locator("#news").inner_text() == "2 new posts"
        assert await first.locator("h2").inner_text() == "Post 45"
        assert await first.bounding_box() == before
        side, list_ = await page.locator("#news a").bounding_box(), await page.locator("#feed").bounding_box()
        assert side is not None
        assert list_ is not None
        assert side["x"] + side["width"] <= list_["x"]
        await page.keyboard.press("A")
        await page.locator("#done [form=undo]").wait_for()
        for width, height, size in ((1280, 800, "16px"), (1280, 800, "28px"), (390, 844, "16px"), (390, 844, "28px")):
            await page.set_viewport_size({"width": width, "height": height})
            await page.evaluate("size => document.documentElement.style.fontSize = size", size)
            assert await page.evaluate(COVERED) == [], (width, size)
        await page.evaluate("document.documentElement.style.fontSize = ''")
        await page.keyboard.press("z")
        async with page.expect_event("load"):
            await page.keyboard.press("r")
        assert await page.locator(".post h2").first.inner_text() == "Post 47"


SHORT = {"/feed": "#feeds thead input", "/channels": ".hint button:not([hidden])", "/follow": "[data-dropped]"}
"""Pages with their end in the window, and what is there when their scripts have run."""


async def test_a_page_is_small_and_doesnt_shift(browser: Browser, library: Library) -> None:
    """Less than 60 KB in at most 12 requests, and nothing shifts while it loads."""
    async with window(browser) as here:
        await here.intercepts()  # what a service worker keeps would count for nothing
        page = await library.sign_in(here, "looks", "/display")
        session = await here.context.new_cdp_session(page)
        await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        await page.add_init_script(
            "window.shifts = 0; new PerformanceObserver(l => l.getEntries().forEach(e => window.shifts += e.value))"
            ".observe({type: 'layout-shift', buffered: true});"
        )
        await page.goto(f"{library.url}/channel/home?show=all", wait_until="networkidle")
        found = await page.evaluate(
            "['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))"
            ".filter(e => !e.name.includes('/image/')).map(e => e.transferSize)"
        )
        print(f"{len(found)} requests, {sum(found)} bytes, layout shift {await page.evaluate('window.shifts')}")
        assert len(found) <= 12 + 1  # and the second page, which is loaded in advance
        assert sum(found) < 60_000
        assert await page.evaluate("window.shifts") < 0.01
        for (path, end), size in itertools.product(SHORT.items(), (DESK, PHONE)):
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            await page.goto(f"{library.url}{path}", wait_until="networkidle")
            await page.locator(end).wait_for(state="attached")
            assert await page.evaluate("window.shifts") == 0, (path, size)


async def test_full_posts_load_without_a_shift(browser: Browser, library: Library) -> None:
    """On a phone, whose times take one line, and when those below the screen are laid out."""
    async with window(browser) as here:
        await here.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        page = await library.sign_in(here, "looks", "/channel/home?show=all")
        await page.add_init_script(
            "window.shifts = []; new PerformanceObserver(l => l.getEntries().forEach(e => window.shifts.push("
            "[e.value, ...e.sources.map(({node}) => node?.outerHTML ?? node?.textContent)])"
            ")).observe({type: 'layout-shift', buffered: true});"
        )
        async with page.expect_navigation(wait_until="networkidle"):
            await page.get_by_role("button", name="Full", exact=True).click()
        skipped = "[...document.querySelectorAll('.post')].filter(e => !e.querySelector('h2').checkVisibility("
        assert await page.evaluate(f"{skipped}{{contentVisibilityAuto: true}})).length > 3")
        lines = "[...document.querySelectorAll('.byline small')].map(e => e.getClientRects().length)"
        assert set(await page.evaluate(lines)) == {1}
        title = "document.activeElement.querySelector('h2')?.innerText"
        for wanted in (await page.locator(".post h2").all_text_contents())[:8]:
            await page.keyboard.press("j")
            await page.wait_for_function(f"wanted => {title} === wanted", arg=wanted.strip())
        assert abs(await page.evaluate("document.activeElement.getBoundingClientRect().top") - 8) < 2
        assert await page.evaluate("window.shifts") == []
        ends = await page.evaluate(
            """[...document.activeElement.querySelectorAll(".acts :is(button, a)")].flatMap((one) => {
              one.scrollIntoView({ block: "center" });
              const { left, right, top, height } = one.getBoundingClientRect();
              return [left + 2, right - 2].map((x) => one.contains(document.elementFromPoint(x, top + height / 2)));
            })"""
        )
        assert ends
        assert all(ends)


async def test_hostile_posts_do_nothing(browser: Browser, library: Library) -> None:
    """Every known way past a filter, in the titles and bodies of posts: no script, no foreign request, no violation of
    the policy, nothing wider than the page, and the page's own controls still there.
    """
    async with window(browser) as here:
        page = await library.sign_in(here, "hostile", "/channel/bad")
        asked: list[str] = []
        await page.add_init_script("window.ran = n => console.error('ran ' + n); window.alert = window.ran;")
        page.on("request", lambda request: asked.append(request.url))
        path: str | None = "/channel/bad?show=all"
        seen = 0
        while path:
            await page.goto(library.url + path)
            seen += await page.locator(".post").count()
            assert await page.locator("#change").count() == 1, await page.content()
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            older = page.locator("#older [rel=next]")
            path = await older.get_attribute("href") if await older.count() else None
        assert seen > 50
        assert not [url for url in asked if not url.startswith((library.url, "data:"))]
        assert here.troubles == [one for one in here.troubles if "Failed to load resource" in one]


async def test_one_of_many_channels_is_found(browser: Browser, library: Library) -> None:
    """The list next to a page has those with unread posts, and narrows while a user types; without scripts the
    same field leads to a page. Neither is a barrier.
    """
    async with window(browser) as here:
        page = await library.sign_in(here, "many")
        names = page.locator("#channels li:not([hidden]) .name")
        assert await names.all_inner_texts() == ["All", "Saved", "Notifications", "Home"]
        field = page.locator("#find [type=search]")
        await field.press_sequentially("l 11")
        await page.get_by_text("11 channels", exact=True).wait_for()
        assert (await names.all_inner_texts())[:2] == ["Channel 11", "Channel 110"]
        other = await here.context.new_page()
        await other.goto(f"{library.url}/channel/home?show=all")
        left = await count(other) - 1
        await other.keyboard.press("m")
        await page.wait_for_function("n => document.title.startsWith(`(${n})`)", arg=left)
        await other.close()
        await field.fill("")
        await settled(page, left)  # so has the line that was hidden
        await names.get_by_text("Home", exact=True).wait_for()
        assert await names.count() == 4
        await page.evaluate("document.activeElement.blur()")
        async with page.expect_event("load"):
            await here.keys("g", "l")
        assert page.url == f"{library.url}/channel"
        bare = await browser.new_context(bypass_csp=True, storage_state=await here.context.storage_state())
        assert await violations(await bare.new_page(), library.url, ["/", "/channel"]) == []
        await bare.close()
    async with window(browser, scripts=False) as plain:
        page = await library.sign_in(plain, "many")
        await page.locator("#find [type=search]").fill("119")
        await page.locator("#find [type=search]").press("Enter")
        await page.get_by_role("link", name="Channel 119", exact=True).click()
        assert page.url == f"{library.url}/channel/c119"
