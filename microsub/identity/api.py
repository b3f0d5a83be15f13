"""The endpoints of our own IndieAuth server for programs; the pages for people are in `identity.pages.consent`.

Specs: https://indieauth.spec.indieweb.org/, RFC 6749 (section 5), RFC 7009, RFC 7662, RFC 8414. Secrets arrive in the
body or in the Authorization header; the query is ignored. Older apps check a token by GET, expect a form as the reply,
and revoke with `action=revoke`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from starlette.types import Receive, Scope

from microsub.accounts import MARK, Accounts, Issued, OwnToken, is_refresh
from microsub.base.bounded_cache import BoundedCache
from microsub.base.digests import sha256_hex
from microsub.base.errors import (
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    OAuthRefused,
    Unauthorized,
    UserDisabled,
)
from microsub.base.plaintext import shown
from microsub.identity.foreign_tokens import ForeignTokenCheck
from microsub.identity.protocol.documents import (
    AUTHORIZATION,
    INTROSPECTION,
    METADATA,
    REVOCATION,
    TOKEN,
    USERINFO,
    own_document,
)
from microsub.identity.provider import IndieAuthProvider, Person
from microsub.model.reader import NAME, Credential, Grant
from microsub.web.headers import bearer, client_of, prefers_form
from microsub.web.params import UNCHECKED_BODY, Params, body_pairs, collect, read_body
from microsub.web.responses import CORS, JSON, Header, HttpEndpoint, HttpExchange, HttpReply

PATHS = (METADATA, AUTHORIZATION, TOKEN, INTROSPECTION, REVOCATION, USERINFO)

_ACTIONS = {path: f"oauth {path[1:]}" if path != METADATA else "oauth metadata" for path in PATHS}

_NEED_CREATE = frozenset({"https://indiepass.app/"})
"""IndiePass for iOS ends its sign-in if the reply doesn't name `create`, even if its user only wants to read."""

Reply = Mapping[str, Any]
BaseOf = Callable[[str], str | None]
"""The server's address as seen by a request with this `Host`; None if the header can't be trusted."""

_NEVER_KEPT: list[Header] = [(b"pragma", b"no-cache")]
_AS_METADATA: list[Header] = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"public, max-age=600"),
    (b"vary", b"Host"),
    *CORS,
]
_AS_FORM: list[Header] = [
    (b"content-type", b"application/x-www-form-urlencoded"),
    (b"cache-control", b"no-store"),
    *_NEVER_KEPT,
    *CORS,
]
_AS_JSON: list[Header] = [*JSON, *_NEVER_KEPT]


