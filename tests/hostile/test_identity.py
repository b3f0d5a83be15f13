"""Attacks on people who sign in to our pages: over HTTP, on a real instance. Each case says who attacks and how."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.support.own_server import Surfer, cookie_of
from tests.support.process import Installation, installation
from tests.support.provider import Fault, Provider, Variant, provider

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@dataclass
class World:
    """An instance with Ann and Bob at an honest provider, Old at an older one, and Mallory at her own."""

    honest: Provider
    old: Provider
    evil: Provider
    installed: Installation
    url: str

    async def ask(self, surfer: Surfer, me: str, next_: str = "") -> Surfer:
        """Starts a sign-in as `me`; returns where the browser is sent."""
        await surfer.goto(f"{self.url}/sign-in")
        return await surfer.submit(me=me, next=next_)

    async def signed_in_as(self, surfer: Surfer) -> str | None:
        """The user who is signed in in the browser, from the account's page."""
        await surfer.goto(f"{self.url}/account")
        found = re.search(r"signed in as (\w+)", surfer.text)
        return found[1] if found and surfer.title == "Your account" else None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        honest, old, evil = [
            await enter(provider(variant)) for variant in (Variant.lenient(), Variant.older(), Variant.lenient())
        ]
        users = {name: {"me": honest.person(name).me} for name in ("ann", "bob")}
        users["old"] = {"me": old.person("old").me}
        users["mallory"] = {"me": evil.person("mallory").me}
        installed = await enter(installation(tmp_path_factory.mktemp("reader"), {"users": users}))
        yield World(honest, old, evil, installed, await installed.serve("web"))


@pytest_asyncio.fixture(loop_scope="module")
async def ann() -> AsyncIterator[Surfer]:
    """Ann's browser."""
    async with Surfer() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def mallory() -> AsyncIterator[Surfer]:
    """Mallory's browser."""
    async with Surfer() as made:
        yield made


async def test_the_ordinary_way_works(world: World, ann: Surfer) -> None:
    """Ann signs in: the flow that the attacks below start from."""
    world.honest.at_browser = "ann"
    await world.ask(ann, world.honest.people["ann"].me)
    assert await world.signed_in_as(ann) == "ann"


# --- codes in the wrong hands


async def test_a_stolen_code_is_invalid_in_another_browser(world: World, ann: Surfer, mallory: Surfer) -> None:
    """Mallory has seen the address with which Ann came back, before or after Ann used it, with its code and state."""
    world.honest.at_browser = "ann"
    ann.stops_at = f"{world.url}/sign-in/callback"
    await world.ask(ann, world.honest.people["ann"].me)
    answer = ann.away
    assert "code=" in answer
    await mallory.goto(answer)
    assert mallory.reply.status_code >= 400
    await mallory.goto(f"{world.url}/sign-in")  # now with Mallory's own cookies
    await mallory.goto(answer)
    assert await world.signed_in_as(mallory) is None
    ann.stops_at = "\n"
    await ann.goto(answer)
    assert await world.signed_in_as(ann) == "ann", "the thief's attempts don't disturb whose it is"
    await mallory.goto(answer)
    assert await world.signed_in_as(mallory) is None


async def test_a_code_from_another_sign_in_is_refused(world: World, ann: Surfer, mallory: Surfer) -> None:
    """Substitution: Mallory puts a code of Bob for this server into a sign-in of her own browser."""
    world.honest.at_browser = "bob"
    async with Surfer(f"{world.url}/sign-in/callback") as bob:
        await world.ask(bob, world.honest.people["bob"].me)
        code = parse_qs(urlsplit(bob.away).query)["code"][0]
    mallory.stops_at = f"{world.url}/sign-in/callback"
    world.honest.at_browser = "ann"
    await world.ask(mallory, world.honest.people["ann"].me)
    mallory.stops_at = "\n"
    own = parse_qs(urlsplit(mallory.away).query)
    mallory_answer = httpx.URL(f"{world.url}/sign-in/callback").copy_merge_params(
        {"code": code, "state": own["state"][0], "iss": own["iss"][0]}
    )
    await mallory.goto(str(mallory_answer))
    assert await world.signed_in_as(mallory) is None


