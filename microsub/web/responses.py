"""The base of endpoints for programs, and the table that turns errors into replies.

Specs: https://indieweb.org/Microsub-spec#Responses, RFC 6750 for token errors, the Fetch standard for CORS. Every reply
has the CORS headers, errors too: without them, a browser hides the error from its page.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson
import structlog
from starlette.types import Receive, Scope, Send
from structlog.contextvars import STRUCTLOG_KEY_PREFIX

from microsub.base import metrics
from microsub.base.errors import (
    FetchError,
    InsufficientScope,
    MethodNotAllowed,
    MicrosubError,
    ParseError,
    ParserUnavailable,
    ProviderUnavailable,
    RequestError,
    SearchUnavailable,
    StoreError,
    StoreFull,
    StoreUnconfirmed,
    TooManyRequests,
    Unauthorized,
)
from microsub.base.plaintext import shown
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter
from microsub.base.texts import N_

Header = tuple[bytes, bytes]

METHODS = "GET, POST, OPTIONS"
RETRY_SECONDS = 5
"""Retry-After in seconds when Redis or a parser is unavailable."""

CORS: list[Header] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"Location, WWW-Authenticate, Retry-After, X-Request-Id"),
]
PREFLIGHT: list[Header] = [
    *CORS,
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Accept, Cache-Control, Last-Event-ID"),
    (b"access-control-max-age", b"86400"),
    (b"allow", METHODS.encode()),
]
"""Headers that a browser asks for before a request; on other replies it ignores them."""
PLAIN: list[Header] = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
"""Headers of plain-text replies in protocols between servers."""
JSON: list[Header] = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *CORS]


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The reply to an error: status, the members of the JSON object, further headers."""

    status: int
    content: dict[str, Any]
    headers: list[Header] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The error code in the reply."""
        return str(self.content["error"])


def error_reply(error: Exception) -> ErrorReply:
    """The reply for `error`. Errors outside of the error tree are bugs: 500, without details."""
    match error:
        case Unauthorized():
            return _reply(401, error.code, error.description, {"www-authenticate": "Bearer"})
        case InsufficientScope(scope=scope):
            challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
            headers = {"www-authenticate": challenge}
            return _reply(error.status, error.code, error.description, headers, scope=scope)
        case TooManyRequests(retry_after=seconds):
            return _reply(429, error.code, error.description, {"retry-after": str(seconds)})
        case MethodNotAllowed(allow=allow):
            return _reply(405, error.code, error.description, {"allow": allow})
        case RequestError():
            return _reply(error.status, error.code, error.description)
        case StoreFull():
            text = "the store is full and takes no writes: nothing was changed; the admin has to give it more room"
            return _reply(503, "server_error", text, {"retry-after": "60"})
        case StoreUnconfirmed():
            text = "changes aren't accepted at the moment, because the store's standby is away: try again in a minute"
            return _reply(503, "server_error", text, {"retry-after": str(RETRY_SECONDS)})
        case StoreError():
            text = "the store can't be used at the moment: try again in a few seconds"
            return _reply(503, "server_error", text, {"retry-after": str(RETRY_SECONDS)})
        case SearchUnavailable():
            text = (
                "posts can't be searched at the moment, because their index is being built: try again in a few seconds"
            )
            return _reply(503, "server_error", text, {"retry-after": str(RETRY_SECONDS)})
        case ParserUnavailable():
            text = f"{error}; try again in a few seconds"
            return _reply(503, "server_error", text, {"retry-after": str(RETRY_SECONDS)})
        case ProviderUnavailable(why=why, retry_after=seconds):
            text = f"the token can't be checked at the moment, because its provider can't be asked: {why}"
            return _reply(503, "temporarily_unavailable", text, {"retry-after": str(seconds)})
        case FetchError() | ParseError():
            return _reply(400, "invalid_request", f"the document behind 'url' can't be used: {error}")
    return _reply(500, "server_error", "the server failed; its log has the details under this request's id")


def retry_after(error: Exception) -> str:
    """Seconds after which a request that ended with `error` may succeed, as a header has them."""
    return next(
        (value.decode() for name, value in error_reply(error).headers if name == b"retry-after"), str(RETRY_SECONDS)
    )


def _reply(status: int, code: str, text: str, headers: Mapping[str, str] | None = None, **more: str) -> ErrorReply:
    sent = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return ErrorReply(status, {"error": code, "error_description": text, **more}, sent)


log = structlog.get_logger()

_request_id: ContextVar[str] = ContextVar(f"{STRUCTLOG_KEY_PREFIX}request_id")
"""The context of every log line of a request: set as `bind_contextvars` of structlog does, in a tenth of the time."""


def log_error(error: Exception, reply: ErrorReply, path: str, verb: str, action: str) -> None:
    """Log a refused request without its parameters, which may be secret."""
    entry = log.bind(path=shown(path), verb=verb, action=shown(action), status=reply.status)
    if not isinstance(error, MicrosubError):
        entry.error("request failed", exc_info=error)
    elif isinstance(error, StoreError):
        entry.error("store failed", kind=type(error).__name__, detail=str(error))
    else:
        entry.info("request refused", code=reply.code)


SENT_UNIT = 64 * 1024
"""Bytes by which replies are counted while they are sent. The web port writes what is larger in pieces of this size, so
it is in memory until its reader has taken it: many replies of a little less than a megabyte are as heavy as few larger
ones."""
UNITS_SENT_OF_USER = RateLimit("64 KiB of large replies that are being sent", "user", 1024, AT_ONCE)
UNITS_SENT_IN_ALL = RateLimit("64 KiB of large replies that are being sent", "all together", 8192, AT_ONCE)
UNITS_SENT_OF_HALF = RateLimit("64 KiB of large replies that are being sent", "half of all together", 4096, AT_ONCE)
UNITS_SENT_WHEN_BUSY = RateLimit(
    "64 KiB of large replies that are being sent", "user, where that half is taken", 128, AT_ONCE
)
"""So a few users who read slowly leave room to others."""

_SENT = RateLimiter()
"""Counts the large replies of this process, whichever part of it answers."""


def until_sent(user: str, size: int) -> Callable[[], None] | None:
    """Count a large reply for the user; returns the release, None if it isn't large. Raises TooManyRequests."""
    if not user or size < SENT_UNIT:
        return None
    needed = [(UNITS_SENT_OF_USER, user), (UNITS_SENT_IN_ALL, "")]
    either = [(UNITS_SENT_OF_HALF, ""), (UNITS_SENT_WHEN_BUSY, user)]
    room = _SENT.has_room
    if not (all(room(*one) for one in needed) and any(room(*one) for one in either)):
        raise TooManyRequests(N_("Too many large replies are being sent. Try again in a few seconds."), RETRY_SECONDS)
    return _SENT.take([*needed, *either] * (size // SENT_UNIT))


SLOW_SECONDS = 1.0
"""A request that takes longer is logged."""


@dataclass(slots=True)
class HttpExchange:
    """A request in progress. `action` names it in the log and in metrics; `user` the authenticated user, if known."""

    scope: Scope
    receive: Receive
    action: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply without an error. `headers` are all but the length, those of CORS included.

    `write` sends a reply that continues until its client leaves, with its head.
    """

    body: bytes | bytearray
    headers: list[Header]
    status: int = 200
    write: Callable[[Receive, Send], Awaitable[None]] | None = None


class HttpEndpoint:
    """Answers requests with the subclass's `answer`; errors of any step become replies."""

    preflight = PREFLIGHT
    """Headers of the reply to OPTIONS."""
    actions: Collection[str] = ()
    """The actions that metrics distinguish; others, which clients may invent, are `other`. Empty: all."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._process = secrets.token_hex(4)

    async def answer(self, exchange: HttpExchange) -> HttpReply | bytes:
        """The reply to a request, or a JSON object alone. Raises what `error_reply` has replies for."""
        raise NotImplementedError

    def failed(self, exchange: HttpExchange, error: Exception, failure: ErrorReply) -> HttpReply:
        """The reply to an error, in the form that the clients expect: a JSON object."""
        return HttpReply(orjson.dumps(failure.content), [*JSON, *failure.headers], failure.status)

    def logged_path(self, path: str) -> str:
        """The path of a request as it may be logged."""
        return path

    async def deliver(self, exchange: HttpExchange, send: Send, reply: HttpReply) -> None:
        """Send the reply. Subclasses may track its completion."""
        await _send(send, reply)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["method"] == "OPTIONS":
            await _send(send, HttpReply(b"", self.preflight, 204))
            return
        started = time.perf_counter()
        request_id = f"{self._process}-{next(self._ids)}"
        bound = _request_id.set(request_id)
        exchange = HttpExchange(scope, receive)
        leave: Callable[[], None] | None = None
        try:
            reply = await self.answer(exchange)
            leave = until_sent(exchange.user, len(reply.body if isinstance(reply, HttpReply) else reply))
        except Exception as error:
            failure = error_reply(error)
            log_error(error, failure, self.logged_path(scope["path"]), scope["method"], exchange.action)
            reply = self.failed(exchange, error, failure)
            reply.headers.append((b"x-request-id", request_id.encode("latin-1")))
        if isinstance(reply, HttpReply) and reply.write is not None:
            self._measure(exchange, reply.status, time.perf_counter() - started)
            _request_id.reset(bound)
            await reply.write(receive, send)
            return
        try:
            await self.deliver(exchange, send, reply if isinstance(reply, HttpReply) else HttpReply(reply, JSON))
        finally:
            if leave is not None:
                leave()
            status = reply.status if isinstance(reply, HttpReply) else 200
            self._measure(exchange, status, time.perf_counter() - started)
            _request_id.reset(bound)

    def _measure(self, exchange: HttpExchange, status: int, seconds: float) -> None:
        action = exchange.action if not self.actions or exchange.action in self.actions else "other"
        count, observe = _meters(action, status)
        count()
        observe(seconds)
        if seconds > SLOW_SECONDS:
            verb = exchange.scope["method"]
            log.info("slow request", action=shown(exchange.action), verb=verb, status=status, seconds=round(seconds, 3))


@cache
def _meters(action: str, status: int) -> tuple[Callable[[], None], Callable[[float], None]]:
    """The counter and the histogram of an action and status."""
    return metrics.REQUESTS.labels(action, status).inc, metrics.REQUEST_SECONDS.labels(action).observe


async def client_left(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, reply: HttpReply) -> None:
    length = [] if reply.status in {204, 304} else [(b"content-length", str(len(reply.body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*reply.headers, *length]})
    await send({"type": "http.response.body", "body": reply.body})
