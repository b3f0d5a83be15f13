"""The endpoint of the Google Reader API: addresses, sign-in by app password, parameters, errors.

There is no specification; the rules are those that apps' own code relies on (docs/reference/google-reader-api.md).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import orjson
from starlette.types import Receive, Scope

from microsub.accounts import Accounts, AppRequests, token_of_password
from microsub.base.digests import short_digest
from microsub.base.errors import (
    MethodNotAllowed,
    NotFound,
    RequestError,
    TooLarge,
    Unauthorized,
)
from microsub.base.rate_limits import RateLimit, RateLimiter, network_of
from microsub.base.texts import N_
from microsub.model.reader import NATIVE_APP, Channel, Credential, Grant
from microsub.redis.foresight import Foresight
from microsub.timelines import ReaderViews
from microsub.web.headers import client_of, header
from microsub.web.pages import DEFAULT_LANGUAGE, preferred_language
from microsub.web.params import (
    MAX_BODY,
    UNCHECKED_BODY,
    Params,
    RequestBody,
    body_pairs,
    collect,
    declared_length,
    is_multipart,
    large_body,
    read_body,
    urlencoded,
)
from microsub.web.responses import (
    CORS,
    METHODS,
    PLAIN,
    ErrorReply,
    Header,
    HttpEndpoint,
    HttpExchange,
    HttpReply,
)
from microsub.web.types import FORM

PATHS = (
    "/api/{place:path}",
    "/greader{place:path}",
    "/accounts/ClientLogin",
    "/reader/{place:path}",
    "//{place:path}",
)
MOST_PAIRS = 20_500
"""Parameters in a body: ten thousand items with as many tokens, and the others."""
MOST_BODY = 2 * MAX_BODY
"""Bytes of a body with ten thousand items in their long form, and as many tokens."""
WRONG_OF_NETWORK = RateLimit("wrong app passwords", "network", 60)
"""Right ones are never refused: an app that repeats a wrong password mustn't keep others out."""

NO_BODY = RequestBody(b"", "")

_PLACE = re.compile(
    r"/*(?:(?:api/+)?greader(?:\.php)?/*)*"
    r"(?:(?P<login>accounts/+ClientLogin)|reader/+api/+0/+(?P<name>.+)|reader/+(?P<atom>atom/.+))",
    re.DOTALL,
)
_HEADER = re.compile(r"\s*GoogleLogin\s+auth\s*=\s*(\S+)\s*", re.IGNORECASE)
_STREAM = re.compile(r"(stream/+contents|atom)/+(.+)", re.DOTALL)
_SINCE = re.compile(rb"(?<![^&])ot=([1-9][0-9]{9})(?![^&])")
_SIGN_IN = "greader ClientLogin"
_BAD_TOKEN: list[Header] = [(b"x-reader-google-bad-token", b"true"), (b"google-bad-token", b"true")]
_LATER: list[Header] = [(b"retry-after", b"60")]
_TEXT: list[Header] = [*PLAIN, *CORS]
_JSON: list[Header] = [(b"content-type", b"application/json; charset=utf-8"), (b"cache-control", b"no-store"), *CORS]
_TOKEN_LENGTH = 57
_FOR_APPS = N_(
    "This address is for apps. Enter it in an app, with your name and an app password, which you create at {address}."
)
_CONTENTS = "stream/items/contents"
"""Liferea 1.14 sends no header with it, but the value of `Auth` as `T` in the form, and the same ids with each sync."""
OK = HttpReply(b"OK", _TEXT)
"""The reply to writes: without a newline, which Newsboat takes for a failure."""


class TooManyWrong(Unauthorized):
    """The limit on wrong passwords is reached. An app that gets any other status than 401 doesn't say what is wrong."""


class NativeCall(NamedTuple):
    """A request of a native app, whose user is checked. `now` is Unix time; `channels` are the user's, in order.

    `stream` is the stream in the path, or empty; `body` its body if it isn't a form; `known` is `If-None-Match`,
    `language` the one that the app prefers.
    """

    user: str
    credential: Credential
    now: float
    params: Params
    channels: tuple[Channel, ...] = ()
    stream: str = ""
    body: RequestBody = NO_BODY
    known: str = ""
    language: str = DEFAULT_LANGUAGE