async def test_an_unrequested_answer_is_refused(world: World, ann: Surfer) -> None:
    """Login CSRF: Mallory sends Ann to the callback with her own code, to have Ann use Mallory's account."""
    async with Surfer(f"{world.url}/sign-in/callback") as mallory:
        await world.ask(mallory, world.evil.people["mallory"].me)
        answer = mallory.away
    await ann.goto(f"{world.url}/sign-in")
    for address in (answer, re.sub(r"state=[^&]*", "state=", answer), re.sub(r"&?state=[^&]*", "", answer)):
        await ann.goto(address)
        assert ann.reply.status_code >= 400
        assert await world.signed_in_as(ann) is None


async def test_an_answer_is_good_once(world: World, ann: Surfer) -> None:
    """Going back to the callback or reloading it doesn't sign in again."""
    world.honest.at_browser = "ann"
    await world.ask(ann, world.honest.people["ann"].me)
    answer = next(hop for hop in ann.hops if "/sign-in/callback" in hop)
    await ann.goto(f"{world.url}/account")
    await ann.submit("/sign-out")
    await ann.goto(answer)
    assert await world.signed_in_as(ann) is None


async def test_a_forged_answer_leaves_nothing_to_try_again(world: World, ann: Surfer) -> None:
    """One answer per sign-in: after a wrong one in the same browser the right one is refused too."""
    world.honest.at_browser = "ann"
    for wrong in ("iss=http%3A%2F%2Fevil.example%2F", "error=access_denied", "code=guessed"):
        ann.stops_at = f"{world.url}/sign-in/callback"
        await world.ask(ann, world.honest.people["ann"].me)
        ann.stops_at = "\n"
        right = ann.away
        name = wrong.partition("=")[0]
        forged = re.sub(rf"([?&]){name}=[^&]*", "", right).replace("callback&", "callback?")
        await ann.goto(f"{forged}&{wrong}")
        assert ann.reply.status_code >= 400
        await ann.goto(right)
        assert await world.signed_in_as(ann) is None, wrong


async def test_doubled_parameters_are_not_chosen_from(world: World, ann: Surfer) -> None:
    """An answer with two values for code, state or iss has been tampered with."""
    world.honest.at_browser = "ann"
    for name in ("code", "state", "iss"):
        ann.stops_at = f"{world.url}/sign-in/callback"
        await world.ask(ann, world.honest.people["ann"].me)
        ann.stops_at = "\n"
        value = parse_qs(urlsplit(ann.away).query)[name][0]
        for doubled in (f"{ann.away}&{name}=x", ann.away.replace("?", f"?{name}=x&"), f"{ann.away}&{name}={value}x"):
            await ann.goto(doubled)
            assert await world.signed_in_as(ann) is None, doubled


# --- providers that are mixed up


