"""A small Microsub server in memory, the test double that the suite's own tests check and break in many ways.

It fetches a followed feed at once, and again on `POST /poll?url=…`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from microsub.base.errors import ParseError
from microsub.formats.entry_id import identity
from microsub.formats.parse import parse
from microsub.formats.wire import timestamp, to_wire
from microsub.model import jf2
from microsub_conformance.runner import Target
from tests.conformance.reference_model import BUILT_IN, Feed, Model, Refused, User

ALL = frozenset({"read", "follow", "mute", "block", "channels"})
TOKENS = {"alice.full": ("alice", ALL), "bob.full": ("bob", ALL), "alice.read": ("alice", frozenset({"read"}))}
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, Cache-Control, Last-Event-ID",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
}


class Parameters:
    """The parameters of a request, with lists in any of their forms; empty values count as absent."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if value != "":
                self._values.setdefault(re.sub(r"\[\d*\]$", "", name), []).append(value)

    def get(self, name: str) -> str | None:
        """The value of `name`, or None."""
        return self._values.get(name, [None])[0]

    def need(self, name: str) -> str:
        """The value of `name`. Raises Refused without one."""
        return self.list(name)[0]

    def list(self, name: str) -> list[str]:
        """All values of `name`. Raises Refused without any."""
        if name not in self._values:
            raise Refused(400, "invalid_request", f"'{name}' is missing")
        return self._values[name]


