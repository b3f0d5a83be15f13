"""Signing in with one's own domain, with a provider that follows the spec exactly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from microsub.base.errors import SignInFailed
from microsub.base.metrics import SIGN_INS
from microsub.identity.limits import (
    SIGN_IN_BYTES,
    SIGN_INS_IN_ALL,
    SIGN_INS_OF_WIDE_NETWORK,
    WAITING_AT_SITE,
    WAITING_IN_ALL,
    WAITING_OF_NETWORK,
    WAITING_OF_PERSON,
    WAITING_OF_WIDE_NETWORK,
)
from microsub.identity.sign_in import SignInLimits
from microsub.redis.protocol import Redis
from tests.identity.conftest import ADDRESS
from tests.support.invariants import all_keys
from tests.support.provider import Fault, Provider, Variant, provider
from tests.support.readers import instance
from tests.support.visitor import Shown, Visitor
from tests.support.world import World

Running = Callable[..., AbstractAsyncContextManager[Provider]]

CALLBACK = f"{ADDRESS}/sign-in/callback"


@pytest.fixture
def running(server: World) -> Running:
    """`async with running(Variant()) as site`: a provider with the person ann, who is our user ann."""

    @asynccontextmanager
    async def start(variant: Variant | None = None, **more: Any) -> AsyncIterator[Provider]:
        async with provider(variant) as site:
            await server.accounts.set_me("ann", site.person("ann", **more).me)
            yield site

    return start


async def sent(visitor: Visitor, me: str, next_: str = "") -> str:
    """Enter a web address; the address to which the browser is redirected."""
    page = await visitor.get("/sign-in?" + urlencode({"next": next_}) if next_ else "/sign-in")
    assert page.title == "Sign in"
    shown = await visitor.submit(page, "/sign-in", me=me)
    assert shown.status == 303, shown.text
    return shown.location


async def answered(location: str) -> str:
    """The path of our callback, with the answer of a provider that allows at once."""
    async with httpx.AsyncClient(timeout=60) as http:
        reply = await http.get(location)
    assert reply.status_code in {302, 303}, reply.text
    target = reply.headers["location"]
    assert target.startswith(f"{CALLBACK}?")
    return target.removeprefix(ADDRESS)


async def through(visitor: Visitor, me: str) -> Shown:
    """Complete a sign-in; our last reply."""
    return await visitor.get(await answered(await sent(visitor, me)))


async def is_signed_in(visitor: Visitor) -> bool:
    return (await visitor.get("/account")).status == 200


VARIANTS = {
    "newest": Variant(),
    "lenient": Variant.lenient(),
    "of 2016": Variant.older(),
    "in the Link header": Variant(links="header"),
    "several rels in one": Variant(discovery="both", joined=True),
    "relative addresses": Variant(relative=True),
    "without iss": Variant(iss=False),
}


@pytest.mark.parametrize("name", VARIANTS)
async def test_somebody_signs_in_with_their_own_domain(ann: Visitor, running: Running, name: str) -> None:
    """Newer and older providers work, with the address as users type it."""
    async with running(VARIANTS[name]) as site:
        shown = await through(ann, site.people["ann"].me)
        assert (shown.status, shown.location) == (303, "/")
        page = await ann.get("/account")
        assert "signed in as ann" in page.text
        assert f"with {urlsplit(site.issuer).netloc}" in page.text


async def test_the_provider_gets_pkce_state_and_client_id(ann: Visitor, running: Running) -> None:
    """PKCE with S256, a state, our client id, one redirect address, and only the scope `profile`."""
    async with running() as site:
        asked = {k: v for k, (v,) in parse_qs(urlsplit(await sent(ann, site.people["ann"].me)).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == f"{ADDRESS}/client"
        assert asked["redirect_uri"] == CALLBACK
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["code_challenge"]) == 43
        assert len(asked["state"]) >= 43
        assert asked["scope"] == "profile"
        assert asked["me"] == site.people["ann"].me


async def test_the_code_is_redeemed_where_profiles_are(ann: Visitor, running: Running) -> None:
    """The authorization endpoint is used, so that no unnecessary token is issued."""
    async with running() as site:
        await through(ann, site.people["ann"].me)
        assert site.count("/auth", "POST") == 1
        assert site.count("/token") == 0
        assert site.tokens == {}


async def test_a_server_with_only_a_token_endpoint(ann: Visitor, running: Running) -> None:
    """The code is redeemed there, and the token is revoked."""
    async with running(Variant(twice=True)) as site:  # the fault happens after the code has been redeemed
        location = await answered(await sent(ann, site.people["ann"].me))
        site.fault("redeemed", Fault(status=405))
        assert (await ann.get(location)).status == 303
        assert [token.revoked for token in site.tokens.values()] == [True]


class TestAdmission:
    """Users can sign in with any spelling of their address, and nobody else can."""

    async def test_a_disabled_user_cant_sign_in(self, server: World, ann: Visitor, running: Running) -> None:
        """The provider's answer makes no difference."""
        async with running() as site:
            await server.accounts.disable_user("ann", server.now)
            shown = await through(ann, site.people["ann"].me)
            assert (shown.status, shown.title) == (403, "Your account is disabled")

    async def test_the_provider_decides_which_user_signs_in(
        self, server: World, ann: Visitor, running: Running
    ) -> None:
        """If a user enters one address and signs in as another user of the same provider, they are that user."""
        async with running() as site:
            bob = site.person("bob")
            await server.accounts.add_user("bob", bob.me, server.now)
            site.at_browser = "bob"
            await through(ann, site.people["ann"].me)
            assert "signed in as bob" in (await ann.get("/account")).text