async def test_another_providers_answer_is_refused(world: World, ann: Surfer) -> None:
    """Mix-up: Ann begins at Mallory's page, whose server redirects to the honest one: its code stays unused."""
    world.evil.fault("authorization", Fault())
    world.evil.fault("redirect", Fault())
    world.honest.at_browser = "ann"

    async def through(variant_iss: bool) -> None:
        page = world.evil.people["mallory"].me
        ann.stops_at = world.evil.url("/auth")
        await world.ask(ann, page)
        ann.stops_at = "\n"
        asked = ann.away.replace(world.evil.url("/auth"), world.honest.url("/auth"))
        before = len(world.evil.asked)
        if not variant_iss:
            world.honest.fault("redirect", Fault(change={"iss": None}))
        await ann.goto(asked)
        world.honest.end_faults()
        leaked = [r for r in world.evil.asked[before:] if "code" in r.form and r.form["code"] in world.honest.codes]
        assert leaked == []
        assert await world.signed_in_as(ann) is None

    await through(variant_iss=True)
    await through(variant_iss=False)
    world.evil.end_faults()


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_page_that_mixes_two_providers(world: World, ann: Surfer, status: int) -> None:
    """Mallory's page names the honest authorization endpoint and her own token endpoint, which gets no code."""
    page = world.evil.page(
        f"/mixed{status}",
        f'<!doctype html><link rel="authorization_endpoint" href="{world.old.url("/auth")}">'
        f'<link rel="token_endpoint" href="{world.evil.url("/token")}">',
    )
    world.old.at_browser = "old"
    world.old.fault("redeemed", Fault(status=status))
    before = len(world.evil.asked)
    try:
        await world.ask(ann, page)
    finally:
        world.old.end_faults()
    assert world.old.codes, "the honest provider did give a code"
    assert not [r for r in world.evil.asked[before:] if "code" in r.form]
    assert await world.signed_in_as(ann) is None


async def test_a_provider_that_claims_anothers_user_is_refused(world: World, mallory: Surfer) -> None:
    """`me` with another person's URL: Mallory's server says that she is Ann, Bob, or a page below or next to Ann's."""
    ann = world.honest.people["ann"].me
    claims = [ann, world.honest.people["bob"].me, ann.rstrip("/"), f"{ann}more/", ann.replace("127.0.0.1", "127.0.0.2")]
    for claim in claims:
        for endpoint in ("redeemed", "token"):
            world.evil.fault(endpoint, Fault(change={"me": claim}))
        try:
            await world.ask(mallory, world.evil.people["mallory"].me)
        finally:
            world.evil.end_faults()
        assert await world.signed_in_as(mallory) is None, claim


async def test_a_page_that_leads_to_anothers_page(world: World, mallory: Surfer) -> None:
    """Mallory's page redirects permanently to Ann's: then Ann's provider asks for Ann's password."""
    world.honest.at_browser = "bob"
    there = world.evil.redirect("/i-am-ann", world.honest.people["ann"].me, 301)
    await world.ask(mallory, there)
    assert await world.signed_in_as(mallory) in {None, "bob"}


# --- where browsers are sent

ELSEWHERE = [
    *("https://evil.example/", "//evil.example/", "/\\evil.example/", "\\\\evil.example"),
    *("/\t/evil.example", "///evil"),
    *("/%0d%0aSet-Cookie:x=y", "/\r\nLocation: https://evil.example/", "javascript:alert(1)", "/\n/evil.example"),
    *("http:evil.example", "/..//evil.example", "/.//evil.example", "@evil.example", " //evil.example", "\u2028//e"),
    *("/sign-in/../..//evil.example", "/account/..;//evil.example", "data:text/html,x"),
    *("/\u3000/evil.example", "%2f%2fe"),
]


