"""The web interface as an installed app in Chromium: content shared with it, and its use without a network."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import Tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReadingServer]:
    """Ann follows a blog of three posts in `home`."""
    async with publisher() as feeds:
        channels = [{"uid": "home", "name": "Home", "feeds": [feeds.serve_document("/feed", rss(dated(3)))]}]
        async with reading_server(
            tmp_path_factory.mktemp("installed"), {"ann": {"channels": channels}}, "ann", polls=1
        ) as made:
            yield made


async def test_browsers_offer_to_install_it(browser: Browser, server: ReadingServer) -> None:
    """The manifest names everything that they need, and its addresses work."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(server.url)
    found = await (await context.new_cdp_session(page)).send("Page.getAppManifest")
    assert found["errors"] == []
    manifest = await page.evaluate("fetch('/app.webmanifest').then((reply) => reply.json())")
    assert manifest["display"] == "standalone"
    assert manifest["share_target"]["action"] == "/follow"
    touched = await page.locator("link[rel=apple-touch-icon]").get_attribute("href")
    for address in (manifest["start_url"], manifest["icons"][0]["src"], touched or ""):
        assert (await context.request.get(server.url + address)).ok
    await context.close()


async def test_the_link_signs_in_where_a_worker_is_installed(browser: Browser, server: ReadingServer) -> None:
    """A browser that knows the server's address, from its last start or from the demo, opens the printed link."""
    context = await browser.new_context()
    page = await server.sign_in(Tab(context, await context.new_page()), "ann")
    await page.evaluate("navigator.serviceWorker.ready.then(() => 0)")
    await context.clear_cookies()
    await page.goto("about:blank")
    (path,) = re.findall(r"/sign-in/link\?code=\S+", (server.own.folder / "0.out").read_text())
    await page.goto(server.url + path)
    assert page.url == f"{server.url}/"
    assert await page.get_by_role("link", name="Account of ann").count() == 1
    await context.close()


async def keeps(page: Page, **wanted: int) -> bool:
    """Whether this many pages are kept to be read, by user. Opens no cache: one deleted meanwhile would be made."""
    found = await page.evaluate(
        """async () => {
          const names = (await caches.keys()).filter((name) => name.startsWith("posts of / "));
          const kept = (cacheName) => caches.match("/channel/global?whole=1", { cacheName, ignoreVary: true });
          const count = async (name) => [name.slice(11), (await kept(name)) ? 1 : 0];
          return Object.fromEntries(await Promise.all(names.map(count)));
        }"""
    )
    return bool(found == wanted)


async def test_unread_posts_are_read_without_a_network(browser: Browser, server: ReadingServer) -> None:
    """Those of the first page, with their whole texts; until their user signs out, or another one signs in."""
    context = await browser.new_context()
    page = await server.sign_in(here := Tab(context, await context.new_page()), "ann")
    await page.evaluate("caches.open('posts of / bob').then(() => 0)")
    await page.reload()
    await wait_until(lambda: keeps(page, ann=1))
    lines = await context.new_page()
    for one, view in ((lines, "1"), (page, "3")):
        await one.goto(f"{server.url}/channel/home?show=all")
        async with one.expect_navigation():
            await one.keyboard.press(view)
    await context.set_offline(True)
    await lines.locator(".row h2 a").first.click()
    await lines.locator(".row.is-open .content").wait_for()
    await lines.evaluate("{ caches.match = () => Promise.resolve() }")
    await lines.locator(".row h2 a").nth(1).click()
    await lines.get_by_text("this browser hasn’t kept this post.").wait_for()
    await lines.evaluate("delete caches.match")
    await lines.keyboard.press("J")
    await lines.get_by_role("link", name="Read kept posts").click()
    await lines.locator(".post .content").nth(2).wait_for()
    await lines.locator(".post h2 a").last.click()
    await expect(lines.locator(".post.is-read")).to_have_count(2)
    await lines.locator(".post.is-read [data-act=read]").first.click()
    await lines.locator(".post.is-read [data-act=read]").first.click()
    await lines.close()
    for path in ("/", "/channel/global"):
        await page.goto(f"{server.url}{path}")
        assert await page.locator(".post .content").count() == 3
    await page.get_by_text(re.compile(r"These are the unread posts of \w+day, \w+ \d+ at \d")).wait_for()
    await page.keyboard.press("J")
    await page.get_by_text("You are offline. Only what this browser has kept can be read.").wait_for()
    await page.locator(".post [data-act=read]").first.click()
    await page.get_by_text("Your change is sent when you are back online.").wait_for()
    await page.goto(f"{server.url}/saved")
    assert await here.title() == "You are offline"
    await page.get_by_role("link", name="Read the unread posts").click()
    await expect(page.locator(".post.is-read")).to_have_count(1)  # the mark waits
    await page.locator(".post.is-read [data-act=read]").click()
    await page.goto(f"{server.url}/saved")
    await context.set_offline(False)
    await page.locator("h1", has_text="Saved").wait_for()
    await page.wait_for_function("() => !JSON.parse(localStorage.getItem('marks of ann')).length")
    await page.goto(f"{server.url}/channel/home?show=all")
    await context.set_offline(True)
    await here.keys("j", "d")  # the kept post comes without its full text
    await page.get_by_text("You are offline. Only what this browser has kept can be read.").wait_for()
    await context.set_offline(False)
    await page.keyboard.press("d")
    await expect(page.locator("#done")).to_contain_text("posts.test")  # where it can't be fetched
    async with page.expect_response("**/marks"):
        await page.keyboard.press("m")
    await page.goto(f"{server.url}/account")
    async with page.expect_navigation():
        await page.get_by_role("button", name="Sign out of this browser").click()
    server.cookies.clear()  # of the session that has ended
    await wait_until(lambda: keeps(page))
    await context.close()


