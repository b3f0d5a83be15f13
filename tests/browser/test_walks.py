"""Following, organising, filtering, saving, searching, mentions, episodes and a screen reader, in Chromium."""

from __future__ import annotations

import asyncio
import io
import re
import wave
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.accessibility import violations
from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import tab
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import Asked, Publisher, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PEOPLE = (
    "elder",
    "filterer",
    "saver",
    "seeker",
    "listener",
    "mentioned",
    "player",
    "walker",
    "quiet",
    "queuer",
    "presser",
    "early",
    "starrer",
    "backer",
)
TENDERS = ("follower", "orderer", "scriptless")
COUNT, LONG = 5, 45
EMPTY = ("home", "news", "fun")


@dataclass
class Server(ReadingServer):
    """Most users follow one blog of five posts in `home`; those who organise their channels have three empty ones."""

    feeds: Publisher


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """The feed has been polled."""
    async with publisher() as feeds:
        feed = feeds.serve_document("/feed", rss(dated(COUNT)))
        users = {name: {"channels": [{"uid": "home", "name": "Home", "feeds": [feed]}]} for name in PEOPLE}
        long = feeds.serve_document("/long", rss(dated(LONG)).replace(b"posts.test", b"long.test"))
        settings = {"first_fetch_unread": 1000}
        users["elder"]["channels"].append({"uid": "long", "name": "Long", "feeds": [long]})
        users["mentioned"]["me"] = feeds.url("/mine/")
        sounds = feeds.serve_document("/sounds", podcast(feeds.serve("/episode.wav", served)))
        for name in ("player", "walker", "quiet", "queuer", "presser", "early", "backer"):
            users[name]["channels"].append({"uid": "sounds", "name": "Sounds", "feeds": [sounds]})
        whole = feeds.serve_document("/whole", podcast(feeds.serve("/whole.wav", served_whole)))
        users["quiet"]["channels"].append({"uid": "whole", "name": "Whole", "feeds": [whole]})
        more = feeds.serve_document("/more", more_episodes(feeds.url("/episode.wav")))
        for name in ("queuer", "presser", "early", "starrer"):
            users[name]["channels"].append({"uid": "more", "name": "More", "feeds": [more]})
        users |= {name: {"channels": [{"uid": uid, "name": uid.title()} for uid in EMPTY]} for name in TENDERS}
        async with reading_server(tmp_path_factory.mktemp("walks"), users, *users, polls=5, settings=settings) as made:
            yield Server(made.own, made.url, feeds)


async def unread(page: Page) -> int:
    """The unread count of `home` in the list of channels."""
    shown = page.locator("[data-channel=home] .count")
    return int(await shown.locator("[data-count]").inner_text()) if await shown.is_visible() else 0


async def test_a_filter_is_tried_on_existing_posts(browser: Browser, server: Server) -> None:
    """It shows the posts that it would have excluded; those that it marks as read come back by a key, elsewhere too."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "filterer", "/channels/home/filter")
        await here.fill(exclude_words="Post 2\nno such words")
        await here.press("Preview")
        assert f"1 of the newest {COUNT} posts would be excluded" in await here.text()
        assert "Post 2 contains “Post 2”" in await here.text()
        assert "This is a preview. The filter is not saved yet." in await here.text()
        assert await unread(page) == COUNT
        await here.press("Save and mark excluded posts as read")
        assert "1 post marked as read." in await here.text()
        assert await unread(page) == COUNT - 1
        await page.goto(f"{server.url}/channel/home")
        await page.keyboard.press("z")
        await page.get_by_text("Marked as unread.").wait_for()
        assert await unread(page) == COUNT


async def test_the_oldest_come_first(browser: Browser, server: Server) -> None:
    """Only with that setting, over all pages; marking all means all posts, and quiet channels may be left out."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "elder", "/display")
        await page.get_by_label("Oldest first").check()
        await page.get_by_label("Only channels with unread posts").check()
        await here.press("Save")
        headings = page.locator(".post h2")
        await page.goto(f"{server.url}/channel/long?show=all")
        assert [one.strip() for one in await headings.all_text_contents()] == [f"Post {n}" for n in range(1, 21)]
        for step, first in (("Newer posts", "Post 21"), ("Newer posts", "Post 41"), ("Older posts", "Post 21")):
            async with page.expect_event("load"):
                await page.get_by_role("link", name=step).press("Enter")  # posts above it are laid out meanwhile
            assert await headings.first.inner_text() == first
        await page.goto(f"{server.url}/channel/long")
        assert await page.locator("#channels [data-channel=long]").is_visible()
        await here.press("Mark all as read")
        assert "You have read everything." in await here.text()
        await page.goto(server.url)
        assert not await page.locator("#channels [data-channel=long]").is_visible()
        assert await page.locator("#channels [data-channel=home]").is_visible()


async def test_saved_posts_stay_until_removed(browser: Browser, server: Server) -> None:
    """By a button or a key, whatever is marked in other places."""
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
        await page.get_by_text("Removed from saved posts.").wait_for()
        await page.reload()
        assert "No saved posts." in await here.text()


