"""The Microsub endpoint: one ASGI application for `/microsub` and `/microsub/<user>`.

Spec: https://indieweb.org/Microsub-spec; tokens by RFC 6750. The steps of a request: parameters, token, action, scope,
arguments, service. Errors of any step become the replies of `responses`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import NoReturn, cast

import orjson
import structlog
from starlette.types import Receive, Scope

from microsub.accounts import Accounts, AppRequests
from microsub.base.errors import (
    InsufficientScope,
    InvalidRequest,
    MethodNotAllowed,
    NotImplementedHere,
    RequestError,
    TooManyRequests,
    Unauthorized,
)
from microsub.base.locks import KeyedLocks
from microsub.base.plaintext import shown
from microsub.base.rate_limits import RateLimit, RateLimiter
from microsub.identity import ForeignTokenCheck, PresentedToken, RequestCredentials
from microsub.model.reader import READ, Credential, Grant
from microsub.web.actions import (
    Action,
    Call,
    FusedAction,
    LaterReply,
    Reply,
    StreamAction,
    StreamCall,
    Table,
    Verb,
)
from microsub.web.headers import bearer, client_of, header
from microsub.web.params import (
    MAX_BODY,
    UNCHECKED_BODY,
    UNCHECKED_PARTS,
    Params,
    RequestBody,
    body_pairs,
    collect,
    declared_length,
    is_multipart,
    large_body,
    missing,
    read_body,
    urlencoded,
)
from microsub.web.responses import METHODS, HttpEndpoint, HttpExchange, HttpReply

LARGE_BODIES_OF_USER = RateLimit("bytes of large request bodies", "user", 16 * 1024 * 1024)
"""Bytes of multipart bodies count eight times. Only there does marking a thousand items count as large: 1 MB."""

log = structlog.get_logger()


SLOW_BODY = 1.0
"""Seconds of receiving a body after which its token is checked again, since it may have ended."""


_PLACES = ("last_event_id", "lastEventId", "Last-Event-ID")
"""The parameter for clients that can't send the header `Last-Event-ID`."""


