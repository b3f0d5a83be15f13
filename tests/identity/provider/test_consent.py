"""The page on which users decide what an app may do."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest

from microsub.accounts import ActivityNotes, TokenUse
from microsub.accounts.grants import Codes
from microsub.identity.clients import MAX_LOGO
from microsub.server.app import create_app
from microsub.web.pages import moment
from tests.support.apps import Apps
from tests.support.visitor import Shown, Visitor, begin_session, fields_of
from tests.support.world import World

APP, BACK = "https://app.example/", "https://app.example/back"
CONSENT = "/auth/consent"
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 50
PAGE = b"""<!doctype html><title>x</title><link rel=redirect_uri href="https://elsewhere.example/back">
<div class=h-app><img class=u-logo src=/logo.png alt="">
<a class="u-url p-name" href="/">Reads &lt;b&gt;well</a></div>"""


def address(**changes: str | None) -> str:
    asked = {
        "response_type": "code",
        "client_id": APP,
        "redirect_uri": BACK,
        "state": "s t&a=te",
        "scope": "read follow",
    }
    return "/auth?" + urlencode({k: v for k, v in {**asked, **changes}.items() if v is not None})


def answer(shown: Shown, back: str = BACK) -> dict[str, str]:
    """The parameters that the redirect passes to the app."""
    assert shown.status == 303, shown.text
    assert shown.location.startswith(f"{back}?") or shown.location.startswith(f"{back}&")
    return dict(parse_qsl(urlsplit(shown.location).query))


async def redeem(server: World, code: str, path: str = "/token", **more: str) -> dict[str, Any]:
    form = {"grant_type": "authorization_code", "code": code, "client_id": APP, "redirect_uri": BACK, **more}
    found: dict[str, Any] = (await server.client.post(path, data=form)).json()
    return found


async def test_a_full_list_of_apps_is_explained(
    server: World, ann: Visitor, apps: Apps, signed_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows how many there are, where to remove some, and that the admin can help."""

    async def most_of(_: str) -> int:
        return 1

    await server.accounts.create_token("ann", ["read"], "command line", server.now)
    monkeypatch.setattr(server.parts.provider, "_most", most_of)
    await signed_in(ann)
    shown = await ann.submit(await ann.get(address()), CONSENT, decision="allow", grant=["read"])
    assert shown.status == 403
    told = "The limit for tokens and authorized apps is reached: 1 of 1."
    assert told in shown.text
    assert "ask the admin" in shown.text
    assert shown.tree.css_first('main a[href="/account"]')