async def test_posts_are_found(browser: Browser, server: Server) -> None:
    """By words, from any page of reading; the found posts can be marked."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "seeker", "/channel/home")
        await page.keyboard.press("/")
        await page.keyboard.type('"post 3"')
        async with page.expect_event("load"):
            await page.keyboard.press("Enter")
        assert await here.title() == 'Search for “"post 3"”'
        assert await page.locator(".post h2").all_inner_texts() == ["Post 3"]
        await page.get_by_role("button", name="Mark these posts as read").click()
        await page.get_by_text("1 post marked as read.").wait_for()
        assert await unread(page) == COUNT - 1
        await page.fill("input[name=q]", "is:unread")
        async with page.expect_event("load"):
            await page.keyboard.press("Enter")
        assert "Post 3" not in await page.locator(".post h2").all_inner_texts()
        await page.fill("input[name=q]", "nowhere")
        async with page.expect_event("load"):
            await page.keyboard.press("Enter")
        assert "No posts found." in await here.text()


async def focus(page: Page) -> str:
    """The name of the focused element."""
    return str(
        await page.evaluate(
            "(() => { const it = document.activeElement; const by = it.getAttribute('aria-labelledby');"
            " return (by ? document.getElementById(by) : it).innerText || it.name || it.tagName; })()"
        )
    )


async def test_a_screen_reader_gets_parts_names_and_states(browser: Browser, server: Server) -> None:
    """The parts of the page in their order, posts with name, place and state; no action loses the focus."""
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
            'feed "Home"',
            "contentinfo",
        )
        places = [said.index(part) for part in parts]
        assert places == sorted(places)
        first = page.locator(".post").first
        assert await first.get_attribute("aria-posinset") == "1"
        assert await first.get_attribute("aria-setsize") == str(COUNT)
        assert 'article "Post 5"' in said
        assert await page.locator("[data-state]").first.inner_text() == "Unread"
        steps = (("read", "Read"), ("save", "Saved"), ("above", "Mark read up to here"))
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
        await page.get_by_text("marked as unread in Home.").wait_for()
        assert await focus(page) == "Post 5"
        await page.keyboard.press("?")
        assert await focus(page) == "Close"
        await page.keyboard.press("Escape")
        assert await focus(page) == "Post 5"
        assert await page.locator("#done").get_attribute("role") == "status"


async def test_a_mention_is_received_and_taken_back(browser: Browser, server: Server) -> None:
    """It comes into the notifications; its page isn't checked any more."""
    target = server.feeds.url("/mine/page")
    source = server.feeds.serve_document(
        "/answer", f"<p class=h-entry><a href='{target}'>you</a></p>".encode(), "text/html"
    )
    async with httpx.AsyncClient() as client:
        sent = await client.post(f"{server.url}/webmention/mentioned", data={"source": source, "target": target})
    assert sent.status_code in {201, 202}, sent.text
    async with tab(browser) as here:
        page = await server.sign_in(here, "mentioned", "/channel/notifications")
        await page.locator(".post").wait_for()  # it appears automatically
        await page.goto(f"{server.url}/settings/webmentions")
        assert "in your notifications" in await here.text()
        await page.get_by_role("button", name="Delete").click()
        assert "The change takes effect within seconds." in await here.text()

        async def gone() -> bool:
            await page.goto(f"{server.url}/channel/notifications?show=all")
            return await page.locator(".post").count() == 0

        await wait_until(gone)


async def test_new_posts_come_into_a_list_that_was_read(browser: Browser, server: Server) -> None:
    """Automatically, though it leads to the next channel with its number."""
    target = server.feeds.url("/mine/again")

    async def mention(path: str) -> None:
        said = f"<p class=h-entry><a href='{target}'>you</a></p>".encode()
        data = {"source": server.feeds.serve_document(path, said, "text/html"), "target": target}
        async with httpx.AsyncClient() as client:
            sent = await client.post(f"{server.url}/webmention/mentioned", data=data)
        assert sent.status_code in {201, 202}, sent.text

    await mention("/first")
    async with tab(browser) as here:
        page = await server.sign_in(here, "mentioned", "/channel/notifications")
        await page.locator(".post").first.wait_for()
        async with page.expect_response("**/marks/all"):
            await page.get_by_role("button", name="Mark all as read").click()
        await page.goto(f"{server.url}/channel/notifications")
        await page.get_by_text("You have read everything.").wait_for()
        await page.get_by_role("link", name="Next: Home").wait_for()
        await mention("/second")
        await page.locator(".post").wait_for()


async def _names(page: Page) -> list[str]:
    return await page.locator("[data-order] a").all_inner_texts()


