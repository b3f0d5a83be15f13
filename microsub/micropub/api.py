"""`/micropub` for posts of sources, `/media` for their files, `/posts` for the posts' pages.

Specs: https://www.w3.org/TR/micropub/; RFC 6750 for the token, which is in the header or in the form, or the same in
both, and never in an address. Pages and files are visible to everybody who has their addresses, which can't be guessed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson
from starlette.types import Scope

from microsub.accounts import Accounts, OwnToken, UserQuotas
from microsub.base.digests import sha256_hex
from microsub.base.errors import (
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    PostingScopeMissing,
    TooManyRequests,
    Unauthorized,
)
from microsub.base.locks import KeyedLocks
from microsub.base.plaintext import shown
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter, network_of, public_network
from microsub.feeds import Feeds, Source
from microsub.formats.documents.page import PAGE_POLICY, write_post
from microsub.micropub.media import MOST_BYTES, Media
from microsub.micropub.media import PATH as MEDIA
from microsub.micropub.posting import PATH as POSTS
from microsub.micropub.posting import Posting
from microsub.micropub.properties import PostedItem, of_form, of_json
from microsub.micropub.sources import Sources, source_in
from microsub.model.jf2 import FILES
from microsub.model.reader import Credential
from microsub.timelines import Channels
from microsub.web.headers import bearer, client_of
from microsub.web.params import (
    MAX_BODY,
    MAX_PAIRS,
    UNCHECKED_BODY,
    UNCHECKED_PARTS,
    FormWithFiles,
    Params,
    RequestBody,
    collect,
    declared_length,
    form_with_files,
    in_turn,
    is_multipart,
    large_body,
    missing,
    read_body,
    urlencoded,
    wrong,
)
from microsub.web.paths import MICROPUB as PATH
from microsub.web.responses import CORS, JSON, METHODS, Header, HttpEndpoint, HttpExchange, HttpReply
from microsub.web.types import FORM

POSTS_OF_SOURCE = RateLimit("requests to post", "source", 120)
POSTED_BYTES_OF_USER = RateLimit("bytes of posts", "user", 16 * 1024 * 1024, 3600)
"""Posts stay stored until upkeep visits the channel, which happens at most every six hours."""
FILES_OF_USER = RateLimit("files sent", "user", 60)
FILES_AT_ONCE = RateLimit("requests with files", "user", 2, AT_ONCE)
FILES_IN_ALL = RateLimit("requests with files", "all together", 8, AT_ONCE)
"""A file may have 10 MiB, which are held in memory."""
POSTED_OF_NETWORK = RateLimit("pages and files of what was posted", "network", 600)
POSTED_GUESSES_OF_NETWORK = RateLimit("addresses that lead to nothing posted", "network", 30)

PATHS = (PATH, f"{PATH}/")
MEDIA_PATHS = (MEDIA, f"{MEDIA}/", f"{MEDIA}/{{name:path}}", f"{PATH}/media", f"{PATH}/media/")
"""The last two are where Aperture has them."""

MOST_UPLOADED = MOST_BYTES + MAX_BODY
"""Maximum bytes of a request with files."""
MOST_FILES = 20

_JSON_TYPES = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json", re.I)
_LISTED = 20
_MOST_LISTED = 100
_POLICY = "default-src 'none'; sandbox"
_SHARED: list[Header] = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
    *CORS,
]
_NO_CHANNEL = "you let this app in without a channel to post to; allow it again and choose one"
_NOTHING: Mapping[str, Mapping[str, Any]] = {
    "config": {"syndicate-to": [], "channels": [], "post-types": [], "q": ["config", "syndicate-to", "channel"]},
    "syndicate-to": {"syndicate-to": []},
    "channel": {"channels": []},
}
"""Replies to the queries of an app that may not post; without post types, it shows no buttons for them."""

_POST_TYPES = ("note", "article", "photo", "video", "audio", "reply", "like", "repost", "bookmark", "rsvp", "event")

Reply = HttpReply | bytes


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """A request's source, with the scopes of its token."""

    source: Source
    scopes: frozenset[str]

    def require(self, *scopes: str) -> None:
        """Raise PostingScopeMissing if the token has none of these scopes."""
        if self.scopes.isdisjoint(scopes):
            raise PostingScopeMissing(scopes[0])


