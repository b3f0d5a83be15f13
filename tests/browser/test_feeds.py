"""Feeds below their channels in the sidebar in Chromium: by mouse and keys, remembered, and without scripts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

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
        await page.get_by_role("button", name="Mark read", exact=True).first.click()
        await expect(page.locator(".channels .branch .count")).to_have_text("2 unread")
        await page.locator(".branch li:not(.none) a").click()
        await page.wait_for_url("**/feed/*?channel=home&show=unread")
        assert await page.locator(".post").count() == 2
        await page.keyboard.press("A")
        line = page.locator(".branch [aria-current=page]")
        await expect(line).to_have_attribute("href", re.compile("/feed/[0-9]+[?]channel=home$"))  # nothing left: all
        await page.keyboard.press("z")
        await expect(line.locator(".count")).to_have_text("2 unread")
        await page.get_by_role("button", name="Feeds in Home").click()
        await expect(rows).to_have_count(0)


async def test_unfolded_feeds_are_there_at_once(browser: Browser, server: ReadingServer) -> None:
    """On the tab's next pages, before the server tells how they are now: nothing moves, and keys lead to them.

    Keys that are pressed before the script of a page runs aren't lost.
    """
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        below = page.get_by_role("link", name="All feeds")
        await page.get_by_role("button", name="Feeds in Home").click()
        await page.locator(".branch a").first.wait_for()
        told = await here.holds("**/channels/home/feeds?part=1")
        for key in ("u", "J"):
            await page.goto(f"{server.url}/channel/home?show=all", wait_until="commit")
            await page.locator("footer").wait_for()
            assert await page.locator(".branch a").count() == 2
            before = await below.bounding_box()
            if key == "J":
                await (
                    page.get_by_role("button", name="Feeds in Home")
                    .and_(page.locator("[aria-expanded=true]"))
                    .wait_for()
                )
                await page.keyboard.press(key)
                await page.wait_for_url("**/feed/*?channel=home&show=unread")
                await page.locator(".branch [aria-current=page]").wait_for()
            else:
                assert before == await below.bounding_box()
        await page.locator(".branch [aria-current=page]").focus()
        async with page.expect_response("**/channels/home/feeds?part=1"):
            told.set()
        await expect(page.locator(".branch [aria-current=page]")).to_be_focused()
        for path, keys in (("/channel/home?show=all", "jj"), ("/follow", "my blog")):
            loaded = await here.holds("**/reader.js")
            await page.goto(f"{server.url}{path}", wait_until="commit")
            await page.locator("footer").wait_for()
            await here.keys(*keys)
            loaded.set()
            if keys == "jj":
                await page.locator(".post:nth-child(2):is(:focus, :focus-within)").wait_for()
            else:
                await expect(page.locator("#asked")).to_have_value(keys)


async def test_arrows_walk_through_the_channels(browser: Browser, server: ReadingServer) -> None:
    """From the one that is open; to the right and left they unfold it and fold it again."""
    focused = "document.activeElement.dataset.channel ?? document.activeElement.dataset.feed"
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        await here.keys("g", "c")
        assert await page.evaluate(focused) == "home"
        await page.keyboard.press("ArrowUp")
        assert await page.evaluate(focused) == "notifications"
        await here.keys("ArrowDown", "ArrowRight")
        rows = page.locator(".channels .branch li")
        await expect(rows).to_have_count(2)
        await here.keys("ArrowDown", "ArrowDown")
        last = await rows.last.locator("a").get_attribute("data-feed")
        assert await page.evaluate(focused) == last
        ring = "(it) => (it = getComputedStyle(it), parseFloat(it.outlineWidth) + parseFloat(it.outlineOffset))"
        assert await page.locator(":focus").evaluate(ring) <= 0  # the next line stays whole
        await page.keyboard.press("ArrowLeft")
        await expect(rows).to_have_count(0)
        assert await page.evaluate(focused) == "home"


async def test_a_feed_is_named_by_key(browser: Browser, server: ReadingServer) -> None:
    """Enter in the field saves its settings."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        async with page.expect_event("load"):
            await here.keys("j", "F")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Feed settings").press("Enter")
        await page.get_by_label("Name", exact=True).fill("Mine")
        await page.get_by_label("Name", exact=True).press("Enter")
        await page.get_by_text("Saved.").wait_for()
        assert await here.title() == "Mine"


