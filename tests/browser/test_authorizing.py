"""People decide in Chromium what an app may do, on the page of their own server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from microsub.identity.protocol.clients import pkce_challenge
from tests.browser.tab import Tab, tab
from tests.support.apps import new_verifier
from tests.support.own_server import AppSite, app_site
from tests.support.process import Installation, installation
from tests.support.provider import Provider, Variant, provider
from tests.support.raw_http import Reply, html_reply

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


@dataclass
class World:
    """An instance with the user ann, who signs in to its pages with a provider; apps; and a site of somebody else."""

    http: httpx.AsyncClient
    provider: Provider
    apps: AppSite
    evil: AppSite
    installed: Installation
    url: str

    @property
    def me(self) -> str:
        return self.provider.people["ann"].me

    async def sign_in(self, here: Tab) -> None:
        """To this server's pages, through the provider."""
        await here.page.goto(f"{self.url}/sign-in")
        await here.fill(me=self.me)
        await here.press("Go to your provider")
        await here.fill(name="ann", password=self.provider.people["ann"].password)
        await here.press("Allow")

    def asks(self, client: str, **more: str) -> str:
        """Where an app sends the browser."""
        query = {"response_type": "code", "client_id": client, "redirect_uri": f"{client}back", "state": "s t"}
        return f"{self.url}/auth?{urlencode({**query, 'scope': 'read follow', **more})}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        made = await enter(provider(Variant(consent="form")))
        apps, evil = await enter(app_site()), await enter(app_site("localhost"))
        users = {"ann": {"me": made.person("ann").me, "channels": [{"uid": "home", "name": "Home"}]}}
        installed = await enter(installation(tmp_path_factory.mktemp("reader"), {"users": users}))
        yield World(http, made, apps, evil, installed, await installed.serve("web"))


async def test_an_app_is_let_in(browser: Browser, world: World) -> None:
    """From the app to the page of consent and back, with what was left ticked and no more; strangers sign in first."""
    app, verifier = world.apps.home("Reads well"), new_verifier()
    async with tab(browser) as here:
        asks = world.asks(app, code_challenge=pkce_challenge(verifier), code_challenge_method="S256")
        await here.page.goto(asks)
        assert (await here.title()).startswith("Sign in to allow 127.0.0.1")
        await world.sign_in(here)
        await here.page.goto(asks)
        assert (await here.title()).startswith("Allow 127.0.0.1")
        text = await here.text()
        for part in (app, world.me, "Follow and unfollow feeds", "Your answer takes you back"):
            assert part in text
        await here.page.uncheck('[name="grant"][value="follow"]')
        await here.press("Allow")
        assert here.page.url.startswith(f"{app}back?")
    told = dict(parse_qsl(urlsplit(here.page.url).query))
    assert (told["state"], told["iss"]) == ("s t", world.url)
    form = {"grant_type": "authorization_code", "code": told["code"], "client_id": app, "redirect_uri": f"{app}back"}
    reply = await world.http.post(f"{world.url}/token", data={**form, "code_verifier": verifier})
    given = reply.json()
    assert (given["me"], given["scope"]) == (world.me, "read")
    headers = {"Authorization": f"Bearer {given['access_token']}"}
    assert (await world.http.get(f"{world.url}/microsub?action=channels", headers=headers)).status_code == 200
    assert told["code"] not in world.installed.log
    assert given["access_token"].partition(".")[2] not in world.installed.log


async def test_an_app_is_refused_and_told(browser: Browser, world: World) -> None:
    """By the other button."""
    app = world.apps.home("Refused")
    async with tab(browser) as here:
        await world.sign_in(here)
        await here.page.goto(world.asks(app))
        await here.press("Cancel")
        told = dict(parse_qsl(urlsplit(here.page.url).query))
        assert told["error"] == "access_denied"


async def test_an_app_may_send_people_on(browser: Browser, world: World) -> None:
    """To another address of its own, after they came back: the page's policy doesn't stand in the way."""
    app = world.apps.home("Moves on")
    further = f"{world.evil.listening.base}/further"
    world.evil.pages["/further"] = html_reply("<title>Further</title><h1>Further</h1>")
    world.apps.pages[f"{urlsplit(app).path}back"] = Reply(b"", 302, [("Location", further)])
    async with tab(browser) as here:
        await world.sign_in(here)
        await here.page.goto(world.asks(app))
        await here.press("Allow")
        assert await here.title() == "Further"


async def test_an_app_that_was_let_in_is_shut_out(browser: Browser, world: World) -> None:
    """On the account's page, where it is listed once it has its token."""
    app = world.apps.home("Shut out")
    async with tab(browser) as here:
        await world.sign_in(here)
        await here.page.goto(world.asks(app))
        await here.press("Allow")
        code = dict(parse_qsl(urlsplit(here.page.url).query))["code"]
        form = {"code": code, "client_id": app, "redirect_uri": f"{app}back"}
        token = (await world.http.post(f"{world.url}/token", data=form)).json()["access_token"]
        await here.page.goto(f"{world.url}/account")
        row = here.page.get_by_role("listitem").filter(has_text=app)
        async with here.page.expect_navigation():
            await row.get_by_role("button").click()
        assert app not in await here.text()
    headers = {"Authorization": f"Bearer {token}"}
    assert (await world.http.get(f"{world.url}/microsub?action=channels", headers=headers)).status_code == 401


async def test_a_request_that_leads_elsewhere_leads_nowhere(browser: Browser, world: World) -> None:
    """The page says what is wrong, and has no way to that address."""
    app = world.apps.home("Leads astray")
    async with tab(browser) as here:
        await world.sign_in(here)
        await here.page.goto(world.asks(app, redirect_uri=f"{world.evil.listening.base}/steal"))
        assert await here.title() == "The app's request can't be used"
        assert here.page.url.startswith(world.url)
        assert await here.page.locator(f'[href*="{world.evil.listening.base}"]').count() == 0
    assert not [request for request in world.evil.asked if request.path == "/steal"]


async def test_another_site_can_neither_frame_the_page_nor_send_its_form(browser: Browser, world: World) -> None:
    """The person who is signed in there is safe from clicks and forms that they don't see."""
    app = world.apps.home("Trap")
    fields = {"client_id": app, "redirect_uri": f"{app}back", "response_type": "code", "scope": "read"}
    inputs = "".join(
        f'<input name="{name}" value="{value}">'
        for name, value in {**fields, "grant": "read", "decision": "allow", "form_token": "x.y"}.items()
    )
    world.evil.pages["/frame"] = html_reply(
        f'<title>x</title><iframe src="{world.asks(app)}"></iframe>'.replace("&", "&amp;")
    )
    world.evil.pages["/form"] = html_reply(
        f'<title>x</title><form method="post" action="{world.url}/auth/consent">{inputs}<button>Win</button></form>'
    )
    async with tab(browser) as here:
        await world.sign_in(here)
        await here.page.goto(f"{world.evil.listening.base}/form")
        await here.press("Win")
        assert here.page.url == f"{world.url}/auth/consent"
        assert "sent from another site" in await here.text()
        await here.page.goto(f"{world.evil.listening.base}/frame", wait_until="load")
        (inner,) = here.page.frames[1:]
        assert await inner.locator("form").count() == 0
        assert any("frame-ancestors" in text or "X-Frame-Options" in text for text in here.troubles), here.troubles
        here.troubles.clear()
    assert not [request for request in world.apps.asked if request.path.endswith("/trap/back")]