@dataclass(frozen=True, slots=True)
class MicropubServices:
    """The use cases and rate limits that the endpoints share.

    `verify` returns the token of a request at a Unix time, and `used` notes its use; `base` is the server's address.
    """

    verify: Callable[[str, float], Awaitable[OwnToken]]
    used: Callable[[Credential, float], None]
    accounts: Accounts
    quotas: UserQuotas
    channels: Channels
    feeds: Feeds
    sources: Sources
    posting: Posting
    media: Media
    clock: Callable[[], float]
    base: str
    limits: RateLimiter = field(default_factory=RateLimiter)
    turns: KeyedLocks = field(default_factory=KeyedLocks)

    async def sender(self, scope: Scope, in_body: str | None = None) -> SourceAccess:
        """The source of a request. Raises as `token` and `source_of` do."""
        return self.source_of(await self.token(scope, in_body))

    async def token(self, scope: Scope, in_body: str | None = None) -> OwnToken:
        """The token of a request, which Quill sends twice. Raises Unauthorized, InvalidRequest for different tokens."""
        token = bearer(scope)
        if token is not None and in_body not in {None, token}:
            raise InvalidRequest("found two tokens: expected one, in the header 'Authorization' or in the form")
        token = token or in_body
        if token is None:
            raise Unauthorized(
                "the token is missing: found none, expected it in the header 'Authorization: Bearer …' or in the form "
                "as 'access_token'"
            )
        now = self.clock()
        own = await self.verify(token, now)
        self.used(Credential(own.user, sha256_hex(token)), now)
        return own

    def source_of(self, own: OwnToken) -> SourceAccess:
        """The source of a token. Raises Forbidden for an app that has none, PostingScopeMissing, Unauthorized."""
        if not own.source:
            # Apps take 401 for an expired token, and show this to the user.
            raise Forbidden(_NO_CHANNEL) if own.is_app else PostingScopeMissing("create")
        source = source_in(own)
        if source is None:
            raise Unauthorized("the source of this token was revoked")
        return SourceAccess(replace(source, me=own.me) if source.app else source, own.scopes)

    async def require_active(self, user: str) -> None:
        """Raise NotFound if the user is gone or disabled: nothing of such a user is shown."""
        found = await self.accounts.user(user)
        if found is None or found.disabled is not None:
            raise NotFound("there is nothing at this address")

    async def count_request(self, sender: SourceAccess) -> None:
        """Count a request for its source and user. Raises TooManyRequests."""
        source = sender.source
        await self.quotas.count(source.user, self.clock())
        self.limits.require(POSTS_OF_SOURCE, f"{source.user}/{source.id}")

    def count_said(self, sender: SourceAccess, said: bytes) -> None:
        """Count the bytes of a post or update for the user. Raises TooManyRequests."""
        limit, user = POSTED_BYTES_OF_USER, sender.source.user
        if not self.limits.has_room(limit, user, len(said)):
            raise TooManyRequests(f"too much was posted: expected at most {limit.most} bytes an hour", 3600)
        self.limits.count(limit, user, len(said))

    def admit(self, user: str) -> AbstractContextManager[None]:
        """Hold a slot for a request with files for the block. Raises TooManyRequests."""
        refusal = TooManyRequests("other files are being uploaded: try again in a few seconds", 5)
        return self.limits.holding((FILES_AT_ONCE, user), (FILES_IN_ALL, ""), refusal=refusal)

    async def keep(self, sender: SourceAccess, data: bytes) -> str:
        """Store a file; returns its address. Raises TooManyRequests, QuotaReached, InvalidRequest."""
        user = sender.source.user
        if not data:
            raise InvalidRequest("the file is empty")
        if len(data) > MOST_BYTES:
            raise InvalidRequest(f"the file is too large: expected at most {MOST_BYTES} bytes")
        self.limits.require(FILES_OF_USER, user)
        most = await self.quotas.most("media", user)
        return self.base + await self.media.add(user, data, most)


# --- /micropub ------------------------------------------------------------------------------------------------------


