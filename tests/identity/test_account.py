"""The account page, and the page on which users change passwords and passkeys."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from microsub.accounts import ActivityNotes, TokenUse
from microsub.model.session import CONFIRMATION
from microsub.server.app import create_app
from microsub.server.backend import GREETING
from microsub.web import routes
from microsub.web.pages import moment
from tests.support.authenticator import Authenticator, b64
from tests.support.reader_apps import IndiePassDesktop
from tests.support.visitor import (
    DEVICES,
    ORIGIN,
    PASSWORD,
    Shown,
    Visitor,
    fields_of,
    options_from,
    passkey_of,
    tried,
    with_passkey,
)
from tests.support.world import World

END, END_ALL = "/account/sessions/end", "/account/sessions/end-all"


async def test_the_account_lists_sessions_with_device_and_last_use(ann: Visitor, other: Visitor, signed_in) -> None:
    """The list marks the session of this browser."""
    await signed_in(ann)
    await signed_in(other)
    page = await ann.get("/account")
    assert "Firefox on Linux (this browser)" in page.text
    assert "Safari on iPhone" in page.text
    assert "last used" in page.text


async def test_signing_out_everywhere(ann: Visitor, other: Visitor, signed_in) -> None:
    """This browser is signed out too."""
    await signed_in(ann)
    await signed_in(other)
    shown = await ann.submit(await ann.get("/account"), END_ALL)
    assert shown.title == "You are signed out everywhere"
    for visitor in (ann, other):
        assert (await visitor.get("/account")).status == 303


@pytest.mark.parametrize("action", ["/sign-out", "/account/sessions/end-all"])
async def test_signing_out_clears_what_the_browser_keeps(ann: Visitor, signed_in, action: str) -> None:
    """Pictures of posts are kept for a week; the next user of the browser must not find them."""
    await signed_in(ann)
    page = await ann.get("/account")
    assert "clear-site-data" not in page.response.headers
    assert (await ann.submit(page, action)).response.headers["clear-site-data"] == '"cache"'


async def test_a_disabled_user_is_signed_out(server: World, ann: Visitor, signed_in) -> None:
    """This applies from the next request on."""
    await signed_in(ann)
    await server.accounts.disable_user("ann", server.now)
    assert (await ann.get("/account")).status == 303


async def test_a_session_ends_when_the_name_is_given_to_another_site(server: World, ann: Visitor, signed_in) -> None:
    """A user who signed in with the old profile URL may be another person than the owner of the new one."""
    await signed_in(ann)
    await server.accounts.set_me("ann", "https://elsewhere.example/")
    assert (await ann.get("/account")).status == 303


async def test_another_spelling_of_the_address_ends_no_session(server: World, ann: Visitor, signed_in) -> None:
    """All spellings of a URL are the same identity."""
    await signed_in(ann)
    for me in ("https://ann.example", "HTTPS://Ann.Example/", "https://ann.example:443/"):
        await server.accounts.set_me("ann", me)
        assert (await ann.get("/account")).status == 200, me
    await server.accounts.set_me("ann", "https://ann.example/other")
    assert (await ann.get("/account")).status == 303


class TestTokens:
    """Tokens that users create for apps that require an endpoint and a token."""

    MAKE, END = "/account/tokens", "/account/tokens/end"

    async def made(self, visitor: Visitor, **changes: Any) -> Shown:
        fields = {"name": "My laptop", "scope": ["read", "follow"], "days": "30", **changes}
        return await visitor.submit(await visitor.get("/account"), self.MAKE, **fields)

    async def test_one_is_shown_once_reads_and_is_revoked(self, server: World, ann: Visitor, signed_in) -> None:
        """The page also shows the endpoint; the list has name, scopes and expiry, but never the token."""
        server.now = 2e9
        await signed_in(ann)
        shown = await self.made(ann)
        assert shown.title == "Token for My laptop"
        assert "content-encoding" not in shown.response.headers, "a compressed length gives secrets away"
        endpoint, token = [node.text() for node in shown.tree.css("main pre code")]
        assert endpoint == "https://reader.example/microsub"
        signed = IndiePassDesktop(server.client).pasted("/microsub", token)
        assert await signed.read("notifications") == []
        assert (await signed.app.post(signed, {"action": "mute", "url": "https://x.example/"})).status_code == 403
        page = await ann.get("/account")
        assert "My laptop follow, read created 18 May 2033, 03:33 UTC , expires 17 June 2033, 03:33 UTC" in page.text
        assert token not in page.response.text
        ended = await ann.submit(page, self.END)
        assert "Token revoked." in (await ann.get(ended.location)).text
        assert (await signed.app.get(signed, {"action": "channels"})).status_code == 401

    async def test_one_without_an_end_needs_a_fresh_sign_in(self, enrolled: World, ann: Visitor, signed_in) -> None:
        """Confirmation by password or passkey works too; a token that expires needs neither."""
        await signed_in(ann)
        enrolled.now += CONFIRMATION + 1
        refused = await self.made(ann, days="")
        assert (refused.status, await enrolled.accounts.tokens("ann")) == (403, [])
        assert "Confirm your identity first" in refused.text
        assert refused.tree.css_first("#token-name")
        assert (await self.made(ann)).status == 200
        [link] = refused.tree.css("#token-days ~ p a")
        page = await ann.get(link.attributes["href"])
        wrong = await ann.submit(page, "/account/sign-in/confirm", password="wrong")
        back = await ann.submit(wrong, "/account/sign-in/confirm", password=PASSWORD)
        assert back.location.endswith("/account#tokens"), "the confirmation leads back to where it was asked for"
        assert (await self.made(ann, days="")).status == 200

    async def test_other_users_tokens_cant_be_ended(
        self, server: World, ann: Visitor, other: Visitor, signed_in
    ) -> None:
        """This form also doesn't end apps' tokens, or several tokens by a common prefix."""
        await server.accounts.add_user("bob", "https://bob.example/", server.now)
        await signed_in(ann)
        await signed_in(other, "bob")
        await self.made(other, days="")
        await self.made(ann, days="")
        page = await ann.get("/account")
        (theirs,) = await server.accounts.tokens("bob")
        (mine,) = await server.accounts.tokens("ann")
        for digest in (theirs.digest, mine.digest[:8], ""):
            assert (await ann.submit(page, self.END, token=digest)).status == 404
        assert [len(await server.accounts.tokens(name)) for name in ("ann", "bob")] == [1, 1]

    async def test_when_one_was_used_last(self, server: World, ann: Visitor, signed_in) -> None:
        """The time is exact to a few minutes, without a write per request; apps' tokens count for the app."""
        used = ActivityNotes(TokenUse(server.redis).note)
        server.use(token_used=used.note)
        app = create_app(server.parts, base_url="https://reader.example")
        await signed_in(ann)
        shown = await self.made(ann, days="")
        token = shown.tree.css("main pre code")[1].text()
        assert "not used yet" in (await ann.get("/account")).text
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://reader.example") as client:
            for seconds, action in ((0, "timeline&channel=notifications"), (30, "channels"), (60, "channels")):
                server.now += seconds
                reply = await client.get(f"/microsub?action={action}", headers={"Authorization": f"Bearer {token}"})
                assert reply.status_code == 200
        await used.aclose()
        assert f"last used {moment(server.now - 90)}" in (await ann.get("/account")).text