class Server:
    """Answers requests from a model; subclasses override single methods to break it."""

    model_class: type[Model] = Model

    def __init__(self) -> None:
        self.model = self.model_class(["alice", "bob"])
        self.lock = threading.RLock()
        self.events: dict[str, list[tuple[str, dict[str, Any]]]] = {name: [] for name in self.model.users}
        self._before: dict[str, dict[str, tuple[str, dict[str, bool]]]] = {
            name: self._state(user) for name, user in self.model.users.items()
        }
        self.http = httpx.Client(
            timeout=60, trust_env=False, headers={"User-Agent": "double (+http://double.example/)"}
        )

    def app(self) -> Starlette:
        """The server as an ASGI application."""
        methods = ["GET", "POST", "OPTIONS"]
        paths = ("/microsub", "/microsub/", "/microsub/{user}", "/microsub/{user}/")
        routes = [Route(path, self.endpoint, methods=methods) for path in paths]
        return Starlette(routes=[*routes, Route("/poll", self.poll_now, methods=["POST"])])

    async def poll_now(self, request: Request) -> Response:
        """Fetch a feed now."""
        feed = self.model.feeds[request.query_params["url"]]
        await run_in_threadpool(self.poll, feed)
        with self.lock:
            self.note_events()
        return Response()

    async def endpoint(self, request: Request) -> Response:
        """The Microsub endpoint."""
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=CORS)
        try:
            parameters = await read_parameters(request)
            user, scopes = self.authorize(request, parameters)
            if parameters.get("action") == "events":
                place = request.headers.get("last-event-id", "")
                return self.stream(user, int(place) if place.isdigit() else len(self.events[user.name]))
            value = await run_in_threadpool(self.locked, request.method, user, scopes, parameters)
        except Refused as refused:
            headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
            body = {"error": refused.code, "error_description": refused.description, **refused.more}
            return self.reply(refused.status, body, headers)
        return self.reply(200, value, {})

    def reply(self, status: int, value: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
        """A JSON reply."""
        response = Response(json.dumps(value), status, {**CORS, "Cache-Control": "no-store", **headers})
        response.headers["Content-Type"] = "application/json"
        return response

    def authorize(self, request: Request, parameters: Parameters) -> tuple[User, frozenset[str]]:
        """The user of the request, and the scopes of the token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        found = TOKENS.get(token if scheme.lower() == "bearer" else (parameters.get("access_token") or ""))
        if found is None:
            raise Refused(401, "unauthorized", "a valid token is needed")
        if request.path_params.get("user", found[0]) != found[0]:
            raise Refused(403, "forbidden", "the token is another user's")
        return self.model.user(found[0]), found[1]

    def locked(self, method: str, user: User, scopes: frozenset[str], parameters: Parameters) -> dict[str, Any]:
        """One request at a time."""
        with self.lock:
            reply = self.act(method, user, scopes, parameters)
            self.note_events()
            return reply

    # --- events

    def stream(self, user: User, place: int) -> Response:
        """The events after a place; a place is the number of events so far."""

        async def written() -> AsyncIterator[str]:
            at = place
            yield f"event: started\ndata: {{}}\n\nid: {at}\n\n"
            while True:
                for name, data in self.events[user.name][at:]:
                    at += 1
                    yield f"event: {name}\ndata: {json.dumps(data)}\nid: {at}\n\n"
                await asyncio.sleep(0.01)

        headers = {**CORS, "Cache-Control": "no-store"}
        return StreamingResponse(written(), media_type="text/event-stream", headers=headers)

    def note_events(self) -> None:
        """Record the changes since the last call."""
        for user in self.model.users.values():
            before = self._before[user.name]
            now = self._before[user.name] = self._state(user)
            for uid, (name, posts) in now.items():
                former, known = before.get(uid, (None, {}))
                channel = {"uid": uid, "name": name, "unread": self.model.unread(user, user.channels[uid])}
                if former != name:
                    kind = "new channel" if former is None else "update channel"
                    self.note_event(user, kind, {"channel": channel})
                for post in (one for one in posts if one not in known and not posts[one]):
                    item = self.model.item(self.model.posts[post], user.channels[uid], False)
                    self.note_event(user, "new item", {"channel": uid, "item": item})
                if posts != known:
                    self.note_event(user, "new item in channel", channel)
            for uid in before.keys() - now.keys():
                self.note_event(user, "delete channel", {"uid": uid})

    def note_event(self, user: User, name: str, data: dict[str, Any]) -> None:
        """Record one event of a user."""
        self.events[user.name].append((name, data))

    def _state(self, user: User) -> dict[str, tuple[str, dict[str, bool]]]:
        shown = {uid: self.model.shown(user, channel) for uid, channel in user.channels.items()}
        return {
            uid: (user.channels[uid].name, {post.id: user.channels[uid].read[post.id] for post in posts})
            for uid, posts in shown.items()
        }

    def act(self, verb: str, user: User, scopes: frozenset[str], p: Parameters) -> dict[str, Any]:
        """Perform the requested action."""
        action = p.need("action")
        needed = {"unfollow": "follow", "unmute": "mute", "unblock": "block"}.get(action, action)
        if needed in {"follow", "mute", "block", "channels"} and verb == "POST" and needed not in scopes:
            raise Refused(403, "insufficient_scope", f"this needs the scope '{needed}'", scope=needed)
        actions: dict[str, Callable[[], dict[str, Any]]] = {
            "channels": lambda: self.list_channels(user, p) if verb == "GET" else self.change_channels(user, p),
            "timeline": lambda: self.timeline(user, p) if verb == "GET" else self.change_timeline(user, p),
            "follow": lambda: self.list_feeds(user, p) if verb == "GET" else self.follow(user, p),
            "unfollow": lambda: self.unfollow(user, p),
            "search": lambda: self.search(p),
            "preview": lambda: self.preview(p),
            **{name: lambda: self.rules(verb, user, p) for name in ("mute", "unmute", "block", "unblock")},
        }
        if action not in actions:
            raise Refused(400, "not_implemented", f"there is no action '{action}'")
        return actions[action]()

    # --- channels

    def list_channels(self, user: User, p: Parameters) -> dict[str, Any]:
        """The channels, with their sources if `method` is `tree`."""
        shown = []
        for channel in user.channels.values():
            entry = {"uid": channel.uid, "name": channel.name, "unread": self.model.unread(user, channel)}
            if p.get("method") == "tree":
                entry["sources"] = [
                    {
                        "uid": feed.id,
                        "url": feed.url,
                        "name": feed.name,
                        "unread": self.model.unread(user, channel, url),
                    }
                    for url in channel.feeds
                    for feed in [self.model.feeds[url]]
                ]
            shown.append(entry)
        return {"channels": shown}

    def change_channels(self, user: User, p: Parameters) -> dict[str, Any]:
        """Create, rename, delete or order channels."""
        method = p.get("method")
        if method == "order":
            self.model.order(user, p.list("channels"))
            return self.list_channels(user, Parameters([]))
        if method == "delete":
            channel = self.model.channel(user, p.need("channel"))
            if channel.uid in BUILT_IN:
                raise Refused(400, "invalid_request", f"'{channel.uid}' can't be deleted")
            del user.channels[channel.uid]
            return {}
        if method:
            raise Refused(400, "not_implemented", f"there is no method '{method}'")
        name = p.need("name")
        if p.get("channel"):
            channel = self.model.channel(user, p.need("channel"))
            channel.name = name
        else:
            channel = self.model.create(user, name)
        return {"uid": channel.uid, "name": channel.name}

    # --- timeline

    def timeline(self, user: User, p: Parameters) -> dict[str, Any]:
        """A page of a timeline."""
        limit = p.get("limit") or "20"
        if not limit.isdigit():
            raise Refused(400, "invalid_request", "'limit' is no number")
        is_read = {"true": True, "false": False, None: None}[p.get("is_read")]
        source = p.get("source")
        if p.get("method") == "ids":
            order = p.get("order") or "newest"
            if order not in {"newest", "oldest"}:
                raise Refused(400, "invalid_request", "'order' is neither 'newest' nor 'oldest'")
            uid = p.get("channel") or "global"
            return self.model.ids(user, uid, int(limit), order == "oldest", p.get("after"), is_read)
        channel = p.need("channel")
        page = self.model.page(user, channel, min(int(limit), 100), p.get("before"), p.get("after"), is_read, source)
        for feed in self.model.feeds.values():
            if feed.id == source:
                page["source"] = {"_id": feed.id, "url": feed.url, "name": feed.name}
        return page

    def change_timeline(self, user: User, p: Parameters) -> dict[str, Any]:
        """Mark, remove or move items."""
        method, model = p.get("method"), self.model
        if method == "save":
            return {"result": "ok", "updated": model.save(user, p.list("entry"))}
        if method == "unsave":
            return {"result": "ok", "updated": model.remove(user, "saved", p.list("entry"))}
        channel = p.need("channel")
        model.scope(user, channel)
        if method == "mark_read" and p.get("last_read_entry"):
            changed = model.mark_before(user, channel, p.need("last_read_entry"))
        elif method in {"mark_read", "mark_unread"}:
            changed = model.mark(user, channel, p.list("entry"), method == "mark_read")
        elif method == "remove":
            changed = model.remove(user, channel, p.list("entry"))
        elif method == "move":
            changed = model.move(user, channel, p.list("entry"))
        else:
            raise Refused(400, "not_implemented", f"there is no method '{method}'")
        return {"result": "ok", "updated": changed}

    # --- feeds

    def described(self, feed: Feed) -> dict[str, Any]:
        """A feed as the API lists it."""
        return {"type": "feed", "url": feed.url, "_id": feed.id} | ({"name": feed.name} if feed.name else {})

    def list_feeds(self, user: User, p: Parameters) -> dict[str, Any]:
        """The follows of a channel."""
        channel = self.model.channel(user, p.need("channel"))
        return {"items": [self.described(self.model.feeds[url]) for url in channel.feeds]}

    def follow(self, user: User, p: Parameters) -> dict[str, Any]:
        """Follow a feed, or move a subscription."""
        channel = self.model.channel(user, p.need("channel"))
        if channel.uid == "saved":
            raise Refused(400, "invalid_request", "'saved' follows nothing")
        url = web_address(p.need("url"))
        if p.get("method") == "update":
            for other in user.channels.values():
                if other is not channel:
                    self.model.unfollow(other, url)
        if url not in self.model.feeds:
            self.model.feeds[url] = Feed(f"f{len(self.model.feeds) + 1}", url)
            self.poll(self.model.feeds[url])
        self.model.follow(user, channel, url)
        return self.described(self.model.feeds[url])

    def unfollow(self, user: User, p: Parameters) -> dict[str, Any]:
        """Stop following a feed."""
        channel = self.model.channel(user, p.need("channel"))
        self.model.unfollow(channel, p.need("url"))
        return {"type": "feed", "url": p.need("url")}

    def fetch(self, url: str, etag: str | None = None) -> tuple[str | None, jf2.Feed | None, bytes]:
        """ETag, parsed feed or None, and body."""
        return fetched(self.http, url, etag)

    def poll(self, feed: Feed) -> None:
        """Fetch a feed and store new and changed posts."""
        feed.etag, parsed, _ = self.fetch(feed.url, feed.etag)
        with self.lock:
            for entry in parsed.entries if parsed else ():
                seconds, wire = dated(entry)
                self.model.store(feed, identity(entry), seconds, wire)
            feed.name = (parsed.name if parsed else None) or feed.name

    def search(self, p: Parameters) -> dict[str, Any]:
        """The feeds at a URL."""
        query = p.need("query")
        if p.get("channel"):
            raise Refused(400, "not_implemented", "there is no search in items")
        if not query.startswith("http"):
            return {"results": []}
        _, parsed, body = self.fetch(query)
        if parsed and parsed.entries:
            return {"results": [{"type": "feed", "url": query} | ({"name": parsed.name} if parsed.name else {})]}
        links = re.findall(
            r'<link rel="alternate"[^>]* title="([^"]*)" href="([^"]*)"', body.decode("utf-8", "replace")
        )
        return {"results": [{"type": "feed", "url": url, "name": name} for name, url in links]}

    def preview(self, p: Parameters) -> dict[str, Any]:
        """The posts of a feed, which are not stored."""
        _, parsed, _ = self.fetch(web_address(p.need("url")))
        return {"items": [dated(entry)[1] for entry in (parsed.entries if parsed else ())], "paging": {}}

    # --- rules

    def rules(self, verb: str, user: User, p: Parameters) -> dict[str, Any]:
        """List, mute, unmute, block or unblock."""
        action, uid = p.need("action"), p.need("channel")
        if uid != "global":
            self.model.channel(user, uid)
        if verb == "GET":
            rules = user.rules if uid == "global" else user.channels[uid].rules
            return {"items": [{"type": "card", "url": url} for url in rules[action]]}
        self.model.rule(user, uid, action, p.need("url"))
        return {"type": "card", "url": p.need("url")}


def fetched(http: httpx.Client, url: str, etag: str | None = None) -> tuple[str | None, jf2.Feed | None, bytes]:
    """ETag, parsed feed or None, and body."""
    try:
        response = http.get(url, headers={"If-None-Match": etag} if etag else {}, follow_redirects=True)
        if response.status_code != 200:
            return etag, None, b""
        feed = parse(response.content, url, response.headers.get("content-type"))
    except httpx.HTTPError:
        return etag, None, b""
    except ParseError:
        return etag, None, response.content
    return response.headers.get("etag"), feed, response.content


def web_address(url: str) -> str:
    """`url`, which must be http or https."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refused(400, "invalid_request", f"'url' is no http address: {url}")
    return url


def dated(entry: jf2.Entry) -> tuple[float, dict[str, Any]]:
    """Unix time and API form of an entry's date, which is never in the future."""
    published = min(entry.published or datetime.now(UTC), datetime.now(UTC))
    return published.timestamp(), to_wire(entry) | {"published": timestamp(published)}


async def read_parameters(request: Request) -> Parameters:
    """The parameters of query and body."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    if request.method == "POST":
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        body = await request.body()
        if len(body) > 1 << 20:
            raise Refused(413, "invalid_request", "the body is too long")
        if kind == "application/json":
            pairs += json_pairs(body)
        elif kind == "multipart/form-data":
            async with request.form() as form:
                pairs += [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        else:
            pairs += parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    return Parameters(pairs)


def json_pairs(body: bytes) -> list[tuple[str, str]]:
    """The parameters in a JSON body."""
    try:
        value = json.loads(body)
    except ValueError:
        raise Refused(400, "invalid_request", "the body is no JSON") from None
    if not isinstance(value, dict):
        raise Refused(400, "invalid_request", "the body is no JSON object")
    return [
        (name, str(part)) for name, parts in value.items() for part in (parts if isinstance(parts, list) else [parts])
    ]


class Served(Protocol):
    """A server in memory, and its connections to publishers."""

    http: httpx.Client

    def app(self) -> Starlette:
        """The server as an ASGI application."""


@contextmanager
def serving(server: Served) -> Iterator[Target]:
    """Serve on a free loopback port in a thread; yields the target for the suite."""
    config = uvicorn.Config(server.app(), host="127.0.0.1", port=0, log_level="error", lifespan="off")
    runner = uvicorn.Server(config)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not runner.started:
        assert time.monotonic() < deadline, "the reference server didn't start"
        thread.join(0.01)
    origin = f"http://127.0.0.1:{runner.servers[0].sockets[0].getsockname()[1]}"
    poll = f"import sys, urllib.request as u; u.urlopen(u.Request('{origin}/poll?url=' + sys.argv[1], method='POST'))"
    try:
        yield Target(
            endpoint=f"{origin}/microsub",
            token="alice.full",
            second_token="bob.full",
            read_token="alice.read",
            user_endpoint=f"{origin}/microsub/alice",
            poll_command=(sys.executable, "-c", poll, "{url}"),
            patience=5,
        )
    finally:
        runner.should_exit = runner.force_exit = True
        thread.join(60)
        server.http.close()