async def test_a_pasted_address_becomes_posts(browser: Browser, server: Server) -> None:
    """In a channel that is created for it; everything by keys."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "follower", "/follow")
        address = server.feeds.serve_document("/pasted", rss(dated(3)))
        await page.keyboard.insert_text(address)  # the field has the focus
        async with page.expect_event("load"):
            await page.keyboard.press("Enter")
        async with page.expect_event("load"):
            await page.keyboard.press("Enter")  # follows the feed that was found
        await page.get_by_text("You now follow").wait_for()
        async with page.expect_event("load"):
            await here.keys("Escape", "z")
        await expect(page.get_by_text("You now follow")).to_have_count(0)
        await page.goto(server.url + "/follow")
        await page.keyboard.insert_text(address)
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="Preview").first.click()
        await page.get_by_role("heading", name="Post 3").wait_for()
        await page.get_by_label("Channel", exact=True).select_option("+")
        await page.get_by_label("Name of the new channel").fill("Harbour")
        await here.press("Follow")
        assert "You now follow" in await here.text()
        await page.get_by_role("link", name="Read posts").click()
        await page.locator(".post").first.wait_for()  # they appear automatically

        async def arrived() -> bool:
            await page.reload()
            return await page.locator("article.post").count() == 3

        await wait_until(arrived)
        assert await here.title() != ""


async def test_channels_are_ordered_by_drag_and_by_keys(browser: Browser, server: Server) -> None:
    """The order is the same after a reload."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "orderer", "/channels")
        assert await _names(page) == ["Home", "News", "Fun"]
        grip, first = page.locator("[data-uid=fun] .grip"), page.locator("[data-uid=home]")
        await grip.hover()
        await page.mouse.down()
        box = await first.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 20, box["y"] + 2, steps=5)
        async with page.expect_event("load"):
            await page.mouse.up()
        assert await _names(page) == ["Fun", "Home", "News"]
        await page.get_by_role("link", name="Fun", exact=True).last.focus()
        async with page.expect_event("load"):
            await page.keyboard.press("Alt+ArrowDown")
        assert await _names(page) == ["Home", "Fun", "News"]
        assert await page.evaluate("document.activeElement.innerText") == "Fun"


async def test_channels_are_managed_without_scripts(browser: Browser, server: Server) -> None:
    """Order, filter, deletion and its undo."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "scriptless", "/channels")
        await here.press("Move News up")
        assert await _names(page) == ["News", "Home", "Fun"]
        await page.goto(f"{server.url}/channels/home/filter")
        await here.fill(exclude_words="Post 2")
        await here.press("Preview")
        assert "0 of the newest 0 posts" in await here.text()
        await here.press("Save filter")
        assert "Filter saved." in await here.text()
        await page.goto(f"{server.url}/channels/home")
        await here.press("Delete channel")
        assert await _names(page) == ["News", "Fun"]
        await here.press("Undo")
        assert sorted(await _names(page)) == ["Fun", "Home", "News"]


SECONDS, RATE = 120, 8000
PLAYER = "document.querySelector('audio')"


def sound() -> bytes:
    """Two minutes of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 1, RATE, SECONDS * RATE, "NONE", ""))
        written.writeframes(b"\x80" * SECONDS * RATE)
    return file.getvalue()


