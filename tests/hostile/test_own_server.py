"""Attacks on our own IndieAuth server: stolen codes and tokens, forged requests, guesses. On a real instance."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import pytest_asyncio

from microsub.base.rate_limits import GrowingPauses
from microsub.identity.limits import PASSWORDS_OF_NETWORK
from tests.support.own_server import Approver, AppSite, Surfer, app_site, cookie_of, enrolled, links, sign_in
from tests.support.process import Installation, installation
from tests.support.reader_apps import APPS, IndiePassAndroid, Monocle, Together

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
ANNS = [f"ann{number}" for number in range(6)]
_next = itertools.cycle(ANNS)


@dataclass
class World:
    """An instance with Ann and Bob, who sign in there; `app` is an honest app's address, `evil` another one's.

    `ann` is another user in each test, because apps are limited in how often they may send the same user.
    """

    http: httpx.AsyncClient
    site: AppSite
    installed: Installation
    url: str
    app: str
    evil: str
    ann: str = ANNS[0]
    people: dict[str, Approver] = field(default_factory=dict)

    def profile(self, user: str) -> str:
        return f"{self.site.listening.base}/{user}/"

    def address(self, **changes: str) -> str:
        """The authorization request of the honest app, with these changes."""
        asked = {"response_type": "code", "client_id": self.app, "redirect_uri": f"{self.app}back", "state": "s"}
        asked |= {"scope": "read", "code_challenge": CHALLENGE, "code_challenge_method": "S256"} | changes
        return f"{self.url}/auth?{urlencode({name: value for name, value in asked.items() if value != 'NONE'})}"

    async def code(self, user: str = "", **changes: str) -> str:
        """A code that Ann, or the given user, has agreed to."""
        back = await self.person(user)(self.address(**changes))
        return parse_qs(urlsplit(back).query)["code"][0]

    def person(self, user: str = "") -> Approver:
        """Ann, or the given user, in a browser that stays signed in."""
        user = user or self.ann
        return self.people.setdefault(user, Approver(self.site, user))

    async def signed_in(self) -> httpx.AsyncClient:
        """Ann's browser, signed in."""
        surfer = self.person().surfer
        surfer.stops_at = "http://never/"
        await surfer.goto(f"{self.url}/account")
        if "/sign-in" in surfer.here:
            await sign_in(surfer, self.ann)
        return surfer.http

    async def redeem(self, code: str, path: str = "/token", **changes: str) -> httpx.Response:
        """Redeems the code as the honest app does, with these changes; NONE omits a field."""
        form = {"grant_type": "authorization_code", "code": code, "client_id": self.app}
        form |= {"redirect_uri": f"{self.app}back", "code_verifier": VERIFIER} | changes
        sent = {name: value for name, value in form.items() if value != "NONE"}
        return await self.http.post(f"{self.url}{path}", data=sent)

    async def reads(self, token: str, user: str = "") -> int:
        """The status with which a token reads Ann's channels, or those of the given user."""
        user = user or self.ann
        headers = {"Authorization": f"Bearer {token}"}
        reply = await self.http.get(f"{self.url}/microsub/{user}", params={"action": "channels"}, headers=headers)
        return reply.status_code


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http, site = await enter(httpx.AsyncClient(timeout=60)), await enter(app_site())
        users = {name: {"me": f"{site.listening.base}/{name}/"} for name in (*ANNS, "bob")}
        installed = await enter(installation(tmp_path_factory.mktemp("own"), {"users": users}))
        url = await installed.serve("web")
        for name in users:
            site.profile(name, **links(url))
        await enrolled(installed, url, *ANNS, "bob")
        async with app_site() as elsewhere:
            yield World(http, site, installed, url, site.home("App"), elsewhere.home("Evil"))


@pytest.fixture(autouse=True)
def other_ann(world: World) -> None:
    world.ann = next(_next)


# --- codes


