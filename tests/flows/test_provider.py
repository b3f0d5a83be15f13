"""The provider that other tests rely on obeys the specs, so what they show is not an agreement of two mistakes."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.support.provider import Fault, Provider, Variant, provider
from tests.support.waiting import wait_until

APP = "https://app.example/"
BACK = "https://app.example/back"
VERIFIER = "v" * 64
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as made:
        yield made


async def authorize(http: httpx.AsyncClient, site: Provider, **other: str | None) -> httpx.Response:
    """Ask the authorization endpoint as a client of the newest kind; None leaves a parameter out."""
    asked = {"response_type": "code", "client_id": APP, "redirect_uri": BACK, "state": "s1", "scope": "read profile"}
    asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"} | other
    sent = {name: value for name, value in asked.items() if value is not None}
    return await http.get(site.url("/auth"), params=sent)


def told(reply: httpx.Response) -> dict[str, str]:
    """What a redirect tells the client."""
    assert reply.status_code == 302, reply.text
    return dict(parse_qsl(urlsplit(reply.headers["location"]).query))


async def redeem(http: httpx.AsyncClient, url: str, code: str, **other: str | None) -> httpx.Response:
    asked = {"grant_type": "authorization_code", "code": code, "client_id": APP, "redirect_uri": BACK}
    asked |= {"code_verifier": VERIFIER} | other
    return await http.post(url, data={name: value for name, value in asked.items() if value is not None})


async def sign_in(http: httpx.AsyncClient, site: Provider, **other: str | None) -> dict[str, Any]:
    """The reply of the token endpoint after a whole flow."""
    code = told(await authorize(http, site, **other))["code"]
    reply = await redeem(http, site.url("/token"), code)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def test_a_whole_flow(http: httpx.AsyncClient) -> None:
    """Metadata, code with `state` and `iss`, token with all that the reply must hold, introspection, userinfo, end."""
    async with provider() as site:
        alice = site.person("alice")
        metadata = (await http.get(site.url("/.well-known/oauth-authorization-server"))).json()
        assert metadata["issuer"] == site.issuer
        assert metadata["code_challenge_methods_supported"] == ["S256"]
        answer = told(await authorize(http, site))
        assert (answer["state"], answer["iss"]) == ("s1", site.issuer)
        reply = await redeem(http, metadata["token_endpoint"], answer["code"])
        given = reply.json()
        assert reply.headers["content-type"] == "application/json"
        assert (given["me"], given["scope"], given["token_type"]) == (alice.me, "read profile", "Bearer")
        assert given["profile"]["url"] == alice.me

        async def active() -> dict[str, Any]:
            own = {"Authorization": f"Bearer {given['access_token']}"}
            asked = await http.post(
                metadata["introspection_endpoint"], data={"token": given["access_token"]}, headers=own
            )
            return dict(asked.json())

        found = await active()
        assert (found["active"], found["me"], found["client_id"], found["scope"]) == (
            True,
            alice.me,
            APP,
            "read profile",
        )
        headers = {"Authorization": f"Bearer {given['access_token']}"}
        assert (await http.get(metadata["userinfo_endpoint"], headers=headers)).json() == alice.profile
        assert (await http.post(metadata["revocation_endpoint"], data={"token": "unknown"})).status_code == 200
        await http.post(metadata["revocation_endpoint"], data={"token": given["access_token"]})
        assert await active() == {"active": False}


async def test_codes_are_good_once_for_whom_they_were_made(http: httpx.AsyncClient) -> None:
    """Another client, address, verifier, or no verifier gets nothing; a second use takes back what was given."""
    async with provider() as site:
        site.person("alice")
        code = told(await authorize(http, site))["code"]
        wrong = [{"client_id": "https://other.example/"}, {"redirect_uri": f"{BACK}2"}, {"code_verifier": "w" * 64}]
        for other in (*wrong, {"code_verifier": None}, {"code": "unknown"}):
            reply = await redeem(http, site.url("/token"), **({"code": code} | other))
            assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
        given = (await redeem(http, site.url("/token"), code)).json()
        assert site.good(given["access_token"])
        assert (await redeem(http, site.url("/token"), code)).status_code == 400
        assert site.good(given["access_token"]) is None


async def test_codes_and_tokens_expire(http: httpx.AsyncClient) -> None:
    """A code after ten minutes, a token after its `expires_in`."""
    async with provider(Variant(lifetime=100)) as site:
        site.person("alice")
        now = 1000.0
        site.clock = lambda: now
        given = await sign_in(http, site)
        code = told(await authorize(http, site))["code"]
        now += given["expires_in"] + 1
        assert site.good(given["access_token"]) is None
        now += 600
        assert (await redeem(http, site.url("/token"), code)).json()["error"] == "invalid_grant"


async def test_a_profile_code_gives_no_token(http: httpx.AsyncClient) -> None:
    """Without scopes the code is good at the authorization endpoint, for `me` alone."""
    async with provider() as site:
        alice = site.person("alice")
        code = told(await authorize(http, site, scope=None))["code"]
        assert (await redeem(http, site.url("/auth"), code)).json() == {"me": alice.me}
        code = told(await authorize(http, site, scope=None))["code"]
        assert (await redeem(http, site.url("/token"), code)).status_code == 400


async def test_what_is_not_told_to_strangers(http: httpx.AsyncClient) -> None:
    """An address of another origin gets no redirect unless the client published it; other mistakes are told to it."""
    async with provider(Variant(fetches=True)) as site:
        site.person("alice")
        assert (await authorize(http, site, redirect_uri="https://evil.example/")).status_code == 400
        page = site.page("/client", '<title>App</title><link rel="redirect_uri" href="app://back">')
        assert "code" in told(await authorize(http, site, client_id=page, redirect_uri="app://back"))
        assert (await authorize(http, site, client_id=page, redirect_uri="app://back2")).status_code == 400
        assert told(await authorize(http, site, code_challenge=None))["error"] == "invalid_request"
        assert told(await authorize(http, site, response_type="token"))["error"] == "unsupported_response_type"


async def test_refreshing(http: httpx.AsyncClient) -> None:
    """A refresh token is good once, for its client, for no more scopes than it has."""
    async with provider() as site:
        site.person("alice")
        given = await sign_in(http, site)
        asked = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"], "client_id": APP}
        token = site.url("/token")
        assert (await http.post(token, data=asked | {"scope": "read follow"})).json()["error"] == "invalid_scope"
        assert (await http.post(token, data=asked | {"client_id": "https://x.example/"})).status_code == 400
        fresh = (await http.post(token, data=asked | {"scope": "read"})).json()
        assert fresh["scope"] == "read"
        assert (await http.post(token, data=asked)).status_code == 400


async def test_the_older_letter(http: httpx.AsyncClient) -> None:
    """No metadata, rels on the page, no PKCE, forms as replies, tokens checked by GET, revoked by `action`."""
    async with provider(Variant.older(links="both")) as site:
        alice = site.person("alice", microsub="https://reader.example/microsub")
        page = await http.get(alice.me)
        assert {"authorization_endpoint", "token_endpoint", "microsub"} == {link["rel"] for link in page.links.values()}
        assert 'rel="authorization_endpoint"' in page.text
        assert (await http.get(site.url("/.well-known/oauth-authorization-server"))).status_code == 404
        answer = told(await authorize(http, site, code_challenge=None, response_type=None))
        assert "iss" not in answer
        reply = await redeem(http, site.url("/token"), answer["code"], code_verifier=None, grant_type=None)
        given = dict(parse_qsl(reply.text))
        assert given["me"] == alice.me
        headers = {"Authorization": f"Bearer {given['access_token']}"}
        check = await http.get(site.url("/token"), headers=headers)
        assert dict(parse_qsl(check.text)) == {"me": alice.me, "client_id": APP, "scope": "read profile"}
        await http.post(site.url("/token"), data={"action": "revoke", "token": given["access_token"]})
        assert (await http.get(site.url("/token"), headers=headers)).status_code == 401


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("links", ["header", "html", "both", "separate"])
async def test_profiles(http: httpx.AsyncClient, links: Any, joined: bool, relative: bool) -> None:
    """Every way of naming the metadata, with HEAD too where it stands in a header."""
    async with provider(Variant(links=links, joined=joined, relative=relative)) as site:
        alice = site.person("alice")
        rel = "indieauth-metadata x-indieauth-metadata" if joined else "indieauth-metadata"
        url = f"{'' if relative else site.listening.base}/.well-known/oauth-authorization-server"
        head, page = await http.head(alice.me), await http.get(alice.me)
        in_header = f'<{url}>; rel="{rel}"' in head.headers.get("link", "")
        assert head.text == ""
        assert in_header == (links != "html")
        assert (f'<link rel="{rel}" href="{url}">' in page.text) == (links in {"html", "both"})


async def test_introspection_demands_what_it_says(http: httpx.AsyncClient) -> None:
    """Nobody learns of a token without authorization; a provider with secrets accepts that one only."""
    async with provider(Variant(authorized="secret")) as site:
        site.person("alice")
        token, url = site.grant("alice", "read"), site.url("/introspect")
        assert (await http.post(url, data={"token": token})).status_code == 401
        own = {"Authorization": f"Bearer {token}"}
        assert (await http.post(url, data={"token": token}, headers=own)).status_code == 403
        service = {"Authorization": f"Bearer {site.service_secret}"}
        assert (await http.post(url, data={"token": token}, headers=service)).json()["active"] is True
        assert (await http.post(url, data={"token": "x"}, headers=service)).json() == {"active": False}


async def test_the_page_of_consent(http: httpx.AsyncClient) -> None:
    """Only who knows the password lets an app in, with the scopes left ticked, and each request is decided once."""
    async with provider(Variant(consent="form")) as site:
        alice = site.person("alice")
        page = (await authorize(http, site)).text
        ticket = page.partition('name="ticket" value="')[2].partition('"')[0]
        form = {"ticket": ticket, "name": "alice", "decision": "allow", "scope": "read"}
        assert (await http.post(site.url("/consent"), data=form | {"password": "guess"})).status_code == 403
        answer = told(await http.post(site.url("/consent"), data=form | {"password": alice.password}))
        given = (await redeem(http, site.url("/token"), answer["code"])).json()
        assert given["scope"] == "read"
        assert (await http.post(site.url("/consent"), data=form | {"password": alice.password})).status_code == 400


async def test_faults(http: httpx.AsyncClient) -> None:
    """Each fault does what it says, for as long as it says, and no request goes unseen."""
    async with provider() as site:
        alice, bob = site.person("alice"), site.person("bob")
        token = site.grant("alice", "read")

        async def ask() -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return await http.post(site.url("/introspect"), data={"token": token}, headers=headers)

        site.fault("introspection", Fault(change={"me": bob.me, "scope": None}))
        assert (await ask()).json() == {"active": True, "me": bob.me, "client_id": "https://app.example/"}
        site.fault("introspection", Fault(status=500, body=b"oh", times=1))
        assert [(await ask()).status_code for _ in range(2)] == [500, 200]
        site.fault("introspection", Fault(padding=100_000, content_type="text/plain"))
        reply = await ask()
        assert len(reply.content) > 100_000
        assert reply.headers["content-type"] == "text/plain"
        site.fault("introspection", Fault(drop=True))
        with pytest.raises(httpx.RemoteProtocolError):
            await ask()
        opened = asyncio.Event()
        site.fault("introspection", Fault(wait=opened))
        asking = asyncio.create_task(ask())
        opened.set()
        assert (await asking).json()["me"] == alice.me
        site.end_faults()
        site.fault("redirect", Fault(change={"iss": "https://evil.example/", "state": None}))
        answer = told(await authorize(http, site))
        assert (answer["iss"], "state" in answer) == ("https://evil.example/", False)
        site.fault("profile", Fault(location=""))
        with pytest.raises(httpx.TooManyRedirects):
            await http.get(alice.me, follow_redirects=True)
        site.fault("profile", Fault(headers=(("Link", '<x>; rel="a"\r\nX-Injected: 1'),)))
        assert (await http.get(alice.me)).headers["x-injected"] == "1"
        await site.listening.down()
        with pytest.raises(httpx.ConnectError):
            await ask()
        await site.listening.up()
        assert (await ask()).status_code == 200
        assert site.count("/introspect", "POST") == 7


async def test_it_stops_with_its_block(http: httpx.AsyncClient) -> None:
    """Nothing listens afterwards, not even for a request that was kept hanging."""
    async with provider() as site:
        alice = site.person("alice")
        site.fault("profile", Fault(hang=True))
        asking = asyncio.create_task(http.get(alice.me))
        await wait_until(lambda: site.asked)
    with pytest.raises(httpx.HTTPError):
        await asking
    with pytest.raises(httpx.ConnectError):
        await http.get(alice.me)