async def served(asked: Asked) -> None:
    """The sound, from the requested position."""
    body = sound()
    start = int(asked.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
    place = f"Content-Range: bytes {start}-{len(body) - 1}/{len(body)}"
    await asked.reply(
        body[start:], place, "Content-Type: audio/wav", "Accept-Ranges: bytes", status="206 Partial Content"
    )


async def served_whole(asked: Asked) -> None:
    """The sound, which this host sends only as a whole."""
    await asked.reply(sound(), "Content-Type: audio/wav")


async def listen(page: Page, until: str) -> None:
    """Presses the player, and waits for that state."""
    await page.locator("audio").focus()
    await page.keyboard.press("Space")
    await page.wait_for_function(f"() => {{ const it = {PLAYER}; return {until}; }}")


def podcast(episode: str) -> bytes:
    text = f"<description>Episode of 19:30 Uhr: 0:00 Welcome, 0:45 Bread</description><guid>{episode}</guid>"
    item = f"<item><title>Episode</title>{text}<enclosure url='{episode}' type='audio/wav'/></item>"
    return f"<rss version='2.0'><channel><title>P</title>{item}</channel></rss>".encode()


def more_episodes(episode: str) -> bytes:
    items = (
        f"<item><title>More {n}</title><guid>m{n}</guid><enclosure url='{episode}?{n}' type='audio/wav'/></item>"
        for n in range(3)
    )
    return f"<rss version='2.0'><channel><title>More</title>{''.join(items)}</channel></rss>".encode()


async def test_a_player_resumes_at_its_position(browser: Browser, server: Server) -> None:
    """The page shows the position; the publisher gets no request before playback, nor for the list of posts."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "player", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        assert server.feeds.count("/episode.wav") == 0
        await listen(page, "it.currentTime > 0 && !it.paused")
        await page.evaluate(f"{PLAYER}.currentTime = 70")
        await page.wait_for_function(f"() => {PLAYER}.currentTime > 70.2")
        await page.reload()
        assert await page.get_by_text("Continues at 01:10.").is_visible()
        # Stopped before any data has come.
        stopped = (
            f"new Promise((stop) => {{ {PLAYER}.onpause = stop; {PLAYER}.play().catch(stop); {PLAYER}.pause(); }})"
        )
        await page.evaluate(f"{stopped}.then(() => null)")
        await page.reload()
        assert await page.get_by_text("Continues at 01:10.").is_visible()
        await listen(page, "it.currentTime > 70 && !it.paused")
        await page.evaluate(f"{PLAYER}.currentTime = {SECONDS - 2}")
        await page.wait_for_function(f"() => {PLAYER}.ended")
        await page.reload()
        assert not await page.get_by_text("Continues at").is_visible()


BAR = "document.querySelector('#listening audio')"


async def forget_episode(page: Page) -> None:
    """What the bar does at the end of its only episode, for tests with the same user."""
    async with page.expect_response("**/listening"):
        await page.locator("#listening [data-next]").evaluate("button => button.click()")


CUTS = """it => {
    const free = it.cloneNode(true);
    free.style.width = "max-content";
    it.after(free);
    const cuts = free.offsetWidth > it.offsetWidth;
    free.remove();
    return cuts;
}"""


async def test_an_episode_plays_on_from_page_to_page_and_on_another_device(browser: Browser, server: Server) -> None:
    """The bar goes on at its position on the next page, paused too; the account keeps it, and the speed."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "walker", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        await page.get_by_role("button", name="Play while reading on").click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        async with page.expect_response("**/listening"):
            await page.get_by_label("Speed").select_option("1.5 ×")
        assert await page.evaluate(f"{BAR}.playbackRate") == 1.5
        await page.evaluate(f"{BAR}.currentTime = 40")
        await page.wait_for_function(f"() => {BAR}.currentTime > 40.2")
        await page.get_by_role("button", name="Back 30 seconds").click()
        await page.wait_for_function(f"() => {BAR}.currentTime < 30")
        await page.get_by_role("button", name="Forward 30 seconds").click()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && {BAR}.currentTime < 60")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="All feeds").first.click()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && {BAR}.currentTime < 60 && !{BAR}.paused")
        assert await page.evaluate(f"{BAR}.playbackRate") == 1.5
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Account of walker").click()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && {BAR}.currentTime < 60 && !{BAR}.paused")
        assert await page.evaluate(f"{BAR}.playbackRate") == 1.5
        bar, end = await page.locator("#listening").bounding_box(), await page.evaluate("innerHeight")
        assert bar is not None
        assert bar["y"] + bar["height"] == end
        assert bar["height"] < end / 5
        await page.go_back()
        await page.keyboard.press("n")
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && {BAR}.currentTime < 60 && !{BAR}.paused")
        async with page.expect_response("**/listening"):
            await page.get_by_role("button", name="Forward 30 seconds").click()
            await page.evaluate(f"{BAR}.pause()")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Home").first.click()
        assert await page.evaluate(f"{BAR}.paused")
        await page.evaluate(f"{BAR}.play()")
        await page.wait_for_function(f"() => {BAR}.currentTime > 70")
        await page.evaluate(f"{BAR}.pause()")
    async with tab(browser) as there:
        page = await server.sign_in(there, "walker", "/channel/home")
        assert await page.evaluate(f"{BAR}.paused")
        assert await page.evaluate(f"{BAR}.playbackRate") == 1.5
        at = int(await page.get_attribute("#listening audio", "data-at") or 0)
        assert 70 <= at < 95
        said = page.locator("#listening").get_by_text(f"from {at // 60}:{at % 60:02}")
        assert await said.is_visible()
        await page.evaluate(f"{BAR}.play()")
        await page.wait_for_function(f"() => {BAR}.currentTime > 70")
        assert not await said.is_visible()
        await page.evaluate(f"{BAR}.currentTime = {SECONDS - 1}")
        await page.wait_for_function("() => !document.getElementById('listening')")
        await page.reload()
        assert await page.locator("#listening").count() == 0