@pytest.mark.parametrize("there", ELSEWHERE, ids=repr)
async def test_the_way_on_after_signing_in_stays_here(world: World, ann: Surfer, there: str) -> None:
    """Open redirects: whatever `next` says, in the address or in the form, the browser stays on this server."""
    world.honest.at_browser = "ann"
    await ann.http.get(f"{world.url}/sign-in", params={"next": there})
    await world.ask(ann, world.honest.people["ann"].me, there)
    own = [hop for hop in ann.hops if hop.startswith(world.url)]
    assert ann.here.startswith(f"{world.url}/"), ann.hops
    assert not [hop for hop in ann.hops if "evil" in urlsplit(hop).netloc]
    assert len(own) >= 2
    assert "set-cookie" not in ann.reply.headers or "x=y" not in ann.reply.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "127.0.0.1@evil.example"},
        {"X-Forwarded-Host": "evil.example"},
        {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"},
        {"Forwarded": "host=evil.example"},
        {"X-Original-URL": "//evil.example"},
    ],
    ids=str,
)
async def test_codes_are_sent_to_no_made_up_host(world: World, ann: Surfer, headers: dict[str, str]) -> None:
    """The address to which providers send people never depends on the host in a request."""
    for path in ("/sign-in", "/client", "/", "/account", "/.well-known/oauth-authorization-server", "/auth"):
        reply = await ann.http.get(f"{world.url}{path}", headers=headers)
        assert "evil.example" not in reply.headers.get("location", ""), path
        if path in {"/client", "/.well-known/oauth-authorization-server"}:
            assert reply.status_code >= 400 or "evil.example" not in reply.text, path
    await ann.goto(f"{world.url}/sign-in")
    form = ann.fields(next(form for form in ann.forms if form.css_first("[name=me]")))
    sent = {**form, "me": world.honest.people["ann"].me}
    reply = await ann.http.post(f"{world.url}/sign-in", data=sent, headers=headers)
    assert "evil.example" not in reply.headers.get("location", "")


async def test_profile_addresses_that_lead_inside(world: World, ann: Surfer) -> None:
    """SSRF: no entered address causes a request to a private network, and the answers reveal nothing of it."""
    texts = set()
    for host in ("10.0.0.1", "10.0.0.1:22", "192.168.0.1:6379", "169.254.169.254", "[fd00::1]", "172.16.0.9:8080"):
        await world.ask(ann, f"http://{host}/")
        assert ann.reply.status_code < 500
        assert ann.here.startswith(f"{world.url}/sign-in")
        texts.add(ann.text.replace(host, "HOST").partition("HOST")[0])
    assert len(texts) == 1, texts


@pytest.mark.parametrize(
    "entered",
    [
        *("", " ", "ann\r\nHost: evil.example", "javascript:alert(1)", "file:///etc/passwd", "http://", "a" * 5000),
        *("<script>alert(1)</script>", 'http://x/"><script>alert(1)</script>', "{{7*7}}", "http://ann:pw@127.0.0.1/"),
        *("redis://127.0.0.1/", "http://127.0.0.1\\@evil.example/", "\x00"),
        *("http://\ud7ff.example/", "ftp://ann.example/"),
    ],
    ids=lambda text: repr(text)[:30],
)
async def test_typed_addresses_cause_no_markup_or_error(world: World, ann: Surfer, entered: str) -> None:
    """No text in the address field becomes markup, a header, or an internal error."""
    await world.ask(ann, entered)
    assert ann.reply.status_code in {200, 400, 404, 502, 503, 413}
    assert "<script>alert" not in ann.reply.text
    assert ann.here.startswith(f"{world.url}/sign-in")
    assert "49" not in ann.text or "{{7*7}}" not in entered
    assert "Traceback" not in ann.reply.text


# --- forms


async def test_forms_from_elsewhere_do_nothing(world: World, ann: Surfer) -> None:
    """CSRF: forms without the page's token, with that of another page, with Mallory's own, or with another origin."""
    world.honest.at_browser = "ann"
    await world.ask(ann, world.honest.people["ann"].me)
    assert await world.signed_in_as(ann) == "ann"
    forms = {form.attributes["action"] or "": ann.fields(form) for form in ann.forms}
    own = {"Origin": world.url, "Sec-Fetch-Site": "same-origin"}
    async with Surfer() as mallory:
        await world.ask(mallory, world.evil.people["mallory"].me)
        await mallory.goto(f"{world.url}/account")
        hers = {form.attributes["action"] or "": mallory.fields(form) for form in mallory.forms}
    assert "/sign-out" in forms
    for action, fields in forms.items():
        empty = {name: value for name, value in fields.items() if "token" not in name}
        other = next(values for name, values in forms.items() if name != action)
        token = next(name for name in fields if "token" in name)
        theirs = hers.get(action) or hers["/sign-out"]  # Mallory has no other session that could be ended
        for data, headers in (
            (empty, own),
            ({**fields, token: ""}, own),
            ({**fields, token: other[token]}, own),
            ({**fields, token: theirs[token]}, own),
            (fields, {"Origin": "https://evil.example"}),
            (fields, {"Origin": "null"}),
            (fields, {"Sec-Fetch-Site": "cross-site"}),
            (fields, {"Sec-Fetch-Site": "same-site"}),
        ):
            reply = await ann.http.post(f"{world.url}{action}", data=data, headers=headers)
            assert reply.status_code == (403 if data else 400), (action, data, headers)
        as_json = await ann.http.post(f"{world.url}{action}", json=fields, headers=own)
        assert as_json.status_code in {400, 403, 415}
        by_get = await ann.http.get(f"{world.url}{action}", params=fields)
        assert by_get.status_code in {404, 405} or action == "/sign-in"
    assert await world.signed_in_as(ann) == "ann"