class MicropubEndpoint(HttpEndpoint):
    """Answers every request to `PATHS`."""

    def __init__(self, micropub: MicropubServices) -> None:
        super().__init__()
        self._micropub = micropub

    async def answer(self, exchange: HttpExchange) -> Reply:
        """See `HttpEndpoint`."""
        exchange.action = "micropub"
        verb = exchange.scope["method"]
        if verb in {"GET", "HEAD"}:
            return await self._query(exchange)
        if verb != "POST":
            raise MethodNotAllowed(verb, METHODS)
        most = UNCHECKED_PARTS if _has_files(exchange.scope) else UNCHECKED_BODY
        if bearer(exchange.scope) is None or declared_length(exchange.scope) <= most:
            # A small body is read from strangers too, so the token is checked once, after that.
            return await self._take(exchange.scope, await read_body(exchange.scope, exchange.receive, most))
        sender = await self._micropub.sender(exchange.scope)
        micropub, user = self._micropub, sender.source.user
        with micropub.admit(user) if _has_files(exchange.scope) else large_body(micropub.limits, user):
            body = await read_body(exchange.scope, exchange.receive, _most_of(exchange.scope))
            return await self._take(exchange.scope, body)

    async def _take(self, scope: Scope, body: RequestBody) -> Reply:
        """Carry out a body. The token is checked last: it may expire while a slow sender sends."""
        if _JSON_TYPES.fullmatch(body.content_type.partition(";")[0].strip()):
            document = _document(body.content)
            sender = await self._micropub.sender(scope, _text(document, "access_token"))
            await self._micropub.count_request(sender)
            if document.get("action") is not None:
                return await self._act(sender, _text(document, "action") or "", _text(document, "url"), document)
            return await self._create(sender, of_json(document))
        fields, files = await read_form(body, client_of(scope))
        form = collect(fields)
        sender = await self._micropub.sender(scope, form.text("access_token"))
        await self._micropub.count_request(sender)
        if (action := form.text("action")) is not None:
            return await self._act(sender, action, form.text("url"), None)
        return await self._create(sender, of_form(fields) if fields else None, files)

    async def _create(
        self, sender: SourceAccess, item: PostedItem | None, files: Sequence[tuple[str, bytes]] = ()
    ) -> HttpReply:
        sender.require("create", "post")
        posting, source, base = self._micropub.posting, sender.source, self._micropub.base
        item = item or PostedItem("h-entry", {})
        kept = tuple((name, data) for name, data in files if name in FILES)
        if not item.properties and not kept:
            raise InvalidRequest("the post is empty: expected at least one property, such as 'content'")
        self._micropub.count_said(sender, item.encoded())
        token = await posting.token(source, item, [data for _, data in kept])
        for name, data in kept:
            values = [*item.properties.get(name, []), await self._micropub.keep(sender, data)]
            item = PostedItem(item.kind, {**item.properties, name: values})
        return _created(await posting.create(source, item, token, base))

    async def _act(
        self, sender: SourceAccess, action: str, url: str | None, document: Mapping[str, Any] | None
    ) -> HttpReply:
        posting, source, base = self._micropub.posting, sender.source, self._micropub.base
        if action not in {"update", "delete", "undelete"}:
            raise wrong("action", action, "'update', 'delete' or 'undelete'")
        sender.require(*(("undelete", "delete") if action == "undelete" else (action,)))
        if url is None:
            raise missing("url", "the address of a post")
        if action == "delete":
            await posting.delete(source, url)
            return HttpReply(b"", [*CORS], 204)
        if action == "undelete":
            restored = await posting.undelete(source, url, base)
            return HttpReply(b"", [*CORS], 204) if restored == url else _created(restored)
        if document is None:
            raise InvalidRequest("an update must be JSON: found a form")
        self._micropub.count_said(sender, orjson.dumps(document))
        await posting.update(source, url, document, base)
        return HttpReply(b"", [*CORS], 204)

    async def _query(self, exchange: HttpExchange) -> bytes:
        params = collect(urlencoded(exchange.scope["query_string"]))
        own = await self._micropub.token(exchange.scope)
        exchange.user = own.user
        if own.is_app and not own.source and (nothing := _NOTHING.get(params.text("q") or "")):
            await self._micropub.quotas.count(own.user, self._micropub.clock())
            return orjson.dumps(nothing)
        sender = self._micropub.source_of(own)
        await self._micropub.count_request(sender)
        run = self._QUERIES.get(params.need("q", f"one of {', '.join(self._QUERIES)}"))
        if run is None:
            raise wrong("q", params.text("q") or "", f"one of {', '.join(self._QUERIES)}")
        return orjson.dumps(await run(self, sender, params))

    async def _config(self, sender: SourceAccess, params: Params) -> Mapping[str, Any]:
        kinds = [{"type": kind, "name": kind.title()} for kind in _POST_TYPES]
        return {
            "media-endpoint": self._micropub.base + MEDIA,
            "syndicate-to": [],
            **await self._channels(sender, params),
            "post-types": kinds,
            "q": list(self._QUERIES),
        }

    async def _syndicate_to(self, sender: SourceAccess, params: Params) -> Mapping[str, Any]:
        return {"syndicate-to": []}

    async def _channels(self, sender: SourceAccess, params: Params) -> Mapping[str, Any]:
        micropub, source = self._micropub, sender.source
        uid = await micropub.sources.channel_of(source)
        if uid is None:
            return {"channels": []}
        return {"channels": [{"uid": uid, "name": (await micropub.channels.get(source.user, uid)).name}]}

    async def _source(self, sender: SourceAccess, params: Params) -> Mapping[str, Any]:
        """The source properties of one post, or of the latest posts."""
        url, posting = params.text("url"), self._micropub.posting
        if url is None:
            limit = params.text("limit") or str(_LISTED)
            if not (limit.isascii() and limit.isdecimal() and 0 < len(limit) < 7):
                raise wrong("limit", limit, f"a whole number from 1 to {_MOST_LISTED}")
            found = await posting.newest(sender.source, min(int(limit), _MOST_LISTED), self._micropub.base)
            return {"items": [{"url": address, **_whole(item)} for address, item in found]}
        item = await posting.item(sender.source, url)
        names = params.many("properties")
        if names:
            return {"properties": {name: item.properties[name] for name in names if name in item.properties}}
        return _whole(item)

    _QUERIES: Mapping[str, Callable[[MicropubEndpoint, SourceAccess, Params], Awaitable[Mapping[str, Any]]]] = {
        "config": _config,
        "source": _source,
        "syndicate-to": _syndicate_to,
        "channel": _channels,
    }