async def test_an_episode_goes_on_after_the_way_back(browser: Browser, server: Server) -> None:
    """By keys at once. After its own button, the browser wants a press first, wherever; until then the bar is at its
    position, on further pages, too.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "backer", "/channel/sounds?show=all")
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        await page.evaluate(f"{BAR}.currentTime = 40")
        await page.wait_for_function(f"() => {BAR}.currentTime > 40")
        async with page.expect_event("load"):
            await page.locator("#listening p a").click()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && !{BAR}.paused")
        for way in ("Left", "Right"):
            async with page.expect_event("load"):
                await page.keyboard.press(f"Alt+Arrow{way}")
            await page.wait_for_function(f"() => {BAR}.currentTime > 40 && !{BAR}.paused")
        await page.go_back()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40")
        assert await page.evaluate(f"{BAR}.paused")
        await page.go_forward()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40")
        assert await page.evaluate(f"({PLAYER}.click(), {BAR}.paused)")  # that one is meant to play
        await page.keyboard.press("n")
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && !{BAR}.paused")
        # A page that the browser has kept is behind those after it.
        await page.evaluate(f"({BAR}.pause(), {BAR}.currentTime = 10)")
        state = f"JSON.stringify({{ file: {BAR}.dataset.file, on: true, at: 50 }})"
        await page.evaluate(f"sessionStorage.setItem('listening', {state})")
        await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        await page.wait_for_function(f"() => {BAR}.currentTime >= 50 && !{BAR}.paused")
        # Its player may have loaded nothing yet, and another page may not have come to play.
        await page.evaluate(f"{BAR}.pause()")
        await page.goto(f"{server.url}/channel/more?show=all")
        assert await page.evaluate(f"{BAR}.readyState") == 0
        for kept in ("on: false", "on: true, at: 80"):
            state = f"JSON.stringify({{ file: {BAR}.dataset.file, {kept} }})"
            await page.evaluate(f"sessionStorage.setItem('listening', {state})")
            await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        await page.keyboard.press("n")
        await page.wait_for_function(f"() => {BAR}.readyState > 2 && {BAR}.currentTime > 80.2 && !{BAR}.paused")


async def test_a_pause_right_after_a_page_is_where_the_episode_goes_on(browser: Browser, server: Server) -> None:
    """Also where the browser has dropped the last report of the page before it. A file that can't be had is named."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "quiet", "/channel/sounds?show=all")
        await page.route("**/episode.wav", lambda route: route.abort())
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.get_by_text("This file can’t be loaded.").wait_for()
        await page.unroute("**/episode.wav")
        await forget_episode(page)
        await page.route("**/listening", lambda route: route.fulfill(status=204))
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        await page.evaluate(f"{BAR}.currentTime = 40")
        await page.wait_for_function(f"() => {BAR}.currentTime > 40")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="All feeds").first.click()
        await page.wait_for_function(f"() => {BAR}.currentTime > 40 && !{BAR}.paused")
        await page.unroute("**/listening")
        async with page.expect_response("**/listening"):
            await page.evaluate(f"{BAR}.pause()")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Home").first.click()
        assert int(await page.get_attribute("#listening audio", "data-at") or 0) >= 40
        await forget_episode(page)


async def test_the_account_learns_where_an_episode_was_left(browser: Browser, server: Server) -> None:
    """By the last request of its tab, which passes the service worker by."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "queuer", "/channel/sounds?show=all")
        await page.evaluate("navigator.serviceWorker.ready.then(() => null)")
        await page.reload()
        assert await page.evaluate("navigator.serviceWorker.controller !== null")
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        await page.evaluate(f"{BAR}.currentTime = 40")
        await page.wait_for_function(f"() => {BAR}.currentTime > 40")
        await page.goto(f"{server.url}/service-worker.js")  # a page without a player

        async def position() -> bool:
            shown = await (await here.context.request.get(f"{server.url}/channel/sounds")).text()
            return int(re.findall(r'data-at="(\d+)"', shown)[0]) >= 40

        await wait_until(position)
        await page.goto(f"{server.url}/channel/sounds")
        await forget_episode(page)


async def test_the_bar_takes_over_from_the_player_of_a_post(browser: Browser, server: Server) -> None:
    """At its position, of now or of an earlier visit; the player returns when the bar is closed."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "quiet", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        player = page.locator("[data-player]")
        await player.evaluate("it => it.play()")
        await page.wait_for_function(f"() => {PLAYER}.currentTime > 0")
        await player.evaluate("it => (it.currentTime = 40)")
        await page.wait_for_function(f"() => {PLAYER}.currentTime > 40")
        for reloads in (False, True):
            if reloads:
                await player.evaluate("it => it.pause()")
                await page.reload()
            await page.get_by_role("button", name="Play while reading on").click()
            await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
            assert await page.evaluate(f"{BAR}.currentTime") >= 40
            await expect(player).to_be_hidden()
            await forget_episode(page)
            await expect(player).to_be_visible()


async def test_an_unreachable_place_is_kept(browser: Browser, server: Server) -> None:
    """By the bar and by the player of the post, with a sentence, if a host sends its file only from the beginning."""
    said = "This file plays only from its beginning; your place at 01:10 is kept."
    async with tab(browser) as here:
        page = await server.sign_in(here, "quiet", "/channel/whole?show=all")
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        await page.evaluate(f"{BAR}.pause()")
        elsewhere = """async (form) => {
          const body = new URLSearchParams(new FormData(form));
          body.set("seconds", 70);
          await fetch(form.action, { method: "POST", body });
        }"""
        await page.locator("#listening form").evaluate(elsewhere)
        for is_key in (True, False):
            await page.reload()
            assert await page.get_attribute("#listening audio", "data-at") == "70"
            if is_key:
                await page.keyboard.press("P")
            else:
                await page.get_by_role("button", name="Play", exact=True).click()
            await page.locator("#listening").get_by_text(said).wait_for()
            await page.wait_for_function(f"() => {BAR}.currentTime > 0 && !{BAR}.paused")
            for _ in range(2):
                await page.get_by_role("button", name="Forward 30 seconds").click()
                assert await page.evaluate(f"({BAR}.pause(), {BAR}.currentTime > 0)")
                await page.locator("#listening").get_by_text(said).wait_for()
                await page.keyboard.press("P")
                await page.wait_for_function(f"() => !{BAR}.paused")
            await page.evaluate(f"{BAR}.pause()")
        await forget_episode(page)
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        kept = "localStorage['positions of quiet']"
        await page.evaluate(f"{kept} = JSON.stringify([[{PLAYER}.src, 70]])")
        await page.reload()
        await listen(page, "it.currentTime > 0 && !it.paused")
        await page.locator(".files").get_by_text(said).wait_for()
        await page.evaluate(f"{PLAYER}.pause()")
        await page.reload()
        await page.get_by_text("Continues at 01:10.").wait_for()


