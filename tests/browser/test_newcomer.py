"""New users in Chromium: from an invitation to the first posts, a token for an app, an answer on their own site."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import tab
from tests.support.micropub_site import MicropubSite, micropub_site
from tests.support.own_server import PASSWORD
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


@dataclass
class Server(ReadingServer):
    """A server that offers one feed; ann has a site of her own."""

    site: MicropubSite

    async def invitation(self, user: str) -> str:
        code, out, err = await self.own.run("user", "invite", user, "--base-url", self.url)
        assert code == 0, err
        return out.strip()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """Its feed has been polled."""
    folder = tmp_path_factory.mktemp("new")
    starters = folder / "starters.toml"
    async with publisher() as feeds, micropub_site("ann") as site:
        feed = feeds.serve_document("/feed", rss(dated(3)))
        starters.write_text(f'[[feed]]\nname = "Harbour"\nurl = "{feed}"\nabout = "Ships that come and go"\n', "utf-8")
        own_feed = [{"uid": "home", "name": "Home", "feeds": [feed]}]
        users = {"new": {}, "phone": {}, "maker": {}, "ann": {"me": site.owner.me, "channels": own_feed}}
        enrolling = ("maker", "ann")
        async with reading_server(
            folder / "own", users, *enrolling, polls=1, MICROSUB_STARTER_FEEDS=str(starters)
        ) as made:
            yield Server(made.own, made.url, site)


async def test_from_an_invitation_to_the_first_posts(browser: Browser, server: Server) -> None:
    """Without scripts: choose a password, begin to read, follow an offered feed with one click."""
    link = await server.invitation("new")
    async with tab(browser, scripts=False) as here:
        await here.page.goto(link)
        await here.fill(code=link.partition("#")[2], password=PASSWORD, again=PASSWORD)
        await here.press("Set password")
        assert await here.title() == "Welcome"
        await here.page.get_by_role("link", name="Start reading").click()
        assert await here.title() == "What do you want to read?"
        assert "Ships that come and go" in await here.text()
        await here.press("Follow selected feeds")
        assert await here.title() == "Home"

        async def arrived() -> bool:
            await here.page.reload()
            return await here.page.locator("article.post").count() == 3

        await wait_until(arrived)


async def test_a_phone_begins_with_the_question(browser: Browser, server: Server) -> None:
    """The list of channels opens by its button."""
    link = await server.invitation("phone")
    async with tab(browser) as here:
        page = here.page
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(link)
        await here.fill(password=PASSWORD, again=PASSWORD)
        await here.press("Set password")
        await page.goto(server.url)
        assert await here.title() == "What do you want to read?"
        assert await page.evaluate("document.querySelector('h1').getBoundingClientRect().top") < 844 / 4
        assert not await page.locator("#channels").is_visible()
        await page.get_by_role("navigation", name="Reading").get_by_role("link", name="Channels").click()
        assert await page.locator("#channels").is_visible()


async def test_a_token_is_made_and_copied(browser: Browser, server: Server) -> None:
    """By buttons that need scripts; it is shown once, and revoked with one click."""
    async with tab(browser) as here:
        await here.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = await server.sign_in(here, "maker", "/account")
        await page.get_by_text("Create token").first.click()
        await here.fill(name="Laptop")
        await page.get_by_role("button", name="Create token").click()
        await page.get_by_role("heading", name="Token for Laptop").wait_for()
        await expect(page.get_by_role("button", name="Copy token")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.get_by_text("Copied", exact=True).wait_for()
        await expect(page.get_by_role("button", name="Copy token")).to_be_focused()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("maker.")
        await page.goto(f"{server.url}/account")
        assert "Laptop" in await here.text()
        assert copied not in await here.text()
        await here.press("Revoke token Laptop")
        assert "Token revoked." in await here.text()


async def test_the_account_stays_where_it_is(browser: Browser, server: Server) -> None:
    """On a phone in German, while the script for its buttons is on its way."""
    async with tab(browser) as here:
        await here.intercepts()
        page = await server.sign_in(here, "maker", "/account")
        await page.set_extra_http_headers({"accept-language": "de"})
        await page.set_viewport_size({"width": 390, "height": 844})
        told = await here.holds("**/copy.js")
        await page.goto(f"{server.url}/account", wait_until="commit")
        await page.locator("footer").wait_for()
        places = "[...document.querySelectorAll('h2, footer')].map((one) => one.getBoundingClientRect().top)"
        before = await page.evaluate(places)
        told.set()
        await expect(page.locator("[data-copy]").first).to_be_visible()
        assert await page.evaluate(places) == before


async def test_a_post_is_answered_on_ones_own_site(browser: Browser, server: Server) -> None:
    """After permission by the user's provider, which redirects back to the post; then with two clicks."""
    async with tab(browser) as here:
        page = await server.sign_in(here, "ann", "/channel/home?show=all")
        await page.locator("article.post h2 a").first.focus()
        await page.goto(server.url + (await page.locator("article.post h2 a").first.get_attribute("href") or ""))
        await page.get_by_role("link", name="Reply from your own site").click()
        await here.press("Allow at your provider")
        assert "/post/" in page.url
        await here.fill(content="What a ship!")
        await here.press("Reply")
        assert "Published. https://ann.example/posts/1" in await here.text()
        await here.press("Like")
        assert [sorted(form.keys() - {"h"}) for form in server.site.forms] == [["content", "in-reply-to"], ["like-of"]]
        assert await here.readable_cookies() == ""
        await page.goto(f"{server.url}/channel/home?show=all")
        await page.keyboard.press("j")
        async with page.expect_navigation(url="**/post/*#reply"):
            await page.keyboard.press("e")