class TestAttacks:
    """No attack results in a session."""

    @pytest.mark.parametrize("iss", [None, "", "https://evil.example/", "http://127.0.0.1/", "ü"])
    async def test_another_providers_answer(self, ann: Visitor, running: Running, iss: str | None) -> None:
        """A wrong `iss`, or a missing one that was announced, is refused; the code isn't redeemed."""
        async with running() as site:
            site.fault("redirect", Fault(change={"iss": iss}))
            shown = await through(ann, site.people["ann"].me)
            assert (shown.status, shown.title) == (403, "The response is from another provider")
            assert site.count("/auth", "POST") == 0
            assert not await is_signed_in(ann)

    async def test_an_answer_works_only_in_its_browser(self, ann: Visitor, other: Visitor, running: Running) -> None:
        """It works once; in another browser it neither signs in nor is spent."""
        async with running() as site:
            back = await answered(await sent(ann, site.people["ann"].me))
            shown = await other.get(back)
            assert (shown.status, shown.title) == (403, "This sign-in was started in another browser")
            assert not await is_signed_in(other)
            await ann.get(back)
            assert await is_signed_in(ann)
            shown = await ann.get(back)
            assert (shown.status, shown.title) == (400, "This sign-in is no longer valid")

    async def test_a_provider_vouches_only_for_its_own_users(
        self, server: World, ann: Visitor, running: Running
    ) -> None:
        """The returned user's page must name the provider; another provider's user isn't signed in."""
        async with running() as site, provider() as elsewhere:
            bob = elsewhere.person("bob")
            await server.accounts.add_user("bob", bob.me, server.now)
            site.fault("redeemed", Fault(change={"me": bob.me}))
            shown = await through(ann, site.people["ann"].me)
            assert (shown.status, shown.title) == (403, "The provider returned another identity")
            site.fault("redeemed", Fault(change={"me": elsewhere.page("/bare/", "<p>hello")}))
            assert (await through(ann, site.people["ann"].me)).title == "Your page doesn't say where you sign in"
            assert not await is_signed_in(ann)