class TestAppPasswords:
    """Passwords for native apps, which users create for each app."""

    MAKE, END = "/account/app-passwords", "/account/tokens/end"
    LOGIN = "https://reader.example/api/greader.php/accounts/ClientLogin"

    async def made(self, visitor: Visitor, app: str = "Reeder") -> Shown:
        return await visitor.submit(await visitor.get("/account"), self.MAKE, app=app)

    async def enters(self, server: World, password: str) -> bool:
        reply = await server.client.post(self.LOGIN, data={"Email": "ann", "Passwd": password})
        assert reply.status_code in {200, 401}
        return reply.status_code == 200

    async def test_one_is_shown_once_opens_the_api_and_is_revoked(self, server: World, ann: Visitor, signed_in) -> None:
        """The page also shows the address and the name to type; the list has the app, and never the password."""
        await signed_in(ann)
        shown = await self.made(ann)
        assert shown.title == "App password for Reeder"
        address, name, password = [node.text() for node in shown.tree.css("main pre code")]
        assert shown.tree.css_first("[autofocus]").text() == password
        assert (address, name) == ("https://reader.example/api/greader.php", "ann")
        assert await self.enters(server, password)
        page = await ann.get("/account")
        assert address in page.text
        assert "Reeder" in page.text
        assert password not in page.response.text
        ended = await ann.submit(page, self.END)
        assert "Token revoked." in (await ann.get(ended.location)).text
        assert not await self.enters(server, password)

    async def test_when_one_was_used_last(self, server: World, ann: Visitor, signed_in) -> None:
        """By signing in, and by each later request."""
        used = ActivityNotes(TokenUse(server.redis).note)
        server.use(token_used=used.note)
        await signed_in(ann)
        shown = await self.made(ann)
        password = shown.tree.css("main pre code")[2].text()
        assert "not used yet" in (await ann.get("/account")).text
        server.now += 60
        assert await self.enters(server, password)
        await used.aclose()
        assert f"last used {moment(server.now)}" in (await ann.get("/account")).text
        later = ActivityNotes(TokenUse(server.redis).note)
        server.use(token_used=later.note)
        server.now += 86_400
        headers = {"Authorization": f"GoogleLogin auth=ann.{password.replace('-', '')}"}
        for place, status in (("user-info", 200), ("nothing", 404)):
            url = f"https://reader.example/greader/reader/api/0/{place}"
            assert (await server.client.get(url, headers=headers)).status_code == status
        await later.aclose()
        assert f"last used {moment(server.now)}" in (await ann.get("/account")).text

    async def test_one_needs_a_fresh_sign_in(self, enrolled: World, ann: Visitor, signed_in) -> None:
        """It never expires, so an unattended browser mustn't give one away."""
        await signed_in(ann)
        enrolled.now += CONFIRMATION + 1
        refused = await self.made(ann)
        assert (refused.status, await enrolled.accounts.tokens("ann")) == (403, [])
        assert "To create an app password, confirm your identity first" in refused.text
        await ann.submit(await ann.get("/account/sign-in"), "/account/sign-in/confirm", password=PASSWORD)
        assert (await self.made(ann)).status == 200


