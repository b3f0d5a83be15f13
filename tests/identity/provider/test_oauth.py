"""The endpoints of our own IndieAuth provider."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl

import pytest

from microsub.accounts.grants import ACCESS_TOKEN, CODE, Codes, Consent
from microsub.base.digests import sha256_hex
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.readers import instance
from tests.support.world import World

BASE = "https://reader.example"
APP, BACK = "https://app.example/", "https://app.example/back"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """An instance with an address of its own and the user ann, at the current time, so that nothing expires early."""
    async with instance(real_redis, base_url=BASE, now=time.time()) as made:
        await made.accounts.add_user("ann", "https://ann.example", made.now)
        yield made


async def code(server: World, scope: str = "read follow profile") -> str:
    """The code that ann's browser passes to the app."""
    consent = Consent("ann", APP, "An app", BACK, frozenset(scope.split()), "")
    return await Codes(server.redis).create(consent, server.now)


async def post(server: World, path: str, status: int = 200, /, bearer: str = "", **form: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    reply = await server.client.post(path, data=form, headers=headers)
    assert reply.status_code == status, reply.text
    assert reply.headers.get_list("content-type") == ["application/json"]
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["access-control-allow-origin"] == "*"
    if status == 200:
        assert reply.headers["pragma"] == "no-cache"
    found: dict[str, Any] = reply.json()
    return found


async def redeem(server: World, code: str, status: int = 200, **more: str) -> dict[str, Any]:
    form = {"grant_type": "authorization_code", "code": code, "client_id": APP, "redirect_uri": BACK, **more}
    return await post(server, "/token", status, **form)


async def reads(server: World, token: str) -> int:
    """The status with which the Microsub endpoint answers the token."""
    headers = {"Authorization": f"Bearer {token}"}
    return (await server.client.get("/microsub?action=channels", headers=headers)).status_code


async def introspect(server: World, token: str, bearer: str | None = None) -> dict[str, Any]:
    return await post(server, "/introspect", bearer=token if bearer is None else bearer, token=token)


class TestMetadata:
    async def test_it_names_every_endpoint_under_the_issuer(self, server: World) -> None:
        """The issuer is the address of the metadata; RFC 8414 and 9207."""
        reply = await server.client.get("/.well-known/oauth-authorization-server")
        found = reply.json()
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
        assert found["issuer"] == BASE
        assert found["authorization_response_iss_parameter_supported"] is True
        assert found["code_challenge_methods_supported"] == ["S256"]
        assert {"read", "follow", "profile"} <= set(found["scopes_supported"])
        paths = {name: value.removeprefix(BASE) for name, value in found.items() if name.endswith("_endpoint")}
        assert paths == {
            "authorization_endpoint": "/auth",
            "token_endpoint": "/token",
            "introspection_endpoint": "/introspect",
            "revocation_endpoint": "/revoke",
            "userinfo_endpoint": "/userinfo",
        }

    async def test_metadata_doesnt_depend_on_the_request(self, server: World) -> None:
        """The client chooses the Host header."""
        path = "/.well-known/oauth-authorization-server"
        reply = await server.client.get(path, headers={"Host": "evil.example"})
        assert reply.json()["issuer"] == BASE

    async def test_without_a_base_url_there_is_no_provider(self, real_redis: Redis) -> None:
        """Loopback is the exception."""
        path = "/.well-known/oauth-authorization-server"
        async with instance(real_redis) as made:
            assert (await made.client.get(path)).status_code == 404
            reply = await made.client.get(path, headers={"Host": "127.0.0.1:8080"})
            assert reply.json()["token_endpoint"] == "http://127.0.0.1:8080/token"


class TestCodes:
    async def test_a_code_becomes_tokens(self, server: World) -> None:
        """The reply has everything that the specification and older apps require, and the token can read."""
        given = await redeem(server, await code(server))
        assert given["token_type"] == "Bearer"
        assert (given["me"], given["scope"]) == ("https://ann.example/", "follow profile read")
        assert given["expires_in"] == ACCESS_TOKEN
        assert given["profile"] == {"name": "ann", "url": "https://ann.example/"}
        assert given["refresh_token"]
        assert await reads(server, given["access_token"]) == 200

    async def test_without_the_scope_there_is_no_profile(self, server: World) -> None:
        """The reply contains only `me`."""
        assert "profile" not in await redeem(server, await code(server, "read"))

    async def test_the_client_may_be_written_in_another_way(self, server: World) -> None:
        """Any spelling of the same URL is accepted."""
        assert "access_token" in await redeem(server, await code(server), client_id="HTTPS://App.example:443")

    async def test_a_code_expires(self, server: World) -> None:
        """It expires after two minutes."""
        made = await code(server)
        server.now += CODE
        assert (await redeem(server, made, 400))["error"] == "invalid_grant"

    async def test_without_scopes_there_is_no_token(self, server: World) -> None:
        """The other endpoint still returns `me`."""
        made = await code(server, "")
        assert (await redeem(server, made, 400))["error"] == "invalid_grant"
        form = {"code": made, "client_id": APP, "redirect_uri": BACK}
        assert await post(server, "/auth", **form) == {"me": "https://ann.example/"}

    async def test_at_the_authorization_endpoint_a_code_gives_no_token(self, server: World) -> None:
        """This holds for all scopes; and the code is spent."""
        made = await code(server)
        form = {"grant_type": "authorization_code", "code": made, "client_id": APP, "redirect_uri": BACK}
        assert await post(server, "/auth", **form) == {
            "me": "https://ann.example/",
            "profile": {"name": "ann", "url": "https://ann.example/"},
        }
        assert (await redeem(server, made, 400))["error"] == "invalid_grant"

    async def test_older_apps_get_a_form(self, server: World) -> None:
        """They accept only a form, and send no grant type."""
        form = {"code": await code(server, "read"), "client_id": APP, "redirect_uri": BACK}
        reply = await server.client.post("/auth", data=form, headers={"Accept": FORM})
        assert reply.headers["content-type"] == FORM
        assert dict(parse_qsl(reply.text)) == {"me": "https://ann.example/"}

    async def test_older_apps_send_no_grant_type(self, server: World) -> None:
        """The same holds at the token endpoint."""
        form = {"code": await code(server, "read"), "client_id": APP, "redirect_uri": BACK, "me": "https://ann.example"}
        assert "access_token" in await post(server, "/token", **form)

    @pytest.mark.parametrize("lacking", ["code", "client_id", "redirect_uri"])
    async def test_missing_parameters_are_named(self, server: World, lacking: str) -> None:
        """The code isn't spent."""
        made = await code(server)
        form = {"grant_type": "authorization_code", "code": made, "client_id": APP, "redirect_uri": BACK}
        del form[lacking]
        refused = await post(server, "/token", 400, **form)
        assert refused["error"] == "invalid_request"
        assert f"'{lacking}'" in refused["error_description"]
        assert "access_token" in await redeem(server, made)

    async def test_other_grants_are_unsupported(self, server: World) -> None:
        """The error code is the one from RFC 6749."""
        assert (await post(server, "/token", 400, grant_type="password"))["error"] == "unsupported_grant_type"
        assert (await post(server, "/auth", 400, grant_type="refresh_token"))["error"] == "unsupported_grant_type"
        assert (await post(server, "/token", 400))["error"] == "invalid_request"

    async def test_a_disabled_users_code_and_token_fail(self, server: World) -> None:
        """Neither code nor refresh token works."""
        given = await redeem(server, await code(server))
        made = await code(server)
        await server.accounts.disable_user("ann", server.now)
        assert (await redeem(server, made, 400))["error"] == "invalid_grant"
        form = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"], "client_id": APP}
        assert (await post(server, "/token", 400, **form))["error"] == "invalid_grant"
        assert await reads(server, given["access_token"]) == 401
        assert await introspect(server, given["access_token"]) == {"active": False}


class TestRefreshing:
    async def refresh(self, server: World, token: str, status: int = 200, **more: str) -> dict[str, Any]:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": APP, **more}
        return await post(server, "/token", status, **form)

    async def test_a_refresh_token_works_only_for_its_app(self, server: World) -> None:
        """Another app's request changes nothing."""
        given = await redeem(server, await code(server))
        refused = await self.refresh(server, given["refresh_token"], 400, client_id="https://other.example/")
        assert refused["error"] == "invalid_grant"
        assert "access_token" in await self.refresh(server, given["refresh_token"])

    async def test_a_renewal_may_only_narrow_scopes(self, server: World) -> None:
        """RFC 6749, section 6."""
        given = await redeem(server, await code(server, "read follow"))
        assert (await self.refresh(server, given["refresh_token"], 400, scope="read mute"))["error"] == "invalid_scope"
        assert (await self.refresh(server, given["refresh_token"], scope="read"))["scope"] == "read"


class TestChecking:
    async def test_introspection_describes_a_valid_token(self, server: World) -> None:
        """The reply has user, scopes, app and expiry."""
        given = await redeem(server, await code(server))
        assert await introspect(server, given["access_token"]) == {
            "active": True,
            "me": "https://ann.example/",
            "client_id": APP,
            "scope": "follow profile read",
            "iat": int(server.now),
            "exp": int(server.now + ACCESS_TOKEN),
        }

    async def test_introspection_needs_a_token(self, server: World) -> None:
        """Authorization is the token itself or an admitted program's token, but not another user's."""
        one, two = [(await redeem(server, await code(server)))["access_token"] for _ in range(2)]
        program = await server.service_tokens.create("micropub", server.now)
        assert (await introspect(server, one, program))["active"]
        for wrong in (two, "~micropub.wrong", "x"):
            assert (await post(server, "/introspect", 401, bearer=wrong, token=one))["error"] == "unauthorized"
        refused = await server.client.post("/introspect", data={"token": one})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")

    async def test_introspection_reveals_nothing_of_invalid_tokens(self, server: World) -> None:
        """Unknown, expired and revoked tokens and tokens of other kinds get the same reply."""
        given = await redeem(server, await code(server))
        for text in ("x", "ann.x", "ann.", given["refresh_token"], await code(server), "\u00e4"):
            assert await introspect(server, text, await self.program(server)) == {"active": False}
        server.now += ACCESS_TOKEN
        assert await introspect(server, given["access_token"]) == {"active": False}
        assert await reads(server, given["access_token"]) == 401

    async def program(self, server: World) -> str:
        await server.service_tokens.revoke("program")
        return await server.service_tokens.create("program", server.now)

    async def test_the_older_check(self, server: World) -> None:
        """It works by GET with the token, and answers with JSON or a form."""
        token = (await redeem(server, await code(server)))["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        for accept in ("application/json", "*/*", f"application/json, {FORM}", f"{FORM};q=0.5, application/json"):
            reply = await server.client.get("/token", headers={**headers, "Accept": accept})
            assert reply.headers["content-type"] == "application/json", accept
            assert reply.json()["me"] == "https://ann.example/"
            assert reply.json()["client_id"] == APP
        for accept in (FORM, f"{FORM}, */*;q=0.1", f"application/json;q=0.2, {FORM};q=0.8"):
            reply = await server.client.get("/token", headers={**headers, "Accept": accept})
            assert reply.headers["content-type"] == FORM, accept
            assert dict(parse_qsl(reply.text))["scope"] == "follow profile read"

    async def test_the_older_check_refuses_invalid_tokens(self, server: World) -> None:
        """The reply is 401 with a challenge; a token in the query is ignored."""
        token = (await redeem(server, await code(server)))["access_token"]
        for headers in ({}, {"Authorization": "Bearer ann.x"}):
            reply = await server.client.get("/token", params={"access_token": token}, headers=headers)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")

    async def test_userinfo_needs_its_scope(self, server: World) -> None:
        """The reply contains the profile."""
        token = (await redeem(server, await code(server)))["access_token"]
        reply = await server.client.get("/userinfo", headers={"Authorization": f"Bearer {token}"})
        assert reply.json() == {"name": "ann", "url": "https://ann.example/"}
        other = (await redeem(server, await code(server, "read")))["access_token"]
        reply = await server.client.get("/userinfo", headers={"Authorization": f"Bearer {other}"})
        assert (reply.status_code, reply.json()["error"]) == (403, "insufficient_scope")
        assert (await server.client.get("/userinfo")).status_code == 401

    async def test_tokens_of_other_providers_are_not_ours_to_vouch_for(self, server: World) -> None:
        """This holds although they are stored in the same place."""
        token = "ann.of-another-provider"
        key = keys.token("ann", sha256_hex(token))
        record = ("scope", "read profile", "client", APP, "expires", server.now + 600, "foreign", 1)
        await server.redis.command("HSET", key, *record)
        await server.redis.command("EXPIRE", key, 600)
        assert await introspect(server, token) == {"active": False}
        headers = {"Authorization": f"Bearer {token}"}
        for path in ("/token", "/userinfo"):
            assert (await server.client.get(path, headers=headers)).status_code == 401
        await post(server, "/revoke", token=token)
        assert await server.redis.command("EXISTS", key)


class TestRevoking:
    @pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
    @pytest.mark.parametrize("older", [False, True])
    async def test_revoking_ends_all_that_was_granted(self, server: World, kind: str, older: bool) -> None:
        """Either token ends both, from the next request on."""
        given = await redeem(server, await code(server))
        other = await redeem(server, await code(server))
        if older:
            assert await post(server, "/token", action="revoke", token=given[kind]) == {}
        else:
            assert await post(server, "/revoke", token=given[kind]) == {}
        assert await reads(server, given["access_token"]) == 401
        form = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"], "client_id": APP}
        assert (await post(server, "/token", 400, **form))["error"] == "invalid_grant"
        assert await reads(server, other["access_token"]) == 200

    async def test_unknown_tokens_are_no_error(self, server: World) -> None:
        """RFC 7009, section 2.2; only a missing token is an error."""
        for text in ("x", "ann.x", "ann.y.z", "\u00e4"):
            assert await post(server, "/revoke", token=text) == {}
        assert (await post(server, "/revoke", 400))["error"] == "invalid_request"

    async def test_a_token_of_the_command_line_can_be_revoked(self, server: World) -> None:
        """It can be revoked although it has no grant."""
        token = await server.accounts.create_token("ann", ["read"], "command line", server.now)
        assert (await introspect(server, token))["client_id"] == "command line"
        await post(server, "/revoke", token=token)
        assert await reads(server, token) == 401

    async def test_the_admin_lists_and_revokes_apps(self, server: World) -> None:
        """`microsub token list` shows them, and revoking there ends the grant."""
        given = await redeem(server, await code(server))
        (token,) = await server.accounts.tokens("ann")
        assert token.client == APP
        await server.accounts.revoke("ann", token.digest[:12])
        assert await reads(server, given["access_token"]) == 401
        form = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"], "client_id": APP}
        assert (await post(server, "/token", 400, **form))["error"] == "invalid_grant"


class TestTransport:
    @pytest.mark.parametrize("path", ["/auth", "/token", "/introspect", "/revoke", "/userinfo"])
    async def test_apps_in_browsers_may_ask(self, server: World, path: str) -> None:
        """OPTIONS allows them; other methods are refused with the list of allowed ones."""
        reply = await server.client.options(path)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (204, "*")
        reply = await server.client.delete(path)
        assert reply.status_code == 405
        assert "OPTIONS" in reply.headers["allow"]

    async def test_a_large_body_is_refused(self, server: World) -> None:
        """The limit is 64 KiB."""
        assert (await post(server, "/token", 413, code="x" * 70_000))["error"] == "invalid_request"

    async def test_metrics_count_what_was_given_and_refused(self, server: World) -> None:
        """The metrics contain no names of users or apps."""
        made = await code(server)
        await redeem(server, made)
        await redeem(server, made, 400, redirect_uri="https://other.example/")
        text = (await server.client.get("/metrics", headers={"Host": "127.0.0.1"})).text
        assert 'microsub_grants_total{what="tokens"}' in text
        assert 'microsub_grants_total{what="misused"}' in text
        assert 'action="oauth token"' in text
        assert "app.example" not in text