WRONG: dict[str, dict[str, str]] = {
    "another app": {"client_id": "EVIL"},
    "another app and its address": {"client_id": "EVIL", "redirect_uri": "EVILback"},
    "another address of the app": {"redirect_uri": "APPother"},
    "an address with more": {"redirect_uri": "APPback?x=1"},
    "another verifier": {"code_verifier": "w" * 64},
    "no verifier": {"code_verifier": "NONE"},
    "an empty verifier": {"code_verifier": ""},
    "the challenge as verifier": {"code_verifier": CHALLENGE},
    "a verifier too long": {"code_verifier": VERIFIER * 10},
}


@pytest.mark.parametrize("path", ["/token", "/auth"])
@pytest.mark.parametrize("case", WRONG)
async def test_a_code_in_the_wrong_hands(world: World, case: str, path: str) -> None:
    """Substitution and theft: neither endpoint accepts the code, and afterwards the owner can't use it either."""
    code = await world.code()
    changes = {n: v.replace("EVIL", world.evil).replace("APP", world.app) for n, v in WRONG[case].items()}
    reply = await world.redeem(code, path, **changes)
    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant"), reply.text
    assert "access_token" not in reply.text
    assert world.profile(world.ann) not in reply.text
    again = await world.redeem(code)
    assert again.status_code == 400


async def test_a_code_without_challenge_takes_no_verifier(world: World) -> None:
    """Downgrade: a challenge that was removed on the way is noticed when the honest app sends its verifier."""
    code = await world.code(code_challenge="NONE", code_challenge_method="NONE")
    assert (await world.redeem(code)).status_code == 400
    code = await world.code(code_challenge="NONE", code_challenge_method="NONE")
    assert (await world.redeem(code, code_verifier="NONE")).status_code == 200


async def test_a_second_use_takes_back_what_was_given(world: World) -> None:
    """The identical request gets the same answer for a moment; any other use ends the grant with its refresh token."""
    code = await world.code()
    first, same = (await world.redeem(code)).json(), (await world.redeem(code)).json()
    assert first["access_token"] == same["access_token"]
    assert await world.reads(first["access_token"]) == 200
    assert (await world.redeem(code, "/auth")).status_code == 400
    assert await world.reads(first["access_token"]) == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"], "client_id": world.app}
    assert (await world.http.post(f"{world.url}/token", data=refresh)).status_code == 400


async def test_a_race_for_a_code_has_one_winner(world: World) -> None:
    """Of twenty requests at once with right and wrong verifiers, at most the right ones get the one token."""
    code = await world.code()
    replies = await asyncio.gather(*(world.redeem(code) for _ in range(20)))
    tokens = {reply.json()["access_token"] for reply in replies if reply.status_code == 200}
    assert len(tokens) == 1
    code = await world.code()
    mixed = [{}, {"code_verifier": "w" * 64}, {"client_id": world.evil}] * 5
    await asyncio.gather(*(world.redeem(code, **changes) for changes in mixed))
    final = await world.redeem(code)
    assert final.status_code == 400


async def test_codes_can_not_be_guessed_or_forged(world: World) -> None:
    """Made-up codes, truncated ones and ones of another user's slot get the same error."""
    code = await world.code()
    user, secret = code.split(".", 1)
    made_up = [f"bob.{secret}", secret, user, f"{user}.", f"{user}.{secret[:-1]}", f"{user}.{secret}x", "", ".", "*"]
    made_up += [f"{user}.{secret[::-1]}", f"{user}.{'A' * 5000}", f"{user}.*", f"{{{user}}}.{secret}", f"{code}\x00"]
    for guess in made_up:
        reply = await world.redeem(guess)
        assert reply.status_code == 400, guess
        assert reply.json()["error"] in {"invalid_grant", "invalid_request"}
    assert (await world.redeem(code)).status_code == 200


async def test_redemptions_say_everything_once(world: World) -> None:
    """A repeated field is refused, so that no filter in front of the server reads a different request."""
    for name in ("code", "client_id", "redirect_uri", "code_verifier", "grant_type"):
        form = {"grant_type": "authorization_code", "code": await world.code(), "client_id": world.app}
        form |= {"redirect_uri": f"{world.app}back", "code_verifier": VERIFIER}
        other = {"client_id": world.evil}.get(name, "other")
        for pairs in ([*form.items(), (name, other)], [(name, other), *form.items()]):
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            reply = await world.http.post(f"{world.url}/token", content=urlencode(pairs), headers=headers)
            assert reply.status_code == 400, reply.text
            assert reply.json()["error"] in {"invalid_request", "invalid_grant", "unsupported_grant_type"}