PRESSED = f"""window.pressed = new Promise((done) => {{
    const told = () => setTimeout(done);
    ["play", "pause", "seeked"].forEach((name) => {BAR}.addEventListener(name, told, {{ once: true }}));
}})"""
"""Waits for what a press on the player does."""


async def test_the_player_stays_where_it_is(browser: Browser, server: Server) -> None:
    """When its script is there at last, and its buttons work."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "quiet", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        await page.get_by_role("button", name="Play while reading on").click()
        await page.locator("#listening").wait_for()
        begun = await here.holds("**/listening*.js*")
        await page.goto(f"{server.url}/channel/sounds?show=all", wait_until="commit")
        await page.locator("#listening form > :last-child").wait_for()
        before = await page.locator("#listening audio").bounding_box()
        forward = page.get_by_role("button", name="Forward 30 seconds")
        assert not await forward.is_visible()
        begun.set()
        await forward.wait_for()
        assert before == await page.locator("#listening audio").bounding_box()
        assert before is not None
        # After a press on the browser's own controls, keys still work; Space is the player's until Escape.
        post = page.locator(".post").first
        for place in (25, before["width"] / 2):
            await post.focus()
            await page.evaluate(f"{PRESSED}; null")
            await page.mouse.click(before["x"] + place, before["y"] + before["height"] / 2)
            await page.evaluate("window.pressed")
            await page.keyboard.press("?")
            await page.locator("#keys[open]").wait_for()
            await page.keyboard.press("?")
        await page.locator("#listening audio").focus()
        await page.evaluate(f"{PRESSED}; null")
        await page.keyboard.press("Space")
        await page.evaluate("window.pressed")
        await page.keyboard.press("Escape")
        await page.wait_for_function("() => document.activeElement.tagName !== 'AUDIO'")
        await forget_episode(page)


async def test_one_player_sounds_at_a_time(browser: Browser, server: Server) -> None:
    """The bar is silent while the post's own player plays, and the other way round; no second is lost."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "presser", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        await page.get_by_role("button", name="Play while reading on").click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        await page.evaluate(f"{PLAYER}.play()")
        await page.wait_for_function(f"() => {BAR}.paused && !{PLAYER}.paused")
        await page.evaluate(f"{BAR}.play()")
        await page.wait_for_function(f"() => {PLAYER}.paused && !{BAR}.paused")
        await forget_episode(page)