class TestErrors:
    """A page in plain words names the provider and a remedy."""

    async def test_a_page_without_links(self, ann: Visitor, running: Running) -> None:
        """The error names the page that was read, and the missing links."""
        async with running() as site:
            shown = await ann.submit(await ann.get("/sign-in"), "/sign-in", me=site.page("/bare/", "<p>hello"))
            assert shown.status == 400
            assert site.url("/bare/") in shown.text
            assert "indieauth-metadata" in shown.text

    async def test_a_page_that_cannot_be_reached(self, ann: Visitor, running: Running) -> None:
        """The error differs from that for a page without links."""
        async with running() as site:
            site.fault("profile", Fault(status=503))
            shown = await ann.submit(await ann.get("/sign-in"), "/sign-in", me=site.people["ann"].me)
            assert shown.status == 503
            assert "can't be reached" in shown.text
            assert "Check the address" in shown.text

    async def test_a_providers_own_words_are_text(self, ann: Visitor, running: Running) -> None:
        """It is escaped, shortened, and marked as the provider's."""
        async with running() as site:
            said = {"code": None, "error": "server_error", "error_description": "<b>call 555</b>" + "x" * 500}
            site.fault("redirect", Fault(change=said))
            shown = await through(ann, site.people["ann"].me)
            assert shown.status == 502
            assert "<b>call" not in shown.response.text
            assert "<b>call 555</b>" in shown.text
            assert "x" * 300 not in shown.text

    @pytest.mark.parametrize(
        ("change", "status", "title"),
        [
            ({"code": None, "error": "access_denied"}, 403, "You were not signed in"),
            ({"code": None}, 400, "The provider sent no code"),
            ({"code": "a&code=b"}, 400, "The provider's response is ambiguous"),
        ],
    )
    async def test_answers_without_a_code_are_errors(
        self, ann: Visitor, running: Running, change: dict[str, str | None], status: int, title: str
    ) -> None:
        """The user has refused, or the provider has an error; no further request is sent to it."""
        async with running() as site:
            site.fault("redirect", Fault(change=change))
            back = await answered(await sent(ann, site.people["ann"].me))
            shown = await ann.get(back.replace("%26code%3D", "&code="))
            assert (shown.status, shown.title) == (status, title)
            assert site.count("/auth", "POST") == 0
            assert not await is_signed_in(ann)

    @pytest.mark.parametrize(
        ("fault", "title"),
        [
            (Fault(status=500), "The provider has a problem"),
            (Fault(status=400, body=b'{"error": "invalid_grant"}'), "Your provider did not confirm who you are"),
            (Fault(status=200, body=b"<html>", content_type="text/html"), "The provider's response can't be read"),
            (Fault(body=b"[]"), "The provider's response can't be read"),
            (Fault(change={"me": None}), "The provider's response can't be read"),
            (Fault(change={"me": "http://10.0.0.1.evil/\r\nx"}), "The provider's response can't be read"),
            (Fault(padding=200_000), "Your provider doesn't respond"),
            (Fault(drop=True), "Your provider doesn't respond"),
            (Fault(location="https://evil.example/"), "Your provider did not confirm who you are"),
        ],
    )
    async def test_a_broken_provider(self, ann: Visitor, running: Running, fault: Fault, title: str) -> None:
        """Whatever it replies to the code, nobody is signed in, and the page names the provider."""
        async with running() as site:
            location = await answered(await sent(ann, site.people["ann"].me))
            site.fault("redeemed", fault)
            shown = await ann.get(location)
            assert shown.title == title
            assert urlsplit(site.issuer).netloc in shown.text
            assert not await is_signed_in(ann)


class TestOurOwnServer:
    """A user whose page names this server signs in here."""

    async def test_an_own_address(self, ann: Visitor) -> None:
        """No HTTP request is made."""
        shown = await ann.submit(await ann.get("/sign-in?next=/auth"), "/sign-in", me=ADDRESS)
        assert shown.status == 303
        assert shown.location == "/sign-in?" + urlencode({"me": f"{ADDRESS}/", "next": "/auth"})

    @pytest.mark.parametrize(
        "links",
        [
            {"indieauth-metadata": "/.well-known/oauth-authorization-server"},
            {"authorization_endpoint": "/auth", "token_endpoint": "/token"},
        ],
    )
    async def test_a_page_that_names_us(self, ann: Visitor, running: Running, links: dict[str, str]) -> None:
        """The links are our metadata, which isn't fetched (nothing answers there in this test), or the older ones."""
        async with running() as site:
            html = "".join(f'<link rel="{rel}" href="{ADDRESS}{path}">' for rel, path in links.items())
            me = site.page("/static/", html)
            shown = await ann.submit(await ann.get("/sign-in"), "/sign-in", me=me)
            assert shown.location == "/sign-in?" + urlencode({"me": me})