# --- tokens


async def test_tokens_and_codes_arent_interchangeable(world: World) -> None:
    """Confusion: access tokens, refresh tokens, codes and cookies are accepted only for their own purpose."""
    code = await world.code()
    given = (await world.redeem(code)).json()
    access, refresh = given["access_token"], given["refresh_token"]
    cookie = (await world.signed_in()).cookies[cookie_of(world.url, "session")]
    for secret in (refresh, code, cookie):
        assert await world.reads(secret) == 401
        info = await world.http.get(f"{world.url}/userinfo", headers={"Authorization": f"Bearer {secret}"})
        assert info.status_code == 401
    for secret in (access, code, cookie):
        form = {"grant_type": "refresh_token", "refresh_token": secret, "client_id": world.app}
        assert (await world.http.post(f"{world.url}/token", data=form)).status_code == 400
    for secret in (access, refresh, cookie):
        assert (await world.redeem(secret)).status_code == 400
    name = cookie_of(world.url, "session")
    for secret in (access, refresh, code):
        page = await world.http.get(f"{world.url}/account", headers={"Cookie": f"{name}={secret}"})
        assert page.status_code == 303
    assert await world.reads(access, "bob") == 403
    assert await world.reads(access) == 200


async def test_introspection_needs_authorization(world: World) -> None:
    """Introspection needs the token itself or an authorized caller; an unknown token is just inactive."""
    mine = (await world.redeem(await world.code())).json()["access_token"]
    hers = (await world.redeem(await world.code("bob"))).json()["access_token"]

    async def ask(token: str, bearer: str | None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer is not None else {}
        return await world.http.post(f"{world.url}/introspect", data={"token": token}, headers=headers)

    assert (await ask(mine, mine)).json()["active"] is True
    for bearer in (None, hers, "x", f"{world.ann}.x"):
        reply = await ask(mine, bearer)
        assert reply.status_code in {401, 403}, (bearer, reply.text)
        assert world.profile(world.ann) not in reply.text
    assert (await ask(f"{world.ann}.unknown", f"{world.ann}.unknown")).json() == {"active": False}
    in_query = await world.http.post(f"{world.url}/introspect?token={mine}&access_token={mine}")
    assert in_query.status_code in {400, 401}


async def test_a_refresh_token_used_twice_ends_the_grant(world: World) -> None:
    """Thief and owner can't both continue: the second use of an old token ends the tokens of the first use."""
    given = (await world.redeem(await world.code())).json()
    form = {"grant_type": "refresh_token", "client_id": world.app}

    async def renew(token: str) -> httpx.Response:
        return await world.http.post(f"{world.url}/token", data={**form, "refresh_token": token})

    thief = (await renew(given["refresh_token"])).json()
    further = (await renew(thief["refresh_token"])).json()
    assert await world.reads(further["access_token"]) == 200
    assert (await renew(given["refresh_token"])).status_code == 400
    assert await world.reads(further["access_token"]) == 401
    assert await world.reads(given["access_token"]) == 401
    assert (await renew(further["refresh_token"])).status_code == 400


async def test_secrets_in_addresses_are_not_looked_at(world: World) -> None:
    """A code, a refresh token or a verifier in the query isn't accepted: addresses end up in logs."""
    code = await world.code()
    query = {"grant_type": "authorization_code", "code": code, "client_id": world.app}
    query |= {"redirect_uri": f"{world.app}back", "code_verifier": VERIFIER}
    for method in ("GET", "POST"):
        reply = await world.http.request(method, f"{world.url}/token", params=query)
        assert reply.status_code in {400, 401, 405}
    assert code not in world.installed.log


# --- requests for authorization

REDIRECTS = [
    *("https://evil.example/", "//evil.example/", "javascript:alert(1)", "data:text/html,x", "EVILback", "APPback#x"),
    *("http://127.0.0.1@evil.example/", "http://user:pw@HOST/app/back", "APPback\\..\\evil"),
    *("APP%00", "APPback%0d%0aX:y"),
    *("https://HOST/app/back", "http://HOST.evil.example/", "http://HOST:80/", "/app/back", "", "app:", "APP\tback"),
    *("http://localhost/", "file:///etc/passwd", "APPback\r\nLocation: https://evil.example/", "HTTP://EVIL.example/"),
]


async def test_answers_go_only_to_the_app(world: World) -> None:
    """Open redirects: no page redirects to an address other than the app's, links to it or offers it."""
    ann, host = await world.signed_in(), urlsplit(world.app).netloc
    for redirect in REDIRECTS:
        there = redirect.replace("EVIL", world.evil).replace("APP", world.app).replace("HOST", host)
        reply = await ann.get(world.address(redirect_uri=there))
        if reply.status_code == 200:
            # Every accepted address leads to the app's own origin.
            assert there.startswith(world.app), there
            assert not {"\r", "#"} & set(there)
        else:
            assert reply.status_code == 400, reply.text
            assert not re.search(r'href="[^"]*(evil|javascript|data:)', reply.text)
            assert "<form" not in reply.text or "/auth/consent" not in reply.text


async def test_consent_is_given_on_the_page_and_nowhere_else(world: World) -> None:
    """CSRF and forging: there is no code without the page's token, nor for an address that wasn't on the page."""
    async with Surfer(world.app) as surfer:
        await surfer.goto(world.address())
        await sign_in(surfer, world.ann)
        form = surfer.fields(next(f for f in surfer.forms if f.attributes["action"] == "/auth/consent"))
        own = {"Origin": world.url, "Sec-Fetch-Site": "same-origin"}
        token = next(name for name in form if "token" in name)
        allow = {**form, "decision": "allow"}

        async def post(changes: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
            return await surfer.http.post(f"{world.url}/auth/consent", data={**allow, **changes}, headers=headers)

        for changes, headers in (
            ({token: ""}, own),
            ({token: form[token][:-2] + "xx"}, own),
            ({}, {"Origin": "https://evil.example"}),
            ({}, {"Origin": "null"}),
            ({}, {"Sec-Fetch-Site": "cross-site", "Origin": world.url}),
        ):
            refused = await post(changes, headers)
            assert refused.status_code == 403, (changes, headers)
        for changes in (
            {"redirect_uri": "https://evil.example/"},
            {"redirect_uri": f"{world.evil}back"},
            {"client_id": ""},
        ):
            refused = await post(changes, own)
            assert refused.status_code == 400, changes
            assert "location" not in refused.headers
        allowed = await post({}, own)
        assert allowed.status_code == 303
        assert allowed.headers["location"].startswith(f"{world.app}back?")
        answer = parse_qs(urlsplit(allowed.headers["location"]).query)
        assert (answer["iss"], answer["state"]) == ([world.url], ["s"])


STATES = (
    "a\r\nSet-Cookie: x=y",
    "&code=forged&iss=evil",
    "#frag",
    "%0d%0aX:y",
    "\u2028",
    " ",
    "\x00",
    '"><b>',
    "\u00e4+%20 ",
)


async def test_state_comes_back_as_it_was(world: World) -> None:
    """Header injection: any state of the app comes back as one value, or the request is refused."""
    await world.signed_in()
    surfer = world.person().surfer
    surfer.stops_at = world.app
    for state in STATES:
        await surfer.goto(world.address(state=state))
        if surfer.reply.status_code == 400:
            continue
        await surfer.submit("/auth/consent", decision="allow")
        values = parse_qs(urlsplit(surfer.away).query, keep_blank_values=True)
        assert values["state"] == [state]
        assert len(values["code"]) == len(values["iss"]) == 1
        assert values["iss"] == [world.url]
        assert urlsplit(surfer.away).fragment == ""
        assert "x=y" not in surfer.reply.headers.get("set-cookie", "")


BAD_REQUESTS: list[dict[str, str]] = [
    *({"response_type": "token"}, {"response_type": "code token"}, {"code_challenge_method": "plain"}),
    *({"code_challenge": "short"}, {"scope": "read\x00"}, {"scope": 'a"b'}, {"scope": "x" * 5000}),
    *({"state": "s" * 5000}, {"client_id": "javascript:alert(1)"}, {"client_id": "http://10.0.0.1/"}),
    *({"client_id": ""}, {"client_id": "https://user:pw@app.example/"}, {"client_id": "https://app.example/../x"}),
    {"client_id": "x" * 5000},
]


async def test_invalid_requests(world: World) -> None:
    """The person sees each problem, with no redirect before they have pressed a button."""
    ann = await world.signed_in()
    for changes in BAD_REQUESTS:
        reply = await ann.get(world.address(**changes))
        assert reply.status_code in {400, 414}, changes
        assert "location" not in reply.headers
        assert "<script>" not in reply.text


async def test_repeated_parameters_are_refused(world: World) -> None:
    """Two values for one parameter are ambiguous: the request is refused."""
    ann, query = await world.signed_in(), urlsplit(world.address()).query
    for name in ("client_id", "redirect_uri", "state", "scope", "response_type", "code_challenge"):
        for doubled in (f"{query}&{name}=evil", f"{name}=evil&{query}"):
            reply = await ann.get(f"{world.url}/auth?{doubled}")
            assert reply.status_code == 400, doubled
            assert "/auth/consent" not in reply.text


# --- guessing passwords


def possible(allowance: GrowingPauses, seconds: float) -> int:
    """The number of attempts that are possible in that time."""
    ends = itertools.accumulate(allowance.pauses())
    return 1 + sum(end <= seconds for end in ends)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guessed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The URL of an instance on which nobody has tried a password."""
    users = {name: {"me": f"https://{name}.example/"} for name in ("ann", "unset", *(f"user{n}" for n in range(40)))}
    async with installation(tmp_path_factory.mktemp("guessing"), {"users": users}) as installed:
        url = await installed.serve("web")
        await enrolled(installed, url, "ann")
        yield url


async def test_names_are_not_revealed(guessed: str) -> None:
    """The refusal of a wrong password doesn't show who has an account or a password."""
    seen = set()
    for who in ("ann", "unset", "nobody", "https://ann.example/", "https://nobody.example/", "a b", "\u00e4"):
        async with Surfer() as mallory:
            await mallory.goto(f"{guessed}/sign-in/local")
            await mallory.submit("/sign-in/local", who=who, password="not the right one")
            seen.add((mallory.reply.status_code, mallory.text.replace(who, "WHO")))
    assert len(seen) == 1, seen


async def test_guessing_at_once_or_from_made_up_addresses_is_no_faster(guessed: str) -> None:
    """Forty guesses at the same moment count as forty; a header with another address changes nothing."""
    async with Surfer() as mallory:
        await mallory.goto(f"{guessed}/sign-in/local")
        form = mallory.fields(next(form for form in mallory.forms if form.css_first("[name=password]")))

        async def guess(number: int, who: str) -> int:
            claimed = f"203.0.113.{number}"
            headers = {
                **{"Origin": guessed, "Sec-Fetch-Site": "same-origin", "X-Real-IP": claimed},
                **{"X-Forwarded-For": claimed, "Forwarded": f"for={claimed}", "Client-IP": claimed},
                "CF-Connecting-IP": claimed,
            }
            data = {**form, "who": who, "password": f"guess {number}"}
            return (await mallory.http.post(f"{guessed}/sign-in/local", data=data, headers=headers)).status_code

        began = time.monotonic()
        found = [
            await asyncio.gather(*(guess(number, who.replace("N", str(number))) for number in range(40)))
            for who in ("ann", "userN")
        ]
        assert set(found[0]) == {403, 429}
        looked_at = sum(statuses.count(403) for statuses in found)
        assert looked_at <= possible(PASSWORDS_OF_NETWORK, time.monotonic() - began)


async def test_every_app_is_shown_by_its_address(world: World) -> None:
    """No app can pass for another: the consent page shows the address that the code is bound to."""
    for kind in (Together, Monocle, IndiePassAndroid):
        assert kind in APPS
        visitor = world.person()
        visitor.seen.clear()
        home = world.site.home(f"{kind.name} by Mallory")
        await kind(world.http, home).sign_in(world.profile(world.ann), visitor)
        assert home in visitor.seen[0]