async def test_episodes_are_removed_one_after_the_other(browser: Browser, server: Server) -> None:
    """The list of those that wait stays open, and the focus in the bar. The queue comes back after it was closed."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "queuer", "/channel/more?show=all")
        addresses = [await one.get_attribute("href") for one in await page.locator(".post h2 a").all()]
        for address in addresses:
            await page.goto(f"{server.url}{address}")
            async with page.expect_response("**/listen"):
                await page.get_by_role("button", name="Add to the queue").click()
        bar = page.get_by_role("region", name="Player")
        await bar.get_by_role("button", name="Close the player and keep the queue").click()
        await page.wait_for_function("() => !document.getElementById('listening')")
        await page.get_by_role("button", name="Add to the queue").click()
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.get_by_label("All controls").focus()
        await page.keyboard.press("Space")
        await page.get_by_text("2 more episodes").click()
        box = "document.querySelector('{}').getBoundingClientRect()"
        await page.wait_for_function(f"() => {box.format('#done')}.bottom <= {box.format('.listening ol')}.top")
        await bar.get_by_role("button", name="Remove").first.click()
        await bar.get_by_text("1 more episode", exact=True).wait_for()
        assert await bar.locator("summary:focus").count() == 1
        await bar.get_by_role("button", name="Remove").click()
        await expect(bar.locator("summary")).to_have_count(0)
        assert await bar.locator("[name=close]:focus").count() == 1


async def test_an_episode_of_a_list_plays_by_one_press(browser: Browser, server: Server) -> None:
    """The list stays, and its post after the player is closed; one that is in the queue already isn't added again."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "presser", "/channel/sounds?show=all")
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        assert page.url == f"{server.url}/channel/sounds?show=all"
        assert await page.evaluate("document.activeElement.tagName") == "BUTTON"
        file = await page.evaluate(f"{BAR}.dataset.file")
        playing = page.locator("[data-act=play][aria-current=true]")
        await expect(playing).to_have_attribute("value", file)
        await page.keyboard.press("P")
        await page.wait_for_function(f"() => {BAR}.paused")
        await expect(playing).to_have_count(0)
        await page.keyboard.press("P")
        await page.wait_for_function(f"() => !{BAR}.paused")
        await page.keyboard.press("P")
        await page.wait_for_function(f"() => {BAR}.paused")
        async with page.expect_event("load"):
            await page.keyboard.press("1")
        await here.keys("j", "o")
        await page.get_by_role("link", name="0:45").click()
        await page.wait_for_function(f"() => {BAR}.currentTime > 45 && !{BAR}.paused")
        assert await page.get_by_role("link", name="19:30").count() == 0
        assert len(here.context.pages) == 1
        await page.keyboard.press("P")
        await page.wait_for_function(f"() => {BAR}.paused")
        await page.get_by_role("button", name="Close the player").click()
        await page.wait_for_function(f"() => !{BAR}")
        await page.keyboard.press("P")
        await page.wait_for_function(f"() => {BAR} && !{BAR}.paused && {BAR}.currentTime > 45")  # where it was closed
        await page.keyboard.press("P")
        await page.wait_for_function(f"() => {BAR}.paused")
        async with page.expect_event("load"):
            await page.keyboard.press("3")
        await page.goto(f"{server.url}/channel/more?show=all")
        await here.keys("j", "P")
        await page.wait_for_function(f"file => {BAR}.dataset.file !== file && !{BAR}.paused", arg=file)
        async with page.expect_event("load"):
            await page.locator(".post h2 a").first.click()
        await page.get_by_role("button", name="Add to the queue").click()
        await page.get_by_text("It is in the queue already.").wait_for()  # since it plays


async def test_an_episode_plays_by_a_key_that_comes_before_its_script(browser: Browser, server: Server) -> None:
    """Without another page."""

    async def late(route: Route) -> None:
        await asyncio.sleep(0.5)
        await route.continue_()

    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "early", "/channel/sounds?show=all")
        await page.get_by_role("button", name="Play", exact=True).click()
        await page.wait_for_function(f"() => {BAR} && {BAR}.currentTime > 0 && !{BAR}.paused")
        file = await page.evaluate(f"{BAR}.dataset.file")
        await page.keyboard.press("P")
        await page.route("**/listening.js", late)
        await page.goto(f"{server.url}/channel/more?show=all", wait_until="domcontentloaded")
        await here.keys("j", "P")
        await page.wait_for_function(f"file => {BAR}.dataset.file !== file && !{BAR}.paused", arg=file)


