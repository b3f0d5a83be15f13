"""Importing feeds, passing posts on and muting in Chromium: by drag, by buttons, without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PEOPLE = ("bringer", "passer", "plain")
LIST = "".join(f"<outline text='Feed {n}' xmlUrl='http://f{n}.invalid/feed'/>" for n in range(1, 41))
OPML = (
    f"<opml version='2.0'><body><outline text='Far'>{LIST}</outline><outline htmlUrl='http://a.invalid'/></body></opml>"
)
BEFORE = """() => {
  document.querySelector("#channels [data-channel=far]")?.closest("li").remove();
  document.querySelector("#channels [data-channel=home]").insertAdjacentHTML("afterend", "<a class=attention>1</a>");
  document.getElementById("import").dataset.running = "";
  return import(document.querySelector("script[src*='lists']").src + "?again");
}"""
"""Brings the page back to the time when the import is running and has made no channel, and a feed can't be read."""
LEFT_EDGE = "(one) => one.getBoundingClientRect().left"
DROPPED = """(text) => {
  const files = new DataTransfer();
  files.items.add(new File([text], "feeds.opml", { type: "text/x-opml" }));
  document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true }));
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReadingServer]:
    """All users follow one blog of five posts in `home`."""
    async with publisher() as feeds:
        address = feeds.serve_document("/feed", rss(dated(5)))
        users = {name: {"channels": [{"uid": "home", "name": "Home", "feeds": [address]}]} for name in PEOPLE}
        async with reading_server(tmp_path_factory.mktemp("set"), users, *PEOPLE, polls=1) as made:
            yield made


async def test_a_list_is_dropped_on_the_follow_page(browser: Browser, server: ReadingServer) -> None:
    """The page shows the result without a reload, and the new channel in its list."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "bringer", "/follow")
        async with page.expect_event("load"):
            await page.evaluate(DROPPED, OPML)
        await page.get_by_role("heading", name="You follow 40 new feeds").wait_for()
        assert "1 line had a problem" in await here.text()
        await page.evaluate(BEFORE)
        await page.locator("#channels [data-channel=far]").wait_for()
        await page.get_by_role("button", name="Feeds in Far").wait_for()
        assert await page.locator("#channels [data-channel=far]").count() == 1
        assert await page.locator("#channels [data-channel=home] ~ .attention").count() == 0
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download your feeds as OPML").click()
        assert "http://f40.invalid/feed" in (await (await download.value).path()).read_text()


@pytest.mark.parametrize("scripts", [True, False])
async def test_times_are_of_one_zone_on_a_page(browser: Browser, server: ReadingServer, *, scripts: bool) -> None:
    """Pages of the account and of posts both show the browser's local time, or name UTC if no script runs."""
    async with tab(browser, scripts=scripts) as here:
        page = await server.sign_in(here, "passer", "/account")
        await page.goto(f"{server.url}/channel/home?show=all")
        post = await page.locator(".post h2 a").first.get_attribute("href")
        for path in ("/account", post):
            await page.goto(f"{server.url}{path}")
            times = await page.locator("main time").all_inner_texts()
            assert times, path
            assert [text.endswith(" UTC") for text in times] == [not scripts] * len(times), (path, times)


async def test_the_menu_stays_where_it_is(browser: Browser, server: ReadingServer) -> None:
    """On all pages for users who are signed in, including those of the account; so does the page's main content."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "passer", "/settings")
        places = set()
        for path in ("/settings", "/settings/rules", "/display", "/account", "/account/sign-in", "/connect"):
            await page.goto(f"{server.url}{path}")
            places.add(tuple([await page.locator(part).evaluate(LEFT_EDGE) for part in (".top nav", "h1")]))
        assert len(places) == 1, places
        # Whole on a phone too, in a language with long words; a choice of the display stays below its pointer.
        await page.set_viewport_size({"width": 360, "height": 740})
        await page.set_extra_http_headers({"Accept-Language": "de"})
        await page.goto(f"{server.url}/display")
        account = page.get_by_role("link", name="Konto von passer")
        assert await account.evaluate("it => it.getBoundingClientRect().right <= innerWidth")
        large = page.get_by_label("Größer")
        place = await large.evaluate("it => it.getBoundingClientRect().top + scrollY")
        await large.check()
        assert await large.evaluate("it => it.getBoundingClientRect().top + scrollY") == place
        await page.get_by_text("Gespeichert, für alle").wait_for()
        await here.context.set_offline(True)
        await large.evaluate("it => it.form.querySelector('[value=small]').click()")
        await page.get_by_text("Nicht gespeichert").wait_for()


async def test_without_scripts(browser: Browser, server: ReadingServer) -> None:
    """The field imports a list; an output feed passes a post on; a feed is muted; a source gets a token."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "plain", "/settings")
        await page.get_by_role("link", name="Import and export").click()
        file = {"name": "feeds.opml", "mimeType": "text/x-opml", "buffer": OPML.encode()}
        await page.get_by_label("OPML file").set_input_files(file)  # type: ignore[arg-type]
        await here.press("Import")

        async def is_over() -> bool:
            await page.reload()
            return "You follow 40 new feeds" in await here.text()

        await wait_until(is_over)
        await page.goto(f"{server.url}/settings/outputs")
        await here.fill(title="Picks")
        await here.press("Create")
        await page.goto(f"{server.url}/channel/home")
        await page.locator(".post h2 a").first.click()
        await page.get_by_text("More", exact=True).click()
        await here.press("Add")
        assert "published · 0 impressions" in await here.text()
        await page.goto(f"{server.url}/channel/home")
        await page.locator(".post h2 a").first.click()
        await page.get_by_text("More", exact=True).click()
        await page.get_by_label("Duration").select_option(label="for a week")
        await here.press("Mute")
        assert "Muted: 5 posts are hidden." in await here.text()
        async with page.expect_event("load"):
            await page.get_by_role("button", name="Unmute").click()
        assert "Done: 5 posts are shown again." in await here.text()
        await page.goto(f"{server.url}/settings/sources")
        await here.fill(name="Backups")
        await here.press("Create and show token")
        assert "Copy the token now" in await here.text()


async def test_posts_are_passed_on(browser: Browser, server: ReadingServer) -> None:
    """In a feed of a whole channel, whose address is copied and then opened."""
    async with tab(browser) as here:
        await here.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = await server.sign_in(here, "passer", "/settings/outputs")
        await here.fill(title="World")
        await page.get_by_label("Add posts automatically").select_option(label="All posts in Home")
        await here.press("Create")
        assert await here.title() == "Output feed World"
        await page.get_by_role("button", name="Copy Page").click()
        await page.get_by_text("Copied").wait_for()
        address = await page.evaluate("navigator.clipboard.readText()")
        await page.goto(address)
        assert "Post 5" in await here.text()
