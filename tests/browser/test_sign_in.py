"""People sign in to our pages in Chromium with a provider of their own, and out again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.tab import Tab, tab
from tests.support.process import Installation, installation
from tests.support.provider import Fault, Provider, Variant, provider

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

VARIANTS = {
    "newest": Variant(consent="form", fetches=True),
    "newest, in headers": Variant(consent="form", fetches=True, links="header", joined=True),
    "lenient": Variant.lenient(consent="form", links="both"),
    "older": Variant.older(consent="form"),
    "older, with JSON": Variant.older(consent="form", replies="json", links="header", relative=True),
}


@dataclass
class World:
    """An instance with a user for each provider: ann0, ann1, …"""

    http: httpx.AsyncClient
    providers: dict[str, Provider]
    installed: Installation
    url: str

    def me(self, name: str) -> str:
        return self.providers[name].people["ann"].me

    def user(self, name: str) -> str:
        return f"ann{list(self.providers).index(name)}"

    async def to_the_provider(self, here: Tab, name: str, entered: str | None = None) -> None:
        """Ask to be signed in, as far as the provider's own page."""
        await here.page.goto(f"{self.url}/sign-in")
        await here.fill(me=entered or self.me(name))
        await here.press("Go to your provider")

    async def sign_in(self, here: Tab, name: str, entered: str | None = None) -> None:
        """The whole way."""
        await self.to_the_provider(here, name, entered)
        await here.fill(name="ann", password=self.providers[name].people["ann"].password)
        await here.press("Allow")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        providers = {name: await enter(provider(variant)) for name, variant in VARIANTS.items()}
        users = {f"ann{number}": {"me": made.person("ann").me} for number, made in enumerate(providers.values())}
        for made in providers.values():
            made.person("stranger")
        installed = await enter(installation(tmp_path_factory.mktemp("reader"), {"users": users}))
        yield World(http, providers, installed, await installed.serve("web"))


@pytest.mark.parametrize("name", VARIANTS)
async def test_signing_in_and_out(browser: Browser, world: World, name: str) -> None:
    """Over the provider's own page to the account and out; scripts see no cookie, and no secret stays in an address."""
    async with tab(browser) as here:
        await world.sign_in(here, name)
        assert await here.title() == "Your account"
        assert f"signed in as {world.user(name)}" in await here.text()
        assert here.page.url == f"{world.url}/account"
        assert await here.readable_cookies() == ""
        kept = await here.context.cookies()
        assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in kept), kept
        await here.page.reload()
        assert await here.title() == "Your account"
        await here.press("Sign out of this browser")
        assert await here.title() == "You are signed out"
        await here.page.goto(f"{world.url}/account")
        assert await here.title() == "Sign in"
        values = [cookie["value"] for cookie in kept if len(cookie["value"]) > 20]
        assert not [address for address in here.addresses for value in values if value in address]


async def test_the_address_may_be_written_in_many_ways(browser: Browser, world: World) -> None:
    """Upper case in the host, and redirects of the own page, lead to the same account."""
    made = world.providers["lenient"]
    for entered in (
        world.me("lenient").replace("http://", "HTTP://"),
        made.redirect("/old-ann", world.me("lenient"), 301),
    ):
        async with tab(browser) as here:
            await world.sign_in(here, "lenient", entered)
            assert f"signed in as {world.user('lenient')}" in await here.text()


async def test_where_one_was_going_is_where_one_arrives(browser: Browser, world: World) -> None:
    """Who comes to a page for users is sent to it after the sign-in."""
    async with tab(browser) as here:
        await here.page.goto(f"{world.url}/account?from=bookmark")
        assert await here.title() == "Sign in"
        await here.fill(me=world.me("newest"))
        await here.press("Go to your provider")
        await here.fill(name="ann", password=world.providers["newest"].people["ann"].password)
        await here.press("Allow")
        assert here.page.url == f"{world.url}/account?from=bookmark"


async def test_saying_no(browser: Browser, world: World) -> None:
    """Who denies is told so, isn't signed in, and can begin again."""
    async with tab(browser) as here:
        await world.to_the_provider(here, "newest")
        await here.press("Deny")
        assert "denied" in await here.text()
        await here.page.goto(f"{world.url}/account")
        assert await here.title() == "Sign in"
        await world.sign_in(here, "newest")
        assert await here.title() == "Your account"


async def test_strangers_stay_outside(browser: Browser, world: World) -> None:
    """Somebody with an account at the same provider and none here is told so, in words and without a session."""
    made = world.providers["newest"]
    async with tab(browser) as here:
        await world.to_the_provider(here, "newest", made.people["stranger"].me)
        await here.fill(name="stranger", password=made.people["stranger"].password)
        await here.press("Allow")
        assert made.people["stranger"].me in await here.text()
        await here.page.goto(f"{world.url}/account")
        assert await here.title() == "Sign in"


