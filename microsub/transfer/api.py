"""`/opml`: a user's channels as a list of feeds, and lists into channels, with the user's token.

GET needs the scope `read`. POST, whose body is the list as it is, makes channels and follows feeds, and needs the
scopes `follow` and `channels`; with `dry_run=true` nothing is changed. Tokens and errors are those of the Microsub
endpoint. Addresses go out without their passwords and keys, as in the list of follows.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
from starlette.types import Scope

from microsub.errors import (
    InsufficientScope,
    InvalidRequest,
    MethodNotAllowed,
    ParseError,
    ParsingStopped,
    TooLarge,
    TooManyRequests,
)
from microsub.fetch import asking_for
from microsub.identity.api import RequestCredentials
from microsub.identity.limits import LISTS_AT_ONCE, LISTS_IN_ALL, LISTS_OF_USER
from microsub.kit.http.params import Params, collect, read_body, urlencoded, wrong
from microsub.kit.http.responses import CORS, METHODS, Header, HttpEndpoint, HttpExchange, HttpReply
from microsub.kit.rate_limits import RateLimiter
from microsub.model.reader import READ
from microsub.surface import Services
from microsub.transfer.feed_lists import LOOSE, adapted
from microsub.transfer.outlines import MOST_BYTES

PATH = "/opml"
PATHS = (PATH, f"{PATH}/")

_WRITING = ("follow", "channels")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_AS_LIST: list[Header] = [
    (b"content-type", b"text/x-opml; charset=utf-8"),
    (b"content-disposition", b'attachment; filename="feeds.opml"'),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    *CORS,
]


class FeedListEndpoint(HttpEndpoint):
    """Answers every request to `PATHS`."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._credentials = RequestCredentials(services.accounts, services.identity.verification)
        self._limiter = RateLimiter()

    async def answer(self, exchange: HttpExchange) -> HttpReply | bytes:
        """See `HttpEndpoint`."""
        exchange.action = "opml"
        scope, services = exchange.scope, self._services
        verb, now = scope["method"], services.clock()
        if verb not in {"GET", "HEAD", "POST"}:
            raise MethodNotAllowed(verb, METHODS)
        params = collect(urlencoded(scope["query_string"]))
        user = await self._user(scope, params, _WRITING if verb == "POST" else (READ,), now)
        if verb != "POST":
            return HttpReply(await services.feed_lists.export(user, now, masked=True), _AS_LIST)
        return await self._import(exchange, params, user, now)

    async def _user(self, scope: Scope, params: Params, needed: tuple[str, ...], now: float) -> str:
        grant = await self._credentials.checked(await self._credentials.presented(scope, params, None), now)
        await self._services.identity.quotas.count(grant.user, now)
        for name in needed:
            if name not in grant.scopes:
                raise InsufficientScope(name)
        return grant.user

    async def _import(self, exchange: HttpExchange, params: Params, user: str, now: float) -> bytes:
        dry_run = _TRUTHS.get((params.text("dry_run") or "false").lower())
        if dry_run is None:
            raise wrong("dry_run", params.text("dry_run") or "", "'true' or 'false'")
        loose = params.text("name") or LOOSE
        if loose != adapted(loose):
            raise wrong("name", loose, "a name that a channel can have")
        give_back = self._admit(user)
        try:
            body = await read_body(exchange.scope, exchange.receive, MOST_BYTES)
            # The sender decides how long that takes: a token that has ended meanwhile does nothing.
            await self._credentials.checked(await self._credentials.presented(exchange.scope, params, None), now)
            quotas = await self._services.identity.quotas.of(user)
            with asking_for(f"user {user}"):
                report = await self._services.feed_lists.import_list(
                    user, body.content, now, dry_run=dry_run, loose=loose, quotas=quotas
                )
        except ParsingStopped as error:
            raise TooLarge(f"the list can't be used: {error.detail}") from None
        except ParseError as error:
            raise InvalidRequest(f"the list can't be used: {error.detail}") from None
        finally:
            give_back()
        if not dry_run:
            self._services.changed()
        return orjson.dumps(report.as_dict())

    def _admit(self, user: str) -> Callable[[], None]:
        """Take a place among the imports that run; what gives it back. Raises TooManyRequests."""
        limiter = self._limiter
        if not (limiter.has_room(LISTS_AT_ONCE, user) and limiter.has_room(LISTS_IN_ALL)):
            raise TooManyRequests("another list of feeds is being imported; try again when it is done", 10)
        if not limiter.count(LISTS_OF_USER, user):
            raise TooManyRequests(f"you may import {LISTS_OF_USER.most} lists a minute; wait a minute", 60)
        return limiter.take([(LISTS_AT_ONCE, user), (LISTS_IN_ALL, "")])