async def test_a_channel_without_scripts(browser: Browser, server: ReadingServer) -> None:
    """The arrow leads to a page with the feeds."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "ann", "/channel/home")
        await page.get_by_role("link", name="Feeds in Home").click()
        assert await page.locator("main .branch li").count() == 2


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def many(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReadingServer]:
    """One reader of six feeds in one of three channels."""
    async with publisher() as feeds:
        addresses = [
            feeds.serve_document(f"/{number}", rss(dated(2, 1 + 2 * number), title=f"feed-{number}"))
            for number in range(6)
        ]
        channels = [{"uid": "home", "name": "Home", "feeds": addresses}, {"uid": "news", "name": "News"}]
        folder = tmp_path_factory.mktemp("many")
        user = {"channels": [*channels, {"uid": "later", "name": "Later"}]}
        async with reading_server(folder, {"ann": user}, "ann", polls=6) as made:
            yield made


async def channel_of(page: Page, name: str) -> str:
    """The channel of a feed in the table of all feeds."""
    return await page.get_by_role("row", name=name).get_by_role("cell").nth(2).inner_text()


async def test_the_table_of_feeds_fits(browser: Browser, many: ReadingServer) -> None:
    """In German on a desk, a narrow one, too; on a phone, with all that is known of a feed, and all that sorts."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/feed")
        await here.context.set_extra_http_headers({"accept-language": "de"})
        await page.reload()
        await page.set_viewport_size({"width": 1280, "height": 800})
        long = "'The long and winding name of a weblog that nobody ever meant to read in a narrow column'"
        await page.evaluate(
            f"document.querySelectorAll('.feeds tbody th a').forEach((one) => one.textContent = {long})"
        )
        cell = page.locator(".feeds td:last-child").first
        await cell.evaluate("cell => cell.textContent = 'Das ist eine Webseite ohne Beiträge, kein Feed.'")
        assert await page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.table'))"
        )
        assert (await cell.bounding_box() or {})["height"] < 70
        await page.set_viewport_size({"width": 1000, "height": 800})
        await cell.evaluate(
            "it => it.innerHTML = '<span class=trouble>Beendet</span> <button>Nicht mehr folgen</button>'"
        )
        await page.locator(".feeds td:nth-child(4)").first.evaluate("it => it.textContent = 'Wissenschaft'")
        button = await cell.get_by_role("button").bounding_box()
        assert button is not None
        assert button["x"] + button["width"] <= 1000 - 16
        assert await page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.table'))"
        )
        await page.set_viewport_size({"width": 390, "height": 844})
        assert await page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.table'))"
        )
        for part in await page.locator(".feeds thead a, .feeds tbody tr:first-child :is(a, td:not(:empty))").all():
            box = await part.bounding_box()
            assert box is not None
            assert 0 <= box["x"] < box["x"] + box["width"] <= 390
            assert box["height"] >= 24 or not await part.evaluate("it => it.matches('a')")
        assert await page.locator(".feeds td:nth-child(6)").first.evaluate("it => it.offsetHeight") < 30


