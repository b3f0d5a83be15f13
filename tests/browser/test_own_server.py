"""Our own IndieAuth server in Chromium: invitations, consent, apps that come back, and other people's sites."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.browser.tab import Tab, tab
from tests.support.own_server import PASSWORD, AppSite, app_site, enrolled, links
from tests.support.polling import dated, rss
from tests.support.process import Installation, installation
from tests.support.raw_http import html_reply
from tests.support.reader_apps import APPS, App, AppBreaks, IndiePassDesktop, Monocle, Notifier, Together
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

QUICK = {"polling": {"host_interval": 0}, "identity": {"token_cache": 1}}
BOTH = "127.0.0.0/8,::1/128"


@dataclass
class World:
    """`url` is the provider, by the name localhost, so that it is another site than apps, pages and `other` are."""

    http: httpx.AsyncClient
    site: AppSite
    own: Installation
    url: str
    other: Installation
    other_url: str

    def app(self, kind: type[App]) -> App:
        return kind(self.http, self.site.home(kind.name))

    def profile(self, user: str) -> str:
        return f"{self.site.listening.base}/{user}/"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60, limits=httpx.Limits(keepalive_expiry=1)))
        site, feeds = await enter(app_site()), await enter(publisher())
        channels = [{"uid": "home", "feeds": [feeds.serve_document("/feed", rss(dated(3)))]}]
        names = ("ann", "beth", "carol", "dora")
        users = {name: {"me": f"{site.listening.base}/{name}/", "channels": channels} for name in names}
        folder = tmp_path_factory.mktemp
        users["erin"] = {"channels": channels}
        own = await enter(
            installation(folder("own"), {"users": users, "settings": QUICK}, MICROSUB_ALLOW_PRIVATE_NETWORKS=BOTH)
        )
        bee = {"users": {"bee": users["beth"]}, "settings": QUICK}
        other = await enter(installation(folder("other"), bee, MICROSUB_ALLOW_PRIVATE_NETWORKS=BOTH))
        own_url, other_url = await asyncio.gather(own.serve(), other.serve())
        url = own_url.replace("127.0.0.1", "localhost")
        for name in names:
            site.profile(name, **links(url, microsub=f"{other_url}/microsub/bee" if name == "beth" else None))
        await enrolled(own, own_url, "ann", "beth", "erin")
        await wait_until(lambda: '"feed polled"' in own.log and '"feed polled"' in other.log)
        yield World(http, site, own, url, other, other_url)


@dataclass
class Human:
    """Somebody at a tab who decides on the page of consent; give it to an app as its `person`."""

    here: Tab
    site: AppSite
    me: str
    user: str
    without: tuple[str, ...] = ()
    decision: str = "Allow"
    seen: list[str] = field(default_factory=list)

    async def __call__(self, url: str) -> str:
        await self.here.page.goto(url)
        if "/sign-in" in self.here.page.url:
            await self.here.fill(who=self.user, password=PASSWORD)
            await self.here.press("Sign in")
        self.seen.append(await self.here.text())
        for scope in self.without:
            await self.here.page.uncheck(f'input[name=grant][value="{scope}"]')
        await self.here.press(self.decision)
        assert self.here.page.url.startswith(dict(parse_qsl(urlsplit(url).query))["redirect_uri"])
        return self.here.page.url


def human(world: World, here: Tab, user: str = "ann", **more: Any) -> Human:
    return Human(here, world.site, world.profile(user), user, **more)


@pytest.mark.parametrize("kind", APPS, ids=lambda kind: kind.name)
async def test_apps_come_back_with_what_they_need(browser: Browser, world: World, kind: type[App]) -> None:
    """From the app to our sign-in, to the page of consent, back to the app, and on to reading."""
    async with tab(browser) as here:
        person = human(world, here)
        signed = await world.app(kind).sign_in(world.profile("ann"), person)
        assert f"Welcome back to {kind.name}" in await here.text()
        assert signed.app.client_id in person.seen[0]
        assert len(await signed.read("home")) == 3


async def test_who_is_signed_in_is_asked_once_more_and_not_for_a_password(browser: Browser, world: World) -> None:
    """The second app finds Ann signed in, though she comes from another site; and she has to agree all the same."""
    async with tab(browser) as here:
        await world.app(Together).sign_in(world.profile("ann"), human(world, here))
        before = len(here.addresses)
        await world.app(Monocle).sign_in(world.profile("ann"), human(world, here))
        assert not [address for address in here.addresses[before:] if "/sign-in" in address]


async def test_choosing_fewer_scopes_and_shutting_out(browser: Browser, world: World) -> None:
    """What is unticked isn't granted, and the account's page ends what was; the app sees both."""
    async with tab(browser) as here:
        person = human(world, here, without=("follow", "channels"))
        signed = await world.app(Monocle).sign_in(world.profile("ann"), person)
        assert set(signed.scope.split()) == {"create", "update", "read", "profile"}
        assert (await signed.app.post(signed, {"action": "channels", "name": "Mine"})).status_code == 403
        await here.page.goto(f"{world.url}/account")
        row = here.page.get_by_role("listitem").filter(has_text=signed.app.client_id)
        async with here.page.expect_navigation():
            await row.get_by_role("button").first.click()
        assert signed.app.client_id not in await here.text()
        assert (await signed.app.get(signed, {"action": "channels"})).status_code == 401


async def test_saying_no(browser: Browser, world: World) -> None:
    """The app is told so, by a browser that really came back to it."""
    async with tab(browser) as here:
        with pytest.raises(AppBreaks, match="access_denied"):
            await world.app(Notifier).sign_in(world.profile("ann"), human(world, here, decision="Cancel"))
        assert "Welcome back" in await here.text()


async def test_beth_reads_at_another_instance(browser: Browser, world: World) -> None:
    """Her page names one of ours as provider and another as reader: an app and its pages both take her word from it."""
    async with tab(browser) as here:
        signed = await world.app(Monocle).sign_in(world.profile("beth"), human(world, here, "beth"))
        assert signed.microsub.startswith(world.other_url)
        assert len(await signed.read("home")) == 3
        await here.page.goto(f"{world.other_url}/sign-in")
        await here.fill(me=world.profile("beth"))
        await here.press("Go to your provider")
        assert here.page.url.startswith(f"{world.url}/auth")
        await here.press("Allow")
        assert here.page.url == f"{world.other_url}/account"
        assert "signed in as bee" in await here.text()


async def test_an_invitation_is_good_once_and_leaves_no_trace(browser: Browser, world: World) -> None:
    """Carol chooses a password by her link; its code leaves the address at once, and is good for nobody else."""
    code, out, _ = await world.own.run("user", "invite", "carol")
    link = next(word for word in out.split() if "#" in word)
    assert code == 0
    secret = urlsplit(link).fragment
    there = f"{world.url}{urlsplit(link).path}#{secret}"
    async with tab(browser) as here:
        await here.page.goto(there)
        await expect(here.page).to_have_url(f"{world.url}{urlsplit(link).path}", timeout=60_000)
        await here.page.fill("#password", PASSWORD)
        await here.page.fill("#again", PASSWORD)
        await here.press("Set the password")
        assert "signed in as carol" in await here.text()
    async with tab(browser) as thief:
        await thief.page.goto(there)
        await expect(thief.page.locator("[data-spent]")).to_be_visible(timeout=60_000)
        await expect(thief.page.locator("#password")).to_be_hidden()
        # A thief's browser needn't run the script that hides the form.
        await thief.page.eval_on_selector("[data-choices]", "element => { element.hidden = false; }")
        await thief.page.fill("#password", PASSWORD + "!")
        await thief.page.fill("#again", PASSWORD + "!")
        await thief.press("Set the password")
        assert "signed in as carol" not in await thief.text()
    assert secret not in world.own.log


async def test_a_passkey_from_the_invitation_to_an_app(browser: Browser, world: World) -> None:
    """Dora makes a passkey by her link, signs out, and lets an app in with nothing but that passkey."""
    _, out, _ = await world.own.run("user", "invite", "dora")
    link = next(word for word in out.split() if "#" in word)
    async with tab(browser) as here:
        await authenticator(here.page)
        await here.page.goto(f"{world.url}{urlsplit(link).path}#{urlsplit(link).fragment}")
        await here.press("Make a passkey")
        assert "signed in as dora" in await here.text()
        await here.press("Sign out of this browser")

        async def person(url: str) -> str:
            await here.page.goto(url)
            await here.press("Sign in with a passkey")
            await here.press("Allow")
            return here.page.url

        signed = await world.app(Monocle).sign_in(world.profile("dora"), person)
        assert signed.me == world.profile("dora")


async def authenticator(page: Page) -> None:
    """Give the tab a device that makes passkeys."""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    options = {
        **{"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True},
        **{"isUserVerified": True, "automaticPresenceSimulation": True},
    }
    await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})


# --- other people's sites

FORMS = {
    "/sign-out": {},
    "/account/sessions/end-all": {},
    "/account/apps/end": {"client": "CLIENT"},
    "/sign-in": {"me": "MALLORY"},
    "/sign-in/local": {"who": "ann", "password": PASSWORD},
    "/enrol/password": {"code": "ann.x", "password": PASSWORD, "again": PASSWORD},
    "/auth/consent": {"client_id": "CLIENT", "redirect_uri": "CLIENTback", "scope": "read", "decision": "allow"},
}


async def test_other_sites_send_no_forms_in_somebodys_name(browser: Browser, world: World) -> None:
    """CSRF: pages of another site that send our forms from Ann's browser change nothing, and give no code."""
    async with tab(browser) as here:
        signed = await world.app(Monocle).sign_in(world.profile("ann"), human(world, here))
        client = signed.app.client_id
        for number, (path, fields) in enumerate(FORMS.items()):
            values = {name: value.replace("CLIENT", client) for name, value in fields.items()}
            inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in values.items())
            form = f'<form method=post action="{world.url}{path}">{inputs}<button>Win a prize</button></form>'
            for kind in ("", ' enctype="text/plain"', ' enctype="multipart/form-data"'):
                page = f"/evil{number}{len(kind)}"
                world.site.pages[page] = html_reply(form.replace("<form", f"<form{kind}"))
                await here.page.goto(f"{world.site.listening.base}{page}")
                await here.press("Win a prize")
                assert here.page.url.startswith(world.url), path
                assert "code=" not in here.page.url
        await here.page.goto(f"{world.url}/account")
        assert "signed in as ann" in await here.text()
        assert client in await here.text()
        assert await signed.read("home")
        # Scripts of another site can't read our pages or send forms either.
        await here.page.goto(f"{world.site.listening.base}/evil00")
        for path in ("/account", "/sign-in"):
            read = f"fetch('{world.url}{path}', {{credentials: 'include'}}).then(r => r.text()).catch(() => 'refused')"
            assert await here.page.evaluate(read) == "refused"
        here.troubles.clear()  # the browser says that it refused, which is what is tested


