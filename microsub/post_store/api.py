"""The post store over HTTP, read-only: feeds, their posts, and their events.

The tokens are those of `accounts.store`, accepted only in the header (RFC 6750). A user's token isn't valid
here, and these tokens aren't valid at the Microsub endpoint. Replies and errors are those of the Microsub endpoint, and
have an ETag (RFC 9110, section 13.1.2), so that repeated requests for unchanged data get a 304.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars, unbind_contextvars

from microsub.accounts import ServiceTokens
from microsub.base.digests import short_digest
from microsub.base.errors import MethodNotAllowed, NotFound, Unauthorized
from microsub.base.plaintext import shown
from microsub.base.urls import mask_credentials, redacted
from microsub.feeds import Event, FeedRecord, is_event_id
from microsub.model.reader import Cursor
from microsub.post_store.posts import NEWEST, Post, Posts, is_id
from microsub.post_store.saved import dumps
from microsub.web.actions import limit_in, url_in
from microsub.web.headers import bearer, knows
from microsub.web.params import Params, collect, empty_names, missing, urlencoded, wrong
from microsub.web.responses import Header, HttpEndpoint, HttpExchange, HttpReply

PATH = "/store"
METHODS = "GET, HEAD, OPTIONS"

Reply = Mapping[str, Any]
Resource = Callable[[Posts, str, Params], Awaitable[Reply]]
"""A function from the store, the id in the path (or an empty string) and the parameters to a JSON object."""

_CORS: list[Header] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", b"Authorization, Accept, Cache-Control, If-None-Match"),
    (b"access-control-expose-headers", b"ETag, WWW-Authenticate, Retry-After, X-Request-Id"),
]
_PREFLIGHT: list[Header] = [*_CORS, (b"access-control-max-age", b"86400"), (b"allow", METHODS.encode())]
_CHALLENGE = "the token is missing: found none, expected it in the header 'Authorization: Bearer …'"


class PostStoreEndpoint(HttpEndpoint):
    """Answers every request below `PATH`."""

    preflight = _PREFLIGHT

    def __init__(self, posts: Posts, tokens: ServiceTokens, clock: Callable[[], float]) -> None:
        super().__init__()
        self._posts = posts
        self._tokens = tokens
        self._clock = clock

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        exchange.action = "store"
        return _reply(exchange.scope, dumps(await self._answer(exchange)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; the log names the program, even if the request is refused."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            unbind_contextvars("program")

    async def _answer(self, exchange: HttpExchange) -> Reply:
        scope = exchange.scope
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed(scope["method"], METHODS)
        token = bearer(scope)
        if token is None:
            raise Unauthorized(_CHALLENGE)
        program = await self._tokens.verify(token, self._clock())
        bind_contextvars(program=program)
        exchange.user = f"program {program}"
        resource, subject = _resource(scope["path"])
        params = collect(urlencoded(scope["query_string"]))
        _refuse_empty(resource, scope["query_string"])
        return await resource(self._posts, subject, params)


# --- resources -----------------------------------------------------------------------------------------------------


async def _feeds(posts: Posts, _: str, params: Params) -> Reply:
    if params.text("url") is not None:
        found = await posts.feed(url_in(params))
        return _list([] if found is None else [_feed_object(found)], None)
    after = params.text("after")
    if after is not None and not is_id(after):
        raise wrong("after", after, "a value taken from 'paging'")
    page = await posts.feeds(limit_in(params), int(after or 0))
    return _list([_feed_object(feed) for feed in page.feeds], None if page.after is None else str(page.after))


async def _feed(posts: Posts, feed_id: str, _: Params) -> Reply:
    return _feed_object(await _known_feed(posts, feed_id))


async def _posts(posts: Posts, feed_id: str, params: Params) -> Reply:
    feed = await _known_feed(posts, feed_id)
    guid = params.text("guid")
    if guid is not None:
        found = await posts.get_by_guid(feed.id, guid)
        return _list([] if found is None else [_post_object(found)], None)
    after = params.text("after")
    cursor = None if after is None else Cursor.decode(after, "after")
    page = await posts.newest(feed.id, limit_in(params), cursor)
    return _list([_post_object(post) for post in page.posts], page.after.encode() if page.after else None)


async def _post(posts: Posts, post_id: str, _: Params) -> Reply:
    found = await posts.get(post_id)
    if found is None:
        raise NotFound(f"there is no post '{shown(post_id)}'")
    return _post_object(found)


async def _events(posts: Posts, _: str, params: Params) -> Reply:
    after = params.text("after") or "0"
    if after != NEWEST and not is_event_id(after):
        raise wrong("after", after, f"a value taken from 'paging', '0', or '{NEWEST}'")
    page = await posts.events(after, limit_in(params))
    reply = _list([_event_object(event) for event in page.events], page.after)
    return {**reply, "missed": True} if page.missed else reply


_RESOURCES: Mapping[tuple[str, ...], Resource] = {
    ("feeds",): _feeds,
    ("feeds", ""): _feed,
    ("feeds", "", "posts"): _posts,
    ("posts", ""): _post,
    ("events",): _events,
}
"""Resources by the parts of the path, without the id."""


_ONE_BY: Mapping[Resource, tuple[str, str]] = {_feeds: ("url", "the URL of a feed"), _posts: ("guid", "a post's guid")}
"""The parameter that requests a single object instead of a list, and its description."""


def _refuse_empty(resource: Resource, query: bytes) -> None:
    """Refuse an empty parameter: a request for one resource must not get the whole list."""
    name, what = _ONE_BY.get(resource, ("", ""))
    if name and name in empty_names(query):
        raise missing(name, f"{what}, or no '{name}' at all for a list")


def _resource(path: str) -> tuple[Resource, str]:
    parts = path.removeprefix(PATH).strip("/").split("/")
    subject = parts[1] if len(parts) > 1 else ""
    found = _RESOURCES.get((parts[0], *("" for _ in parts[1:2]), *parts[2:]))
    if found is None or (len(parts) > 1 and not subject):
        raise NotFound(f"there is nothing at '{shown(path)}'")
    return found, subject


async def _known_feed(posts: Posts, feed_id: str) -> FeedRecord:
    found = await posts.feed(feed_id) if is_id(feed_id) else None
    if found is None:
        raise NotFound(f"there is no feed '{shown(feed_id)}'")
    return found


# --- JSON ----------------------------------------------------------------------------------------------------------


def _list(items: list[dict[str, Any]], after: str | None) -> dict[str, Any]:
    return {"items": items, "paging": {"after": after} if after else {}}


def _feed_object(feed: FeedRecord) -> dict[str, Any]:
    """The feed as JSON, without its followers; secrets in its address are masked."""
    said = {
        "name": feed.title,
        "photo": feed.photo and mask_credentials(feed.photo),
        "home": feed.home and mask_credentials(feed.home),
        "description": feed.description,
        "format": feed.format,
    }
    found = {name: value for name, value in said.items() if value}
    return {"type": "feed", "_id": feed.id, "url": redacted(feed.url), **found}


def _post_object(post: Post) -> dict[str, Any]:
    """The post's jf2, as users get it, and members that only programs need."""
    times = {"_discovered": post.discovered.isoformat(), "_updated": post.updated.isoformat()}
    found = {**post.item, "_id": post.id, "_source": post.feed, "_guid": post.guid}
    found |= {"_timestamp": post.timestamp.isoformat(), **times}
    return found | ({"_fields": post.fields} if post.fields else {})


def _event_object(event: Event) -> dict[str, Any]:
    named = {"post": event.post, "guid": event.guid, "changed": event.changed}
    return {
        "id": event.id,
        "kind": event.kind,
        "at": event.at,
        "feed": event.feed,
        **{name: value for name, value in named.items() if value},
    }


# --- replies -------------------------------------------------------------------------------------------------------


def _reply(scope: Scope, body: bytes) -> HttpReply:
    """The reply with the resource, or 304 if the client has it already."""
    tag = f'"{short_digest(body, 12)}"'
    # Only the client may cache it, and it revalidates before each use.
    headers: list[Header] = [
        (b"etag", tag.encode()),
        (b"cache-control", b"private, no-cache"),
        (b"vary", b"Authorization"),
        *_CORS,
    ]
    if knows(scope, tag):
        return HttpReply(b"", headers, 304)
    return HttpReply(body, [*headers, (b"content-type", b"application/json")])
