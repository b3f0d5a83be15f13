"""A small server of the Google Reader API in memory, which the suite's own tests check and break in many ways.

It fetches a followed feed at once, and again on `POST /poll?url=…`. One user; not optimised.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from microsub.formats.entry_id import identity
from microsub.model import jf2
from tests.conformance.reference_server import dated, fetched

USER, PASSWORD, AUTH, TOKEN = "alice", "secret-password", "alice/0123456789abcdef", "t" * 57
STATE, LABEL, LONG = "user/-/state/com.google/", "user/-/label/", "tag:google.com,2005:reader/item/"
ALL, READ, STARRED = f"{STATE}reading-list", f"{STATE}read", f"{STATE}starred"
FIRST = 10**15
SECOND = 10**6


@dataclass(eq=False)
class Entry:
    """A post. Times are in microseconds."""

    number: int
    feed: Feed
    wire: dict[str, Any]
    arrived: int
    edited: int = 0
    is_read: bool = False
    is_starred: bool = False
    labels: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Feed:
    """A feed; `folder` is empty unless it is followed."""

    id: str
    url: str
    title: str
    home: str
    folder: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)


class Refused(Exception):
    """A request that gets an error: its status."""


class Parameters:
    """The parameters of query and body, which may repeat."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = list(dict.fromkeys(pairs))

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def one(self, name: str) -> str:
        return next(iter(self.all(name)), "")