async def test_the_table_of_feeds_stays_where_it_is(browser: Browser, many: ReadingServer) -> None:
    """On a phone, in German, when its script is there at last and offers a box for all."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await many.sign_in(here, "ann", "/settings")
        await page.set_viewport_size({"width": 390, "height": 844})
        await here.context.set_extra_http_headers({"accept-language": "de"})
        begun = await here.holds("**/choose*.js*")
        await page.goto(f"{many.url}/feed", wait_until="commit")
        table = page.locator(".table")
        await page.locator("footer").wait_for()  # all rows are there
        before = await table.bounding_box()
        begun.set()
        await page.get_by_role("checkbox", name="Alle gezeigten auswählen").wait_for()
        assert before == await table.bounding_box()


async def test_a_finished_feed_leads_to_the_next_one(browser: Browser, many: ReadingServer) -> None:
    """In an unfolded channel, whose line of the feed is marked as the page's; so does one that is read to its end.

    While the channel is folded, it leads to the channel, as long as other feeds there have unread posts.
    """
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/channel/home")
        await page.locator("[data-its-feed]").first.click()
        await expect(page.locator("h1")).to_have_text("feed-5")
        await page.keyboard.press("M")
        await page.wait_for_url("**/channel/home#first")
        await page.keyboard.press("z")
        await page.get_by_text("marked as unread in").wait_for()
        await page.goto(f"{many.url}/channel/home")
        await page.locator("[data-its-feed]").first.click()
        await page.locator(".post").last.focus()
        await page.keyboard.press("N")
        await page.wait_for_url("**/channel/home#first")
        other, feed = await here.context.new_page(), await page.locator("[data-its-feed]").first.get_attribute("href")
        await page.keyboard.press("A")
        await page.get_by_text("marked as read in Home.").wait_for()
        await other.goto(f"{many.url}{(feed or '').partition('&')[0]}")
        await expect(other.locator(".onward")).not_to_contain_text("Home")
        await page.keyboard.press("z")  # the channel had no number when the other page was made
        await expect(other.locator(".onward")).to_have_text(re.compile(r"Next: Home \d+"))
        await other.close()
        await page.get_by_role("button", name="Feeds in Home").click()
        await page.locator(".branch a").first.wait_for()
        for key, name in (("J", "feed-0"), ("M", "feed-1"), ("M", "feed-2")):
            await page.keyboard.press(key)
            await expect(page.locator("h1")).to_have_text(name)
            await expect(page.locator(".branch [aria-current=page] .name")).to_have_text(name)
            await expect(page.locator(".branch [aria-current=page] .face")).to_have_css(
                "-webkit-text-stroke-width", "0px"
            )
            if key == "M":
                await page.keyboard.press("z")
                await page.get_by_text("marked as unread in").wait_for()
            await expect(page.locator(".onward")).to_have_text(f"Next: feed-{int(name[-1]) + 1} 2")
        last = page.locator(".post").last
        await last.focus()
        await page.keyboard.press("N")
        await expect(page.locator("h1")).to_have_text("feed-3")
        await expect(page.locator(".post").first).to_be_focused()
        await page.get_by_role("link", name="Next: feed-4").click()
        await expect(page.locator("h1")).to_have_text("feed-4")
        await expect(page.locator(".post").first).to_be_focused()


async def test_the_list_of_channels_keeps_its_place(browser: Browser, many: ReadingServer) -> None:
    """From page to page, before anything is painted; the open line comes into view if it isn't."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/channel/home?show=all")
        await page.set_viewport_size({"width": 1280, "height": 330})
        await page.get_by_role("button", name="Feeds in Home").click()
        lines, beside = page.locator(".branch a"), page.locator("#channels")
        await lines.nth(5).scroll_into_view_if_needed()
        before = await beside.evaluate("list => list.scrollTop")
        assert before > 0
        await page.evaluate("scrollTo(0, 0)")
        await lines.nth(3).click()
        await page.locator(".branch [aria-current=page]").wait_for()
        assert await beside.evaluate("list => list.scrollTop") == before
        for key, name in (("J", "feed-4"), ("J", "feed-5")):
            await page.keyboard.press(key)
            await expect(page.locator(".branch [aria-current=page] .name")).to_have_text(name)
            await expect(page.locator(".branch [aria-current=page]")).to_be_in_viewport(ratio=1)
        await beside.evaluate("list => { list.scrollTop = 9; }")
        async with page.expect_event("load"):
            await here.keys("g", "f")
        await page.locator(".unfold[role=button]").first.wait_for()
        assert await beside.evaluate("list => list.scrollTop") == 9
        await page.goto(f"{many.url}/saved")
        await expect(page.get_by_role("link", name="Saved", exact=True).first).to_be_in_viewport()


async def test_feeds_of_channels_are_met_by_a_finger(browser: Browser, many: ReadingServer) -> None:
    """On a phone, an unfolded channel's lines are nearly as high as channels."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.get_by_role("button", name="Feeds in Home").click()
        line = page.locator("#channels .branch a").first
        await expect(line).to_be_visible()
        heights = [await one.evaluate("it => it.offsetHeight") for one in (line, page.locator("[data-channel=home]"))]
        assert heights[0] > 0.8 * heights[1]


async def test_a_refresh_of_all_feeds_is_shown_as_it_goes_on(browser: Browser, many: ReadingServer) -> None:
    """Without another press; chosen feeds stay chosen."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await many.sign_in(here, "ann", "/feed")

        async def waiting(route: Route) -> None:
            reply = await route.fetch()
            told = (await reply.text()).replace('id="refreshing"', 'id="refreshing" data-waiting')
            await route.fulfill(response=reply, body=told)

        await page.clock.install()
        await page.get_by_role("button", name="Refresh all").click()
        await page.wait_for_url("**/feed?asked=*")
        await page.route(page.url, waiting, times=1)
        await page.reload()
        await page.locator("#refreshing[data-waiting]").wait_for()
        await page.get_by_role("checkbox", name="feed-1").check()
        await page.clock.fast_forward(6000)
        await page.locator("#refreshing:not([data-waiting])").wait_for()
        await expect(page.get_by_role("checkbox", name="feed-1")).to_be_checked()


