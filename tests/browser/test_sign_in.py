"""People sign in to our pages in Chromium: by a provider of their own, a password, or a passkey of a virtual device."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, CDPSession

from tests.browser.instances import Instances
from tests.browser.tab import Tab, tab
from tests.support.own_server import PASSWORD
from tests.support.provider import Fault
from tests.support.reader_apps import Monocle

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


async def at_the_provider(here: Tab, world: Instances, path: str = "/sign-in") -> None:
    """Ask to be signed in, and fill in what the provider's own page wants."""
    ann = world.provider.people["ann"]
    await here.page.goto(f"{world.url}{path}")
    assert await here.title() == "Sign in"
    await here.fill(me=ann.me)
    await here.press("Go to your provider")
    await here.fill(name="ann", password=ann.password)


async def sign_out(here: Tab, world: Instances) -> None:
    await here.page.goto(f"{world.url}/account")
    await here.press("Sign out of this browser")
    assert await here.title() == "You are signed out"


async def test_signing_in_and_out(here: Tab, world: Instances) -> None:
    """Over the provider's own page to where one was going, and out; scripts see no cookie, addresses hold no secret."""
    await at_the_provider(here, world, "/account?from=bookmark")
    await here.press("Allow")
    assert here.page.url == f"{world.url}/account?from=bookmark"
    assert "signed in as ann" in await here.text()
    assert await here.readable_cookies() == ""
    kept = await here.context.cookies()
    assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in kept), kept
    await here.page.reload()
    assert await here.title() == "Your account"
    await sign_out(here, world)
    await here.page.goto(f"{world.url}/account")
    assert await here.title() == "Sign in"
    secrets = [cookie["value"] for cookie in kept if len(cookie["value"]) > 20]
    assert secrets
    assert not [address for address in here.addresses for secret in secrets if secret in address]


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("redeemed", {"me": "http://<script>alert(1)</script>/"}),
        ("redirect", {"code": None, "error": "<script>alert(1)</script>"}),
    ],
)
async def test_answers_that_nobody_believes(
    here: Tab, world: Instances, where: str, change: dict[str, str | None]
) -> None:
    """A page of ours says what is wrong, without a session; and nothing that the provider sent runs."""
    await at_the_provider(here, world)
    world.provider.fault(where, Fault(change=change))
    try:
        await here.press("Allow")
    finally:
        world.provider.end_faults()
    assert here.page.url.startswith(f"{world.url}/sign-in")
    assert "provider" in (await here.text()).lower()
    await here.page.reload()
    await here.page.goto(f"{world.url}/account")
    assert await here.title() == "Sign in"


# --- passwords and passkeys


@dataclass
class Device:
    """A virtual authenticator (https://www.w3.org/TR/webauthn-2/#sctn-automation) of one tab."""

    cdp: CDPSession
    id: str

    async def passkeys(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.send("getCredentials"))["credentials"]
        return found

    async def send(self, command: str, **about: Any) -> dict[str, Any]:
        return await self.cdp.send(f"WebAuthn.{command}", {"authenticatorId": self.id, **about})


