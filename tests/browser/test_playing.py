"""Where somebody stopped listening is where they go on, in Chromium with a real sound."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.reading_server import reading_server
from tests.browser.tab import tab
from tests.support.web import Asked, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

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
    """The sound, from where it is asked for."""
    body = sound()
    start = int(asked.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
    place = f"Content-Range: bytes {start}-{len(body) - 1}/{len(body)}"
    await asked.reply(
        body[start:], place, "Content-Type: audio/wav", "Accept-Ranges: bytes", status="206 Partial Content"
    )


async def listen(page: Page, until: str) -> None:
    """Press the player, and wait until that is so of it."""
    await page.locator("audio").focus()
    await page.keyboard.press("Space")
    await page.wait_for_function(f"() => {{ const it = {PLAYER}; return {until}; }}")


async def test_a_player_goes_on_where_it_was_left(browser: Browser, tmp_path: Path) -> None:
    """The page says where; nothing is asked of the publisher before somebody plays it, nor by the list of posts."""
    async with publisher() as feeds:
        episode = feeds.serve("/episode.wav", served)
        item = f"<item><title>Episode</title><guid>e1</guid><enclosure url='{episode}' type='audio/wav'/></item>"
        address = feeds.serve_document(
            "/feed", f"<rss version='2.0'><channel><title>P</title>{item}</channel></rss>".encode()
        )
        users = {"ann": {"channels": [{"uid": "home", "name": "Home", "feeds": [address]}]}}
        async with reading_server(tmp_path, users, "ann", polls=1) as server, tab(browser) as here:
            page = await server.sign_in(here, "ann", "/channel/home?show=all")
            async with page.expect_navigation():
                await page.get_by_role("link", name="Audio").click()
            assert feeds.count("/episode.wav") == 0
            await listen(page, "it.currentTime > 0 && !it.paused")
            await page.evaluate(f"{PLAYER}.currentTime = 70")
            await page.wait_for_function(f"() => {PLAYER}.currentTime > 70.2")
            await page.reload()
            assert await page.get_by_text("It goes on at 01:10.").is_visible()
            # Stopped before anything has come.
            stopped = (
                f"new Promise((stop) => {{ {PLAYER}.onpause = stop; {PLAYER}.play().catch(stop); {PLAYER}.pause(); }})"
            )
            await page.evaluate(f"{stopped}.then(() => null)")
            await page.reload()
            assert await page.get_by_text("It goes on at 01:10.").is_visible()
            await listen(page, "it.currentTime > 70 && !it.paused")
            await page.evaluate(f"{PLAYER}.currentTime = {SECONDS - 2}")
            await page.wait_for_function(f"() => {PLAYER}.ended")
            await page.reload()
            assert not await page.get_by_text("It goes on at").is_visible()
