"""People get to a passkey or a password by a one-time link, and sign in with it, in Chromium with a virtual device."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, CDPSession

from tests.browser.tab import Tab, tab
from tests.support.process import Installation, installation

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

PASSWORD = "correct horse battery"
USERS = {name: {"me": f"https://{name}.example/"} for name in ("ann", "bob", "carol", "dave", "eve", "frank")}


@dataclass
class World:
    """An instance that people see at a name, as passkeys need it."""

    installed: Installation
    url: str

    async def link(self, user: str) -> str:
        """What the admin sends."""
        code, out, err = await self.installed.run("user", "invite", user, "--base-url", self.url)
        assert code == 0, err
        return out.strip()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with installation(tmp_path_factory.mktemp("reader"), {"users": USERS}) as installed:
        yield World(installed, (await installed.serve("web")).replace("127.0.0.1", "localhost"))


@dataclass
class Device:
    """A virtual authenticator (https://www.w3.org/TR/webauthn-2/#sctn-automation) of one tab."""

    cdp: CDPSession
    id: str

    async def passkeys(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._send("getCredentials"))["credentials"]
        return found

    async def verifies(self, does: bool) -> None:
        """Whether it recognises its owner's finger."""
        await self._send("setUserVerified", isUserVerified=does)

    async def forget(self) -> None:
        await self._send("clearCredentials")

    async def _send(self, command: str, **about: Any) -> dict[str, Any]:
        return await self.cdp.send(f"WebAuthn.{command}", {"authenticatorId": self.id, **about})


@asynccontextmanager
async def with_device(browser: Browser) -> AsyncIterator[tuple[Tab, Device]]:
    """A tab on a machine that can keep passkeys and recognises its owner."""
    async with tab(browser) as here:
        cdp = await here.context.new_cdp_session(here.page)
        await cdp.send("WebAuthn.enable", {"enableUI": False})
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made = await cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        yield here, Device(cdp, made["authenticatorId"])


async def enrolled(world: World, here: Tab, user: str, name: str = "Telephone") -> None:
    await here.page.goto(await world.link(user))
    await here.fill(name=name)
    await here.press("Make a passkey")
    assert await here.title() == "Your account"


async def sign_out(here: Tab) -> None:
    await here.page.goto(here.page.url.partition("/account")[0] + "/account")
    await here.press("Sign out of this browser")


async def refused(here: Tab, button: str) -> str:
    """Press a button that leads nowhere; what the page says of it."""
    await here.page.get_by_role("button", name=button, exact=True).first.click()
    alert = here.page.locator("[data-passkey] [role=alert]:visible").first
    await alert.wait_for()
    return await alert.inner_text()


async def test_from_a_link_to_a_passkey_and_in_with_it(browser: Browser, world: World) -> None:
    """Without typing a name; the link's code and what the passkey answers are in no address and no log."""
    async with with_device(browser) as (here, device):
        link = await world.link("ann")
        code = link.partition("#")[2]
        await here.page.goto(link)
        assert here.page.url == f"{world.url}/enrol"
        assert "sign in here as ann" in await here.text()
        await here.fill(name="Telephone")
        await here.press("Make a passkey")
        assert await here.title() == "Your account"
        assert "signed in as ann" in await here.text()
        (kept,) = await device.passkeys()
        assert (kept["rpId"], kept["isResidentCredential"]) == ("localhost", True)
        await sign_out(here)
        for _ in range(2):
            await here.page.goto(f"{world.url}/sign-in/local?next=/account/sign-in")
            await here.press("Sign in with a passkey")
            assert here.page.url == f"{world.url}/account/sign-in"
            assert "Telephone" in await here.text()
            await sign_out(here)
        assert not [address for address in here.addresses if code in address]
        assert code not in world.installed.log
        assert kept["credentialId"] not in world.installed.log
        await here.page.goto(link)
        alert = here.page.locator("[data-spent]:visible")
        await alert.wait_for()
        assert "used already" in await alert.inner_text()
        assert await here.page.get_by_role("button", name="Make a passkey").count() == 0


async def test_from_a_link_to_a_password(browser: Browser, world: World) -> None:
    """The code goes from the address into the form, and password managers are told the name."""
    async with tab(browser) as here:
        await here.page.goto(await world.link("bob"))
        assert not await here.page.locator("#code").is_visible()
        assert await here.page.input_value("[autocomplete=username]") == "bob"
        await here.fill(password=PASSWORD, again=PASSWORD)
        await here.press("Set the password")
        assert "signed in as bob" in await here.text()
        await sign_out(here)
        await here.page.goto(f"{world.url}/account")
        await here.fill(who="bob", password="not " + PASSWORD)
        await here.press("Sign in")
        assert "The name or the password is not right." in await here.text()
        await here.fill(password=PASSWORD)
        await here.press("Sign in")
        assert here.page.url == f"{world.url}/account"
        assert PASSWORD not in world.installed.log


async def test_a_password_needs_no_scripts(browser: Browser, world: World) -> None:
    """Neither to be chosen, with the code copied into the field, nor to sign in."""
    context = await browser.new_context(java_script_enabled=False)
    try:
        here = Tab(context, await context.new_page())
        link = await world.link("carol")
        await here.page.goto(link)
        assert await here.page.get_by_role("button", name="Make a passkey").count() == 0
        await here.fill(code=link.partition("#")[2], password=PASSWORD, again=PASSWORD)
        await here.press("Set the password")
        assert "signed in as carol" in await here.text()
        await sign_out(here)
        await here.page.goto(f"{world.url}/sign-in/local")
        await here.fill(who="https://carol.example", password=PASSWORD)
        await here.press("Sign in")
        assert "signed in as carol" in await here.text()
    finally:
        await context.close()


async def test_passkeys_are_added_renamed_and_removed(browser: Browser, world: World) -> None:
    """A device that has one is told so; a removed one opens nothing, though the device keeps it."""
    async with with_device(browser) as (here, device):
        await enrolled(world, here, "dave")
        page = f"{world.url}/account/sign-in"
        await here.page.goto(page)
        assert "has a passkey for this account already" in await refused(here, "Add a passkey")
        first = await device.passkeys()
        await device.forget()
        await here.page.fill("#new-name", "Stick")
        await here.press("Add a passkey")
        assert "Stick" in await here.text()
        await here.page.get_by_text("Rename", exact=True).first.click()
        await here.page.fill("#name-1", "Old telephone")
        await here.press("Rename")
        assert "Old telephone" in await here.text()
        await here.press("Remove Stick")
        assert "Stick" not in await here.text()
        await sign_out(here)
        await here.page.goto(f"{world.url}/sign-in/local")
        await here.press("Sign in with a passkey")
        assert "isn't known here" in await here.text()
        await device.forget()
        await device._send("addCredential", credential=first[0])
        await here.press("Sign in with a passkey")
        assert "signed in as dave" in await here.text()


async def test_who_isnt_recognised_doesnt_get_in(browser: Browser, world: World) -> None:
    """A device that doesn't recognise its owner, or has no passkey, leads to a sentence on the page."""
    async with with_device(browser) as (here, device):
        await enrolled(world, here, "eve")
        await sign_out(here)
        await here.page.goto(f"{world.url}/sign-in/local")
        await device.verifies(False)
        assert "Nothing was chosen" in await refused(here, "Sign in with a passkey")
        await here.page.goto(f"{world.url}/account")
        assert await here.title() == "Sign in"


async def test_at_an_address_without_a_name_there_are_none(browser: Browser, world: World) -> None:
    """Passkeys belong to names: the pages at 127.0.0.1 offer a password alone."""
    async with with_device(browser) as (here, _):
        await here.page.goto(world.url.replace("localhost", "127.0.0.1") + "/sign-in/local")
        assert await here.page.get_by_role("button").all_inner_texts() == ["Sign in", "Go to your provider"]
        await here.page.goto(world.url.replace("localhost", "127.0.0.1") + "/enrol")
        assert await here.page.get_by_role("button").all_inner_texts() == ["Set the password"]


async def test_a_new_password_signs_out_the_other_browser(browser: Browser, world: World) -> None:
    """The browser in which it was set stays."""
    async with tab(browser) as here, tab(browser) as there:
        await here.page.goto(await world.link("frank"))
        await here.fill(password=PASSWORD, again=PASSWORD)
        await here.press("Set the password")
        await there.page.goto(f"{world.url}/sign-in/local")
        await there.fill(who="frank", password=PASSWORD)
        await there.press("Sign in")
        assert await there.title() == "Your account"
        await here.page.goto(f"{world.url}/account/sign-in")
        await here.fill(password=PASSWORD + "!", again=PASSWORD + "!")
        await here.press("Set the password")
        assert await here.title() == "New password"
        for tab_, title in ((here, "Your account"), (there, "Sign in")):
            await tab_.page.goto(f"{world.url}/account")
            assert await tab_.title() == title
