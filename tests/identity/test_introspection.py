"""Replies of all kinds of providers about tokens, over real HTTP, and their interpretation."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from microsub.accounts.foreign import Vouched
from microsub.accounts.store import User
from microsub.fetch import Fetcher, FetchSettings, RequestFailure
from microsub.identity import foreign_tokens
from microsub.identity.foreign_tokens import Denied, Introspection, TokenVerdict
from microsub.identity.profiles import Profiles
from tests.support.parsing import PARSER
from tests.support.provider import Fault, Provider, Variant, provider
from tests.support.readers import LOOPBACK, nowhere

NOW = 1_800_000_000.0
APP = "https://app.example/"
READ = Vouched(frozenset({"read", "follow"}), APP, NOW)

BUILDS = {
    "newer": Variant(lifetime=None),
    "both ways": Variant.lenient(),
    "older, form": Variant.older(),
    "older, json": Variant.older(replies="json"),
    "metadata in the header": Variant(links="header"),
    "older in the header": Variant.older(links="separate"),
    "relative": Variant(relative=True),
    "introspection open to all": Variant(authorized="nothing"),
    "introspection for those with a secret, and the older check": Variant.lenient(authorized="secret"),
    "metadata without introspection": Variant(check="older", replies="form"),
}


class Asked:
    """A provider with Alice and Bob, and the client that checks tokens."""

    def __init__(self, site: Provider, fetcher: Fetcher, **more: Any) -> None:
        self.site = site
        site.clock = lambda: NOW
        self.alice, self.bob = site.person("alice"), site.person("bob")
        self.profiles = Profiles(fetcher, PARSER, private=True)
        self.vouching = Introspection(fetcher, self.profiles, private=True, **more)

    async def ask(self, token: str, **who: Any) -> TokenVerdict:
        return await self.vouching.ask(replace(User("alice", self.alice.me), **who), token, NOW)

    def grant(self, name: str = "alice", **more: Any) -> str:
        return self.site.grant(name, "read", "follow", client=APP, **more)


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    made = Fetcher(FetchSettings(allow_private_networks=LOOPBACK), resolver=nowhere)
    yield made
    await made.aclose()


@pytest.fixture(params=BUILDS.values(), ids=BUILDS.keys())
async def any_build(request: pytest.FixtureRequest, fetcher: Fetcher) -> AsyncIterator[Asked]:
    async with provider(request.param) as site:
        yield Asked(site, fetcher)


@pytest.fixture
async def newer(fetcher: Fetcher) -> AsyncIterator[Asked]:
    async with provider(Variant()) as site:
        yield Asked(site, fetcher)


@pytest.fixture
async def older(fetcher: Fetcher) -> AsyncIterator[Asked]:
    async with provider(Variant.older()) as site:
        yield Asked(site, fetcher)


async def test_a_good_token_is_vouched_for(any_build: Asked) -> None:
    """The result has its scopes and app. The token is in no URL, because servers log URLs."""
    token = any_build.grant()
    assert await any_build.ask(token) == READ
    assert any_build.site.asked
    assert not [one.target for one in any_build.site.asked if token in one.target]


async def test_an_unknown_token_is_denied(any_build: Asked) -> None:
    """Revoked and expired tokens are denied too."""
    revoked, expired = any_build.grant(), any_build.grant(lifetime=-1)
    any_build.site.revoke(revoked)
    for token in ("unknown", revoked, expired):
        assert isinstance(await any_build.ask(token), Denied)


async def test_another_users_token_is_recognised(any_build: Asked) -> None:
    """The same provider confirms it, but for another user."""
    assert await any_build.ask(any_build.grant("bob")) == Denied(me=any_build.bob.me)


async def test_scopes_under_another_name(newer: Asked) -> None:
    """Ekstereye requests `timeline`, which means `read`; no other scopes are added."""
    for scopes, more in ((["create", "post", "timeline"], {"read"}), (["create"], set())):
        said = await newer.ask(newer.site.grant("alice", *scopes, client=APP))
        assert isinstance(said, Vouched)
        assert said.scopes == {*scopes, *more}


async def test_the_expiry_is_that_of_the_provider(newer: Asked) -> None:
    """The expiry is in Unix seconds."""
    assert await newer.ask(newer.grant(lifetime=90)) == READ._replace(ends=NOW + 90)


async def test_introspection_comes_first_and_shows_the_token_as_bearer(fetcher: Fetcher) -> None:
    """If both methods are available, the older one isn't used."""
    async with provider(Variant.lenient()) as site:
        asked = Asked(site, fetcher)
        token = asked.grant()
        await asked.ask(token)
        (request,) = [one for one in site.asked if one.path == "/introspect"]
        assert (request.method, request.form, request.bearer) == ("POST", {"token": token}, token)
        assert not site.count("/token")


async def test_a_provider_that_keeps_introspection_for_itself_denies(fetcher: Fetcher) -> None:
    """It requires a secret that we don't have, and has no older check, so the token is denied."""
    async with provider(Variant(authorized="secret")) as site:
        asked = Asked(site, fetcher)
        assert isinstance(await asked.ask(asked.grant()), Denied)