class TestTheClientDocument:
    """The document and the page at our client id."""

    async def test_a_document(self, ann: Visitor) -> None:
        """It is JSON by default, with our callbacks."""
        shown = await ann.get("/client")
        assert shown.response.headers["content-type"] == "application/json"
        document = json.loads(shown.response.text)
        assert document["client_id"] == f"{ADDRESS}/client"
        assert document["redirect_uris"] == [CALLBACK, f"{ADDRESS}/answer/callback"]
        assert document["client_id"].startswith(document["client_uri"])
        assert (await ann.get(document["logo_uri"])).response.headers["content-type"] == "image/svg+xml"

    async def test_a_page(self, ann: Visitor) -> None:
        """It has an h-app with a link to the callback, and is sent if only HTML is accepted."""
        shown = await ann.get("/client", accept="text/html,*/*;q=0.1")
        assert shown.tree.css_first(".h-app .p-name") is not None
        assert shown.tree.css_first("link[rel=redirect_uri]").attributes["href"] == CALLBACK
        assert "public" in shown.response.headers["cache-control"]

    async def test_it_is_the_same_for_everybody(self, server: World, ann: Visitor, signed_in) -> None:
        """A cacheable reply has no name and no cookie, even if a session is due for renewal."""
        await signed_in(ann)
        server.now += 2 * 86_400
        for accept in ("text/html", "application/json"):
            shown = await ann.get("/client", accept=accept)
            assert shown.response.headers.get_list("set-cookie") == []
            assert "Account of" not in shown.response.text
        assert (await ann.get("/account")).response.headers.get_list("set-cookie") != []


async def test_without_base_url_sign_in_works_only_on_this_machine(real_redis: Redis) -> None:
    """The page names the missing setting."""
    async with instance(real_redis) as made, provider() as site:
        await made.accounts.add_user("ann", site.person("ann").me, made.now)
        near, far = Visitor(made.app, "http://127.0.0.1:8080"), Visitor(made.app, "http://reader.lan:8080")
        location = await sent(near, site.people["ann"].me)
        assert parse_qs(urlsplit(location).query)["redirect_uri"] == ["http://127.0.0.1:8080/sign-in/callback"]
        async with httpx.AsyncClient(timeout=60) as http:
            back = (await http.get(location)).headers["location"]
        assert (await near.get(back)).location == "/"
        assert (await near.get("/account")).status == 200
        shown = await far.get("/sign-in")
        assert shown.status == 403
        assert "MICROSUB_BASE_URL" in shown.text


async def test_strangers_with_slow_pages_delay_no_user(server: World, ann: Visitor, running: Running) -> None:
    """Users and strangers have separate places and separate limits."""
    async with running() as site, AsyncExitStack() as held:
        limits = server.parts.signing_in.limits
        for number in range(WAITING_IN_ALL.most):
            me, host = f"https://{number}.example/", f"{number}.example"
            await held.enter_async_context(limits.place(me, f"2600:{number:x}::1", host))
        page = await ann.get("/sign-in")
        assert (await ann.submit(page, "/sign-in", me="https://eve.example/")).status == 503
        assert (await through(ann, site.people["ann"].me)).location == "/"


async def taken(limits: SignInLimits, held: AsyncExitStack, asked: Iterable[tuple[str, str, str]]) -> int:
    """The number of sign-ins (address of the user, address of the client, host that is waited for) that get a place."""
    count = 0
    for me, address, site in asked:
        try:
            await held.enter_async_context(limits.place(me, address, site))
            count += 1
        except SignInFailed:
            continue
    return count


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ([("https://mallory.example/", f"2600:{n:x}::1", f"{n}.example") for n in range(60)], WAITING_OF_PERSON.most),
        ([(f"https://m{n}.example/", "2600::1", f"{n}.example") for n in range(60)], WAITING_OF_NETWORK.most),
        (
            [(f"https://m{n}.example/", f"2600:0:0:{n:x}::1", f"{n}.example") for n in range(60)],
            WAITING_OF_WIDE_NETWORK.most,
        ),
        ([(f"https://m{n}.example/", f"2600:{n:x}::1", "slow.example") for n in range(60)], WAITING_AT_SITE.most),
    ],
    ids=["one person", "one network", "one /48", "one provider"],
)
async def test_slow_sign_ins_take_only_a_share_of_slots(
    server: World, ann: Visitor, running: Running, asked: list[tuple[str, str, str]], most: int
) -> None:
    """Of 60 sign-ins with users' addresses, only their share gets places; other users can still sign in."""
    async with running() as site, AsyncExitStack() as held:
        for me in {me for me, *_ in asked}:
            await server.accounts.add_user(f"u{hash(me) & 0xFFFFFF}", me, server.now)
        limits = server.parts.signing_in.limits
        assert await taken(limits, held, asked) == most
        for number in range(75):
            async with limits.place(site.people["ann"].me, f"192.0.2.{number}", "ann.example"):
                continue
        assert (await through(ann, site.people["ann"].me)).location == "/"