async def test_other_sites_show_our_pages_in_no_frame(browser: Browser, world: World) -> None:
    """Clickjacking: neither the page of consent nor the account can be laid under somebody's mouse."""
    async with tab(browser) as here:
        signed = await world.app(Monocle).sign_in(world.profile("ann"), human(world, here))
        client = signed.app.client_id
        query = f"response_type=code&client_id={client}&redirect_uri={signed.app.redirect_uri}&scope=read"
        for path in ("/account", "/sign-in", "/sign-in/local", "/enrol", f"/auth?{query}"):
            world.site.pages["/frame"] = html_reply(f'<iframe src="{world.url}{path}"></iframe>')
            await here.page.goto(f"{world.site.listening.base}/frame")
            frame = here.page.frames[1]
            assert not frame.url.startswith(world.url), path
        here.troubles.clear()


async def test_the_page_of_consent_says_who_asks_and_trusts_nothing(browser: Browser, world: World) -> None:
    """Markup and scripts in what an app says stay text; addresses that aren't the app's get no button."""
    async with tab(browser) as here:
        await world.app(Monocle).sign_in(world.profile("ann"), human(world, here))
        client = world.site.home("Bad app")
        base = f"{world.url}/auth?response_type=code&client_id={client}&state=x"
        markup = "%3Cscript%3Ewindow.ran%3D1%3C/script%3E"
        for query in (f"&redirect_uri={client}back&scope={markup}", f"&redirect_uri={client}back&me={markup}"):
            await here.page.goto(base + query)
            assert await here.page.evaluate("window.ran === undefined")
        for redirect in (
            "https://evil.example/",
            "javascript:alert(1)",
            "//evil.example",
            f"{client}back%23x",
            "data:x",
        ):
            await here.page.goto(f"{base}&scope=read&redirect_uri={redirect}")
            assert await here.page.get_by_role("button", name="Allow").count() == 0, redirect
            assert await here.page.locator(f'a[href^="{redirect}"]').count() == 0, redirect
            assert here.page.url.startswith(world.url)


