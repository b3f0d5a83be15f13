"""The endpoints of our own IndieAuth server that programs talk to; people see the pages of
`identity.pages.consent`.

Specs: https://indieauth.spec.indieweb.org/, RFC 6749 (section 5), RFC 7009, RFC 7662, RFC 8414. What is secret arrives
in the body or in the header Authorization; the query is not looked at. Older apps check a token by GET, take a form for
an answer, and revoke with `action=revoke`.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars, unbind_contextvars

from microsub import metrics
from microsub.errors import InvalidRequest, MethodNotAllowed, NotFound, OAuthRefused, TooLarge, Unauthorized
from microsub.identity.protocol.pkce import METHOD
from microsub.identity.provider.provider import (
    PROFILE,
    CodeExchange,
    GivenTokens,
    IndieAuthProvider,
    TokenOwner,
    canonical,
)
from microsub.identity.store.grants import OwnToken
from microsub.kit.http.body import UNCHECKED_BODY, body_pairs, read_body
from microsub.kit.http.headers import bearer, prefers_form
from microsub.kit.http.params import Params, collect, shown
from microsub.kit.http.responses import (
    CORS,
    ErrorReply,
    Header,
    error_reply,
    log_error,
    send_error,
    send_json,
    send_preflight,
)
from microsub.model.scopes import ALL_SCOPES
from microsub.surface import Services

METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZATION, TOKEN, INTROSPECTION, REVOCATION, USERINFO = "/auth", "/token", "/introspect", "/revoke", "/userinfo"
PATHS = (METADATA, AUTHORIZATION, TOKEN, INTROSPECTION, REVOCATION, USERINFO)

_ACTIONS = {path: f"oauth {path[1:]}" if path != METADATA else "oauth metadata" for path in PATHS}

Reply = Mapping[str, Any]
BaseOf = Callable[[str], str | None]
"""The address under which the server is seen by a request with this `Host`; None where that can't be relied on."""

_NEVER_KEPT: list[Header] = [(b"pragma", b"no-cache")]
_METADATA_KEPT: list[Header] = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"public, max-age=600"),
    (b"vary", b"Host"),
    *CORS,
]