async def test_feeds_are_chosen_by_mouse_and_keys(browser: Browser, many: ReadingServer) -> None:
    """All shown, a range with Shift; the actions show while any is chosen; a move and its undo."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/feed")
        bar, boxes = page.locator(".choosing"), page.locator("[name=feed]")
        await expect(bar).to_be_hidden()
        for key, line in ("j", 0), ("n", 1), ("k", 0):
            await page.keyboard.press(key)
            await expect(page.locator("#feeds th a[dir]").nth(line)).to_be_focused()
        everything = page.get_by_role("checkbox", name="Choose all shown")
        await everything.focus()
        await page.keyboard.press("Space")
        assert await page.locator("[name=feed]:checked").count() == 6
        await expect(bar.get_by_text("Chosen: 6")).to_be_visible()
        await everything.uncheck()
        await expect(bar).to_be_hidden()
        await boxes.nth(0).check()
        await boxes.nth(2).click(modifiers=["Shift"])
        await expect(bar.get_by_text("Chosen: 3")).to_be_visible()
        assert await everything.evaluate("box => box.indeterminate")
        await expect(bar.get_by_label("Channel", exact=True)).to_be_hidden()
        await bar.get_by_label("With the chosen feeds").select_option("Move to the channel")
        await bar.get_by_label("Channel", exact=True).select_option("News")
        await bar.get_by_label("Channel", exact=True).focus()
        await page.keyboard.press("Tab")
        async with page.expect_navigation(wait_until="load"):
            await page.keyboard.press("Enter")
        await expect(page.get_by_role("status").get_by_text("3 feeds are now in News.")).to_be_visible()
        assert [await channel_of(page, f"feed-{number}") for number in (0, 2, 3)] == ["News", "News", "Home"]
        await page.keyboard.press("z")
        await expect(page.get_by_role("status").get_by_text("Undone for 3 feeds.")).to_be_visible()
        assert await channel_of(page, "feed-0") == "Home"


async def test_feeds_are_filtered_while_one_types(browser: Browser, many: ReadingServer) -> None:
    """By key; the address and the order keep the filter; feeds that it hides stay chosen and are counted."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/feed")
        rows, found, bar = page.locator(".feeds tbody tr"), page.locator("#found"), page.locator(".choosing")
        await page.get_by_role("checkbox", name="feed-1").check()
        await page.keyboard.press("/")
        await page.keyboard.type("Feed-4", delay=20)
        await expect(found).to_have_text("1 of 6 feeds matches")
        await expect(rows).to_have_count(1)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("link", name="feed-4", exact=True)).to_be_focused()
        assert page.url.endswith("/feed?q=Feed-4&sort=name")
        await page.locator("h1").click()
        await page.keyboard.press("/")
        assert await page.evaluate("getSelection().toString()") == "Feed-4"
        await expect(bar.get_by_text("Chosen: 1 (1 not shown)")).to_be_visible()
        await page.get_by_role("checkbox", name="feed-4").check()
        await bar.get_by_label("With the chosen feeds").select_option("Pause")
        async with page.expect_navigation(wait_until="load"):
            await bar.get_by_role("button", name="Apply").click()
        await expect(page.get_by_role("status").get_by_text("2 feeds are paused.")).to_be_visible()
        await expect(rows).to_have_count(1)
        await page.keyboard.press("z")
        await expect(page.get_by_role("status").get_by_text("Undone for 2 feeds.")).to_be_visible()
        filter_ = page.get_by_role("searchbox", name="Filter by name")
        await expect(filter_).to_have_value("Feed-4")
        await page.get_by_role("checkbox", name="Choose all shown").check()
        await filter_.fill("nothing has this name")
        await expect(found).to_have_text("0 of 6 feeds match")
        await expect(page.locator("#feeds")).to_be_hidden()
        await filter_.fill("")
        await expect(rows).to_have_count(6)
        await expect(found).to_have_text("6 feeds")
        assert await page.locator("[name=feed]:checked").count() == 1
        await expect(bar.get_by_text("Chosen: 1", exact=True)).to_be_visible()
        await filter_.fill("feed-2")
        await expect(rows).to_have_count(1)
        await page.get_by_role("link", name="Channel", exact=True).click()
        await page.wait_for_url("**/feed?sort=channel&q=feed-2")
        await expect(rows).to_have_count(1)