async def test_the_admins_token_endpoint_comes_before_the_page(older: Asked) -> None:
    """The page isn't fetched; the text of `me` must match the user's."""
    elsewhere = older.site.url("/token")
    assert await older.ask(older.grant(), token_endpoint=elsewhere) == READ
    assert older.site.count("/alice/") == 0
    assert await older.ask(older.grant("bob"), token_endpoint=elsewhere) == Denied(me=older.bob.me)
    assert isinstance(await older.ask("unknown", token_endpoint=elsewhere), Denied)


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        ("https://alice.example/", True),
        ("https://alice.example", True),
        ("https://ALICE.example/", True),
        ("http://alice.example/", False),
        ("https://alice.example/about", False),
        ("https://www.alice.example/", False),
        ("https://alice.example.evil.example/", False),
        ("https://alice.example:443/", True),
        ("https://alice.example@evil.example/", False),
        ("https://al\u0131ce.example/", False),
    ],
)
async def test_names_without_a_look_at_the_page(older: Asked, said: str, is_one: bool) -> None:
    """If the admin has set the endpoint, the text of `me` decides."""
    older.site.fault("check", Fault(body=json.dumps({"me": said}).encode(), content_type="application/json"))
    endpoint = older.site.url("/token")
    found = await older.ask(older.grant(), me="https://alice.example/", token_endpoint=endpoint)
    assert isinstance(found, Vouched) == is_one
    if said.startswith("https"):
        found = await older.ask(older.grant(), me="http://alice.example/", token_endpoint=endpoint)
        assert isinstance(found, Vouched) == is_one


async def test_names_that_are_one(newer: Asked) -> None:
    """A host in capitals, and an address that redirects permanently on its own host, are the same user."""
    port = newer.site.url().rpartition(":")[2]
    assert await newer.ask(newer.grant(), me=f"HTTP://127.0.0.1:{port}alice/") == READ
    moved = newer.site.redirect("/former/", newer.alice.me)
    assert await newer.ask(newer.grant(), me=moved) == READ


async def test_names_that_are_not_one(newer: Asked) -> None:
    """A temporary redirect is not enough, and neither is one from a stranger's page to the user's."""
    aside = newer.site.redirect("/aside/", newer.alice.me, 302)
    assert await newer.ask(newer.grant(), me=aside) == Denied(me=newer.alice.me)
    stranger = newer.site.redirect("/stranger/", newer.alice.me)
    newer.site.fault("introspection", Fault(change={"me": stranger}))
    assert await newer.ask(newer.grant("bob")) == Denied(me=stranger)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=302, headers=(("Location", "http://127.0.0.1:1/"),)),
        Fault(drop=True),
        Fault(body=b"<!doctype html><p>Back soon"),
        Fault(body=b"[]"),
        Fault(body=b'{"active": "true"}'),
        Fault(body=b'{"active": true}'),
        Fault(body=b'{"active": true, "me": 7}'),
        Fault(body=b'{"active": true, "me": "javascript:alert(1)"}'),
        Fault(padding=100_000),
        Fault(body=b"\xff\xfe"),
        Fault(body=b'{"active": true, "me": "https://alice.example/", "exp": "soon"}'),
    ],
    ids=lambda fault: str(fault.body or fault.status or fault)[:40],
)
async def test_unusable_replies_decide_nothing(newer: Asked, fault: Fault) -> None:
    """Failures, oversize replies and unreadable replies neither confirm nor deny a token."""
    token = newer.grant()
    assert isinstance(await newer.ask(token), Vouched)
    newer.site.fault("introspection", fault)
    said = await newer.ask(token)
    assert isinstance(said, RequestFailure)
    assert token not in said.why
    assert not said.lasting


@pytest.mark.parametrize("body", [b'{"active": false}', b'{"active": true, "exp": 1, "me": "https://alice.example/"}'])
async def test_an_expired_reply_is_a_denial(newer: Asked, body: bytes) -> None:
    """An expiry time in the past denies the token, whatever else the reply says."""
    newer.site.fault("introspection", Fault(body=body))
    assert isinstance(await newer.ask(newer.grant()), Denied)


@pytest.mark.parametrize("body", [b"me=", b"active=false&me=https://alice.example/", b'{"error": "x"}', b"", b"yes"])
async def test_an_older_yes_must_be_one(older: Asked, body: bytes) -> None:
    """Status 200 alone confirms nothing."""
    older.site.fault("check", Fault(body=body))
    assert not isinstance(await older.ask(older.grant()), Vouched)