async def test_signing_out_everywhere(browser: Browser, world: World) -> None:
    """Two browsers of one person end together, and one of another person stays."""
    async with tab(browser) as first, tab(browser) as second, tab(browser) as other:
        for here in (first, second):
            await world.sign_in(here, "lenient")
        await world.sign_in(other, "newest")
        await first.page.reload()
        assert await first.page.get_by_role("listitem").count() >= 2
        await first.press("Sign out everywhere")
        assert await first.title() == "You are signed out everywhere"
        for here, title in ((first, "Sign in"), (second, "Sign in"), (other, "Your account")):
            await here.page.goto(f"{world.url}/account")
            assert await here.title() == title


async def test_one_browser_can_end_another(browser: Browser, world: World) -> None:
    """The list of sessions ends the one that was meant."""
    async with tab(browser) as first, tab(browser) as second:
        await world.sign_in(first, "older")
        await world.sign_in(second, "older")
        rows = second.page.get_by_role("listitem").filter(has_not_text="this browser")
        async with second.page.expect_navigation():
            await rows.first.get_by_role("button").click()
        assert await second.title() == "Your account"
        await first.page.reload()
        assert await first.title() == "Sign in"


async def test_signing_in_anew_leaves_no_old_session(browser: Browser, world: World) -> None:
    """A cookie that was there before a sign-in is worth nothing after it: nobody can plant a session."""
    async with tab(browser) as here, tab(browser) as thief:
        await world.sign_in(here, "newest")
        before = await here.context.cookies(world.url)
        await here.press("Sign out of this browser")
        await here.context.add_cookies(before)
        await world.sign_in(here, "newest")
        after = {cookie["name"]: cookie["value"] for cookie in await here.context.cookies(world.url)}
        assert all(after.get(cookie["name"]) != cookie["value"] for cookie in before)
        await thief.context.add_cookies(before)
        await thief.page.goto(f"{world.url}/account")
        assert await thief.title() == "Sign in"


BROKEN = {
    "wrong iss": ("redirect", Fault(change={"iss": "https://evil.example/"})),
    "no iss though promised": ("redirect", Fault(change={"iss": None})),
    "no state": ("redirect", Fault(change={"state": None})),
    "another state": ("redirect", Fault(change={"state": "guessed"})),
    "no code": ("redirect", Fault(change={"code": None})),
    "another code": ("redirect", Fault(change={"code": "guessed"})),
    "code in two lines": ("redirect", Fault(change={"code": "a\r\nSet-Cookie: microsub-session=x"})),
    "another person's me": ("redeemed", Fault(change={"me": "LENIENT"})),
    "a me that is none": ("redeemed", Fault(change={"me": "javascript:alert(1)"})),
    "no me": ("redeemed", Fault(change={"me": None})),
    "markup in me": ("redeemed", Fault(change={"me": "http://<script>alert(1)</script>/"})),
    "an error with markup": ("redirect", Fault(change={"code": None, "error": "<script>alert(1)</script>"})),
    "too large": ("redeemed", Fault(padding=200_000)),
    "a page": ("redeemed", Fault(body=b"<html>", content_type="text/html")),
    "status 500": ("redeemed", Fault(status=500)),
    "down": ("redeemed", Fault(drop=True)),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_answers_that_nobody_believes(browser: Browser, world: World, case: str) -> None:
    """Each is told in words on a page of ours, without a session; and nothing that the provider sent runs."""
    where, fault = BROKEN[case]
    made = world.providers["newest"]
    change = {name: world.me("lenient") if value == "LENIENT" else value for name, value in fault.change.items()}
    async with tab(browser) as here:
        await world.to_the_provider(here, "newest")
        made.fault(where, replace(fault, change=change))
        try:
            await here.fill(name="ann", password=made.people["ann"].password)
            await here.press("Allow")
        finally:
            made.end_faults()
        assert here.page.url.startswith(f"{world.url}/sign-in")
        assert "again" in (await here.text()).lower() or "provider" in (await here.text()).lower()
        # A second try with the same answer helps nobody.
        await here.page.reload()
        await here.page.goto(f"{world.url}/account")
        assert await here.title() == "Sign in"


async def test_no_secret_is_logged(browser: Browser, world: World) -> None:
    """Neither codes nor tokens nor cookies of a sign-in stand in the log."""
    made = world.providers["newest"]
    async with tab(browser) as here:
        await world.sign_in(here, "newest")
        kept = [value for value in (await here.cookies()).values() if len(value) > 20]
        states = [request.query["state"] for request in made.asked if request.path == "/auth" and request.query]
        assert kept
        assert states
        for secret in [*kept, *states, *made.codes, *made.tokens]:
            assert secret not in world.installed.log