def _whole(item: PostedItem) -> Mapping[str, Any]:
    return {"type": [item.kind], "properties": item.properties}


def _created(address: str) -> HttpReply:
    """A 201 with the new address, also in the body, where some clients read it."""
    return HttpReply(orjson.dumps({"url": address}), [*JSON, (b"location", address.encode())], 201)


# --- bodies ---------------------------------------------------------------------------------------------------------


def _has_files(scope: Scope) -> bool:
    return any(
        name == b"content-type" and value.strip().lower().startswith(b"multipart/") for name, value in scope["headers"]
    )


def _most_of(scope: Scope) -> int:
    return MOST_UPLOADED if _has_files(scope) else MAX_BODY


def _document(raw: bytes) -> dict[str, Any]:
    """The object in a JSON body."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > 2 * MAX_PAIRS:
        raise InvalidRequest(f"the body has too many parts: expected at most {MAX_PAIRS}")
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}; expected an object") from None
    if not isinstance(found, dict):
        raise InvalidRequest("the body can't be used: expected a JSON object")
    return found


def _text(document: Mapping[str, Any], name: str) -> str | None:
    """The one text of a member, which may be wrapped in a list."""
    found = document.get(name)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if found is None or isinstance(found, str):
        return found
    raise InvalidRequest(f"'{shown(name)}' can't be used: expected one string")


async def read_form(body: RequestBody, client: str) -> FormWithFiles:
    """The fields and files of a form; without a declared type it is urlencoded. Raises InvalidRequest."""
    kind = body.content_type.partition(";")[0].strip().lower()
    if is_multipart(body):
        return await form_with_files(body, client, MOST_FILES)
    if kind not in {"", FORM, "text/plain"}:
        raise InvalidRequest(
            f"the Content-Type of the body can't be used: found '{shown(kind)}', expected JSON or a form"
        )
    return await in_turn(client, urlencoded(body.content.strip())), ()


# --- /media and /posts -----------------------------------------------------------------------------------------------


class MediaEndpoint(HttpEndpoint):
    """Answers every request to `MEDIA_PATHS`: uploads by token, downloads by address."""

    def __init__(self, micropub: MicropubServices) -> None:
        super().__init__()
        self._micropub = micropub

    def logged_path(self, path: str) -> str:
        """Without the token in it."""
        return MEDIA

    async def answer(self, exchange: HttpExchange) -> Reply:
        """See `HttpEndpoint`."""
        exchange.action = "media"
        scope = exchange.scope
        is_endpoint = scope["path"].rstrip("/") in {MEDIA, f"{PATH}/media"}
        verb = scope["method"]
        if verb in {"GET", "HEAD"} and not is_endpoint:
            return await self._serve(exchange)
        if verb != "POST" or not is_endpoint:
            raise MethodNotAllowed(verb, "POST, OPTIONS" if is_endpoint else "GET, HEAD, OPTIONS")
        sender = await self._micropub.sender(scope)
        sender.require("media", "create", "post")
        with self._micropub.admit(sender.source.user):
            fields, files = await read_form(await read_body(scope, exchange.receive, MOST_UPLOADED), client_of(scope))
            form = collect(fields)
            if form.text("access_token") not in {None, bearer(scope)}:
                raise InvalidRequest("found two tokens: expected one, in the header 'Authorization'")
            sender = await self._micropub.sender(scope)
            await self._micropub.count_request(sender)
            if form.text("action") == "delete":
                return await self._delete(sender, form.text("url") or "")
            data = next((data for name, data in files if name == "file"), None)
            if data is None:
                raise missing("file", "a file as the part 'file' of multipart/form-data")
            return _created(await self._micropub.keep(sender, data))

    async def _delete(self, sender: SourceAccess, url: str) -> HttpReply:
        sender.require("delete")
        _, found, name = url.partition(f"{MEDIA}/")
        micropub, source = self._micropub, sender.source
        try:
            await micropub.media.delete(source.user, f"{found}{name}", await micropub.feeds.find(source.address))
        except NotFound:
            raise wrong("url", url, "the address of a file that was uploaded here") from None
        return HttpReply(b"", [*CORS], 204)

    async def _serve(self, exchange: HttpExchange) -> HttpReply:
        with _Guesses(self._micropub, exchange.scope) as reader:
            user, data, kind = await self._micropub.media.get(exchange.scope["path"])
            await self._micropub.require_active(user)
        exchange.user = reader.name(user)
        is_shown = kind.partition("/")[0] in {"image", "audio", "video"}
        headers: list[Header] = [
            (b"content-type", kind.encode()),
            (b"content-disposition", b"inline" if is_shown else b"attachment"),
            (b"content-security-policy", _POLICY.encode()),
            (b"cache-control", b"private, max-age=31536000, immutable"),
            *_SHARED,
        ]
        return HttpReply(data, headers)


class PostEndpoint(HttpEndpoint):
    """Answers every request below `POSTS`: the page of a post; `stylesheet` is the path of the pages' style."""

    def __init__(self, micropub: MicropubServices, stylesheet: str) -> None:
        super().__init__()
        self._micropub = micropub
        self._stylesheet = stylesheet

    def logged_path(self, path: str) -> str:
        """Without the token in it."""
        return POSTS

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        exchange.action = "posts"
        scope, turns = exchange.scope, self._micropub.turns
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed(scope["method"], "GET, HEAD, OPTIONS")
        source, _, _ = scope["path"].partition(".")
        # A long post takes a while to read and write: at most one per source, and in a thread at most one per user.
        with _Guesses(self._micropub, scope) as reader:
            async with turns.of(source):
                user, path, entry = await self._micropub.posting.page(scope["path"])
                await self._micropub.require_active(user)
                exchange.user = reader.name(user)
                async with turns.of(user):
                    address = self._micropub.base + path
                    body = await asyncio.to_thread(write_post, entry, address, self._stylesheet)
        headers: list[Header] = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", PAGE_POLICY.encode()),
            (b"cache-control", b"private, no-cache"),
            *_SHARED,
        ]
        return HttpReply(body, headers)


class _Guesses:
    """Limits requests by network, and more strictly those for unknown addresses."""

    def __init__(self, micropub: MicropubServices, scope: Scope) -> None:
        self._micropub = micropub
        client = client_of(scope)
        self._network, self._public = network_of(client), public_network(client)
        micropub.limits.require(POSTED_OF_NETWORK, self._public)

    def __enter__(self) -> Self:
        if not self._micropub.limits.has_room(POSTED_GUESSES_OF_NETWORK, self._network):
            raise TooManyRequests(f"too many {POSTED_GUESSES_OF_NETWORK.what}: wait a minute", 60)
        return self

    def name(self, user: str) -> str:
        """The owner of the share that large replies with posts of `user` take: slow strangers have their own."""
        return f"network {self._public}" if self._public else user

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is NotFound:
            self._micropub.limits.count(POSTED_GUESSES_OF_NETWORK, self._network)