async def test_strangers_and_users_have_separate_limits(
    server: World, ann: Visitor, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are two overall limits: one for addresses without an account, and one for users."""
    async with running() as site:
        limits = server.parts.signing_in.limits
        for number in range(SIGN_INS_IN_ALL.most):
            await limits.enter(f"https://{number}.example/", "192.0.2.1")
        page = await ann.get("/sign-in")
        assert (await ann.submit(page, "/sign-in", me="https://eve.example/")).status == 503
        assert (await through(ann, site.people["ann"].me)).location == "/"


async def test_bytes_of_open_sign_ins_are_bounded(server: World) -> None:
    """The limit counts bytes, because pages may name very long addresses."""
    limits, size = server.parts.signing_in.limits, 14_000
    for _ in range(SIGN_IN_BYTES.most // size):
        await limits.leave("https://eve.example/", size)
    with pytest.raises(SignInFailed):
        await limits.leave("https://eve.example/", size)
    await limits.leave("https://ann.example/", 14_000)


async def test_an_open_sign_in_counts_by_its_size(
    server: World, ann: Visitor, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size includes everything that page and browser contribute."""
    async with running() as site:
        stranger = site.person("eve").me
        limits = server.parts.signing_in.limits
        counted: list[int] = []

        async def leave(me: str, size: int) -> None:
            counted.append(size)

        monkeypatch.setattr(limits, "leave", leave)
        await sent(ann, stranger, "/account?" + "x" * 3000)
        (key,) = [key for key in await all_keys(server.redis) if b"sign" in key and b"in" in key]
        assert counted[0] >= await server.redis.command("STRLEN", key) + len(key) > 3000


async def test_sign_ins_are_counted(ann: Visitor, running: Running) -> None:
    """They are counted by outcome."""

    def counted() -> dict[str, float]:
        outcomes = ("begun", "local", "arrived", "unknown", "failed")
        return {outcome: SIGN_INS.labels(outcome)._value.get() for outcome in outcomes}

    before = counted()
    async with running() as site:
        location = await answered(await sent(ann, site.people["ann"].me))
        await ann.get(location)
        await ann.get(location)
        site.person("eve")
        site.at_browser = "eve"
        await through(ann, site.people["eve"].me)
        await ann.submit(await ann.get("/sign-in"), "/sign-in", me=ADDRESS)
    grown = {outcome: value - before[outcome] for outcome, value in counted().items()}
    assert grown == {"begun": 2, "local": 1, "arrived": 1, "unknown": 1, "failed": 1}


async def test_no_network_begins_too_many(server: World, ann: Visitor, running: Running) -> None:
    """The limit applies to all entered addresses, also those of users, because pending sign-ins are stored in Redis."""
    async with running() as site:
        near = [Visitor(server.app, ADDRESS, client=f"2001:db8:0:{7 + n // 21:x}::{n:x}") for n in range(22)]
        far = [Visitor(server.app, ADDRESS, client=f"2600:1f00:0:{7 + n // 21:x}::{n:x}") for n in range(22)]
        for visitors, expected in ((far, [303] * 20 + [429, 303]), (near, [303] * 22)):
            statuses = []
            for visitor in visitors:
                page = await visitor.get("/sign-in")
                statuses.append((await visitor.submit(page, "/sign-in", me=site.people["ann"].me)).status)
            assert statuses == expected
        assert site.count("/ann/") == 1


async def test_sign_ins_per_site_are_limited(ann: Visitor, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that enters many addresses of a site is stopped, and users of the site can still sign in."""
    async with running() as site:
        page = await ann.get("/sign-in")
        statuses = [(await ann.submit(page, "/sign-in", me=site.url(f"/{n}/"))).status for n in range(32)]
        assert statuses == [400] * 30 + [429] * 2
        refused = await ann.submit(page, "/sign-in", me=site.url("/more/"))
        assert refused.response.headers["retry-after"] == "60"
        assert len(site.asked) == 30
        assert (await through(ann, site.people["ann"].me)).location == "/"


async def test_no_site_of_many_networks_begins_too_many(server: World) -> None:
    """A client with a /48 of IPv6 can't use up the overall limit."""
    limits = server.parts.signing_in.limits
    for number in range(SIGN_INS_OF_WIDE_NETWORK.most):
        await limits.enter(f"https://{number}.example/", f"2600:1f00:0:{number:x}::1")
    with pytest.raises(SignInFailed):
        await limits.enter("https://eve.example/", "2600:1f00:0:ffff::1")
    await limits.enter("https://eve.example/", "2600:1f00:1::1")