async def test_an_episode_has_its_star_where_other_posts_have_it(browser: Browser, server: Server) -> None:
    """And a line of the same height, though it can be played."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "starrer", "/channel/global?show=all")
        async with page.expect_navigation(wait_until="load"):
            await page.get_by_role("button", name="List", exact=True).click()
        assert await page.locator(".post [data-act=play]").count() < await page.locator(".post").count()
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            right = "stars => new Set(stars.map((star) => star.getBoundingClientRect().right)).size"
            assert await page.locator(".post [data-act=save]").evaluate_all(right) == 1
            height = "posts => new Set(posts.map((post) => post.getBoundingClientRect().height)).size"
            assert await page.locator(".post:not(:first-child)").evaluate_all(height) == 1


async def test_an_episode_plays_from_the_actions_of_its_page(browser: Browser, server: Server) -> None:
    """They are in view on a phone however long its text is, with scripts and without."""
    for scripts in (True, False):
        async with tab(browser, scripts=scripts) as here:
            page = await server.sign_in(here, "quiet", "/channel/sounds?show=all")
            await page.set_viewport_size({"width": 390, "height": 400})
            async with page.expect_event("load"):
                await page.get_by_role("link", name="Audio").click()
            play = page.locator(".post.whole .acts").get_by_role("button", name="Play", exact=True)
            place = await play.bounding_box()
            assert place is not None
            assert 300 < place["y"] < 400
            assert place["height"] >= 24
            await play.click()
            await page.locator("#listening").wait_for()
            if scripts:
                await page.wait_for_function(f"() => {BAR}.currentTime > 0 && !{BAR}.paused")
            await page.locator("#listening > label").click()
            await forget_episode(page)


async def test_the_player_of_a_phone_stands_on_the_actions(browser: Browser, server: Server) -> None:
    """At the end of a post's page, too, and on the bar of a list; with large text its title can still be read.

    It covers no notice, and with text of twice the size, as on a screen of 195 pixels, at most a quarter of the screen.
    On a desk, one with a message covers no action.
    """
    async with tab(browser) as here:
        page = await server.sign_in(here, "presser", "/channel/more?show=all")
        await page.set_viewport_size({"width": 390, "height": 844})
        async with page.expect_event("load"):
            await page.locator(".post h2 a").first.click()
        await page.get_by_role("button", name="Play while reading on").click()
        await page.locator("#listening").wait_for()
        box = "(it) => document.querySelector(it).getBoundingClientRect()"
        await page.set_viewport_size({"width": 1280, "height": 300})
        message = "text => document.querySelector('#listening > small').textContent = text"
        await page.evaluate(message, "This file plays only from its beginning.")
        ends = "document.querySelector('.post .acts').getBoundingClientRect().bottom"
        await page.wait_for_function(f"() => Math.abs({ends} - document.getElementById('listening').offsetTop) <= 1")
        await page.evaluate(message, "")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.evaluate("scrollTo(0, 1e6)")
        player, acts = await page.evaluate(box, "#listening"), await page.evaluate(box, ".post .acts")
        assert abs(player["bottom"] - acts["top"]) <= 2
        assert acts["bottom"] == 844
        for path, bar in (("", ".post.whole .acts"), ("/channel/more?show=all", ".bottom")):
            await page.goto(server.url + path if path else page.url)
            for text in ("100%", "143.75%"):
                await page.evaluate("size => document.documentElement.style.fontSize = size", text)
                player, below = await page.evaluate(box, "#listening"), await page.evaluate(box, bar)
                assert abs(player["bottom"] - below["top"]) <= 1, (path, text)
                assert player["height"] <= (76 if text == "100%" else 82)
                assert (await page.evaluate(box, "#listening p"))["width"] > 390 / 2
                sound = await page.evaluate(box, "#listening audio")
                assert sound["height"] >= 44
                assert sound["width"] > 390 * 0.8, "the slider has the room"
                fold = await page.evaluate(box, "#listening > label")
                assert min(fold["width"], fold["height"]) >= 24
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            speed = page.get_by_label("Speed")
            assert not await speed.is_visible()
            await page.get_by_label("All controls").focus()
            await page.keyboard.press("Space")
            await speed.select_option("1.75 ×")
            assert not await speed.evaluate(CUTS)
            for control in await page.locator("#listening :is(button, select, summary):visible").all():
                assert (await control.bounding_box() or {})["height"] >= 24
            await page.get_by_role("button", name="Save", exact=True).first.click()
            said = await page.get_by_text("Saved.").evaluate("it => it.closest('p').getBoundingClientRect()")
            assert said["bottom"] <= (await page.evaluate(box, "#listening"))["top"]
            await page.get_by_role("button", name="Saved", exact=True).first.click()
            await page.get_by_text("Removed from saved posts.").wait_for()
            await page.set_viewport_size({"width": 195, "height": 422})
            assert (await page.evaluate(box, "#listening"))["height"] < 422 / 4
            await page.set_viewport_size({"width": 390, "height": 844})


async def test_space_shows_what_the_player_covers(browser: Browser, server: Server) -> None:
    """The end of a post behind the bar is still to be read."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "queuer", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        async with page.expect_response("**/listen"):
            await page.get_by_role("button", name="Add to the queue").click()
        await page.locator("#listening").wait_for()
        end = await page.evaluate("document.querySelector('.post').getBoundingClientRect().bottom")
        await page.set_viewport_size({"width": 1280, "height": int(end) + 10})
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("Space")
        await page.wait_for_function("() => scrollY > 0")


async def test_the_list_of_channels_ends_above_the_player(browser: Browser, server: Server) -> None:
    """On a desk, where it stays beside the posts: its last line can be pressed."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "queuer", "/channel/sounds?show=all")
        await page.set_viewport_size({"width": 1280, "height": 300})
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        async with page.expect_response("**/listen"):
            await page.get_by_role("button", name="Add to the queue").click()
        await page.locator("#listening").wait_for()
        await page.evaluate("scrollTo(0, 100); document.getElementById('channels').scrollTop = 9999")
        box = "it => it.getBoundingClientRect()"
        last, bar = await page.locator("#channels a").last.evaluate(box), await page.locator("#listening").evaluate(box)
        assert last["bottom"] <= bar["top"]


async def test_the_bar_is_for_everybody(browser: Browser, server: Server) -> None:
    """Without scripts it is a plain player with its queue, and nothing in it is out of reach."""
    async with tab(browser, scripts=False) as here:
        page = await server.sign_in(here, "quiet", "/channel/sounds?show=all")
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Audio").click()
        async with page.expect_event("load"):
            await page.get_by_role("button", name="Add to the queue").click()
        bar = page.get_by_role("region", name="Player")
        assert await bar.locator("audio").get_attribute("controls") == ""
        assert await bar.get_by_role("button").all_inner_texts() == ["Close the player"]
        bare = await browser.new_context(bypass_csp=True, storage_state=await here.context.storage_state())
        assert await violations(await bare.new_page(), server.url, ["/channel/sounds?show=all"]) == []
        await bare.close()
        async with page.expect_event("load"):
            await bar.get_by_role("button").click()
        assert await bar.count() == 0