class OAuthEndpoint:
    """Answers every request to `PATHS`, but GET of the authorization endpoint, which is a page."""

    def __init__(self, services: Services, base_of: BaseOf) -> None:
        self._services = services
        self._base_of = base_of
        self._ids = itertools.count(1)
        self._process = secrets.token_hex(4)
        self._table: Mapping[tuple[str, str], Callable[[Scope, Params], Awaitable[Reply]]] = {
            ("GET", METADATA): self._metadata,
            ("POST", AUTHORIZATION): self._who,
            ("POST", TOKEN): self._token,
            ("GET", TOKEN): self._check,
            ("POST", INTROSPECTION): self._introspect,
            ("POST", REVOCATION): self._revoke,
            ("GET", USERINFO): self._userinfo,
            ("POST", USERINFO): self._userinfo,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["method"] == "OPTIONS":
            await send_preflight(send)
            return
        started = time.perf_counter()
        request_id = f"{self._process}-{next(self._ids)}"
        bind_contextvars(request_id=request_id)
        action, status = _ACTIONS[scope["path"]], 200
        failure: ErrorReply | None = None
        try:
            reply = await self._answer(scope, receive)
        except Exception as error:
            failure = error_reply(error)
            log_error(error, failure, scope, action)
            status = failure.status
        try:
            if failure is not None:
                await send_error(send, failure, request_id)
            elif scope["path"] == METADATA:
                await _send_kept(send, orjson.dumps(reply))
            elif _may_be_form(scope) and prefers_form(scope):
                await _send_form(send, reply)
            else:
                await send_json(send, orjson.dumps(reply), headers=_NEVER_KEPT)
            metrics.REQUESTS.labels(action, status).inc()
            metrics.REQUEST_SECONDS.labels(action).observe(time.perf_counter() - started)
        finally:
            unbind_contextvars("request_id")

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        verb, path = "GET" if scope["method"] == "HEAD" else scope["method"], scope["path"]
        handler = self._table.get((verb, path))
        if handler is None:
            raise MethodNotAllowed(verb, ", ".join([*(v for v, p in self._table if p == path), "OPTIONS"]))
        return await handler(scope, await _parameters(scope, receive) if verb == "POST" else collect())

    @property
    def _provider(self) -> IndieAuthProvider:
        return self._services.identity.provider

    # --- endpoints -------------------------------------------------------------------------------------------------

    async def _metadata(self, scope: Scope, _: Params) -> Reply:
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        base = self._base_of(host)
        if base is None:
            raise NotFound("this server doesn't know its own address yet: its admin has to set MICROSUB_BASE_URL")
        return {
            "issuer": base,
            "authorization_endpoint": base + AUTHORIZATION,
            "token_endpoint": base + TOKEN,
            "introspection_endpoint": base + INTROSPECTION,
            "introspection_endpoint_auth_methods_supported": ["Bearer"],
            "revocation_endpoint": base + REVOCATION,
            "revocation_endpoint_auth_methods_supported": ["none"],
            "userinfo_endpoint": base + USERINFO,
            "scopes_supported": [*ALL_SCOPES, PROFILE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": [METHOD],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }

    async def _who(self, _: Scope, params: Params) -> Reply:
        kind = params.text("grant_type") or "authorization_code"
        if kind != "authorization_code":
            raise _unsupported(kind)
        return _person(await self._provider.redeem_profile(_redemption(params), self._services.clock()))

    async def _token(self, _: Scope, params: Params) -> Reply:
        now = self._services.clock()
        if params.text("action") == "revoke":
            await self._provider.revoke(_need(params, "token"))
            return {}
        kind = params.text("grant_type") or ("authorization_code" if params.text("code") else None)
        match kind:
            case "authorization_code":
                return _given(await self._provider.redeem(_redemption(params), now))
            case "refresh_token":
                refresh, client = _need(params, "refresh_token"), _need(params, "client_id")
                return _given(await self._provider.renew(refresh, client, params.text("scope") or "", now))
            case None:
                raise InvalidRequest(
                    "'grant_type' is missing: expected authorization_code or refresh_token in the body"
                )
        raise _unsupported(kind)

    async def _check(self, scope: Scope, _: Params) -> Reply:
        found = await self._provider.verify(_bearer(scope), self._services.clock())
        return _described(found)

    async def _introspect(self, scope: Scope, params: Params) -> Reply:
        token = _need(params, "token")
        found = await self._provider.introspect(token, bearer(scope), self._services.clock())
        return {"active": True, **_described(found)} if found else {"active": False}

    async def _revoke(self, _: Scope, params: Params) -> Reply:
        await self._provider.revoke(_need(params, "token"))
        return {}

    async def _userinfo(self, scope: Scope, _: Params) -> Reply:
        return await self._provider.userinfo(_bearer(scope), self._services.clock())


# --- requests ------------------------------------------------------------------------------------------------------


async def _parameters(scope: Scope, receive: Receive) -> Params:
    body = await read_body(scope, receive)
    if len(body.content) > UNCHECKED_BODY:
        raise TooLarge(f"the body is too large: found more than {UNCHECKED_BODY} bytes, expected at most that")
    return collect(await body_pairs(body))


def _redemption(params: Params) -> CodeExchange:
    return CodeExchange(
        _need(params, "code"),
        _need(params, "client_id"),
        _need(params, "redirect_uri"),
        params.text("code_verifier") or "",
    )


def _need(params: Params, name: str) -> str:
    return params.need(name, "it in the body of the request")


def _bearer(scope: Scope) -> str:
    token = bearer(scope)
    if token is None:
        raise Unauthorized("the token is missing: found none, expected it in the header 'Authorization: Bearer …'")
    return token


def _unsupported(kind: str) -> OAuthRefused:
    text = f"'grant_type' can't be '{shown(kind)}': expected authorization_code or refresh_token"
    return OAuthRefused("unsupported_grant_type", text)


# --- replies -------------------------------------------------------------------------------------------------------


def _given(given: GivenTokens) -> Reply:
    issued = given.issued
    return {
        "access_token": issued.access,
        "token_type": "Bearer",
        "expires_in": issued.lifetime,
        "refresh_token": issued.refresh,
        "scope": " ".join(sorted(issued.scopes)),
        **_person(given.person),
    }


def _person(person: TokenOwner) -> Reply:
    return {"me": person.me, **({"profile": person.profile} if person.profile else {})}


def _described(token: OwnToken) -> Reply:
    found: dict[str, Any] = {
        "me": canonical(token.me),
        "client_id": token.client,
        "scope": " ".join(sorted(token.scopes)),
        "iat": int(token.created),
    }
    return found if token.expires is None else {**found, "exp": int(token.expires)}


def _may_be_form(scope: Scope) -> bool:
    """Where older programs may ask for the answer as a form: the check of a token, and who a code stands for."""
    return (scope["method"], scope["path"]) in {("GET", TOKEN), ("POST", AUTHORIZATION)}


async def _send_form(send: Send, reply: Reply) -> None:
    body = urlencode({name: value for name, value in reply.items() if isinstance(value, str | int)}).encode()
    head = [
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *_NEVER_KEPT,
        *CORS,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def _send_kept(send: Send, body: bytes) -> None:
    """What says the same to everybody, for a while."""
    head = [*_METADATA_KEPT, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})
