"""One instance is the provider of a person whose site is a static page; another one, and reader apps, rely on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.tab import Tab, tab
from tests.support.own_server import AppSite, app_site
from tests.support.process import Installation, installation
from tests.support.raw_http import Listening, Reply, Request, html_reply, listening
from tests.support.reader_apps import Monocle, Together

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PASSWORD = "correct horse battery"


@dataclass
class Site:
    """Static pages by path."""

    pages: dict[str, str] = field(default_factory=dict)
    listening: Listening = field(init=False)

    async def answer(self, request: Request) -> Reply:
        found = self.pages.get(request.path)
        return html_reply(found) if found else Reply(b"not here", 404)


@dataclass
class World:
    """`home` is the instance that ann's page names, `other` one that has to ask it."""

    http: httpx.AsyncClient
    apps: AppSite
    me: str
    installed: Installation
    home: str
    other: str

    async def password(self, here: Tab) -> None:
        """Ann's password at home, from the page of the sign-in there on."""
        assert here.page.url.startswith(f"{self.home}/sign-in")
        await here.fill(who=self.me, password=PASSWORD)
        await here.press("Sign in")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http, apps, site = await enter(httpx.AsyncClient(timeout=60)), await enter(app_site()), Site()
        site.listening = await enter(listening(site.answer))
        me = f"{site.listening.base}/ann/"
        users = {"users": {"ann": {"me": me, "channels": [{"uid": "home", "name": "Home"}]}}}
        one, two = [await enter(installation(tmp_path_factory.mktemp(name), users)) for name in ("home", "other")]
        # One host: browsers send cookies to all its ports, so the two have names of their own for them.
        home, other = await one.serve("web"), await two.serve("web")
        site.pages["/ann/"] = (
            "<!doctype html><title>Ann</title>"
            f'<link rel="indieauth-metadata" href="{home}/.well-known/oauth-authorization-server">'
            f'<link rel="authorization_endpoint" href="{home}/auth">'
            f'<link rel="token_endpoint" href="{home}/token">'
            f'<link rel="microsub" href="{other}/microsub/ann">'
        )
        yield World(http, apps, me, one, home, other)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def enrolled(browser: Browser, world: World) -> World:
    """Ann has chosen a password at home."""
    code, out, err = await world.installed.run("user", "invite", "ann", "--base-url", world.home)
    assert code == 0, err
    async with tab(browser) as here:
        await here.page.goto(out.strip())
        await here.fill(password=PASSWORD, again=PASSWORD)
        await here.press("Set the password")
        assert await here.title() == "Your account"
    return world


async def test_signing_in_elsewhere_with_ones_own_server(browser: Browser, enrolled: World) -> None:
    """The other instance sends ann home; she says who she is there, and comes back as ann."""
    world = enrolled
    async with tab(browser) as here:
        await here.page.goto(f"{world.other}/sign-in")
        await here.fill(me=world.me)
        await here.press("Go to your provider")
        await world.password(here)
        assert "Allow 127.0.0.1" in await here.title()
        assert world.other in await here.text()
        await here.press("Allow")
        assert here.page.url == f"{world.other}/account"
        assert "signed in as ann" in await here.text()


@pytest.mark.parametrize("kind", [Together, Monocle])
async def test_an_app_reads_there_with_a_token_from_home(
    browser: Browser, enrolled: World, kind: type[Together] | type[Monocle]
) -> None:
    """The token is home's; the other instance asks home about it. Shut out at home, the app is out at home at once."""
    world = enrolled
    app = kind(world.http, world.apps.home(kind.name))
    async with tab(browser) as here:

        async def person(url: str) -> str:
            await here.page.goto(url)
            await world.password(here)
            await here.press("Allow")
            return here.page.url

        signed = await app.sign_in(world.me, person)
        assert signed.me == world.me
        assert await signed.read("home") == []
        headers = {"Authorization": f"Bearer {signed.token}"}
        for place in (f"{world.home}/microsub", f"{world.home}/microsub/ann", f"{world.other}/microsub/ann"):
            assert (await world.http.get(f"{place}?action=channels", headers=headers)).status_code == 200, place
        await here.page.goto(f"{world.home}/account")
        row = here.page.get_by_role("listitem").filter(has_text=app.client_id)
        async with here.page.expect_navigation():
            await row.get_by_role("button").click()
    assert (await world.http.get(f"{world.home}/microsub?action=channels", headers=headers)).status_code == 401
    assert signed.token.partition(".")[2] not in world.installed.log