async def test_an_ended_session_allows_no_app(
    server: World, ann: Visitor, apps: Apps, signed_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of an app may take seconds, in which the owner of a stolen session may end all sessions."""
    await signed_in(ann)
    page, clients = await ann.get(address()), server.parts.provider.clients
    find = clients.find

    async def slowly(*of: Any) -> Any:
        await server.parts.sessions.end_all("ann")
        return await find(*of)

    monkeypatch.setattr(clients, "find", slowly)
    shown = await ann.submit(page, CONSENT, decision="allow", grant=["read"])
    assert (shown.status, shown.location) == (401, "")


async def test_the_page_shows_who_asks_and_for_what(ann: Visitor, apps: Apps, signed_in) -> None:
    """It shows name, logo, address, redirect target, the user's identity, and each scope in words."""
    await signed_in(ann)
    apps.say(APP, PAGE)
    apps.say(f"{APP}logo.png", PNG, "text/plain")
    page = await ann.get(address(scope="read profile"))
    assert page.title == "Allow Reads <b>well?"
    for text in (
        APP,
        "https://app.example",
        "https://ann.example/",
        "mark posts as read",
        "See your user name",
    ):
        assert text in page.text
    assert boxes(page) == ["read", "profile"]
    apps.say(f"{APP}id", {"client_id": f"{APP}id", "client_name": "Reads", "client_uri": APP})
    page = await ann.get(address(client_id=f"{APP}id"))
    assert "</strong>. Its page is <a" in page.response.text


async def test_new_scopes_of_a_known_app_are_marked(ann: Visitor, apps: Apps, signed_in, server: World) -> None:
    """Scopes that the app had before aren't marked, and a new app has no marks at all."""
    server.now = 2e9
    await signed_in(ann)

    async def marked(scope: str) -> list[str]:
        page = await ann.get(address(scope=scope))
        return [choice.css_first("strong").text() for choice in page.tree.css(".choice") if choice.css_first(".new")]

    assert await marked("read follow") == []
    code = answer(await ann.submit(await ann.get(address()), CONSENT, decision="allow", grant=["read", "follow"]))
    await redeem(server, code["code"])
    assert await marked("read follow channels") == ["channels"]
    assert "It requests no new permissions." in (await ann.get(address())).text


async def test_search_is_promised_only_if_offered(ann: Visitor, apps: Apps, signed_in, server: World) -> None:
    """The description of a scope depends on what this server offers."""
    await signed_in(ann)
    assert server.parts.post_search is None
    assert "search" not in (await ann.get(address())).text
    assert "search" not in (await ann.get("/account")).text


def boxes(page: Shown) -> list[str | None]:
    """The scopes with a checkbox."""
    return [box.attributes["value"] for box in page.tree.css("input[name=grant]")]


async def test_only_what_can_be_given_here_is_offered(
    server: World, ann: Visitor, apps: Apps, signed_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Posting scopes come last: into a channel, or at the user's own site if their page has a micropub link."""
    await signed_in(ann)
    server.parts.profiles._sender = apps
    asked = address(scope="post create blink delete update read follow email")
    page = await ann.get(asked)
    assert boxes(page) == ["read", "follow", "create", "delete", "update"]
    assert page.tree.css_first("select[name=channel]")
    told = answer(await ann.submit(page, CONSENT, decision="allow", grant=boxes(page), channel="+"))
    assert (await redeem(server, told["code"]))["scope"] == "create delete follow read update"
    await server.sources.revoke("ann", (await server.sources.all_of("ann"))[0].id)
    link = '<link rel="{}" href="https://ann.example/x">'
    apps.say("https://ann.example/", f"<head>{link.format('token_endpoint')}{link.format('micropub')}".encode())
    server.parts.profiles.forget("https://ann.example/")
    page = await ann.get(asked)
    assert boxes(page) == ["read", "follow", "post", "create", "delete", "update"]
    assert not page.tree.css_first("select[name=channel]")
    told = answer(await ann.submit(page, CONSENT, decision="allow", grant=boxes(page), channel="notifications"))
    assert (await redeem(server, told["code"]))["scope"] == "create delete follow post read update"
    assert await server.sources.all_of("ann") == []


async def test_an_app_that_comes_again_is_known(server: World, ann: Visitor, apps: Apps, signed_in) -> None:
    """The page says when the app was allowed before; another app is new."""
    server.now = 2e9
    await signed_in(ann)
    first = await ann.get(address())
    assert "allowed this app before" not in first.text
    told = answer(await ann.submit(first, CONSENT, decision="allow", grant="read"))
    await redeem(server, told["code"])
    assert "You allowed this app before, last on 18 May 2033, 03:33 UTC ." in (await ann.get(address())).text
    other = address(client_id="https://other.example/", redirect_uri="https://other.example/back")
    assert "allowed this app before" not in (await ann.get(other)).text


class TestPrograms:
    """Programs that users run on their own machine, and that listen there for the answer."""

    ID, HERE = "https://program.example/", "http://127.0.0.1:41753/"

    def asked(self, **more: str) -> str:
        return address(client_id=self.ID, **{"redirect_uri": self.HERE, **more})

    async def test_one_that_publishes_a_loopback_address_may_take_any_port(
        self, ann: Visitor, apps: Apps, signed_in
    ) -> None:
        """The program is shown with its name and without a warning."""
        await signed_in(ann)
        document = {"client_id": self.ID, "client_name": "Program", "redirect_uris": ["http://127.0.0.1/"]}
        apps.say(self.ID, document)
        page = await ann.get(self.asked())
        assert "calls itself Program" in page.text
        assert page.tree.css("[role=alert]") == []
        assert "code" in answer(await ann.submit(page, CONSENT, decision="allow", grant="read"), self.HERE)
        refused = await ann.get(self.asked(redirect_uri="http://127.0.0.1:41753/other"))
        assert refused.status == 400

    @pytest.mark.parametrize("says", [None, b"<div class=h-app><a class='u-url p-name' href=/>Program</a></div>"])
    async def test_one_without_metadata_gets_a_warning(
        self, ann: Visitor, apps: Apps, signed_in, says: bytes | None
    ) -> None:
        """Its name isn't shown, because nothing proves that the program belongs to this address."""
        await signed_in(ann)
        if says is not None:
            apps.say(self.ID, says)
        page = await ann.get(self.asked())
        alert = page.tree.css_first("[role=alert]").text()
        assert "only if you have just started to sign in from a program on this device" in alert
        assert "calls itself" not in page.text
        assert page.title == "Allow program.example?"
        assert "code" in answer(await ann.submit(page, CONSENT, decision="allow", grant="read"), self.HERE)

    async def test_one_at_localhost_gets_the_same_warning(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """Browsers resolve that name to the loopback address."""
        await signed_in(ann)
        page = await ann.get(self.asked(redirect_uri="http://localhost:7881/"))
        assert "from a program on this device" in page.tree.css_first("[role=alert]").text()
        allowed = await ann.submit(page, CONSENT, decision="allow", grant="read")
        assert "code" in answer(allowed, "http://localhost:7881/")

    async def test_unsupported_programs_get_instructions(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """The page says why, and that a token can be made on the account's page."""
        await signed_in(ann)
        page = await ann.get(self.asked(redirect_uri="http://elsewhere.example/"))
        assert page.status == 400
        assert "endpoint and a token" in page.text
        assert page.tree.css_first('main a[href="/account#tokens"]')

    async def test_an_app_of_this_machine_is_called_so(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """The page has no warning about a name that can't be fetched."""
        await signed_in(ann)
        page = await ann.get(address(client_id="http://127.0.0.1:9410/", redirect_uri="http://127.0.0.1:9410/back"))
        assert page.text.startswith("Allow 127.0.0.1:9410? An app on this device wants to use your account.")
        assert "name" not in page.text
        assert page.tree.css("[role=alert]") == []


async def test_the_page_loads_only_from_this_server(ann: Visitor, apps: Apps, signed_in) -> None:
    """The page contains our own copy of the logo, and the policy allows no other sources."""
    await signed_in(ann)
    apps.say(APP, PAGE)
    apps.say(f"{APP}logo.png", PNG)
    page = await ann.get(address())
    (image,) = page.tree.css("img")
    assert (image.attributes["src"] or "").startswith("data:image/png;base64,")
    policy = page.response.headers["content-security-policy"]
    assert "img-src 'self' data:;" in policy
    assert "frame-ancestors 'none'" in policy
    assert "app.example" not in policy
    assert page.response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("logo", "kind"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "image/svg+xml"),
        (b"<!doctype html><script>alert(1)</script>", "image/png"),
        (PNG + b"0" * MAX_LOGO, "image/png"),
        (b"", "image/png"),
    ],
)
async def test_only_harmless_pictures_are_logos(ann: Visitor, apps: Apps, signed_in, logo: bytes, kind: str) -> None:
    """The type of a logo is detected from its first bytes, whatever its content type says."""
    await signed_in(ann)
    apps.say(APP, PAGE)
    apps.say(f"{APP}logo.png", logo, kind)
    page = await ann.get(address())
    assert page.status == 200
    assert page.tree.css("img") == []
    assert "data:" not in page.response.headers["content-security-policy"]


async def test_an_app_that_does_not_answer_is_shown_by_its_address(ann: Visitor, apps: Apps, signed_in) -> None:
    """The user can still allow it."""
    await signed_in(ann)
    page = await ann.get(address())
    assert page.title == "Allow app.example?"
    assert "name could not be fetched" in page.text
    assert "code" in answer(await ann.submit(page, CONSENT, decision="allow", grant="read"))


class TestTheSignedInUser:
    async def test_a_hint_of_somebody_else_is_shown(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """The hint changes nothing: the code is for the signed-in user."""
        await signed_in(ann)
        page = await ann.get(address(me="https://bob.example/"))
        alert = page.tree.css_first("[role=alert]").text()
        assert alert.startswith("The app asked for https://bob.example/, but you are signed in as https://ann.example/")
        assert "\u202e" not in (await ann.get(address(me="https://bob.example/\u202e"))).text
        for same in ("https://ann.example", "HTTPS://ann.example/", "http://ann.example", "ann.example", None):
            assert "The app asked for" not in (await ann.get(address(me=same))).text

    async def test_the_browser_returns_with_the_identity(
        self, server: World, ann: Visitor, other: Visitor, apps: Apps, signed_in
    ) -> None:
        """`me` has the app's spelling if it is the same identity, otherwise the account's; a refusal doesn't contain
        it.
        """
        await signed_in(ann)
        for asked, said in (
            (None, "https://ann.example/"),
            ("https://ann.example", "https://ann.example"),
            ("http://ann.example/", "http://ann.example/"),
            ("https://bob.example/", "https://ann.example/"),
            ("https://ann.example/#x", "https://ann.example/"),
        ):
            page = await ann.get(address(me=asked))
            assert answer(await ann.submit(page, CONSENT, decision="allow", grant="read"))["me"] == said
        assert "me" not in answer(await ann.submit(page, CONSENT, decision="deny"))

    async def test_an_account_without_a_website_is_known_by_the_page_here(
        self, server: World, other: Visitor, apps: Apps
    ) -> None:
        """The app gets the address of this page as `me`, and may have requested it."""
        await server.accounts.add_user("bob", "", server.now)
        await begin_session(other, server, "bob", "")
        page = await other.get(address(me="https://reader.example/u/bob/"))
        assert "It will know you as https://reader.example/u/bob" in page.text
        assert "The app asked for" not in page.text
        told = answer(await other.submit(page, CONSENT, decision="allow", grant="read"))
        assert told["me"] == "https://reader.example/u/bob/"
        assert (await redeem(server, told["code"]))["me"] == "https://reader.example/u/bob"


class TestChoosing:
    async def test_a_scope_under_another_name_is_what_it_means(
        self, server: World, ann: Visitor, apps: Apps, signed_in
    ) -> None:
        """Ekstereye requests `timeline`: the page describes it as reading, and offers `follow`, which it needs."""
        server.now = 2e9
        await signed_in(ann)
        page = await ann.get(address(scope="create timeline"))
        assert "timeline : Read your channels" in page.text
        told = answer(await ann.submit(page, CONSENT, decision="allow", grant="timeline"))
        given = await redeem(server, told["code"])
        assert given["scope"] == "read timeline"
        assert boxes(page) == ["timeline", "follow", "create"]
        headers = {"Authorization": f"Bearer {given['access_token']}"}
        assert (await server.client.get("/microsub?action=channels", headers=headers)).status_code == 200

    async def test_without_scopes_only_the_identity_is_confirmed(
        self, server: World, ann: Visitor, apps: Apps, signed_in
    ) -> None:
        """The app gets no token."""
        await signed_in(ann)
        page = await ann.get(address())
        fields = {key: value for key, value in fields_of(page.form(CONSENT)).items() if key != "grant"}
        told = answer(await ann.post(CONSENT, {**fields, "decision": "allow"}))
        assert (await redeem(server, told["code"]))["error"] == "invalid_grant"
        assert await redeem(server, told["code"], "/auth") == {"me": "https://ann.example/"}

    @pytest.mark.parametrize("kind", ["id", None, "code"])
    async def test_older_requests_only_want_to_know_who_it_is(
        self, server: World, ann: Visitor, apps: Apps, signed_in, kind: str | None
    ) -> None:
        """They have `response_type=id`, or no response type and no scope."""
        await signed_in(ann)
        page = await ann.get(address(response_type=kind, scope="read" if kind == "id" else None, state=None))
        assert "wants to know who you are" in page.text
        assert page.tree.css("input[name=grant]") == []
        told = answer(await ann.submit(page, CONSENT, decision="allow"))
        assert set(told) == {"code", "iss", "me"}
        assert await redeem(server, told["code"], "/auth") == {"me": "https://ann.example/"}

    async def test_older_requests_with_scopes_want_a_token(
        self, server: World, ann: Visitor, apps: Apps, signed_in
    ) -> None:
        """The response type may be missing."""
        server.now = 2e9
        await signed_in(ann)
        page = await ann.get(address(response_type=None))
        told = answer(await ann.submit(page, CONSENT, decision="allow", grant="read"))
        assert (await redeem(server, told["code"]))["scope"] == "read"


class TestRedirects:
    @pytest.mark.parametrize(
        "redirect", [BACK, "https://app.example/", "https://app.example/back?x=1", "https://elsewhere.example/back"]
    )
    async def test_the_apps_own_host_and_named_places_are_good(
        self, server: World, ann: Visitor, apps: Apps, signed_in, redirect: str
    ) -> None:
        """The query of the redirect address is kept."""
        await signed_in(ann)
        apps.say(APP, PAGE)
        page = await ann.get(address(redirect_uri=redirect))
        told = answer(await ann.submit(page, CONSENT, decision="allow", grant="read"), redirect)
        assert told.get("x") == ("1" if "?" in redirect else None)
        found = await Codes(server.redis).find(told["code"])
        assert found is not None
        assert found.redirect == redirect

    async def test_a_json_document_names_places_too(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """An example is an app on the reader's device, which the policy allows as a form target."""
        await signed_in(ann)
        apps.say(APP, {"client_id": APP, "client_name": "Pass", "redirect_uris": ["pass.example:/back"]})
        page = await ann.get(address(redirect_uri="pass.example:/back"))
        assert "an app on this device (pass.example:)" in page.text
        assert "form-action 'self' pass.example:" in page.response.headers["content-security-policy"]
        shown = await ann.submit(page, CONSENT, decision="allow", grant="read")
        assert shown.location.startswith("pass.example:/back?code=")

    async def test_a_redirect_away_doesnt_borrow_the_apps_name(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """An open redirect of a well-known site must not give its name to somebody else's app."""
        await signed_in(ann)
        page = PAGE.replace(b'href="/"', b'href="https://app.example/"')
        apps.say(APP, page, final_url="https://elsewhere.example/")
        assert (await ann.get(address(redirect_uri="https://elsewhere.example/back"))).status == 400
        assert "Reads" not in (await ann.get(address())).text


class TestErrorsSentToApps:
    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"response_type": "token"}, "unsupported_response_type"),
            ({"code_challenge_method": "plain", "code_challenge": "x" * 43}, "invalid_request"),
            ({"code_challenge": "short"}, "invalid_request"),
            ({"code_challenge_method": "S256"}, "invalid_request"),
            ({"scope": 'read "x"'}, "invalid_scope"),
            ({"scope": "\u00e4"}, "invalid_scope"),
            ({"scope": " ".join(f"s{n}" for n in range(50))}, "invalid_scope"),
            ({"state": "x" * 2100}, "invalid_request"),
        ],
    )
    async def test_a_fault_is_reported_to_the_app_by_a_link(
        self, ann: Visitor, apps: Apps, signed_in, changes: dict[str, str], error: str
    ) -> None:
        """The page has a link back to the app, but doesn't redirect by itself."""
        await signed_in(ann)
        page = await ann.get(address(**changes))
        assert (page.status, page.location) == (400, "")
        link = page.tree.css_first("a.button").attributes["href"] or ""
        assert link.startswith(f"{BACK}?")
        told = dict(parse_qsl(urlsplit(link).query))
        assert (told["error"], told["iss"]) == (error, "https://reader.example")
        assert told.get("state") == (None if "state" in changes else "s t&a=te")

    async def test_an_enormous_request_is_refused(self, ann: Visitor, apps: Apps, signed_in) -> None:
        """It is refused before it is parsed."""
        await signed_in(ann)
        assert (await ann.get(address() + "&x=1" * 200)).status == 400
        assert (await ann.get(address() + "&x=" + "1" * 9000)).status == 400


class TestTheAccount:
    async def test_an_app_is_listed_with_its_last_use(self, server: World, ann: Visitor, apps: Apps, signed_in) -> None:
        """The time is exact to a few minutes, and isn't the time of consent."""
        server.now = 2e9
        used = ActivityNotes(TokenUse(server.redis).note)
        server.use(token_used=used.note)
        app = create_app(server.parts, base_url="https://reader.example")
        await signed_in(ann)
        told = answer(await ann.submit(await ann.get(address()), CONSENT, decision="allow", grant=["read"]))
        headers = {"Authorization": f"Bearer {(await redeem(server, told['code']))['access_token']}"}
        assert "not used yet" in (await ann.get("/account")).text
        server.now += 4000
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://reader.example") as client:
            assert (await client.get("/microsub?action=channels", headers=headers)).status_code == 200
        await used.aclose()
        assert f"last used {moment(server.now)}" in (await ann.get("/account")).text


async def test_requests_for_unknown_apps_are_limited(
    server: World, ann: Visitor, other: Visitor, apps: Apps, signed_in
) -> None:
    """A signed-in user can open this page for 61 unknown apps at once, then for one per two seconds."""
    await signed_in(ann)
    await server.accounts.add_user("bob", "https://bob.example/", server.now)
    await signed_in(other, "bob")
    shown = [await ann.get(address(client_id=f"https://app{number}.example/")) for number in range(62)]
    assert [page.status == 429 for page in shown] == [False] * 61 + [True]
    assert shown[-1].response.headers["retry-after"] == "2"
    assert not any("app61." in url for url in apps.asked)
    assert (await ann.get(address(client_id="https://app1.example/"))).status != 429, "known still"
    assert (await other.get(address())).status == 200
    server.now += 2
    assert (await ann.get(address())).status == 200


async def test_made_up_secrets_reveal_no_user(server: World, ann: Visitor, apps: Apps) -> None:
    """Made-up codes, tokens and hints get the same refusal for existing and unknown users; a sign-in comes first."""
    await server.accounts.add_user("gone", "https://gone.example/", server.now)
    await server.accounts.disable_user("gone", server.now)
    form = {"client_id": APP, "redirect_uri": BACK}
    seen: dict[str, set[tuple[int, str]]] = {}
    for name in ("ann", "gone", "nobody"):
        secret = f"{name}.{'x' * 43}"
        sent = {
            "code": ("POST", "/token", {**form, "grant_type": "authorization_code", "code": secret}),
            "profile": ("POST", "/auth", {**form, "grant_type": "authorization_code", "code": secret}),
            "refresh": (
                "POST",
                "/token",
                {**form, "grant_type": "refresh_token", "refresh_token": f"{name}.{'x' * 66}"},
            ),
            "grant": (
                "POST",
                "/token",
                {**form, "grant_type": "refresh_token", "refresh_token": f"{name}.{'g' * 22}.x"},
            ),
            "revoke": ("POST", "/revoke", {"token": secret}),
            "introspect": ("POST", "/introspect", {"token": secret}),
            "check": ("GET", "/token", {}),
            "userinfo": ("GET", "/userinfo", {}),
            "hint": ("GET", address(me=f"https://{name}.example/"), {}),
        }
        for what, (method, path, fields) in sent.items():
            found = await server.client.request(
                method, path, data=fields or None, headers={"Authorization": f"Bearer {secret}"}
            )
            told = re.sub(r'"request_id":"[^"]*"', "", found.text) + found.headers.get("location", "")
            seen.setdefault(what, set()).add((found.status_code, told.replace(name, "WHO")))
    assert {what: len(answers) for what, answers in seen.items()} == dict.fromkeys(seen, 1)