async def test_a_filter_whose_reply_is_lost_leads_to_no_feed(browser: Browser, many: ReadingServer) -> None:
    """The table still has all feeds, so Enter again would open another one than the words mean."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await many.sign_in(here, "ann", "/feed")
        filter_ = page.get_by_role("searchbox", name="Filter by name")
        await page.route("**/feed?*", lambda route: route.abort())
        await filter_.fill("feed-4")
        async with page.expect_event("requestfailed"):
            await filter_.press("Enter")
        await page.unroute("**/feed?*")
        await expect(filter_).to_be_focused()
        await filter_.press("Enter")
        await expect(page.get_by_role("link", name="feed-4", exact=True)).to_be_focused()


async def test_feeds_are_chosen_without_scripts(browser: Browser, many: ReadingServer) -> None:
    """All shown by a link; the other boxes and actions by hand."""
    async with tab(browser, scripts=False) as here:
        page = await many.sign_in(here, "ann", "/feed")
        await page.get_by_role("link", name="Choose all shown").click()
        await page.get_by_role("checkbox", name="feed-5").uncheck()
        await page.get_by_label("With the chosen feeds").select_option("Pause")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("5 feeds are paused.")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("Undone for 5 feeds.")).to_be_visible()
        assert await page.get_by_role("cell", name="Paused").count() == 0


async def test_a_feed_is_dragged_to_another_channel(browser: Browser, many: ReadingServer) -> None:
    """It moves, the counts and the branches follow, the page stays; *Undo* in the notice or its key brings it back."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/channel/home?show=all")
        for name in ("Home", "News"):
            await page.get_by_role("button", name=f"Feeds in {name}").click()
        rows, address = page.locator(".branch[data-uid=home] li"), page.url
        await expect(rows).to_have_count(6)
        moved = rows.filter(has_text="feed-1")
        await moved.locator("a").drag_to(page.locator("#channels [data-channel=news]"))
        notice = page.get_by_role("status").filter(has_text="feed-1 is now in News.")
        await expect(notice).to_be_visible()
        await expect(page.locator(".branch[data-uid=news] li")).to_have_text(re.compile("feed-1"))
        await expect(rows).to_have_count(5)
        await expect(page.locator("[data-channel=news] [data-count]")).to_have_text("2")
        mark = page.locator(".post", has_text="feed-1").first.locator("[data-act=read]")
        for count in ("1", "2"):  # in the channel where its posts are now
            await mark.click()
            await expect(page.locator("[data-channel=news] [data-count]")).to_have_text(count)
        await page.keyboard.press("A")
        await expect(page.locator(".post:not(.is-read)", has_text="feed-2")).to_have_count(0)
        await expect(page.locator(".post:not(.is-read)", has_text="feed-1")).to_have_count(2)  # these aren't in Home
        await expect(page.locator("[data-channel=news] [data-count]")).to_have_text("2")
        await notice.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("status").filter(has_text="Undone for feed-1.")).to_be_visible()
        await expect(rows).to_have_count(6)
        assert page.url == address
        await page.keyboard.press("A")
        await expect(page.locator("#done [form=undo]")).to_be_visible()
        await moved.locator("a").drag_to(page.locator("#channels [data-channel=news]"))
        await expect(rows).to_have_count(5)
        await page.keyboard.press("z")
        await expect(page.get_by_role("status").filter(has_text="Undone for feed-1.")).to_be_visible()
        await expect(rows).to_have_count(6)
        await moved.locator("a").drag_to(page.locator("#channels [data-channel=saved]"))
        await expect(rows).to_have_count(6)
        await moved.locator("a").click()
        await expect(page.locator("h1")).to_have_text("feed-1")
        if await page.locator(".post.is-read").count():
            await page.locator(".post.is-read [data-act=read]").first.click()
        await moved.locator("a").drag_to(page.locator("#channels [data-channel=news]"))
        await expect(rows).to_have_count(5)
        await page.keyboard.press("A")  # on the feed's own page, they are marked where they are now
        await expect(page.locator("#done [data-text]")).to_contain_text("marked as read in feed-1.")
        await page.locator(".moved").get_by_role("button", name="Undo").click()
        await expect(rows).to_have_count(6)