class NativeServer:
    """Answers requests; subclasses override single methods to break it."""

    first = FIRST
    is_bare = False
    """Whether the present request has no header."""

    def __init__(self) -> None:
        self.feeds: dict[str, Feed] = {}
        self.by_number: dict[int, Entry] = {}
        self.folders: list[str] = ["Mine"]
        self.http = httpx.Client(timeout=60, trust_env=False)

    def app(self) -> Starlette:
        """The server as an ASGI application."""
        routes = [Route("/poll", self.poll_now, methods=["POST"])]
        return Starlette(routes=[*routes, Route("/{place:path}", self.endpoint, methods=["GET", "POST"])])

    async def poll_now(self, request: Request) -> Response:
        """Fetch a feed now."""
        await run_in_threadpool(self.poll, self.feeds[request.query_params["url"]])
        return Response()

    async def endpoint(self, request: Request) -> Response:
        """A request by HTTP."""
        body, headers = await request.body(), dict(request.headers)
        return await run_in_threadpool(self.respond, request.scope["path"], request.url.query, headers, body)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """A request without HTTP in between, for `httpx.MockTransport`."""
        query = request.url.query.decode()
        reply = self.respond(request.url.path, query, dict(request.headers), request.content)
        return httpx.Response(reply.status_code, headers=dict(reply.headers), content=bytes(reply.body))

    def respond(self, path: str, query: str, headers: dict[str, str], body: bytes) -> Response:
        """The reply to any request."""
        kind = headers.get("content-type", "").partition(";")[0]
        pairs = [*parse_qsl(query, keep_blank_values=True), *self.body_pairs(kind, body)]
        try:
            return self.answer(path, kind, headers, Parameters(pairs), body)
        except Refused as refused:
            return Response(str(refused), int(str(refused)))

    def body_pairs(self, kind: str, body: bytes) -> list[tuple[str, str]]:
        text = body.decode("utf-8", "replace")
        if kind == "multipart/form-data":
            return re.findall(r'name="(.*?)"\r\n\r\n(.*?)\r\n', text)
        return parse_qsl(text, keep_blank_values=True) if kind != "text/xml" else []

    def answer(self, path: str, kind: str, headers: dict[str, str], p: Parameters, body: bytes) -> Response:
        place = self.place(path)
        if place == "accounts/ClientLogin":
            return self.login(kind, p)
        name = place.removeprefix("reader/api/0/").removeprefix("reader/")
        self.is_bare = not headers.get("authorization")
        if headers.get("authorization") != f"GoogleLogin auth={AUTH}" and not self.is_known(name, headers, p):
            return self.unauthorized()
        if name.startswith(("stream/contents/", "atom/")):
            name, _, stream = name.removeprefix("stream/").partition("/")
            p = Parameters([("s", self.stream_in_path(stream)), *p.pairs])
        method = getattr(self, "on_" + re.sub(r"\W", "_", name).removeprefix("stream_"), None)
        if method is None:
            raise Refused(404)
        reply = method(p, body) if name == "subscription/import" else method(p)
        if name in ("tag/list", "subscription/list"):
            return self.validated(name, reply, headers)
        return reply

    # --- addresses and sign-in

    def place(self, path: str) -> str:
        return re.sub(r"^/*(?:(?:api/+)?greader\.php/*)*", "", path)

    def stream_in_path(self, stream: str) -> str:
        return stream

    def login(self, kind: str, p: Parameters) -> Response:
        if (p.one("Email"), p.one("Passwd")) != (USER, PASSWORD):
            return self.wrong_password()
        values = {"SID": AUTH, "LSID": AUTH, "Auth": AUTH}
        if p.one("output") == "json":
            return self.json_login(values)
        return Response("".join(f"{name}={value}\n" for name, value in values.items()))

    def json_login(self, values: dict[str, str]) -> Response:
        return self.json(values)

    def wrong_password(self) -> Response:
        return Response("Error=BadAuthentication\n", 401)

    def unauthorized(self) -> Response:
        return Response("Unauthorized\n", 401, {"X-Reader-Google-Bad-Token": "true"})

    def is_known(self, name: str, headers: dict[str, str], p: Parameters) -> bool:
        return name == "stream/items/contents" and not headers.get("authorization") and p.one("T") == AUTH

    def check(self, p: Parameters) -> None:
        """Raise Refused for a token that isn't accepted."""

    def check_contents(self, p: Parameters) -> None:
        """The same for requests for contents."""

    def on_token(self, p: Parameters) -> Response:
        return Response(self.token())

    def token(self) -> str:
        return TOKEN + "\n"

    def on_user_info(self, p: Parameters) -> Response:
        return self.json(self.user_info())

    def user_info(self) -> dict[str, Any]:
        return dict.fromkeys(("userId", "userName", "userProfileId", "userEmail"), USER)

    # --- lists

    def json(self, value: Any) -> Response:
        return Response(json.dumps(value), media_type="application/json")

    def validated(self, name: str, reply: Response, headers: dict[str, str]) -> Response:
        tag = f'"{hashlib.sha256(bytes(reply.body)).hexdigest()}"'
        if headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        reply.headers["ETag"] = tag
        return reply

    def followed(self) -> list[Feed]:
        return [feed for feed in self.feeds.values() if feed.folder]

    def on_tag_list(self, p: Parameters) -> Response:
        return self.json({"tags": self.tags()})

    def tags(self) -> list[dict[str, Any]]:
        return [{"id": STARRED}, *({"id": LABEL + name, "type": "folder"} for name in self.folders)]

    def on_subscription_list(self, p: Parameters) -> Response:
        return self.json({"subscriptions": [self.subscription(feed) for feed in self.listed_feeds()]})

    def listed_feeds(self) -> list[Feed]:
        kept = [entry.feed for entry in self.by_number.values() if entry.is_starred and not entry.feed.folder]
        return [*self.followed(), *dict.fromkeys(kept)]

    def subscription(self, feed: Feed) -> dict[str, Any]:
        names = {"id": feed.id, "title": feed.title, "url": feed.url, "htmlUrl": feed.home, "iconUrl": ""}
        labels = [feed.folder] if feed.folder else []
        return {**names, "categories": [{"id": LABEL + name, "label": name} for name in labels]}

    def on_unread_count(self, p: Parameters) -> Response:
        counts = [self.unread(feed) for feed in self.followed()]
        return self.json({"unreadcounts": counts})

    def unread(self, feed: Feed) -> dict[str, Any]:
        return {"id": feed.id, "count": sum(not entry.is_read for entry in feed.entries.values())}

    # --- streams

    def stream(self, name: str) -> list[Entry]:
        entries = list(self.by_number.values())
        shown = [entry for entry in entries if entry.feed.folder]
        name = re.sub("^user/[^/]+/", "user/-/", name)
        states = {"starred": [entry for entry in entries if entry.is_starred],
                  "read": [entry for entry in shown if entry.is_read], "reading-list": shown}  # fmt: skip
        if name.startswith(STATE):
            return states.get(name.removeprefix(STATE), [])
        if name.startswith(LABEL):
            return [entry for entry in shown if name.removeprefix(LABEL) in {entry.feed.folder, *entry.labels}]
        return [entry for entry in shown if name in (entry.feed.id, f"feed/{entry.feed.url}")]

    def has(self, entry: Entry, tag: str) -> bool:
        return {READ: entry.is_read, f"{STATE}unread": not entry.is_read, STARRED: entry.is_starred}.get(tag, False)

    def selected(self, p: Parameters) -> list[Entry]:
        """The items of the stream that the parameters select, in their order."""
        found = self.stream(p.one("s") or ALL)
        found = [entry for entry in found if not any(self.has(entry, tag) for tag in self.without(p))]
        found = [entry for entry in found if all(self.has(entry, tag) for tag in self.within(p))]
        found = [entry for entry in found if self.is_since(entry, int(p.one("ot") or 0) * SECOND)]
        return sorted(found, key=lambda entry: (entry.arrived, entry.number), reverse=self.is_newest_first(p))

    def without(self, p: Parameters) -> list[str]:
        return p.all("xt")

    def within(self, p: Parameters) -> list[str]:
        return p.all("it")

    def is_newest_first(self, p: Parameters) -> bool:
        return p.one("r") != "o"

    def is_since(self, entry: Entry, since: int) -> bool:
        return max(entry.arrived, entry.edited) >= since

    def page(self, p: Parameters, most: int) -> tuple[list[Entry], dict[str, Any]]:
        found = self.selected(p)
        at, size = self.begin(p), min(int(p.one("n") or 20), most)
        more = self.continuation(at + size, len(found))
        return found[at : at + size], {} if more is None else {"continuation": more}

    def begin(self, p: Parameters) -> int:
        return int(p.one("c") or 0)

    def continuation(self, end: int, size: int) -> Any:
        return str(end) if end < size else None

    def most_ids(self) -> int:
        return 200_000

    def most_contents(self) -> int:
        return 10_000

    def on_items_ids(self, p: Parameters) -> Response:
        found, more = self.page(p, self.most_ids())
        return self.json({"itemRefs": [self.ref(entry) for entry in found], **more})

    def ref(self, entry: Entry) -> dict[str, Any]:
        return {"id": str(self.first + entry.number)}

    def on_contents(self, p: Parameters) -> Response:
        found, more = self.page(p, self.most_contents())
        return self.json({**self.envelope(), "items": [self.item(entry) for entry in found], **more})

    def on_items_contents(self, p: Parameters) -> Response:
        self.check_contents(p)
        return self.json({**self.envelope(), "items": [self.item(entry) for entry in self.wanted(p)]})

    def wanted(self, p: Parameters) -> list[Entry]:
        return self.named(p)

    def envelope(self) -> dict[str, Any]:
        return {"id": ALL, "updated": int(time.time())}

    def find(self, text: str) -> Entry | None:
        short = text.removeprefix(LONG)
        value = int(short, 10 if short.isdecimal() and short is text else 16)
        return self.by_number.get(value - self.first)

    def named(self, p: Parameters) -> list[Entry]:
        return [entry for entry in map(self.find, p.all("i")) if entry is not None]

    def long(self, entry: Entry) -> str:
        return f"{LONG}{self.first + entry.number:016x}"

    def item(self, entry: Entry) -> dict[str, Any]:
        wire, feed = entry.wire, entry.feed
        states = [ALL, *([READ] if entry.is_read else []), *([STARRED] if entry.is_starred else [])]
        labels = [feed.folder, *entry.labels]
        content = wire.get("content", {}).get("html") or ""
        link = [{"href": wire["url"], "type": "text/html"}]
        item = {
            "id": self.long(entry),
            "title": wire.get("name") or re.sub("<.*?>", "", content)[:30],
            "published": int(wire["seconds"]),
            "updated": int(wire["seconds"]),
            "crawlTimeMsec": str(entry.arrived // 1000),
            "timestampUsec": str(entry.arrived),
            "canonical": link,
            "alternate": link,
            "summary": {"content": content},
            "origin": {"streamId": feed.id, "title": feed.title, "htmlUrl": feed.home},
            "categories": [*states, *(LABEL + name for name in labels)],
        }
        if name := wire.get("author", {}).get("name"):
            item["author"] = name
        if files := wire.get("enclosure"):
            item["enclosure"] = [{"href": one["url"], "type": one["type"]} for one in files]
        return item

    def on_atom(self, p: Parameters) -> Response:
        found, _ = self.page(p, 1000)
        entries = "".join(f"<entry><id>{self.long(one)}</id>{self.atom_state(one)}</entry>" for one in found)
        return Response(f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>')

    def atom_state(self, entry: Entry) -> str:
        return f'<category term="{READ}" label="read"/>' if entry.is_read else ""

    # --- marks

    def ok(self) -> Response:
        return Response("OK")

    def edit_ok(self) -> Response:
        return Response("OK")

    def on_edit_tag(self, p: Parameters) -> Response:
        self.check(p)
        named = self.named(p)
        for tag, value in ((tag, name == "a") for name in "ra" for tag in p.all(name)):
            if tag.startswith(LABEL) and value:
                self.create(tag.removeprefix(LABEL))
            for entry in named:
                self.tag(entry, tag, value)
        return self.ok()

    def tag(self, entry: Entry, tag: str, value: bool) -> None:
        if tag == READ:
            entry.is_read = value
        elif tag == STARRED:
            entry.is_starred = value
        elif tag.startswith(LABEL):
            (entry.labels.add if value else entry.labels.discard)(tag.removeprefix(LABEL))

    def on_mark_all_as_read(self, p: Parameters) -> Response:
        self.check(p)
        before = self.microseconds(p.one("ts"))
        for entry in self.stream(p.one("s")):
            if before is None or entry.arrived <= before:
                entry.is_read = True
        return self.ok()

    def microseconds(self, text: str) -> int | None:
        value = int(text or 0)
        for size, (times, by) in {10: (10**6, 1), 13: (10**3, 1), 16: (1, 1), 19: (1, 1000)}.items():
            if len(text) <= size:
                return value * times // by if text else None
        return value

    # --- feeds and folders

    def poll(self, feed: Feed, parsed: jf2.Feed | None = None) -> None:
        """Store new and changed posts of a feed, which is fetched unless it is given."""
        parsed = parsed or fetched(self.http, feed.url)[1]
        for entry in parsed.entries if parsed else ():
            seconds, wire = dated(entry)
            now, known = time.time_ns() // 1000, feed.entries.get(identity(entry))
            wire |= {"seconds": seconds, "name": entry.name or ""}
            if known is None:
                known = Entry(len(self.by_number) + 1, feed, wire, self.arrival(now, seconds))
                feed.entries[identity(entry)] = self.by_number[known.number] = known
            elif known.wire["content"] != wire["content"]:
                known.wire, known.edited = wire, now

    def arrival(self, now: int, published: float) -> int:
        return now

    def create(self, folder: str) -> None:
        if folder and folder not in self.folders:
            self.folders.append(folder)

    def feed_of(self, text: str) -> Feed | None:
        found = (one for one in self.followed() if text in (one.id, f"feed/{one.url}"))
        return next(found, None)

    def follow(self, url: str, folder: str) -> Feed | None:
        feed, parsed = self.feeds.get(url), None
        if feed is None:
            _, parsed, _ = fetched(self.http, url)
            if parsed is None:
                return None
            feed = Feed(f"feed/{len(self.feeds) + 1}", url, parsed.name or url, parsed.url or url)
            self.feeds[url] = feed
        self.create(folder)
        feed.folder = folder or feed.folder or self.folders[0]
        self.poll(feed, parsed)
        return feed

    def on_subscription_quickadd(self, p: Parameters) -> Response:
        url = p.one("quickadd")
        known = self.feed_of(f"feed/{url}")
        feed = known or self.follow(url, "")
        if feed is None:
            return self.not_found(url)
        count = self.results(known)
        return self.json({"numResults": count, "query": url, "streamId": feed.id, "streamName": feed.title})

    def results(self, known: Feed | None) -> int:
        return 1

    def not_found(self, url: str) -> Response:
        return self.json({"numResults": 0, "query": url})

    def label(self, p: Parameters, name: str) -> str:
        return p.one(name).removeprefix(LABEL)

    def on_subscription_edit(self, p: Parameters) -> Response:
        self.check(p)
        action, stream = p.one("ac"), p.one("s")
        if action == "subscribe":
            self.subscribe(stream.removeprefix("feed/"), self.label(p, "a"))
        elif (feed := self.feed_of(stream)) is not None:
            if action == "unsubscribe":
                self.unsubscribe(feed)
            else:
                self.rename(feed, p.one("t"))
                self.move(feed, self.label(p, "a"), self.label(p, "r"))
        return self.edit_ok()

    def subscribe(self, url: str, folder: str) -> None:
        self.follow(url, folder)

    def unsubscribe(self, feed: Feed) -> None:
        feed.folder = ""

    def rename(self, feed: Feed, title: str) -> None:
        feed.title = title or feed.title

    def move(self, feed: Feed, added: str, removed: str) -> None:
        self.create(added)
        feed.folder = added or feed.folder

    def on_rename_tag(self, p: Parameters) -> Response:
        former, later = self.label(p, "s"), self.label(p, "dest")
        if former in self.folders:
            self.folders[self.folders.index(former)] = later
            for feed in self.followed():
                feed.folder = later if feed.folder == former else feed.folder
        return self.ok()

    def on_disable_tag(self, p: Parameters) -> Response:
        name = self.label(p, "s")
        if name in self.folders:
            self.folders.remove(name)
            for feed in self.followed():
                self.without_folder(feed, name)
        return self.ok()

    def without_folder(self, feed: Feed, name: str) -> None:
        feed.folder = self.folders[0] if feed.folder == name else feed.folder

    def on_subscription_import(self, p: Parameters, body: bytes) -> Response:
        for group in ElementTree.fromstring(body).iter("outline"):
            for outline in group:
                self.follow(outline.attrib["xmlUrl"], group.attrib["text"])
        return self.ok()

    def on_subscription_export(self, p: Parameters) -> Response:
        outlines = "".join(f'<outline xmlUrl="{escape(url)}"/>' for url in self.exported())
        return Response(f"<opml><body>{outlines}</body></opml>")

    def exported(self) -> Sequence[str]:
        return [feed.url for feed in self.followed()]
