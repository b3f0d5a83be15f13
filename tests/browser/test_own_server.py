"""Our own IndieAuth server in Chromium: consent, apps that come back, and other people's sites; and sign-in to our
pages: by a person's provider, a password, or a passkey of a virtual device.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, CDPSession

from tests.browser.instances import Instances
from tests.browser.tab import Tab, tab
from tests.support.own_server import PASSWORD
from tests.support.provider import Fault
from tests.support.reader_apps import APPS, AppBreaks, IndiePassDesktop, Monocle, Notifier, Together
from tests.support.web import Answer, html_reply

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


async def shut_out(here: Tab, url: str, client: str) -> None:
    """Ends an app's grant on the account page."""
    await here.page.goto(f"{url}/account")
    row = here.page.get_by_role("listitem").filter(has_text=client)
    async with here.page.expect_event("load"):
        await row.get_by_role("button").first.click()
    assert client not in await here.text()


async def test_the_tutorial_from_an_empty_page_to_reading(here: Tab, world: Instances) -> None:
    """`docs/tutorial/your-own-domain.md`: the check says what is missing, the lines of the first page correct it, and
    every app signs in by that page. Neither page needs horizontal scrolling.
    """
    me, url = world.profile("sue"), world.url.replace("localhost", "127.0.0.1")

    def write(*lines: str) -> None:
        world.apps.pages["/sue/"] = html_reply("<!doctype html><title>Sue</title>" + "".join(lines) + "<p>Hello.")

    async def checked() -> str:
        await here.page.goto(f"{url}/connect")
        await here.fill(address=me)
        await here.press("Check")
        return await here.text()

    async def fits() -> bool:
        return bool(await here.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

    write(f'<link rel="token_endpoint" href="https://provider.example/{"long" * 60}">')
    for width in (320, 1200):
        await here.page.set_viewport_size({"width": width, "height": 800})
        await here.page.goto(url)
        assert await fits()
        assert "Problem" in await checked()
        assert await fits()
    write()
    first = await checked()
    assert "Fix 2 problems" in first
    assert "Problem: microsub" in first

    link = urlsplit(await world.link("sue"))
    await here.page.goto(f"{url}{link.path}#{link.fragment}")
    await here.fill(password=PASSWORD, again=PASSWORD)
    await here.press("Set password")
    await here.page.goto(f"{url}/connect")
    blocks = await here.page.locator("pre").all_inner_texts()
    await here.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await here.page.get_by_text("Copy", exact=True).first.click()
    await here.page.get_by_text("Copied", exact=True).wait_for()
    assert await here.page.evaluate("navigator.clipboard.readText()") == blocks[0]
    lines = [line for block in blocks for line in block.splitlines()]
    assert f'<link rel="microsub" href="{url}/microsub/sue">' in lines
    lines = [line for line in lines if "micropub" not in line]
    write(*lines)
    second = await checked()
    assert "Everything is set up" in second
    assert f"this page is that of the user sue here, whose address is {me}" in second
    assert "Concerns IndiePass iOS" in second
    write(*lines, f'<link rel="micropub" href="{me}">')
    assert "IndiePass iOS" not in await checked()
    for kind in APPS:
        signed = await world.app(kind).sign_in(me, world.person(here, "sue"))
        assert len(await signed.read("home")) == 3, kind.name


async def test_an_app_is_allowed_and_revoked(here: Tab, world: Instances) -> None:
    """From the app to our sign-in, to the consent page, and back with exactly the scopes that stayed ticked; a person
    who is signed in still has to agree to the next app. The account page ends the grant.
    """
    person = world.person(here, without=("follow", "channels"))
    signed = await world.app(Monocle).sign_in(world.profile("alice"), person)
    assert f"Welcome back to {Monocle.name}" in await here.text()
    assert signed.app.client_id in person.seen[0]
    assert set(signed.scope.split()) == {"read", "profile"}, "posting is off unless it is chosen"
    assert len(await signed.read("home")) == 3
    assert (await signed.app.post(signed, {"action": "channels", "name": "Mine"})).status_code == 403
    before = len(here.addresses)
    await world.app(Together).sign_in(world.profile("alice"), world.person(here))
    assert not [address for address in here.addresses[before:] if "/sign-in" in address]
    await shut_out(here, world.url, signed.app.client_id)
    assert (await signed.app.get(signed, {"action": "channels"})).status_code == 401


async def test_a_refusal_returns_to_the_app(here: Tab, world: Instances) -> None:
    """A refusal brings the browser back to the app; the page's policy doesn't block a redirect to another address."""
    with pytest.raises(AppBreaks, match="access_denied"):
        await world.app(Notifier).sign_in(world.profile("alice"), world.person(here, decision="Cancel"))
    assert "Welcome back" in await here.text()
    client, further = world.apps.home("Moves on"), f"{world.other_url}/sign-in"
    world.apps.pages[f"{urlsplit(client).path}back"] = Answer(b"", 302, [("Location", further)])
    query = f"response_type=code&client_id={client}&redirect_uri={client}back&state=s&scope=read"
    await here.page.goto(f"{world.url}/auth?{query}")
    await here.press("Allow")
    assert here.page.url == further


async def test_beth_reads_at_another_instance(here: Tab, world: Instances) -> None:
    """Her page names one instance as provider and another as reader: an app and its pages accept her sign-in from it.
    If she ends the app's grant at home, the app has no access at the other instance either.
    """
    signed = await world.app(Monocle).sign_in(world.profile("beth"), world.person(here, "beth"))
    assert signed.microsub.startswith(world.other_url)
    assert len(await signed.read("home")) == 3
    await here.page.goto(f"{world.other_url}/sign-in?next=/account")
    await here.fill(me=world.profile("beth"))
    await here.press("Go to your provider")
    assert here.page.url.startswith(f"{world.url}/auth")
    assert world.other_url in await here.text()
    await here.press("Allow")
    assert here.page.url == f"{world.other_url}/account"
    assert "signed in as bee" in await here.text()
    await shut_out(here, world.url, signed.app.client_id)
    at_home = {"Authorization": f"Bearer {signed.token}"}
    assert (await world.http.get(f"{world.url}/microsub?action=channels", headers=at_home)).status_code == 401
    assert signed.token.partition(".")[2] not in world.own.log


async def test_a_person_without_a_website_reads_by_the_page_here(here: Tab, world: Instances) -> None:
    """Her account shows the address that apps accept, and makes a token for an app that needs one."""
    own = world.url.replace("localhost", "127.0.0.1")
    page = f"{own}/u/erin"
    signed = await world.app(Monocle).sign_in(page, world.person(here, "erin"))
    assert (signed.me, len(await signed.read("home"))) == (page, 3)
    await here.page.goto(f"{own}/account")
    assert page in await here.text()
    await here.page.get_by_role("region", name="Tokens", exact=True).locator("summary").click()
    await here.fill(name="My laptop")
    await here.page.uncheck('input[name=scope][value="follow"]')
    await here.press("Create token")
    endpoint, token = await here.page.locator("main pre code").all_inner_texts()
    pasted = IndiePassDesktop(world.http).pasted(endpoint, token)
    assert len(await pasted.read("home")) == 3
    await here.page.goto(f"{own}/account")
    assert token not in await here.page.content()
    await here.press("Revoke token My laptop")
    assert "Token revoked." in await here.text()
    assert (await pasted.app.get(pasted, {"action": "channels"})).status_code == 401


# --- other people's sites

FORMS = {
    "/sign-out": {},
    "/account/sessions/end-all": {},
    "/account/apps/end": {"client": "CLIENT"},
    "/sign-in": {"me": "MALLORY"},
    "/sign-in/local": {"who": "alice", "password": PASSWORD},
    "/enrol/password": {"code": "alice.x", "password": PASSWORD, "again": PASSWORD},
    "/auth/consent": {"client_id": "CLIENT", "redirect_uri": "CLIENTback", "scope": "read", "decision": "allow"},
}


async def test_other_sites_cant_send_forms(here: Tab, world: Instances) -> None:
    """CSRF: pages of another site that send our forms from Alice's browser change nothing, and get no code."""
    signed = await world.app(Monocle).sign_in(world.profile("alice"), world.person(here))
    client, elsewhere = signed.app.client_id, world.apps.listening.base
    kinds = ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data")
    for path, kind in [*((path, kinds[0]) for path in FORMS), *(("/auth/consent", kind) for kind in kinds[1:])]:
        inputs = "".join(
            f'<input name="{name}" value="{value.replace("CLIENT", client)}">' for name, value in FORMS[path].items()
        )
        form = f'<form method=post enctype="{kind}" action="{world.url}{path}">{inputs}<button>Win a prize</button>'
        world.apps.pages["/evil"] = html_reply(form)
        await here.page.goto(f"{elsewhere}/evil")
        await here.press("Win a prize")
        assert here.page.url.startswith(world.url), path
        assert "code=" not in here.page.url
    await here.page.goto(f"{world.url}/account")
    assert "signed in as alice" in await here.text()
    assert client in await here.text()
    assert await signed.read("home")
    # Scripts of another site can't read our pages or send forms either.
    await here.page.goto(f"{elsewhere}/evil")
    for path in ("/account", "/sign-in"):
        read = f"fetch('{world.url}{path}', {{credentials: 'include'}}).then(r => r.text()).catch(() => 'refused')"
        assert await here.page.evaluate(read) == "refused"
    here.troubles.clear()  # the browser reports its refusal, which is what this tests


async def test_other_sites_cant_frame_our_pages(here: Tab, world: Instances) -> None:
    """Clickjacking: neither the consent page nor the account page can be put into a frame."""
    signed = await world.app(Monocle).sign_in(world.profile("alice"), world.person(here))
    query = f"response_type=code&client_id={signed.app.client_id}&redirect_uri={signed.app.redirect_uri}&scope=read"
    paths = ("/account", "/sign-in", "/sign-in/local", "/enrol", f"/auth?{query}")
    world.apps.pages["/frame"] = html_reply("".join(f'<iframe src="{world.url}{path}"></iframe>' for path in paths))
    await here.page.goto(f"{world.apps.listening.base}/frame")
    _, *frames = here.page.frames
    assert len(frames) == len(paths)
    assert not [frame.url for frame in frames if frame.url.startswith(world.url)]
    here.troubles.clear()


async def test_the_consent_page_shows_the_app_as_text(here: Tab, world: Instances) -> None:
    """Markup and scripts in an app's texts stay text; addresses that aren't the app's get no button."""
    await world.app(Monocle).sign_in(world.profile("alice"), world.person(here))
    client = world.apps.home("Bad app")
    base = f"{world.url}/auth?response_type=code&client_id={client}&state=x"
    markup = "%3Cscript%3Ewindow.ran%3D1%3C/script%3E"
    for query in (f"&redirect_uri={client}back&scope={markup}", f"&redirect_uri={client}back&me={markup}"):
        await here.page.goto(base + query)
        assert await here.page.evaluate("window.ran === undefined")
    for redirect in ("https://evil.example/", "javascript:alert(1)"):
        await here.page.goto(f"{base}&scope=read&redirect_uri={redirect}")
        assert await here.page.get_by_role("button", name="Allow").count() == 0, redirect
        assert await here.page.locator(f'a[href^="{redirect}"]').count() == 0, redirect
        assert here.page.url.startswith(world.url)


# --- signing in by a provider


async def at_the_provider(here: Tab, world: Instances, path: str = "/sign-in") -> None:
    """Starts a sign-in as `me`, and fills in the provider's own page."""
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
    """By the provider's page to the requested page, and out; scripts see no cookie, addresses have no secret."""
    await at_the_provider(here, world, "/account?from=bookmark")
    await here.press("Allow")
    assert here.page.url == f"{world.url}/account?from=bookmark"
    assert "signed in as ann" in await here.text()
    assert await here.readable_cookies() == ""
    kept = await here.context.cookies()
    assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in kept), kept
    await here.page.reload()
    assert await here.title() == "Your account"
    await here.page.evaluate(
        "(sessionStorage.setItem('branch ann /channels/home/feeds', 'A blog'), localStorage.branches = 2)"
    )
    await sign_out(here, world)
    assert await here.page.evaluate("[sessionStorage.length, localStorage.branches]") == [0, "2"]
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
async def test_forged_answers_give_no_session(
    here: Tab, world: Instances, where: str, change: dict[str, str | None]
) -> None:
    """A page of ours reports the error, without a session; and no code from the provider runs."""
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
    """The tab is on a machine that can store passkeys and recognises its owner."""
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
    await here.press("Create passkey")
    assert await here.title() == "Welcome"