async def test_a_person_without_a_website_reads_by_the_page_here(browser: Browser, world: World) -> None:
    """Her account shows the address that apps take, and makes a token for one that asks for that."""
    own = world.url.replace("localhost", "127.0.0.1")
    page = f"{own}/u/erin"
    async with tab(browser) as here:
        await here.page.goto(f"{own}/sign-in")
        await here.fill(who="erin", password=PASSWORD)
        await here.press("Sign in")
        assert page in await here.text()
        signed = await world.app(Monocle).sign_in(page, Human(here, world.site, page, "erin"))
        assert (signed.me, len(await signed.read("home"))) == (page, 3)
        await here.page.goto(f"{own}/account")
        await here.page.click('a[href="#token-name"]')  # opens the form
        await here.fill(name="My laptop")
        await here.page.uncheck('input[name=scope][value="follow"]')
        await here.press("Make a token")
        endpoint, token = await here.page.locator("main pre code").all_inner_texts()
        pasted = IndiePassDesktop(world.http).pasted(endpoint, token)
        assert len(await pasted.read("home")) == 3
        await here.page.goto(f"{own}/account")
        assert token not in await here.page.content()
        async with here.page.expect_navigation():
            await here.page.get_by_role("button", name="Revoke the token My laptop").click()
        assert "The token is revoked." in await here.text()
        assert (await pasted.app.get(pasted, {"action": "channels"})).status_code == 401