@pytest_asyncio.fixture(loop_scope="session")
async def device(here: Tab) -> AsyncIterator[Device]:
    """The tab is on a machine that can keep passkeys and recognises its owner."""
    cdp = await here.context.new_cdp_session(here.page)
    await cdp.send("WebAuthn.enable", {"enableUI": False})
    options = {
        **{"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True},
        **{"isUserVerified": True, "automaticPresenceSimulation": True},
    }
    made = await cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    yield Device(cdp, made["authenticatorId"])


async def make_passkey(here: Tab, link: str) -> None:
    await here.page.goto(link)
    await here.fill(name="Telephone")
    await here.press("Make a passkey")
    assert await here.title() == "Welcome"


async def refused(here: Tab, button: str) -> str:
    """Press a button that leads nowhere; what the page says of it."""
    await here.page.get_by_role("button", name=button, exact=True).first.click()
    alert = here.page.locator("[data-passkey] [role=alert]:visible").first
    await alert.wait_for()
    return await alert.inner_text()


async def test_from_a_link_to_a_passkey_and_in_with_it(here: Tab, device: Device, world: Instances) -> None:
    """Without typing a name, to our pages and to an app; neither code nor passkey is in an address or in the log."""
    link = await world.link("dora")
    code = link.partition("#")[2]
    await make_passkey(here, link)
    assert "signed in as dora" in await here.text()
    (kept,) = await device.passkeys()
    assert (kept["rpId"], kept["isResidentCredential"]) == ("localhost", True)
    for _ in range(2):
        await sign_out(here, world)
        await here.page.goto(f"{world.url}/sign-in/local?next=/account/sign-in")
        await here.press("Sign in with a passkey")
        assert here.page.url == f"{world.url}/account/sign-in"
        assert "Telephone" in await here.text()
    await sign_out(here, world)

    async def person(url: str) -> str:
        await here.page.goto(url)
        await here.press("Sign in with a passkey")
        await here.press("Allow")
        return here.page.url

    assert (await world.app(Monocle).sign_in(world.profile("dora"), person)).me == world.profile("dora")
    assert not [address for address in here.addresses if code in address]
    assert code not in world.own.log
    assert kept["credentialId"] not in world.own.log
    await here.page.goto(link)
    alert = here.page.locator("[data-spent]:visible")
    await alert.wait_for()
    assert "used already" in await alert.inner_text()
    assert await here.page.get_by_role("button", name="Make a passkey").count() == 0


async def test_an_invitation_is_good_once_and_leaves_no_trace(here: Tab, browser: Browser, world: Instances) -> None:
    """Carol chooses a password by her link; its code leaves the address at once, and is good for nobody else."""
    link = await world.link("carol")
    secret = link.partition("#")[2]
    await here.page.goto(link)
    await here.page.wait_for_url(f"{world.url}/enrol")
    assert not await here.page.locator("#code").is_visible()
    assert await here.page.input_value("[autocomplete=username]") == "carol"
    await here.fill(password=PASSWORD, again=PASSWORD)
    await here.press("Set the password")
    assert "signed in as carol" in await here.text()
    async with tab(browser) as thief:
        await thief.page.goto(link)
        await thief.page.locator("[data-spent]:visible").wait_for()
        assert await thief.page.locator("#password").is_hidden()
        # A thief's browser needn't run the script that hides the form.
        await thief.page.eval_on_selector("[data-choices]", "element => { element.hidden = false; }")
        await thief.fill(password=PASSWORD + "!", again=PASSWORD + "!")
        await thief.press("Set the password")
        assert "signed in as carol" not in await thief.text()
    assert secret not in world.own.log


async def test_a_password_needs_no_scripts(browser: Browser, world: Instances) -> None:
    """Neither to be chosen, with the code copied into the field, nor to sign in."""
    async with tab(browser, scripts=False) as here:
        link = await world.link("frank")
        await here.page.goto(link)
        assert await here.page.get_by_role("button", name="Make a passkey").count() == 0
        await here.fill(code=link.partition("#")[2], password=PASSWORD, again=PASSWORD)
        await here.press("Set the password")
        assert "signed in as frank" in await here.text()
        await sign_out(here, world)
        await here.page.goto(f"{world.url}/sign-in/local")
        await here.fill(who=world.profile("frank"), password=PASSWORD)
        await here.press("Sign in")
        assert "signed in as frank" in await here.text()


async def test_passkeys_are_added_renamed_and_removed(here: Tab, device: Device, world: Instances) -> None:
    """The page of a device that has one says so; a removed one opens nothing, though the device keeps it."""
    await make_passkey(here, await world.link("dave"))
    await here.page.goto(f"{world.url}/account/sign-in")
    assert "has a passkey for this account already" in await refused(here, "Add a passkey")
    first = await device.passkeys()
    await device.send("clearCredentials")
    await here.page.fill("#new-name", "Stick")
    await here.press("Add a passkey")
    assert "Stick" in await here.text()
    await here.page.get_by_text("Rename", exact=True).first.click()
    await here.page.fill("#name-1", "Old telephone")
    await here.press("Rename")
    assert "Old telephone" in await here.text()
    await here.press("Remove Stick")
    assert "Stick" not in await here.text()
    await sign_out(here, world)
    await here.page.goto(f"{world.url}/sign-in/local")
    await here.press("Sign in with a passkey")
    assert "isn't known here" in await here.text()
    await device.send("clearCredentials")
    await device.send("addCredential", credential=first[0])
    await here.press("Sign in with a passkey")
    assert "signed in as dave" in await here.text()


async def test_who_isnt_recognised_doesnt_get_in(here: Tab, device: Device, world: Instances) -> None:
    """A device that doesn't recognise its owner leads to a sentence on the page, and an address to a password alone."""
    await make_passkey(here, await world.link("eve"))
    await sign_out(here, world)
    await here.page.goto(f"{world.url}/sign-in/local")
    await device.send("setUserVerified", isUserVerified=False)
    assert "Nothing was chosen" in await refused(here, "Sign in with a passkey")
    await here.page.goto(f"{world.url}/account")
    assert await here.title() == "Sign in"
    # Passkeys belong to names.
    for path, buttons in (("/sign-in/local", ["Sign in", "Go to your provider"]), ("/enrol", ["Set the password"])):
        await here.page.goto(world.url.replace("localhost", "127.0.0.1") + path)
        assert await here.page.get_by_role("button").all_inner_texts() == buttons