async def refused(here: Tab, button: str) -> str:
    """Presses a button that doesn't leave the page; the page's message."""
    await here.page.get_by_role("button", name=button, exact=True).first.click()
    alert = here.page.locator("[data-passkey] [role=alert]:visible").first
    await alert.wait_for()
    return await alert.inner_text()


async def test_a_link_makes_a_passkey_that_signs_in(here: Tab, device: Device, world: Instances) -> None:
    """Without a typed name, for our pages and for an app; neither code nor passkey is in an address or in the log."""
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
    assert "already been used" in await alert.inner_text()
    assert await here.page.get_by_role("button", name="Create passkey").count() == 0


async def test_an_invitation_works_once(here: Tab, browser: Browser, world: Instances) -> None:
    """Carol chooses a password by her link; its code is removed from the address at once, and works only once."""
    link = await world.link("carol")
    secret = link.partition("#")[2]
    await here.page.goto(link)
    await here.page.wait_for_url(f"{world.url}/enrol")
    assert not await here.page.locator("#code").is_visible()
    assert await here.page.input_value("[autocomplete=username]") == "carol"
    await here.fill(password=PASSWORD, again=PASSWORD)
    await here.press("Set password")
    assert "signed in as carol" in await here.text()
    async with tab(browser) as thief:
        await thief.page.goto(link)
        await thief.page.locator("[data-spent]:visible").wait_for()
        assert await thief.page.locator("#password").is_hidden()
        # A thief's browser may skip the script that hides the form.
        await thief.page.eval_on_selector("[data-choices]", "element => { element.hidden = false; }")
        await thief.fill(password=PASSWORD + "!", again=PASSWORD + "!")
        await thief.press("Set password")
        assert "signed in as carol" not in await thief.text()
    assert secret not in world.own.log


