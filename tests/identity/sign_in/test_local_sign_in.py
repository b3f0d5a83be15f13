"""Signing in with a password or a passkey of this server, and the limits for attempts."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import pytest

from microsub.base.metrics import LOCAL_SIGN_INS
from microsub.identity.limits import PASSWORDS_OF_NETWORK, TURNS_OF_NETWORK
from tests.identity.conftest import ADDRESS
from tests.support.apps import Apps
from tests.support.visitor import (
    BY_PASSWORD,
    DEVICES,
    PASSWORD,
    SESSION,
    SIGN_IN,
    Visitor,
    fields_of,
    passkey_of,
    tried,
    with_passkey,
)
from tests.support.world import World


@pytest.mark.parametrize("who", ["ann", " ann ", "https://ann.example/", "ann.example", "http://ANN.example"])
async def test_a_password_signs_in_by_name_or_address(enrolled: World, ann: Visitor, who: str) -> None:
    """No script is needed."""
    shown = await tried(ann, who)
    assert (shown.status, shown.location) == (303, "/")
    page = await ann.get("/account")
    assert "signed in as ann" in page.text
    assert "with a password" in page.text


async def test_a_disabled_user_doesnt_get_in(enrolled: World, ann: Visitor) -> None:
    """After a return they can't sign in either, because the password was deleted."""
    await enrolled.accounts.disable_user("ann", enrolled.now)
    assert (await tried(ann)).status == 403
    await enrolled.accounts.restore_user("ann")
    assert (await tried(ann)).status == 403


async def test_no_value_survives_the_sign_in(enrolled: World, ann: Visitor) -> None:
    """The browser's secret and an earlier session are replaced, which prevents session fixation."""
    await ann.get(SIGN_IN)
    before = ann.cookies["__Host-microsub-browser"]
    await tried(ann)
    session = ann.cookies[SESSION]
    await tried(ann)
    assert ann.cookies["__Host-microsub-browser"] != before
    assert ann.cookies[SESSION] != session
    assert await enrolled.parts.sessions.find(session, enrolled.now) is None


async def test_a_known_browser_gets_in_during_an_attack(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """The cookie of an earlier sign-in is enough, although the address is blocked."""
    assert (await tried(ann)).status == 303
    await ann.submit(await ann.get("/account"), "/sign-out")
    assert DEVICES in ann.cookies
    while (await tried(other, password="wrong")).status != 429:
        pass
    assert (await tried(other)).status == 429
    assert (await tried(ann)).status == 303


async def test_an_office_signs_in_at_the_same_moment(enrolled: World) -> None:
    """Right passwords from one network don't count against each other while they wait to be checked."""
    browsers = [Visitor(enrolled.app, ADDRESS, client="192.0.2.7") for _ in range(3 * PASSWORDS_OF_NETWORK.free)]
    shown = await asyncio.gather(*(tried(browser) for browser in browsers))
    assert {one.status for one in shown} == {303}


async def test_a_network_guesses_no_more_at_the_same_moment(enrolled: World) -> None:
    """Wrong passwords sent at once meet the pauses that they meet one after the other."""
    browsers = [Visitor(enrolled.app, ADDRESS, client="192.0.2.7") for _ in range(3 * PASSWORDS_OF_NETWORK.free)]
    shown = await asyncio.gather(*(tried(browser, password="wrong") for browser in browsers))
    assert sum(one.status != 429 for one in shown) == PASSWORDS_OF_NETWORK.free + 1


async def test_attempts_of_a_network_that_wait_have_an_end(enrolled: World) -> None:
    """Those beyond it are refused at once, and count for nothing."""
    browsers = [Visitor(enrolled.app, ADDRESS, client="192.0.2.7") for _ in range(TURNS_OF_NETWORK.most + 1)]
    turns = enrolled.parts.local._turns.of("192.0.2.7")
    async with turns:
        waiting = [asyncio.create_task(tried(browser, password="wrong")) for browser in browsers]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().status for one in done] == [429]
    assert [one.status for one in await asyncio.gather(*waiting)].count(403) == PASSWORDS_OF_NETWORK.free + 1