async def test_offline_marks_wait_and_pages_say_offline(browser: Browser, server: ReadingServer) -> None:
    """Marks are sent when the network is back, and pages that were read aren't kept."""
    context = await browser.new_context()
    page = await server.sign_in(Tab(context, await context.new_page()), "ann", "/channel/home?show=all")
    await page.evaluate("navigator.serviceWorker.ready.then(() => 0)")
    await context.set_offline(True)
    posts = [page.locator(".post").first, page.locator(".post").nth(2)]  # the form's first control belongs to the first
    names = [await post.get_attribute("id") for post in posts]
    counts = page.locator("#channels :is([data-channel=home], [data-channel=global]) [data-count]")
    before = int(await counts.first.inner_text())
    for done, post in enumerate(reversed(posts), 1):
        await post.locator("[data-act=read]").click()
        await expect(counts).to_have_text([str(before - done)] * 2)
        await page.get_by_text("Your change is sent when you are back online.").wait_for()
        assert await post.locator("[data-act=read]").get_attribute("aria-pressed") == "true"
    second = await context.new_page()
    await second.goto(f"{server.url}/channel/home?show=all")
    assert await second.locator("h1").inner_text() == "You are offline"
    assert " ann" not in await second.content()
    await page.evaluate("window.setTimeout = () => 0")  # no message ends by itself
    await page.keyboard.press("J")
    await page.get_by_text("You are offline. Only what this browser has kept can be read.").wait_for()
    await context.set_offline(False)
    await expect(page.get_by_text("You are offline.")).to_be_hidden()
    await second.locator("h1", has_text="Home").wait_for()
    await page.wait_for_function("() => !JSON.parse(localStorage.getItem('marks of ann')).length")
    await expect(counts).to_have_text([str(before - 2)] * 2)
    await page.reload()
    await expect(counts).to_have_text([str(before - 2)] * 2)
    read = [await page.locator(f"#{name} [data-act=read]").get_attribute("aria-pressed") for name in names]
    assert read == ["true", "true"]
    await page.locator(".post [data-act=save]").first.click()
    await page.get_by_text("Saved.").wait_for()
    await page.goto(f"{server.url}/saved")
    await context.set_offline(True)
    await page.locator(".post [data-act=read]").first.click()
    await page.get_by_text("Your change is sent when you are back online.").wait_for()
    await expect(page.locator("[data-channel=saved] .number")).to_have_text("1")  # of saved posts, not unread ones
    await context.set_offline(False)
    await page.wait_for_function("() => !JSON.parse(localStorage.getItem('marks of ann')).length")
    await context.close()


async def test_marking_all_and_its_undo_wait_too(browser: Browser, server: ReadingServer) -> None:
    """A mark that is undone before it is sent has no effect; the server undoes one that was sent, from any page."""
    context = await browser.new_context()
    page = await server.sign_in(Tab(context, await context.new_page()), "ann", "/channel/home?show=all")
    unread = page.locator(".post:not(.is-read)")
    count = await unread.count()
    mark, undo = page.get_by_role("button", name="Mark all as read"), page.get_by_role("button", name="Undo")
    waiting = "JSON.parse(localStorage.getItem('marks of ann')).length"
    await page.locator("#channels .unfold").click()
    await page.locator("#channels [data-feed]").wait_for()
    await context.set_offline(True)
    await mark.click()
    await page.get_by_text("Your change is sent when you are back online.").wait_for()
    assert (await unread.count(), await page.evaluate(waiting)) == (0, 1)
    counts = page.locator("#channels :is([data-channel=home], [data-channel=global], [data-feed]) [data-count]")
    await expect(counts).to_have_text(["0"] * 3)
    await undo.click()
    await expect(counts).to_have_text([str(count)] * 3)
    await page.get_by_text("Undone.").wait_for()
    assert (await unread.count(), await page.evaluate(waiting)) == (count, 0)
    await mark.click()
    await page.wait_for_function(f"() => {waiting} === 1")
    await context.set_offline(False)
    await page.wait_for_function(f"() => !{waiting}")
    await page.wait_for_function("() => document.querySelector('[data-channel=home] .count').hidden")
    await page.get_by_text("marked as read in Home.").wait_for()
    await page.reload()  # where the message and its button come along
    await page.get_by_text("marked as read in Home.").wait_for()
    await undo.click()
    await page.get_by_text("marked as unread in Home.").wait_for()
    await mark.click()
    await page.get_by_text("marked as read").wait_for()
    await context.set_offline(True)
    await undo.click()
    await page.get_by_text("Your change is sent when you are back online.").wait_for()
    await context.set_offline(False)
    await page.wait_for_function(f"() => !{waiting}")
    await page.reload()
    assert await unread.count() == count
    await context.close()


async def test_only_our_own_caches_are_deleted(browser: Browser, server: ReadingServer) -> None:
    """Other programs on the same origin, under another path, have caches too."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{server.url}/sign-in")
    for name in ("of another program", "shell of /other/ 1", "shell of / earlier"):
        await page.evaluate("(name) => caches.open(name).then(() => 0)", name)
    await server.sign_in(Tab(context, page), "ann", "/channel/home?show=all")
    await page.wait_for_function("() => navigator.serviceWorker.controller !== null")
    kept = await page.evaluate("caches.keys()")
    assert {"of another program", "shell of /other/ 1"} < set(kept)
    assert len(kept) == 3
    assert "shell of / earlier" not in kept
    await context.close()