async def test_a_slow_provider_isnt_waited_for(newer: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit covers discovery and check together."""
    token = newer.grant()
    assert isinstance(await newer.ask(token), Vouched)
    monkeypatch.setattr(foreign_tokens, "SECONDS", 0.2)
    for where in ("introspection", "profile"):
        newer.site.end_faults()
        newer.site.fault(where, Fault(hang=True))
        newer.profiles.forget(newer.alice.me)
        assert await newer.ask(token) == RequestFailure("no answer after 0.2 s")


async def test_a_provider_that_is_gone(newer: Asked) -> None:
    """This applies whether its page is cached or not."""
    token = newer.grant()
    assert isinstance(await newer.ask(token), Vouched)
    newer.site.listening.down()
    for _ in range(2):
        said = await newer.ask(token)
        assert isinstance(said, RequestFailure)
        assert not said.lasting
        newer.profiles.forget(newer.alice.me)


async def test_a_provider_may_say_when_to_come_back(newer: Asked) -> None:
    """The value is in seconds, within limits."""
    for said, wait in (("17", 17), ("100000", 300), ("soon", None), ("-1", None), ("٣", None)):
        headers = (("Retry-After", said.encode().decode("latin-1")),)
        newer.site.fault("introspection", Fault(status=503, headers=headers))
        assert await newer.ask(newer.grant()) == RequestFailure("the server answered 503", retry_after=wait)


async def test_a_page_without_provider_is_no_outage(newer: Asked) -> None:
    """This is not a temporary failure."""
    page = newer.site.page("/plain/", "<!doctype html><p>Hello")
    said = await newer.ask("token", me=page)
    assert isinstance(said, RequestFailure)
    assert said.lasting
    assert isinstance(await newer.ask("token", me=""), Denied)


async def test_private_networks_get_no_request(fetcher: Fetcher) -> None:
    """This applies to pages, token endpoints and names that resolve to private addresses."""
    asking = Introspection(fetcher, Profiles(fetcher, PARSER))
    for who in (
        User("alice", "https://alice.example/"),
        User("alice", "https://alice.example/", token_endpoint="https://tokens.example/"),
        User("alice", "https://alice.example/", token_endpoint="http://10.0.0.1/token"),
        User("alice", "https://alice.example/", token_endpoint="http://169.254.169.254/"),
    ):
        assert isinstance(await asking.ask(who, "token", NOW), RequestFailure)


async def test_the_token_goes_no_further_than_the_provider(older: Asked) -> None:
    """A redirect to another origin ends the check before a request is sent there."""
    async with provider(Variant.older()) as stranger:
        older.site.fault("check", Fault(location=stranger.url("/token")))
        assert isinstance(await older.ask(older.grant()), RequestFailure)
        assert not stranger.asked


async def test_a_moved_user_is_found_at_the_new_provider(newer: Asked, fetcher: Fetcher) -> None:
    """If the cached provider denies a token, the page is fetched again, unless that was done recently."""
    clock = 0.0
    profiles = Profiles(fetcher, PARSER, private=True, clock=lambda: clock)
    asking = Introspection(fetcher, profiles, private=True)
    async with provider(Variant()) as other:
        other.clock = lambda: NOW
        there = other.person("alice", me=newer.alice.me)
        who = User("alice", newer.alice.me)
        token = other.grant("alice", "read", client=APP)
        assert isinstance(await asking.ask(who, token, NOW), Denied)
        link = f'<link rel="indieauth-metadata" href="{other.url("/.well-known/oauth-authorization-server")}">'
        newer.site.page("/alice/", f"<!doctype html>{link}")
        assert isinstance(await asking.ask(who, token, NOW), Denied)
        clock = 61.0
        assert await asking.ask(who, token, NOW) == Vouched(frozenset({"read"}), APP, NOW)
        assert there.me == newer.alice.me


async def test_a_denial_counts_while_the_page_is_unreachable(newer: Asked, fetcher: Fetcher) -> None:
    """The cached provider's answer applies, even if the page can't be fetched to find a newer provider."""
    clock = 0.0
    asking = Introspection(fetcher, Profiles(fetcher, PARSER, private=True, clock=lambda: clock), private=True)
    who, token = User("alice", newer.alice.me), newer.grant()
    assert isinstance(await asking.ask(who, token, NOW), Vouched)
    newer.site.revoke(token)
    clock = 61.0
    for fault in (Fault(status=500), Fault(status=404), Fault(drop=True)):
        newer.site.fault("profile", fault)
        assert isinstance(await asking.ask(who, token, NOW), Denied)
        clock += 61.0


async def test_this_server_doesnt_ask_itself(fetcher: Fetcher) -> None:
    """If the user's page names this server, tokens that aren't valid here are denied."""
    async with provider(Variant()) as site:
        asked = Asked(site, fetcher, own=site.url())
        assert isinstance(await asked.ask(asked.grant()), Denied)
        assert not site.count("/introspect")


async def test_errors_contain_no_addresses(newer: Asked) -> None:
    """Errors contain no addresses of users' pages or servers; the log does."""
    for who in (
        {"me": "http://hidden.example/"},
        {"me": newer.site.url("/hidden/")},
        {"me": "http://hidden:secret@hidden.example/"},
        {"token_endpoint": "http://hidden.example/token"},
        {"token_endpoint": "ftp://hidden.example/token"},
    ):
        said = await newer.ask("made-up", **who)
        assert isinstance(said, RequestFailure)
        assert not re.search(r"hidden|127\.|example|://", said.why), said.why
        assert said.detail
    newer.site.fault("introspection", Fault(change={"me": "http://hidden:x@hidden.example/"}))
    said = await newer.ask(newer.grant())
    assert isinstance(said, RequestFailure)
    assert "hidden" not in said.why