async def test_tokens_and_app_passwords_share_a_limit(
    server: World, ann: Visitor, signed_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It applies to tokens, apps and app passwords together."""

    async def most_of(_: str) -> int:
        return 2

    monkeypatch.setattr(server.parts.provider, "_most", most_of)
    await signed_in(ann)
    made = []
    for _ in range(2):
        made += [(await TestTokens().made(ann, days="")).status, (await TestAppPasswords().made(ann)).status]
    assert (made, len(await server.accounts.tokens("ann"))) == ([200, 200, 403, 403], 2)


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        *((TestTokens.MAKE, one) for one in ({"name": ""}, {"name": "x" * 101}, {"scope": []}, {"scope": "create"})),
        (TestTokens.MAKE, {"days": "1000000"}),
        *((TestAppPasswords.MAKE, {"app": name}) for name in ("", "x" * 101)),
    ],
)
async def test_invalid_tokens_are_refused_on_the_page(
    server: World, ann: Visitor, signed_in, path: str, changes: dict[str, Any]
) -> None:
    """The page with the form shows the error, and neither a token nor an app password is created."""
    await signed_in(ann)
    fields = fields_of((await ann.get("/account")).form(path))
    usual = {"name": "My laptop", "scope": "read", "days": "30", "app": "Reeder", "form_token": fields["form_token"]}
    shown = await ann.post(path, usual | changes)
    assert shown.status == 400
    assert shown.tree.css("[role=alert]")
    assert await server.accounts.tokens("ann") == []


async def test_a_browser_gets_a_new_secret_every_day(server: World, ann: Visitor, signed_in) -> None:
    """The browser stays signed in, and earlier forms are still valid."""
    await signed_in(ann)
    page = await ann.get("/account")
    first = ann.cookies["__Host-microsub-session"]
    server.now += 2 * 86_400
    assert (await ann.get("/account")).status == 200
    second = ann.cookies["__Host-microsub-session"]
    assert second != first
    assert (await ann.get("/account")).status == 200
    assert ann.cookies["__Host-microsub-session"] == second
    assert (await ann.submit(page, "/sign-out")).title == "You are signed out"
    for old in (first, second):
        ann.client.cookies.set("__Host-microsub-session", old, domain="reader.example", path="/")
        assert (await ann.get("/account")).status == 303


PAGE = "/account/sign-in"
NEW = "another long password"


async def changed(visitor: Visitor, password: str = NEW) -> Shown:
    return await visitor.submit(await visitor.get(PAGE), f"{PAGE}/password", password=password, again=password)


async def added(visitor: Visitor, device: Authenticator) -> Shown:
    page = await visitor.get(PAGE)
    asked = await options_from(visitor, page, f"{PAGE}/passkeys/begin")
    answer = json.dumps(device.make(asked["options"]))
    return await visitor.submit(page, f"{PAGE}/passkeys", secret=asked["secret"], answer=answer, name="Stick")


def later(server: World) -> None:
    server.now += CONFIRMATION + 1


async def test_a_changed_password_ends_all_other_sessions(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """This browser stays signed in with a new cookie; the old password doesn't work."""
    await tried(ann)
    await tried(other)
    before = ann.cookies["__Host-microsub-session"]
    assert (await changed(ann)).title == "New password"
    assert (await ann.get("/account")).status == 200
    assert await enrolled.parts.sessions.find(before, enrolled.now) is None
    assert (await other.get("/account")).status == 303
    assert (await tried(other)).status == 403
    assert (await tried(other, password=NEW)).status == 303


async def test_a_changed_password_makes_other_browsers_unknown(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """A stolen browser loses its separate allowance."""
    await tried(ann)
    await tried(other)
    await changed(ann)
    cookie = other.cookies["__Host-microsub-devices"]
    assert not await enrolled.parts.local.credentials.knows_device("ann", cookie, enrolled.now)


async def test_an_old_sign_in_changes_nothing_unconfirmed(enrolled: World, ann: Visitor) -> None:
    """After ten minutes the forms aren't shown any more, and are refused if they are sent anyway."""
    device = await passkey_of(enrolled)
    await tried(ann)
    page = await ann.get(PAGE)
    later(enrolled)
    for action, fields in [
        (f"{PAGE}/password", {"password": NEW, "again": NEW}),
        (f"{PAGE}/passkeys", {"secret": "x", "answer": "{}", "name": "x"}),
        (f"{PAGE}/passkeys/name", {"name": "mine now"}),
        (f"{PAGE}/passkeys/remove", {}),
    ]:
        shown = await ann.submit(page, action, **fields)
        assert shown.status == 403, action
        assert "Confirm your identity first" in shown.text
    part = page.tree.css_first("[data-passkey=make]")
    token = {part.attributes["data-token-field"]: part.attributes["data-token"]}
    assert (await ann.post(f"{PAGE}/passkeys/begin", token)).status == 403
    assert f"{PAGE}/password" not in (await ann.get(PAGE)).response.text
    (kept,) = (await enrolled.parts.local.credentials.overview("ann"))[1]
    assert (kept.id, kept.name) == (b64(device.id), "Stick")


async def test_a_password_confirms_for_ten_minutes(enrolled: World, ann: Visitor) -> None:
    """It confirms only this session; a wrong password doesn't."""
    await tried(ann)
    later(enrolled)
    page = await ann.get(PAGE)
    shown = await ann.submit(page, f"{PAGE}/confirm", password="wrong")
    assert shown.status == 403
    assert "The password is incorrect." in shown.text
    assert (await ann.submit(page, f"{PAGE}/confirm", password=PASSWORD)).location == PAGE
    assert (await changed(ann)).title == "New password"


async def test_a_confirmation_is_the_sessions_own(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """Another browser of the same user needs its own confirmation."""
    await tried(ann)
    await tried(other)
    later(enrolled)
    await ann.submit(await ann.get(PAGE), f"{PAGE}/confirm", password=PASSWORD)
    assert "Confirm your identity" not in (await ann.get(PAGE)).text
    assert "Confirm your identity" in (await other.get(PAGE)).text


async def test_a_passkey_confirms(enrolled: World, ann: Visitor) -> None:
    """Only the user's own passkey does, not another user's valid one."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    mine, bobs = await passkey_of(enrolled), await passkey_of(enrolled, "bob")
    await with_passkey(ann, mine)
    later(enrolled)
    for device, status in ((bobs, 403), (mine, 303)):
        page = await ann.get(PAGE)
        asked = await options_from(ann, page, f"{PAGE}/confirm/passkey/begin")
        answer = json.dumps(device.use(asked["options"]))
        shown = await ann.submit(page, f"{PAGE}/confirm/passkey", secret=asked["secret"], answer=answer)
        assert shown.status == status
    assert (await changed(ann)).title == "New password"


async def test_without_password_or_passkey_a_fresh_sign_in_is_needed(server: World, ann: Visitor, signed_in) -> None:
    """A user who signed in by their own site can set a password at once, or after another sign-in."""
    await signed_in(ann)
    assert f"{PAGE}/password" in (await ann.get(PAGE)).response.text
    later(server)
    page = await ann.get(PAGE)
    assert f"{PAGE}/password" not in page.response.text
    assert "/sign-in?next=/account/sign-in" in page.response.text


async def test_a_passkey_is_added_renamed_and_removed(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """This is possible soon after a sign-in; the passkey works until it is removed."""
    device = Authenticator(ORIGIN)
    await tried(ann)
    assert (await added(ann, device)).location == PAGE
    assert (await with_passkey(other, device)).status == 303
    page = await ann.get(PAGE)
    await ann.submit(page, f"{PAGE}/passkeys/name", passkey=b64(device.id), name="Key ring")
    page = await ann.get(PAGE)
    assert "Key ring" in page.text
    assert (await ann.submit(page, f"{PAGE}/passkeys/remove", passkey=b64(device.id))).location == PAGE
    assert (await with_passkey(other, device)).status == 403


async def test_a_form_that_is_sent_slowly_outlives_no_session(
    enrolled: World, ann: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stolen session a client might delay the end of a form until the owner has ended all sessions."""
    await tried(ann)
    page, read = await ann.get("/account"), routes.read_form

    async def slowly(request: Request) -> Any:
        await enrolled.parts.sessions.end_all("ann")
        return await read(request)

    monkeypatch.setattr(routes, "read_form", slowly)
    shown = await ann.submit(page, "/account/tokens", name="thief", days="30", scope=["read"])
    assert shown.status in {401, 403}
    assert not await enrolled.accounts.tokens("ann")


async def test_a_session_that_ended_meanwhile_sets_no_password(
    enrolled: World, ann: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stolen session a client might wait in the hashing queue until the owner has ended all sessions."""
    await tried(ann)
    hasher = enrolled.parts.local._passwords._hasher
    hashed = hasher.hash

    async def slowly(password: str) -> str:
        await enrolled.parts.sessions.end_all("ann")
        return await hashed(password)

    monkeypatch.setattr(hasher, "hash", slowly)
    assert (await changed(ann)).status == 401
    assert (await ann.get("/account")).location.startswith("/sign-in")
    assert (await tried(ann)).status == 303


async def test_users_without_website_stay_signed_in(enrolled: World, ann: Visitor) -> None:
    """The new session replaces the old one, also for a user without a website."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    mine, other = await passkey_of(enrolled, "bob"), await passkey_of(enrolled, "bob")
    await with_passkey(ann, mine)
    await ann.submit(await ann.get(PAGE), f"{PAGE}/passkeys/remove", passkey=b64(other.id))
    assert (await ann.get("/account")).status == 200
    assert (await changed(ann)).title == "New password"
    assert (await ann.get("/account")).status == 200


async def test_the_last_way_to_sign_in_is_not_removed_silently(enrolled: World, ann: Visitor) -> None:
    """Without a website, there is then only a link from the admin."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    only = await passkey_of(enrolled, "bob")
    await with_passkey(ann, only)
    page = await ann.get(PAGE)
    assert "a new link from the admin" not in page.text + (await ann.get("/account")).text
    await ann.submit(page, f"{PAGE}/passkeys/remove", passkey=b64(only.id))
    assert "a new link from the admin" in (await ann.get(PAGE)).text
    assert "a new link from the admin" in (await ann.get("/account")).text


async def test_removing_a_passkey_ends_other_sessions(enrolled: World, ann: Visitor, other: Visitor) -> None:
    """A lost device has a session and is a known browser; both end with its passkey. This browser stays signed in."""
    device = await passkey_of(enrolled)
    await tried(ann)
    await with_passkey(other, device)
    assert (await other.get("/account")).status == 200
    await ann.submit(await ann.get(PAGE), f"{PAGE}/passkeys/remove", passkey=b64(device.id))
    assert (await other.get("/account")).location.startswith("/sign-in")
    knows = enrolled.parts.local.credentials.knows_device
    assert not await knows("ann", other.cookies[DEVICES], enrolled.now)
    assert await knows("ann", ann.cookies[DEVICES], enrolled.now)
    assert (await ann.get("/account")).status == 200


async def test_other_users_passkeys_arent_found(enrolled: World, ann: Visitor) -> None:
    """Their ids aren't found in another account."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    mine, bobs = await passkey_of(enrolled), await passkey_of(enrolled, "bob")
    await with_passkey(ann, mine)
    page = await ann.get(PAGE)
    for action in ("remove", "name"):
        shown = await ann.submit(page, f"{PAGE}/passkeys/{action}", passkey=b64(bobs.id), name="x")
        assert shown.status == 404
    assert len((await enrolled.parts.local.credentials.overview("bob"))[1]) == 1


async def test_guesses_at_a_confirmation_are_slowed(enrolled: World, ann: Visitor) -> None:
    """Somebody who finds an open browser can't guess the password without limit."""
    await tried(ann)
    later(enrolled)
    statuses = []
    while 429 not in statuses:
        page = await ann.get(PAGE)
        statuses.append((await ann.submit(page, f"{PAGE}/confirm", password="wrong")).status)
    assert set(statuses) == {403, 429}
    page = await ann.get(PAGE)
    assert (await ann.submit(page, f"{PAGE}/confirm", password=PASSWORD)).status == 429


GERMAN = {
    "/account": "Ihr Konto",
    "/account/sign-in": "Wie Sie sich anmelden",
    "/connect": "Eine App oder Ihre Website verbinden",
    "/check": "Ihre Seite prüfen",
    "/welcome": "Willkommen",
    "/sign-in": "Anmelden",
    "/enrol": "Wählen Sie, wie Sie sich anmelden",
    "/absent": "Seite nicht gefunden",
}


async def test_the_token_of_a_start_has_a_german_name(server: World, ann: Visitor, signed_in) -> None:
    """Other tokens keep the names that users gave them."""
    await signed_in(ann)
    for name in (GREETING, "a laptop's"):
        await server.accounts.create_token("ann", ["read"], name, server.now)
    page = await ann.get("/account", **{"accept-language": "de", "accept": "text/html"})
    assert ("beim Start des Servers angezeigt" in page.text, GREETING in page.text) == (True, False)
    assert "a laptop's" in page.text


@pytest.mark.parametrize(("path", "title"), GERMAN.items())
async def test_the_pages_are_in_german_on_request(ann: Visitor, signed_in, path: str, title: str) -> None:
    """All pages, errors included, use one catalogue; other readers get English."""
    await signed_in(ann)
    page = await ann.get(path, **{"accept-language": "de", "accept": "text/html"})
    assert page.title == title
    assert page.tree.css_first("html").attributes["lang"] == "de"
    assert page.tree.css_first("main [lang=en]") is None


async def test_refusals_are_in_the_language_of_the_page(ann: Visitor, signed_in) -> None:
    """The translated message contains its values."""
    await signed_in(ann)
    page = await ann.get("/account")
    long = "x" * 101
    refused = await ann.submit(page, "/account/tokens", name=long, days="30", scope=["read"])
    assert "Enter a name of 1 to 100 characters" in refused.text
    fields = {**fields_of(page.form("/account/tokens")), "name": long, "days": "30", "scope": "read"}
    refused = await ann.post("/account/tokens", fields, **{"accept-language": "de"})
    assert "Geben Sie einen Namen von 1 bis 100 Zeichen ein" in refused.text