async def test_a_refused_drag(browser: Browser, many: ReadingServer) -> None:
    """The channel was deleted meanwhile in another tab."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/channel/home?show=all")
        await page.get_by_role("button", name="Feeds in Home").click()
        await page.locator("#channels [data-channel=later]").evaluate("link => link.dataset.channel = 'gone'")
        row = page.locator(".branch[data-uid=home] li").filter(has_text="feed-1")
        await row.locator("a").drag_to(page.locator("#channels [data-channel=gone]"))
        await expect(page.get_by_role("alert")).to_have_text("There is no such channel.")


async def test_a_feed_is_gone_on_with_at_its_first_unread_post(browser: Browser, many: ReadingServer) -> None:
    """Its page shows all posts, also those that are read."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/channel/home?show=all")
        await page.get_by_role("button", name="Feeds in Home").click()
        await page.locator(".branch a", has_text="feed-5").click()
        await expect(page.locator("h1")).to_have_text("feed-5")
        read = page.locator(".post.is-read")
        while await read.count():  # by the tests before
            await read.first.focus()
            async with page.expect_response("**/marks"):
                await page.keyboard.press("m")
        await page.locator(".post").first.focus()
        await page.keyboard.press("m")
        await page.locator(".post.is-read").wait_for()
        await page.locator(".branch a", has_text="feed-4").click()
        await expect(page.locator("h1")).to_have_text("feed-4")
        await page.locator(".branch li", has_text="feed-5").locator(".count").wait_for()  # a second after its marks
        await page.locator(".post").last.focus()
        await page.keyboard.press("N")
        await expect(page.locator("h1")).to_have_text("feed-5")
        await expect(page.locator(".post:not(.is-read)")).to_be_focused()
        await page.keyboard.press("k")
        async with page.expect_response("**/marks"):
            await page.keyboard.press("m")


MOVING = """() => {
    const shown = document.querySelector("#channels [data-channel=home] [data-count]");
    window.moving = setInterval(() => (shown.textContent = shown.textContent), 200);
    document.querySelector(".branch").dataset.seen = "yes";
    document.querySelector(".branch img, .branch .face").dataset.seen = "yes";
}"""


async def test_counts_of_feeds_follow_while_one_reads_on(browser: Browser, server: ReadingServer) -> None:
    """Also if that of their channel never rests; their lines and icons stay, so that nothing is asked for again."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        await page.get_by_role("button", name="Feeds in Home").click()
        shown = page.locator(".branch li:has(.count) .count").first
        await shown.wait_for()
        before = int((await shown.inner_text()).split()[0])
        await page.evaluate(MOVING)
        await page.keyboard.press("j")
        unread = await page.locator(".post:focus:not(.is-read)").count()
        await page.keyboard.press("m")
        await expect(shown).to_have_text(f"{before - 1 if unread else before + 1} unread")
        assert await page.locator(".branch[data-seen] .face[data-seen]").count() == 1
        await page.keyboard.press("m")
        await expect(shown).to_have_text(f"{before} unread")


async def test_the_channels_cover_no_footer(browser: Browser, many: ReadingServer) -> None:
    """On a short page, whose unfolded channels are higher than the window."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/saved")
        await page.set_viewport_size({"width": 1280, "height": 420})
        await page.get_by_role("button", name="Feeds in Home").click()
        await page.locator(".branch a").nth(5).wait_for()
        await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        beside, *below = [await page.locator(one).bounding_box() for one in ("#channels", "footer", ".hint")]
        assert beside is not None
        for one in below:
            assert one is not None
            assert beside["y"] + beside["height"] <= one["y"] or beside["x"] + beside["width"] <= one["x"]


async def test_a_compact_list_of_channels_is_no_higher(browser: Browser, many: ReadingServer) -> None:
    """The lines of an unfolded channel's feeds."""
    async with tab(browser) as here:
        page = await many.sign_in(here, "ann", "/saved")
        await page.get_by_role("button", name="Feeds in Home").click()
        line = page.locator(".branch a").first
        await line.wait_for()
        height = "it => it.getBoundingClientRect().height"
        before = await line.evaluate(height)
        await page.evaluate("document.documentElement.dataset.density = 'compact'")
        assert await line.evaluate(height) <= before