class MicrosubEndpoint(HttpEndpoint):
    """Answers every request below `path`, a URL path without a slash at its end."""

    def __init__(
        self,
        table: Table,
        accounts: Accounts,
        verification: ForeignTokenCheck,
        requests: AppRequests,
        *,
        clock: Callable[[], float],
        path: str = "/microsub",
    ) -> None:
        super().__init__()
        self._accounts = accounts
        self._requests = requests
        self._clock = clock
        self._table = table
        self.actions = tuple(dict.fromkeys(action for _, action, _ in table))
        self._credentials = RequestCredentials(accounts, verification)
        self._path = path
        self._limiter = RateLimiter()
        self._turns = KeyedLocks()

    async def answer(self, exchange: HttpExchange) -> HttpReply | bytes:
        """Answer a request whose path may name the user, and may end with a slash."""
        scope = exchange.scope
        verb = scope["method"]
        if verb not in {"GET", "POST", "HEAD"}:
            raise MethodNotAllowed(verb, METHODS)
        params, grant = await self._parameters(scope, exchange.receive, verb)
        exchange.action = params.text("action") or ""
        reply = await self._run(exchange, params, grant)
        return reply if isinstance(reply, HttpReply) else _encoded(reply)

    async def _parameters(self, scope: Scope, receive: Receive, verb: str) -> tuple[Params, Grant | None]:
        """The parameters, and the token's grant if it was checked already.

        Reading and parsing a body is expensive, so if possible the token is checked first.
        """
        query = scope["query_string"]
        if verb != "POST":
            return collect(urlencoded(query)), None
        length = declared_length(scope)
        user, grant = "", cast(Grant | None, None)
        if bearer(scope) is not None:
            grant = await self._verify(scope, collect())
            user = grant.user
        elif length > UNCHECKED_BODY and (length < math.inf or b"access_token" in query):
            user = (await self._verify(scope, collect(urlencoded(query)))).user
        began = time.monotonic()
        with large_body(self._limiter, user) if user and length > UNCHECKED_BODY else nullcontext():
            body = await read_body(scope, receive, MAX_BODY if user else UNCHECKED_BODY)
        if time.monotonic() - began >= SLOW_BODY:
            grant = None
        if len(body.content) <= (UNCHECKED_PARTS if is_multipart(body) else UNCHECKED_BODY):
            return collect(urlencoded(query), await body_pairs(body, client_of(scope))), grant
        # As much work as a hundred pages. A token in the body is still compared afterwards.
        user = (grant or await self._verify(scope, collect(urlencoded(query)))).user
        self._count(body, user)
        async with self._turns.of(user):
            return collect(urlencoded(query), await body_pairs(body, client_of(scope))), grant

    def _count(self, body: RequestBody, user: str) -> None:
        """Count a large body against the user's rate limit: it keeps a parser thread from others."""
        effort = UNCHECKED_BODY // UNCHECKED_PARTS if is_multipart(body) else 1
        if not self._limiter.count(LARGE_BODIES_OF_USER, user, effort * len(body.content)):
            raise TooManyRequests("too many large bodies: send fewer parameters, or try again in a minute", 60)

    async def _verify(self, scope: Scope, params: Params) -> Grant:
        return await self._checked(await self._presented(scope, params), self._clock())

    async def _checked(self, presented: PresentedToken, now: float) -> Grant:
        grant = await self._credentials.checked(presented, now)
        self._requests.used(Credential(grant.user, presented.credential.digest), now)
        return grant

    async def _presented(self, scope: Scope, params: Params) -> PresentedToken:
        return await self._credentials.presented(scope, params, self._owner(scope["path"]))

    async def _run(self, exchange: HttpExchange, params: Params, grant: Grant | None) -> Reply | HttpReply:
        scope = exchange.scope
        verb, action = scope["method"], exchange.action
        now = self._clock()
        entry = self._table.get((cast(Verb, "GET" if verb == "HEAD" else verb), action, params.text("method") or ""))
        if grant is None:
            presented = await self._presented(scope, params)
            exchange.user = presented.credential.user
            if isinstance(entry, FusedAction):
                return await self._fused(entry, params, presented, now)
            if isinstance(entry, StreamAction):
                return await self._stream(entry, scope, params, presented, now)
            grant = await self._checked(presented, now)
        exchange.user = grant.user
        await self._requests.begun(grant.user, now)
        if not isinstance(entry, Action):
            self._reject(verb, action, params)
        _require(grant, entry.scope)
        reply = await entry.run(Call(params, grant.user, now))
        await self._requests.ended(grant.user, now, declarations=entry.scope != READ, topics=entry.changes_topics)
        return reply

    async def _stream(
        self, entry: StreamAction, scope: Scope, params: Params, presented: PresentedToken, now: float
    ) -> HttpReply:
        async def check(now: float) -> Grant:
            granted = await self._checked(presented, now)
            _require(granted, entry.scope)
            return granted

        grant = await self._checked(presented, now)
        await self._requests.begun(grant.user, now)
        _require(grant, entry.scope)
        credential = Credential(grant.user, presented.credential.digest)
        position = header(scope, b"last-event-id") or next(filter(None, map(params.text, _PLACES)), "")
        call = StreamCall(params, grant.user, now, credential, position, presented.address, check)
        reply = await entry.open(call)
        return HttpReply(b"", reply.headers) if scope["method"] == "HEAD" else reply

    async def _fused(self, entry: FusedAction, params: Params, presented: PresentedToken, now: float) -> Reply:
        credential, requests = presented.credential, self._requests
        try:
            await requests.quotas.refuse_exhausted(credential.user, now)
        except TooManyRequests:
            # Only clients that may use the action learn that the limit is reached.
            await self._credentials.checked(presented, now)
            raise
        try:
            grant, reply = await self._tried(entry, params, credential, now)
        except Unauthorized as error:
            grant = await self._credentials.asked(presented, error, now)
            credential = Credential(grant.user, credential.digest)
            grant, reply = await self._tried(entry, params, credential, now)
        await requests.begun(grant.user, now)
        requests.used(credential, now)
        return await reply() if callable(reply) else reply

    async def _tried(
        self, entry: FusedAction, params: Params, credential: Credential, now: float
    ) -> tuple[Grant, Reply | LaterReply]:
        try:
            grant, reply = await entry.run(params, credential, now)
        except RequestError as error:
            # Clients that may not use the action don't learn what is wrong with their arguments.
            if not isinstance(error, Unauthorized):
                _require(await self._accounts.verify(credential, now), entry.scope)
                await self._requests.begun(credential.user, now)
            raise
        _require(grant, entry.scope)
        return grant, reply

    def _owner(self, path: str) -> str | None:
        if len(path) <= len(self._path) + 1:
            return None
        return path[len(self._path) + 1 :].rstrip("/")

    def _reject(self, verb: str, action: str, params: Params) -> NoReturn:
        """Explain why no entry of the table fits."""
        method = params.text("method") or ""
        if not action:
            raise missing("action", f"one of {', '.join(self.actions)}")
        if action not in self.actions:
            known = ", ".join(self.actions)
            raise NotImplementedHere(f"'action' is unknown: found '{shown(action)}', expected one of {known}")
        methods = [m for v, a, m in self._table if a == action and m and v == verb]
        if methods and not method:
            raise missing("method", f"one of {', '.join(methods)} for a {verb} of action={action}")
        verbs = [v for v, a, m in self._table if a == action and m == method]
        if verbs:
            what = f"action={action}" + (f" with method={method}" if method else "")
            raise InvalidRequest(f"the HTTP method doesn't fit {what}: found {verb}, expected {' or '.join(verbs)}")
        methods = [m for _, a, m in self._table if a == action and m]
        if not methods:
            raise NotImplementedHere(f"'method' is unknown: found '{shown(method)}', expected none for action={action}")
        raise NotImplementedHere(f"'method' is unknown: found '{shown(method)}', expected one of {', '.join(methods)}")


def _encoded(reply: Reply) -> bytes:
    return reply if isinstance(reply, bytes) else orjson.dumps(reply)


def _require(grant: Grant, scope: str) -> None:
    if scope not in grant.scopes:
        raise InsufficientScope(scope)