class OAuthEndpoint(HttpEndpoint):
    """Answers every request to `PATHS`, except GET of the authorization endpoint, which is a page."""

    def __init__(self, provider: IndieAuthProvider, clock: Callable[[], float], base_of: BaseOf) -> None:
        super().__init__()
        self._provider = provider
        self._clock = clock
        self._base_of = base_of
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

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        scope = exchange.scope
        exchange.action = _ACTIONS[scope["path"]]
        reply = await self._answer(scope, exchange.receive)
        if scope["path"] == METADATA:
            return HttpReply(orjson.dumps(reply), _AS_METADATA)
        if _may_be_form(scope) and prefers_form(scope):
            return HttpReply(_form(reply), _AS_FORM)
        return HttpReply(orjson.dumps(reply), _AS_JSON)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        verb, path = "GET" if scope["method"] == "HEAD" else scope["method"], scope["path"]
        handler = self._table.get((verb, path))
        if handler is None:
            raise MethodNotAllowed(verb, ", ".join([*(v for v, p in self._table if p == path), "OPTIONS"]))
        return await handler(scope, await _parameters(scope, receive) if verb == "POST" else collect())

    async def _metadata(self, scope: Scope, _: Params) -> Reply:
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        base = self._base_of(host)
        if base is None:
            raise NotFound("this server doesn't know its own address yet: its admin has to set MICROSUB_BASE_URL")
        return own_document(base)

    async def _who(self, _: Scope, params: Params) -> Reply:
        kind = params.text("grant_type") or "authorization_code"
        if kind != "authorization_code":
            raise _unsupported(kind)
        return _told(await self._provider.redeem_profile(*_redemption(params), self._clock()))

    async def _token(self, _: Scope, params: Params) -> Reply:
        now = self._clock()
        if params.text("action") == "revoke":
            await self._provider.revoke(_need(params, "token"))
            return {}
        kind = params.text("grant_type") or ("authorization_code" if params.text("code") else None)
        match kind:
            case "authorization_code":
                return _told(*await self._provider.redeem(*_redemption(params), now))
            case "refresh_token":
                refresh, client = _need(params, "refresh_token"), _need(params, "client_id")
                return _told(*await self._provider.renew(refresh, client, params.text("scope") or "", now))
            case None:
                raise InvalidRequest(
                    "'grant_type' is missing: expected authorization_code or refresh_token in the body"
                )
        raise _unsupported(kind)

    async def _check(self, scope: Scope, _: Params) -> Reply:
        found = await self._provider.verify(_bearer(scope), self._clock())
        return _described(found)

    async def _introspect(self, scope: Scope, params: Params) -> Reply:
        token = _need(params, "token")
        found = await self._provider.introspect(token, bearer(scope), self._clock())
        return {"active": True, **_described(found)} if found else {"active": False}

    async def _revoke(self, _: Scope, params: Params) -> Reply:
        await self._provider.revoke(_need(params, "token"))
        return {}

    async def _userinfo(self, scope: Scope, _: Params) -> Reply:
        return await self._provider.userinfo(_bearer(scope), self._clock())


async def _parameters(scope: Scope, receive: Receive) -> Params:
    return collect(await body_pairs(await read_body(scope, receive, UNCHECKED_BODY), client_of(scope)))


def _redemption(params: Params) -> tuple[str, str, str, str]:
    code, client, redirect = (_need(params, name) for name in ("code", "client_id", "redirect_uri"))
    return code, client, redirect, params.text("code_verifier") or ""


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


def _told(person: Person, issued: Issued | None = None) -> Reply:
    me, profile = person
    reply: dict[str, Any] = {}
    if issued is not None:
        reply |= {"access_token": issued.access, "token_type": "Bearer", "expires_in": issued.lifetime}
        scopes = issued.scopes | ({"create"} if issued.client in _NEED_CREATE else frozenset())
        reply |= {"refresh_token": issued.refresh, "scope": " ".join(sorted(scopes))}
    return {**reply, "me": me, **({"profile": profile} if profile else {})}


def _described(token: OwnToken) -> Reply:
    found: dict[str, Any] = {
        "me": token.me,
        "client_id": token.client,
        "scope": " ".join(sorted(token.scopes)),
        "iat": int(token.created),
    }
    return found if token.expires is None else {**found, "exp": int(token.expires)}


def _may_be_form(scope: Scope) -> bool:
    """Whether older programs may expect a form: checks of tokens, and codes redeemed for a profile."""
    return (scope["method"], scope["path"]) in {("GET", TOKEN), ("POST", AUTHORIZATION)}


def _form(reply: Reply) -> bytes:
    return urlencode({name: value for name, value in reply.items() if isinstance(value, str | int)}).encode()


# --- the token of a request -----------------------------------------------------------------------------------------

_TOKEN_TEXT = re.compile(r"[\x21-\x7e]{1,4096}")
_MOST_OWNERS = 4096
_NOT_OURS = "the token is not valid: found a text that is no token of this server"


class PresentedToken(NamedTuple):
    """A token as received; `owner` is the user in the path, `address` the client's address.

    Not shown by `repr`. `credential` is tried first.
    """

    token: str
    owner: str | None
    address: str
    credential: Credential

    def __repr__(self) -> str:
        return f"Presented(of {self.credential.user!r})"