@dataclass(frozen=True, slots=True)
class NativeRoute:
    """The function that answers requests of a name; `verbs` are the methods it takes.

    `writes`: it may change declarations of backend.json; `changes_topics`: also documents that hubs deliver.
    `most_body` is how many bytes its body may have. `takes_document`: a body is no form, whatever its type says.
    """

    run: Callable[[NativeCall], Awaitable[HttpReply]]
    verbs: frozenset[str] = frozenset({"GET", "POST"})
    writes: bool = False
    changes_topics: bool = False
    most_body: int = MAX_BODY
    takes_document: bool = False


NativeTable = Mapping[str, NativeRoute]


def json_reply(value: object) -> HttpReply:
    """A JSON document, or its bytes."""
    return HttpReply(value if isinstance(value, bytes | bytearray) else orjson.dumps(value), _JSON)


def text_reply(text: str) -> HttpReply:
    """A plain text."""
    return HttpReply(text.encode(), _TEXT)


class NativeEndpoint(HttpEndpoint):
    """Answers every request to `PATHS`. `table` has the requests of users by the name after `reader/api/0/`.

    `told` gives a text in a language, with the address of the account page.
    """

    def __init__(
        self,
        table: NativeTable,
        accounts: Accounts,
        reading: ReaderViews,
        requests: AppRequests,
        foresight: Foresight,
        *,
        told: Callable[[str, str], str],
        clock: Callable[[], float],
    ) -> None:
        super().__init__()
        self._table: NativeTable = {"token": NativeRoute(_token), "user-info": NativeRoute(_user_info), **table}
        self.actions = (_SIGN_IN, *(f"greader {name}" for name in self._table))
        self._accounts = accounts
        self._reading = reading
        self._requests = requests
        self._foresight = foresight
        self._told = told
        self._clock = clock
        self._limiter = RateLimiter()

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        found = _PLACE.fullmatch(exchange.scope["path"])
        if found is None:
            raise NotFound("there is nothing at this address")
        if found["login"]:
            exchange.action = _SIGN_IN
            return await self._sign_in(exchange)
        return await self._routed(exchange, found["name"] or found["atom"])

    def failed(self, exchange: HttpExchange, error: Exception, failure: ErrorReply) -> HttpReply:
        """One line of text, in a browser for people; with 400 for a refused body, as of other servers of this API."""
        text = str(failure.content["error_description"])
        headers = [*_TEXT, *failure.headers]
        if isinstance(error, Unauthorized):
            headers = [*_TEXT, *_BAD_TOKEN, *(_LATER if isinstance(error, TooManyWrong) else ())]
            text = "Error=BadAuthentication" if exchange.action == _SIGN_IN else "Unauthorized"
        elif isinstance(error, NotFound) and "text/html" in (header(exchange.scope, b"accept") or ""):
            text = self._told(_FOR_APPS, preferred_language(header(exchange.scope, b"accept-language") or ""))
        status = 400 if isinstance(error, TooLarge) else failure.status
        return HttpReply(" ".join(text.split()).encode() + b"\n", headers, status)

    async def _sign_in(self, exchange: HttpExchange) -> HttpReply:
        scope, now = exchange.scope, self._clock()
        params, _ = await _parameters(scope, exchange.receive, UNCHECKED_BODY)
        token = token_of_password(params.text("Email") or "", params.text("Passwd") or "")
        try:
            credential = self._credential(token)
            self._admit(await self._accounts.verify(credential, now), credential, now)
            exchange.user = credential.user
        except RequestError:
            if not self._limiter.count(WRONG_OF_NETWORK, network_of(client_of(scope))):
                raise TooManyWrong("the name or the app password is wrong, as many times before") from None
            raise Unauthorized("the name or the app password is wrong") from None
        names = dict.fromkeys(("SID", "LSID", "Auth"), token)
        if params.text("output") == "json":
            return json_reply(names)
        return text_reply("".join(f"{name}={value}\n" for name, value in names.items()))

    async def _routed(self, exchange: HttpExchange, place: str) -> HttpReply:
        scope = exchange.scope
        stream = _STREAM.fullmatch(place)
        name = re.sub("/+", "/", stream[1] if stream else place).rstrip("/")
        route = self._table.get(name)
        if route is None:
            raise NotFound("there is nothing at this address")
        exchange.action = f"greader {name}"
        verb = "GET" if scope["method"] == "HEAD" else scope["method"]
        if verb not in route.verbs:
            raise MethodNotAllowed(verb, METHODS)
        now = self._clock()
        authorization = header(scope, b"authorization")
        given = None
        if name == _CONTENTS and verb == "POST" and (not authorization or declared_length(scope) <= UNCHECKED_BODY):
            given = await _parameters(scope, exchange.receive, UNCHECKED_BODY)
        if given and not authorization:
            # Not from the address, which logs keep.
            is_in_address = collect(urlencoded(scope["query_string"], MOST_PAIRS)).every("T")
            authorization = f"GoogleLogin auth={'' if is_in_address else given[0].text('T') or ''}"
        presented = _HEADER.fullmatch(authorization)
        credential = self._credential(presented[1] if presented else "")
        named = given[0].every("i") if given else []
        with self._foreseen(scope, named, credential, now) if given or verb == "GET" else nullcontext():
            # One round trip that also reads the channels, which nearly every request needs.
            grant, names, _ = await self._reading.counts_with_token(credential, now, ordered_for=NATIVE_APP)
            self._admit(grant, credential, now)
            exchange.user = grant.user
            await self._requests.begun(grant.user, now)
            params, body = given or await self._received(exchange, route)
            known, accepted = (header(scope, name) or "" for name in (b"if-none-match", b"accept-language"))
            at, language = stream[2] if stream else "", preferred_language(accepted)
            reply = await route.run(
                NativeCall(grant.user, credential, now, params, names.channels, at, body, known, language)
            )
        await self._requests.ended(grant.user, now, declarations=route.writes, topics=route.changes_topics)
        return reply

    def _foreseen(
        self, scope: Scope, named: Sequence[str], credential: Credential, now: float
    ) -> AbstractContextManager[None]:
        """Foresight for a request that the app sends with each sync, each time with another `ot`."""
        found = _SINCE.search(scope["query_string"])
        since = [str(int(found[1]) - less) for less in (0, 1)] if found else []
        query = _SINCE.sub(b"", scope["query_string"])
        texts = (credential.digest, scope["method"], scope["path"], *named)
        request = short_digest(b"\0".join((query, *map(str.encode, texts))))
        return self._foresight.of(credential.digest, request, now, *since)

    async def _received(self, exchange: HttpExchange, route: NativeRoute) -> tuple[Params, RequestBody]:
        """The parameters, and the body if it isn't a form. Raises TooManyRequests for many large bodies at once."""
        scope, user = exchange.scope, exchange.user
        is_large = scope["method"] == "POST" and declared_length(scope) > UNCHECKED_BODY
        with large_body(self._limiter, user) if is_large else nullcontext():
            return await _parameters(scope, exchange.receive, route.most_body, is_document=route.takes_document)

    def _credential(self, token: str) -> Credential:
        credential = self._accounts.credential(token)
        if credential is None:
            raise Unauthorized("the token is missing or invalid")
        return credential

    def _admit(self, grant: Grant, credential: Credential, now: float) -> None:
        """Note the use of an app password. Raises Unauthorized for other tokens of this server."""
        if NATIVE_APP not in grant.scopes:
            raise Unauthorized("the token is no app password")
        self._requests.used(credential, now)


async def _parameters(
    scope: Scope, receive: Receive, most: int, *, is_document: bool = False
) -> tuple[Params, RequestBody]:
    """The parameters of query and body, and the body if it isn't a form."""
    query = list(urlencoded(scope["query_string"], MOST_PAIRS))
    if scope["method"] != "POST":
        return collect(query), NO_BODY
    body = await read_body(scope, receive, most)
    if is_document:
        return collect(query), body
    if is_multipart(body) or body.content_type.partition(";")[0].strip().lower() in {"", FORM}:
        return collect(query, await body_pairs(body, client_of(scope), MOST_PAIRS)), NO_BODY
    return collect(query), body


async def _token(call: NativeCall) -> HttpReply:
    """The token for writes, which nothing checks: the header decides."""
    return text_reply(call.credential.digest[:_TOKEN_LENGTH])


async def _user_info(call: NativeCall) -> HttpReply:
    return json_reply(dict.fromkeys(("userId", "userName", "userProfileId", "userEmail"), call.user))