async def test_a_password_needs_no_scripts(browser: Browser, world: Instances) -> None:
    """This holds for choosing it, with the code copied into the field, and for signing in."""
    async with tab(browser, scripts=False) as here:
        link = await world.link("frank")
        await here.page.goto(link)
        assert await here.page.get_by_role("button", name="Create passkey").count() == 0
        await here.fill(code=link.partition("#")[2], password=PASSWORD, again=PASSWORD)
        await here.press("Set password")
        assert "signed in as frank" in await here.text()
        await sign_out(here, world)
        await here.page.goto(f"{world.url}/sign-in/local")
        await here.fill(who=world.profile("frank"), password=PASSWORD)
        await here.press("Sign in")
        assert "Account of frank" in await here.text()


async def test_passkeys_are_added_renamed_and_removed(here: Tab, device: Device, world: Instances) -> None:
    """The page shows which device has one; a removed one gives no access, though the device keeps it."""
    await make_passkey(here, await world.link("dave"))
    await here.page.goto(f"{world.url}/account/sign-in")
    assert "already has a passkey for this account" in await refused(here, "Add a passkey")
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
    assert "nknown passkey" in await here.text()
    await device.send("clearCredentials")
    await device.send("addCredential", credential=first[0])
    await here.press("Sign in with a passkey")
    assert "Account of dave" in await here.text()


async def test_an_unrecognised_owner_isnt_signed_in(here: Tab, device: Device, world: Instances) -> None:
    """A device that doesn't recognise its owner causes a message on the page; an IP address allows passwords only."""
    await make_passkey(here, await world.link("eve"))
    await sign_out(here, world)
    await here.page.goto(f"{world.url}/sign-in/local")
    await device.send("setUserVerified", isUserVerified=False)
    assert "Cancelled or timed out" in await refused(here, "Sign in with a passkey")
    await here.page.goto(f"{world.url}/account")
    assert await here.title() == "Sign in"
    # Passkeys need a name.
    for path, buttons in (("/sign-in/local", ["Sign in", "Go to your provider"]), ("/enrol", ["Set password"])):
        await here.page.goto(world.url.replace("localhost", "127.0.0.1") + path)
        assert await here.page.get_by_role("button").all_inner_texts() == buttons
