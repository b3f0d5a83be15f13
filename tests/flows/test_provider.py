"""The provider of the tests refuses invalid requests as the specs require.

Otherwise the tests could pass because of matching mistakes on both sides. Valid requests are tested with the reader
apps in test_sign_in_apps.py, for each variant.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.support.provider import Provider, Variant, provider

APP = "https://app.example/"
BACK = "https://app.example/back"
VERIFIER = "v" * 64
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as made:
        yield made


async def authorize(http: httpx.AsyncClient, site: Provider, **other: str | None) -> httpx.Response:
    """Request the authorization endpoint like a client with the current protocol; None omits a parameter."""
    asked = {"response_type": "code", "client_id": APP, "redirect_uri": BACK, "state": "s1", "scope": "read profile"}
    asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"} | other
    sent = {name: value for name, value in asked.items() if value is not None}
    return await http.get(site.url("/auth"), params=sent)


def told(reply: httpx.Response) -> dict[str, str]:
    """The parameters that a redirect passes to the client."""
    assert reply.status_code == 302, reply.text
    return dict(parse_qsl(urlsplit(reply.headers["location"]).query))


async def redeem(http: httpx.AsyncClient, url: str, code: str, **other: str | None) -> httpx.Response:
    asked = {"grant_type": "authorization_code", "code": code, "client_id": APP, "redirect_uri": BACK}
    asked |= {"code_verifier": VERIFIER} | other
    return await http.post(url, data={name: value for name, value in asked.items() if value is not None})


async def sign_in(http: httpx.AsyncClient, site: Provider, **other: str | None) -> dict[str, Any]:
    """The reply of the token endpoint after a complete flow."""
    code = told(await authorize(http, site, **other))["code"]
    reply = await redeem(http, site.url("/token"), code)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def test_codes_work_once_for_their_client(http: httpx.AsyncClient) -> None:
    """Another client, redirect address or verifier, or none, gets nothing; a second use revokes the token."""
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
    """A code expires after ten minutes, a token after its `expires_in`."""
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
    """A code without scopes is valid only at the authorization endpoint, and only for `me`."""
    async with provider() as site:
        alice = site.person("alice")
        code = told(await authorize(http, site, scope=None))["code"]
        assert (await redeem(http, site.url("/auth"), code)).json() == {"me": alice.me}
        code = told(await authorize(http, site, scope=None))["code"]
        assert (await redeem(http, site.url("/token"), code)).status_code == 400


async def test_errors_arent_sent_to_foreign_redirects(http: httpx.AsyncClient) -> None:
    """A redirect address on another origin is refused unless the client publishes it; other errors are sent to it."""
    async with provider(Variant(fetches=True)) as site:
        site.person("alice")
        assert (await authorize(http, site, redirect_uri="https://evil.example/")).status_code == 400
        page = site.page("/client", '<title>App</title><link rel="redirect_uri" href="app://back">')
        assert "code" in told(await authorize(http, site, client_id=page, redirect_uri="app://back"))
        assert (await authorize(http, site, client_id=page, redirect_uri="app://back2")).status_code == 400
        assert told(await authorize(http, site, code_challenge=None))["error"] == "invalid_request"
        assert told(await authorize(http, site, response_type="token"))["error"] == "unsupported_response_type"


async def test_introspection_requires_authorization(http: httpx.AsyncClient) -> None:
    """Introspection requires authorization; a provider with secrets accepts only its secret."""
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
    """Consent requires the password; the app gets only the ticked scopes, and each request is decided once."""
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