class RequestCredentials:
    """Converts the token of a request into a credential or a grant. One per process."""

    def __init__(self, accounts: Accounts, verification: ForeignTokenCheck) -> None:
        self._accounts = accounts
        self._verification = verification
        self._owners: BoundedCache[str, str] = BoundedCache(_MOST_OWNERS)

    async def presented(self, scope: Scope, params: Params, owner: str | None) -> PresentedToken:
        """The token of a request, unchecked.

        Raises Unauthorized if there is none, or none that could be valid. Sends no request if the path names a user or
        the token is one of ours.
        """
        token = bearer(scope)
        if token is None:
            token = params.text("access_token")
        if token is None:
            raise Unauthorized(
                "the token is missing: found none, expected it in the header 'Authorization: Bearer …' "
                "or in the parameter 'access_token'"
            )
        if not _TOKEN_TEXT.fullmatch(token) or token.startswith(MARK) or is_refresh(token):
            raise Unauthorized(_NOT_OURS)
        credential = self._accounts.credential(token)
        if owner is not None:
            if not NAME.match(owner):
                raise Unauthorized("the token is not valid: the address names no user")
            credential = Credential(owner, sha256_hex(token))
        elif credential is None:
            digest = sha256_hex(token)
            credential = Credential(await self._owner(digest), digest)
        elif (known := self._owners.get(credential.digest)) is not None:
            # It has the form of our tokens, but was issued by another server with this software.
            credential = Credential(known, credential.digest)
        return PresentedToken(token, owner, client_of(scope), credential)

    async def grant(self, scope: Scope, params: Params, now: float) -> Grant:
        """The access of a request's token. Raises as `presented` and `checked`."""
        return await self.checked(await self.presented(scope, params, None), now)

    async def checked(self, presented: PresentedToken, now: float) -> Grant:
        """The access of the token.

        Raises Unauthorized, Forbidden for a token of another user, TooManyRequests and ProviderUnavailable.
        """
        try:
            return await self._accounts.verify(presented.credential, now)
        except Unauthorized as error:
            return await self.asked(presented, error, now)

    async def asked(self, presented: PresentedToken, error: Unauthorized, now: float) -> Grant:
        """The access of a token that the store doesn't know, from the user's provider.

        `error` is the store's error. Afterwards the store knows the token, under `Grant.user`. Raises as `checked`.
        """
        if isinstance(error, UserDisabled):
            raise error
        token, credential = presented.token, presented.credential
        if presented.owner is not None:
            await self._refuse_others(presented, now)
        else:
            # The store or the token's form suggested a user; if that was wrong, the token may belong to another one.
            self._owners.pop(credential.digest)
            credential = Credential(await self._owner(credential.digest), credential.digest)
        grant = await self._verification.check(credential, token, presented.address, now)
        self._learn(credential.digest, grant.user)
        return grant

    async def _refuse_others(self, presented: PresentedToken, now: float) -> None:
        """Refuse one of our tokens that is valid, but for another user than the one in the path."""
        own = self._accounts.credential(presented.token)
        if own is None or own.user == presented.owner:
            return
        try:
            await self._accounts.verify(own, now)
        except UserDisabled:
            raise
        except Unauthorized:
            return
        raise _not_of(presented.owner or "")

    async def _owner(self, digest: str) -> str:
        """The user to whom a token could belong, if neither the token nor the address names one.

        That is the user whose provider has recently confirmed it, otherwise the only user. Raises Unauthorized.
        """
        known = self._owners.get(digest)
        if known is not None:
            return known
        owner = await self._verification.tokens.owner(digest)
        if owner is not None:
            self._learn(digest, owner)
        else:
            owner = await self._accounts.only_user()
        if owner is None:
            raise Unauthorized(
                "the token is unknown at this address; with one of your own IndieAuth provider, use '/microsub/<user>'"
            )
        return owner

    def _learn(self, digest: str, owner: str) -> None:
        """Remember the user of the token, so that the store needn't be asked.

        Its validity is checked every time.
        """
        self._owners[digest] = owner


def _not_of(owner: str) -> Forbidden:
    return Forbidden(f"the token can't be used here: found one of another user, expected one of '{shown(owner)}'")