async def test_a_known_browser_is_known_for_its_users(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """Several users in one browser each keep it known; it doesn't help with other accounts."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    await enrolled.parts.local.set_password("bob", PASSWORD + "!", enrolled.now)
    await tried(ann)
    await tried(ann, "bob", PASSWORD + "!")
    assert ann.cookies[DEVICES].count("~") == 1
    while (await tried(other, password="wrong")).status != 429:
        pass
    while (await tried(other, "carol", password="wrong")).status != 429:
        pass
    assert (await tried(ann)).status == 303
    assert (await tried(ann, "bob", PASSWORD + "!")).status == 303
    assert (await tried(ann, "carol")).status == 429


async def test_a_passkey_that_isnt_right_is_refused(server: World, ann: Visitor) -> None:
    """The page reports this, until the address has to wait."""
    device = await passkey_of(server)
    for _ in range(11):
        shown = await with_passkey(ann, device, origin="https://evil.example")
        assert shown.status == 403
        assert "is invalid" in shown.text
    assert (await with_passkey(ann, device, origin="https://evil.example")).status == 429
    assert SESSION not in ann.cookies


async def test_attempts_are_counted_for_the_admin(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """Successful, failed and paused attempts are counted by method, so that a graph shows attacks."""
    device = await passkey_of(enrolled)

    def counted() -> dict[tuple[str, str], float]:
        (family,) = LOCAL_SIGN_INS.collect()
        return {
            (one.labels["way"], one.labels["outcome"]): one.value
            for one in family.samples
            if one.name.endswith("_total")
        }

    before = counted()
    await tried(ann)
    await with_passkey(ann, device)
    await with_passkey(ann, device, origin="https://evil.example")
    while (await tried(other, password="wrong")).status != 429:
        pass
    grown = {key: value - before.get(key, 0) for key, value in counted().items()}
    expected = {
        ("password", "right"): 1,
        ("password", "wrong"): PASSWORDS_OF_NETWORK.free,  # the passkey counts as well
        ("password", "paused"): 1,
    }
    assert expected.items() <= grown.items()
    assert (grown["passkey", "right"], grown["passkey", "wrong"]) == (1, 1)


APP = "https://app.example/"


class TestTheRequestingApp:
    def address(self, client: str = APP, back: str = "", **more: str) -> str:
        asked = {"response_type": "code", "client_id": client, "redirect_uri": back or f"{client}back", **more}
        return f"{SIGN_IN}?{urlencode({'next': '/auth?' + urlencode(asked)})}"

    async def test_it_is_named(self, ann: Visitor, apps: Apps) -> None:
        """The page shows its host, to which the answer is sent, and its own name, also after a wrong password."""
        apps.say(APP, {"client_id": APP, "client_name": "Reads well"})
        page = await ann.get(self.address())
        assert page.title == "Sign in to allow app.example"
        assert "An app at app.example sent you here. It calls itself Reads well ." in page.text
        again = await ann.submit(page, BY_PASSWORD, who="ann", password="wrong")
        assert (again.status, again.title) == (403, page.title)
        assert "It calls itself Reads well ." in again.text
        assert apps.asked == [APP]

    async def test_the_way_from_the_apps_request_leads_there(self, ann: Visitor, apps: Apps) -> None:
        """A user who isn't signed in sees at once which app asks."""
        asked = urlencode({"response_type": "code", "client_id": APP, "redirect_uri": f"{APP}back"})
        sent = await ann.get(f"/auth?{asked}")
        assert (await ann.get(sent.location)).title == "Sign in to allow app.example"

    async def test_without_an_answer_of_its_own_its_host_is_named(self, ann: Visitor, apps: Apps) -> None:
        """This includes other ports, and paths that belong to somebody else on the host."""
        page = await ann.get(self.address("https://app.example:8443/u/evil/"))
        assert page.title == "Sign in to allow app.example:8443"
        assert (
            "An app at app.example:8443 sent you here. Its address is https://app.example:8443/u/evil/ ." in page.text
        )
        near = await ann.get(self.address("http://localhost:3000/"))
        assert "at localhost:3000 , on the device that you are using," in near.text

    async def test_its_name_is_text_after_the_host(self, ann: Visitor, apps: Apps) -> None:
        """Markup, long names and direction marks have no effect."""
        name = "<b onclick=x>Microsub</b> server</q> Your password has expired"
        apps.say(APP, {"client_id": APP, "client_name": name})
        page = await ann.get(self.address())
        quoted = page.tree.css_first("main q")
        assert quoted is not None
        assert quoted.text() == name
        assert page.tree.css_first("main b") is None
        assert page.title == "Sign in to allow app.example"
        for number, unfit in enumerate(("\u202emoc.elpmaxe", "a\u0000b", "")):
            client = f"https://app{number}.example/"
            apps.say(client, {"client_id": client, "client_name": unfit})
            assert "calls itself" not in (await ann.get(self.address(client))).text
        apps.say("https://long.example/", {"client_id": "https://long.example/", "client_name": "long " * 50})
        shown = (await ann.get(self.address("https://long.example/"))).tree.css_first("main q")
        assert shown is not None
        assert len(shown.text()) <= 100

    @pytest.mark.parametrize(
        "next_",
        [
            "/account",
            "/auth",
            "/auth?client_id=https://app.example/",
            "/auth?client_id=%3Cb%3E&redirect_uri=https://app.example/",
            "/auth?client_id=https://app.example/&client_id=https://b.example/&redirect_uri=https://app.example/",
            "/auth?client_id=https://app.example/&redirect_uri=https://evil.example/",
            "/auth?client_id=https://app.example/&redirect_uri=javascript:alert(1)",
            "/authors?client_id=https://app.example/&redirect_uri=https://app.example/",
            "//evil.example/auth?client_id=https://app.example/&redirect_uri=https://app.example/",
            "/auth?client_id=https://app.example/&redirect_uri=https://app.example/" + "&x=1" * 200,
        ],
    )
    async def test_invalid_requests_name_no_app(self, ann: Visitor, apps: Apps, next_: str) -> None:
        """Otherwise a link could show a well-known app's name, although the answer is sent elsewhere."""
        apps.say(APP, {"client_id": APP, "client_name": "Reads well"})
        page = await ann.get(f"{SIGN_IN}?{urlencode({'next': next_})}")
        assert (page.status, page.title) == (200, "Sign in")
        assert "Reads well" not in page.text

    async def test_very_many_apps_cost_only_their_names(self, ann: Visitor, apps: Apps) -> None:
        """A client that opens the sign-in page for very many apps sees only their hosts, and no app is requested any
        more.
        """
        pages = [await ann.get(self.address(f"https://app{number}.example/")) for number in range(30)]
        assert [page.title for page in pages[-2:]] == [f"Sign in to allow app{n}.example" for n in (28, 29)]
        assert len(apps.asked) == 20


class TestOnePage:
    """All ways to sign in are on one page."""

    async def test_the_former_page_of_passwords_leads_there(self, ann: Visitor) -> None:
        """The target after sign-in is kept, all other parameters are dropped."""
        shown = await ann.get("/sign-in/local?next=%2Faccount&me=ann&path=%2F&x=1")
        assert (shown.status, shown.location) == (303, "/sign-in?me=ann&next=%2Faccount")

    async def test_a_name_in_place_of_an_address_is_one_of_this_server(self, ann: Visitor) -> None:
        """A name without a dot isn't fetched as a page: it is filled into the password form."""
        shown = await ann.submit(await ann.get("/sign-in?next=/auth"), "/sign-in", me="ann")
        assert shown.location == "/sign-in?me=ann&next=%2Fauth"
        page = await ann.get(shown.location)
        assert fields_of(page.form(BY_PASSWORD))["who"] == "ann"
        assert "sign in with your passkey or password" in page.text

    async def test_errors_are_in_the_form_that_was_sent(self, ann: Visitor) -> None:
        """The message is in the form that was sent, and not in the other one."""
        shown = await ann.submit(await ann.get(SIGN_IN), SIGN_IN, me="x y")
        assert fields_of(shown.form(SIGN_IN))["me"] == "x y"
        shown = await tried(ann, "ann", "wrong")
        assert fields_of(shown.form(SIGN_IN))["me"] == ""