async def test_guessing_sessions_and_states(world: World, mallory: Surfer) -> None:
    """Brute force on cookies and states: made-up ones have no effect, and no answer shows who exists."""
    answers = set()
    for value in ("ann.x", f"ann.{'A' * 43}", "nobody.x", f"nobody.{'A' * 43}", "ann", ".", "*", "ann.*"):
        reply = await mallory.http.get(
            f"{world.url}/account", headers={"Cookie": f"{cookie_of(world.url, 'session')}={value}"}
        )
        answers.add((reply.status_code, reply.headers.get("location")))
    assert answers == {(303, "/sign-in?next=%2Faccount")}
    for state in ("x", "*", "A" * 43, "../..", "ann"):
        reply = await mallory.http.get(f"{world.url}/sign-in/callback", params={"state": state, "code": "x"})
        assert reply.status_code in {400, 403}


async def test_a_session_that_was_there_before_a_sign_in_ends_with_it(world: World, ann: Surfer) -> None:
    """Fixation: Mallory puts her own session into Ann's browser; it ends when Ann signs in."""
    async with Surfer() as mallory:
        await world.ask(mallory, world.evil.people["mallory"].me)
        names = [cookie_of(world.url, name) for name in ("session", "browser")]
        planted, browser = (mallory.http.cookies[name] for name in names)
        for name, value in zip(names, (planted, browser), strict=True):
            ann.http.cookies.set(name, value, domain="127.0.0.1")
        assert await world.signed_in_as(ann) == "mallory"
        world.honest.at_browser = "ann"
        await world.ask(ann, world.honest.people["ann"].me)
        assert await world.signed_in_as(ann) == "ann"
        assert await world.signed_in_as(mallory) is None
        assert browser not in ann.http.cookies.values()
        # What she knows of the browser doesn't authorize a form of Ann's either.
        form = next(form for form in ann.forms if form.attributes["action"] == "/sign-out")
        assert browser not in str(ann.fields(form))


async def test_pages_say_what_browsers_must_not_do(world: World, ann: Surfer) -> None:
    """Every page, errors too, forbids frames, foreign scripts, referrers to others and copies in caches."""
    world.honest.at_browser = "ann"
    await world.ask(ann, world.honest.people["ann"].me)
    for path in ("/sign-in", "/account", "/sign-in/callback", "/client", "/auth", "/account?x=<script>"):
        reply = await ann.http.get(f"{world.url}{path}", headers={"Accept": "text/html"})
        if reply.headers.get("content-type", "").startswith("text/html"):
            policy = reply.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy, path
            assert "default-src 'none'" in policy, path
            assert "unsafe" not in policy, path
            assert reply.headers["x-content-type-options"] == "nosniff", path
            assert reply.headers["referrer-policy"] in {"no-referrer", "same-origin"}, path
            assert "no-store" in reply.headers["cache-control"] or path == "/client", path
            assert "<style" not in reply.text, path
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", reply.text), path
