"""`/opml`: export a user's channels as a list of feeds, and import lists, with the user's token.

GET needs the scope `read`. POST takes the list as its body, creates channels and follows feeds; it needs the scopes
`follow` and `channels`. With `dry_run=true` nothing is changed. Tokens and errors are those of the Microsub endpoint.
Exported addresses have no passwords and keys, as in the list of follows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
from starlette.types import Scope

from microsub.accounts import UserQuotas
from microsub.base.errors import (
    InsufficientScope,
    InvalidRequest,
    MethodNotAllowed,
    ParseError,
    ParsingStopped,
    TooLarge,
)
from microsub.fetch import asking_for
from microsub.model.reader import READ, Grant
from microsub.transfer.feed_lists import LOOSE, FeedLists, adapted
from microsub.transfer.list_imports import ListImports
from microsub.transfer.outlines import MOST_BYTES
from microsub.web.params import TRUTHS, Params, collect, read_body, urlencoded, wrong
from microsub.web.responses import CORS, METHODS, Header, HttpEndpoint, HttpExchange, HttpReply

PATH = "/opml"
PATHS = (PATH, f"{PATH}/")

_WRITING = ("follow", "channels")
_AS_LIST: list[Header] = [
    (b"content-type", b"text/x-opml; charset=utf-8"),
    (b"content-disposition", b'attachment; filename="feeds.opml"'),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    *CORS,
]


class FeedListEndpoint(HttpEndpoint):
    """Answers every request to `PATHS`.

    `grant_of` returns the access of a request's token, or raises Unauthorized; `changed` is called after an import.
    """

    def __init__(
        self,
        lists: FeedLists,
        imports: ListImports,
        quotas: UserQuotas,
        grant_of: Callable[[Scope, Params, float], Awaitable[Grant]],
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._lists = lists
        self._imports = imports
        self._quotas = quotas
        self._grant_of = grant_of
        self._clock = clock
        self._changed = changed

    async def answer(self, exchange: HttpExchange) -> HttpReply | bytes:
        """See `HttpEndpoint`."""
        exchange.action = "opml"
        scope = exchange.scope
        verb, now = scope["method"], self._clock()
        if verb not in {"GET", "HEAD", "POST"}:
            raise MethodNotAllowed(verb, METHODS)
        params = collect(urlencoded(scope["query_string"]))
        user = exchange.user = await self._user(scope, params, _WRITING if verb == "POST" else (READ,), now)
        if verb != "POST":
            return HttpReply(await self._lists.export(user, now, masked=True), _AS_LIST)
        return await self._import(exchange, params, user, now)

    async def _user(self, scope: Scope, params: Params, needed: tuple[str, ...], now: float) -> str:
        grant = await self._grant_of(scope, params, now)
        await self._quotas.count(grant.user, now)
        for name in needed:
            if name not in grant.scopes:
                raise InsufficientScope(name)
        return grant.user

    async def _import(self, exchange: HttpExchange, params: Params, user: str, now: float) -> bytes:
        dry_run, loose = _dry_run(params), _loose(params)
        give_back = self._imports.admit(user)
        try:
            body = await read_body(exchange.scope, exchange.receive, MOST_BYTES)
            # Sending can take long, so check again that the token is still valid.
            await self._grant_of(exchange.scope, params, now)
            quotas = await self._quotas.of(user)
            with asking_for(f"user {user}"):
                report = await self._lists.import_list(
                    user, body.content, now, dry_run=dry_run, loose=loose, quotas=quotas
                )
        except ParsingStopped as error:
            raise TooLarge(f"the list can't be used: {error.detail}") from None
        except ParseError as error:
            raise InvalidRequest(f"the list can't be used: {error.detail}") from None
        finally:
            give_back()
        if not dry_run:
            self._changed()
        return orjson.dumps(report.as_dict())


def _dry_run(params: Params) -> bool:
    """The parameter `dry_run`: whether to change nothing."""
    text = params.text("dry_run") or "false"
    if text.lower() not in TRUTHS:
        raise wrong("dry_run", text, "'true' or 'false'")
    return TRUTHS[text.lower()]


def _loose(params: Params) -> str:
    """The name of the channel for feeds without a folder."""
    name = params.text("name") or LOOSE
    if name != adapted(name):
        raise wrong("name", name, "a valid channel name")
    return name
