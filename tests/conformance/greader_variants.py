"""Servers of the Google Reader API that are broken on purpose, each in one way, and the requirement that notices it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from tests.conformance.reference_greader import (
    ALL,
    AUTH,
    FIRST,
    LABEL,
    LONG,
    READ,
    SECOND,
    STARRED,
    STATE,
    TOKEN,
    Entry,
    Feed,
    NativeServer,
    Parameters,
    Refused,
)

BROKEN: dict[str, type[NativeServer]] = {}
"""The variants by the requirement that must fail."""


def broken(requirement: str) -> Callable[[type[NativeServer]], type[NativeServer]]:
    """Register the decorated server."""

    def add(server: type[NativeServer]) -> type[NativeServer]:
        assert requirement not in BROKEN
        BROKEN[requirement] = server
        return server

    return add


def broken_by(requirement: str, **members: Any) -> None:
    """Register the server with other methods or values."""
    broken(requirement)(type(requirement, (NativeServer,), members))


def broken_item(requirement: str, corrupt: Callable[[dict[str, Any]], object]) -> None:
    """Register a server that corrupts an item before it is returned."""

    @broken(requirement)
    class Items(NativeServer):
        def item(self, entry: Entry) -> dict[str, Any]:
            made = super().item(entry)
            corrupt(made)
            return made


def broken_feed(requirement: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Register a server that corrupts a feed before it is listed."""

    @broken(requirement)
    class Feeds(NativeServer):
        def subscription(self, feed: Feed) -> dict[str, Any]:
            made = super().subscription(feed)
            change(made)
            return made


def refused(status: int) -> Any:
    raise Refused(status)


# --- sign-in and addresses


@broken("sign-in.lines")
class NoSid(NativeServer):
    def login(self, kind: str, p: Parameters) -> Response:
        reply = super().login(kind, p)
        return Response(bytes(reply.body).replace(b"SID=", b"XID="), reply.status_code, dict(reply.headers))


@broken("sign-in.auth-characters")
class Padded(NativeServer):
    def login(self, kind: str, p: Parameters) -> Response:
        reply = super().login(kind, p)
        if p.one("output") == "json":
            return reply
        return Response(bytes(reply.body).replace(AUTH.encode(), AUTH.encode() + b"=="), reply.status_code)

    def answer(self, path: str, kind: str, headers: dict[str, str], p: Parameters, body: bytes) -> Response:
        return super().answer(path, kind, {**headers, "authorization": headers["authorization"].rstrip("=")}
                              if "authorization" in headers else headers, p, body)  # fmt: skip

    def is_known(self, name: str, headers: dict[str, str], p: Parameters) -> bool:
        return super().is_known(name, headers, Parameters([("T", p.one("T").rstrip("="))]))


broken_by(
    "sign-in.multipart",
    login=lambda self, kind, p: refused(400) if "multipart" in kind else NativeServer.login(self, kind, p),
)
broken_by("sign-in.json", json_login=lambda self, values: self.json({"auth": values["Auth"]}))
broken_by("sign-in.wrong-password", wrong_password=lambda self: refused(403))
broken_by(
    "sign-in.unauthorized",
    unauthorized=lambda self: Response("", 403, {"X-Reader-Google-Bad-Token": "true"}),
)
broken_by("sign-in.bad-token", unauthorized=lambda self: Response("", 401))
broken_by("sign-in.token", token=lambda self: "a&b\n")
broken_by(
    "sign-in.write-without-token",
    check=lambda self, p: None if p.all("T") or not p.all("i") else refused(401),
)
broken_by(
    "sign-in.token-with-newline",
    check=lambda self, p: refused(401) if p.one("T").endswith("\n") else None,
)
broken_by(
    "sign-in.auth-as-token",
    check_contents=lambda self, p: refused(401) if p.one("T") == AUTH and not self.is_bare else None,
)
broken_by("sign-in.no-header", is_known=lambda self, name, headers, p: False)
broken_by("sign-in.user-info", user_info=lambda self: {"userId": 7, "userName": "alice"})
broken_by("addresses.two-slashes", place=lambda self, path: NativeServer.place(self, path.replace("//", "/x/")))
broken_by(
    "addresses.no-slash",
    place=lambda self, path: NativeServer.place(self, re.sub("php(?=[a-z])", "php/x", path)),
)
broken_by("addresses.twice", place=lambda self, path: path.removeprefix("/api/greader.php").lstrip("/"))

# --- values

broken_by("ids.decimal", ref=lambda self, entry: {"id": f"{FIRST + entry.number:016x}"})
broken_by("ids.nothing-else", ref=lambda self, entry: {"id": str(FIRST + entry.number), "timestampUsec": "1"})


broken_by("ids.sixteen-digits", first=10**14)
broken_by("ids.long", long=lambda self, entry: f"{LONG}{FIRST + entry.number:016X}")
broken_by(
    "ids.accepts-long",
    wanted=lambda self, p: [found for one in p.all("i") if LONG not in one and (found := self.find(one))],
)
broken_by(
    "ids.accepts-decimal",
    wanted=lambda self, p: [found for one in p.all("i") if LONG in one and (found := self.find(one))],
)
broken_item("fields.title", lambda item: item.update(title=item["title"] if "note" not in item["title"] else ""))
broken_item("fields.plain-title", lambda item: item.update(title=item["title"].replace("&", "&amp;")))
broken_item("fields.published", lambda item: item.update(published=str(item["published"])))
broken_item("fields.updated", lambda item: item.pop("updated"))
broken_item("fields.times", lambda item: item.update(crawlTimeMsec=int(item["crawlTimeMsec"])))
broken_item("fields.author", lambda item: item["title"] == "Signed" or item.update(author=None))
broken_item("fields.canonical", lambda item: item.pop("canonical"))
broken_item("fields.alternate", lambda item: item.update(alternate=[{**item["alternate"][0], "type": "text/plain"}]))
broken_item("fields.summary", lambda item: item.pop("summary"))
broken_item("fields.enclosure", lambda item: item.pop("enclosure", None))
broken_item("fields.origin", lambda item: item["origin"].pop("htmlUrl"))
broken_item(
    "fields.stream-of-feed",
    lambda item: item["origin"].update(streamId="feed/x") if "scene" in item["origin"]["title"] else None,
)
broken_item(
    "fields.read",
    lambda item: item.update(categories=[one.replace("/-/", "/7/") if one == READ else one
                                         for one in item["categories"]]),
)  # fmt: skip
broken_item("fields.categories", lambda item: item["categories"].append(7))
broken_by("fields.envelope", envelope=lambda self: {"updated": 0})
broken_by("fields.known-feeds", listed_feeds=lambda self: self.followed())
broken_feed("lists.feed", lambda feed: feed.update(title="" if feed["title"] == "Native scene" else feed["title"]))
broken_feed("lists.feed-types", lambda feed: feed.update(htmlUrl=None))
broken_feed(
    "lists.categories", lambda feed: [one.update(label=7) for one in feed["categories"] if "scene" in feed["title"]]
)


@broken("lists.one-category")
class Folders(NativeServer):
    def __init__(self) -> None:
        super().__init__()
        self.second: dict[str, str] = {}

    def subscribe(self, url: str, folder: str) -> None:
        known = self.feed_of(f"feed/{url}")
        super().subscribe(url, folder)
        if known is not None:
            self.second[known.id] = folder

    def subscription(self, feed: Feed) -> dict[str, Any]:
        made = super().subscription(feed)
        more = [self.second[feed.id]] if feed.id in self.second else []
        return {**made, "categories": [*made["categories"], *({"id": LABEL + name, "label": name} for name in more)]}

    def on_disable_tag(self, p: Parameters) -> Response:
        self.second = {}
        return super().on_disable_tag(p)

    def tags(self) -> list[dict[str, Any]]:
        return [*super().tags(), *({"id": LABEL + name, "type": "folder"} for name in self.second.values())]


broken_by("lists.folders", tags=lambda self: [one for one in NativeServer.tags(self) if "scene" not in one["id"]])
broken_by("lists.tag-type", tags=lambda self: [{"type": None, **one} for one in NativeServer.tags(self)])
broken_by(
    "lists.unencoded",
    tags=lambda self: [{**one, "id": one["id"].replace("\u00c4 \u00f6", "%C3%84%20%C3%B6")}
                       for one in NativeServer.tags(self)],
)  # fmt: skip


@broken("lists.validators")
class LateValidators(NativeServer):
    def validated(self, name: str, reply: Response, headers: dict[str, str]) -> Response:
        if "if-none-match" in headers:
            return Response(status_code=304)
        return super().validated(name, reply, headers)


# --- streams

broken_by("streams.arrival", arrival=lambda self, now, published: int(published * SECOND))
broken_by("streams.since", is_since=lambda self, entry, since: True)
broken_by("streams.edited", is_since=lambda self, entry, since: entry.arrived >= since)
broken_by("streams.oldest-first", is_newest_first=lambda self, p: True)
broken_by(
    "streams.unread",
    without=lambda self, p: [] if p.one("s") == ALL and p.all("xt") == [READ] and p.one("n") == "10000"
    else p.all("xt"),
)  # fmt: skip
broken_by("streams.several-xt", without=lambda self, p: p.all("xt")[:1])
broken_by("streams.read-by-xt", without=lambda self, p: [tag for tag in p.all("xt") if tag != f"{STATE}unread"])
broken_by("streams.read-by-it", within=lambda self, p: [])


def _without_stream(state: str) -> Callable[[NativeServer, str], list[Entry]]:
    return lambda self, name: [] if name == state else NativeServer.stream(self, name)


broken_by("streams.read-stream", stream=_without_stream(READ))
broken_by(
    "streams.starred",
    stream=lambda self, name: [
        one for one in NativeServer.stream(self, name) if name != STARRED or not one.feed.folder
    ],
)
broken_by(
    "streams.label",
    stream=lambda self, name: [one for one in NativeServer.stream(self, name)
                               if not (name.startswith(LABEL) and "scene" in name)],
)  # fmt: skip


def _whole_folder(self: NativeServer, name: str) -> list[Entry]:
    found = NativeServer.stream(self, name)
    if name.startswith("feed/") and found and "pair" in found[0].feed.url:
        return [entry for entry in NativeServer.stream(self, ALL) if "pair" in entry.feed.url]
    return found


broken_by("streams.feed", stream=_whole_folder)
broken_by(
    "streams.user-id",
    stream=lambda self, name: [] if f"user/{'alice'}/" in name else NativeServer.stream(self, name),
)
broken_by("streams.counts", unread=lambda self, feed: {"id": feed.id, "count": "1"})
broken_by("pages.full", most_ids=lambda self: 18)
broken_by("pages.full-contents", most_contents=lambda self: 15)


@broken("pages.complete")
class Overlapping(NativeServer):
    def begin(self, p: Parameters) -> int:
        return max(0, super().begin(p) - 1)


@broken("pages.text")
class Unsafe(NativeServer):
    def begin(self, p: Parameters) -> int:
        return int(p.one("c").removesuffix("=") or 0)

    def continuation(self, end: int, size: int) -> Any:
        more = super().continuation(end, size)
        return more and f"{more}="


broken_by("pages.end", continuation=lambda self, end, size: str(end) if end <= size else None)
broken_by(
    "contents.all",
    on_contents=lambda self, p: NativeServer.on_contents(self, p) if p.one("s") else refused(400),
)
broken_by("contents.state-in-path", stream_in_path=lambda self, stream: stream if "feed" in stream else "user")
broken_by(
    "contents.feed-in-path",
    on_contents=lambda self, p: refused(404) if p.one("s").startswith("feed") else NativeServer.on_contents(self, p),
)
broken_by("contents.many-in-one", wanted=lambda self, p: self.named(p) if len(p.all("i")) < 400 else refused(413))


@broken("contents.parallel")
class OneAtATime(NativeServer):
    running = 0

    def wanted(self, p: Parameters) -> list[Entry]:
        self.running += 1
        try:
            time.sleep(0.3 if len(p.all("i")) == 20 else 0)
            return refused(429) if self.running > 1 else self.named(p)  # type: ignore[no-any-return]
        finally:
            self.running -= 1


broken_by("contents.atom", atom_state=lambda self, entry: "")

# --- changes


def _untagged(name: str, tag: str) -> Callable[[NativeServer, Entry, str, bool], None]:
    """Ignore a tag on the items with this word in their title."""

    def method(self: NativeServer, entry: Entry, given: str, value: bool) -> None:
        if given != tag or entry.wire["name"] != name:
            NativeServer.tag(self, entry, given, value)

    return method


@broken("marks.read")
class NeverRead(NativeServer):
    def on_edit_tag(self, p: Parameters) -> Response:
        one = [entry for entry in self.named(p) if entry.wire["name"] == "Post one"]
        reply = super().on_edit_tag(p)
        if one and set(dict(p.pairs)) == {"T", "i", "a"} and len(p.all("i")) == 1 and p.one("T") == TOKEN:
            one[0].is_read = False
        return reply


broken_by(
    "marks.kept-unread",
    on_edit_tag=lambda self, p: refused(400) if p.one("ac") else NativeServer.on_edit_tag(self, p),
)
broken_by("marks.starred", tag=_untagged("Post two", STARRED))
broken_by("marks.ok", ok=lambda self: Response("OK\n"))
broken_by(
    "marks.unknown",
    named=lambda self, p: refused(404) if len(p.all("i")) == 2 and len(NativeServer.named(self, p)) == 1
    else NativeServer.named(self, p),
)  # fmt: skip
broken_by("marks.many", tag=lambda self, entry, tag, value: NativeServer.tag(self, entry, tag, value)
          if entry.wire["name"] != "many-d 0" or not value else None)  # fmt: skip
broken_by(
    "marks.ten-thousand",
    on_edit_tag=lambda self, p: refused(413) if len(p.all("i")) > 400 else NativeServer.on_edit_tag(self, p),
)
broken_by(
    "marks.label",
    tag=lambda self, entry, tag, value: None if tag.startswith(LABEL) else NativeServer.tag(self, entry, tag, value),
)
broken_by(
    "marks.all",
    on_mark_all_as_read=lambda self, p: NativeServer.on_mark_all_as_read(self, p) if p.one("T") else refused(401),
)
broken_by("marks.all-before", microseconds=lambda self, text: int(text) * SECOND if text else None)


@broken("feeds.quickadd")
class OtherStream(NativeServer):
    def on_subscription_quickadd(self, p: Parameters) -> Response:
        reply = super().on_subscription_quickadd(p)
        return Response(bytes(reply.body).replace(b'"streamId": "feed/', b'"streamId": "'), media_type="text/json")


broken_by("feeds.quickadd-again", results=lambda self, known: 0 if known else 1)
broken_by("feeds.quickadd-nothing", not_found=lambda self, url: refused(400))


@broken("feeds.quickadd-twice")
class OnlyOnce(NativeServer):
    def body_pairs(self, kind: str, body: bytes) -> list[tuple[str, str]]:
        pairs = super().body_pairs(kind, body)
        return [(name, value + "#again") if name == "quickadd" and "double" in value else (name, value)
                for name, value in pairs]  # fmt: skip

    def on_subscription_quickadd(self, p: Parameters) -> Response:
        return super().on_subscription_quickadd(p) if len(p.all("quickadd")) == 1 else refused(400)


broken_by(
    "feeds.subscribe", subscribe=lambda self, url, folder: self.follow(url, "" if "subscribed" in url else folder)
)
broken_by(
    "feeds.subscribe-null",
    on_subscription_edit=lambda self, p: refused(400) if p.one("i") else NativeServer.on_subscription_edit(self, p),
)
broken_by(
    "feeds.edit-query",
    rename=lambda self, feed, title: None if title == "By query" else NativeServer.rename(self, feed, title),
)
broken_by("feeds.edit-ok", edit_ok=lambda self: self.json({"error": "none"}))
broken_by(
    "feeds.rename",
    rename=lambda self, feed, title: NativeServer.rename(self, feed, "" if "&" in title else title),
)
broken_by(
    "feeds.move", move=lambda self, feed, added, removed: NativeServer.move(self, feed, "" if removed else added, "")
)
broken_by(
    "feeds.move-by-a",
    move=lambda self, feed, added, removed: NativeServer.move(
        self, feed, added if removed or "there" not in added else "", ""
    ),
)
broken_by(
    "feeds.unsubscribe",
    unsubscribe=lambda self, feed: None if "ended" in feed.url else NativeServer.unsubscribe(self, feed),
)
broken_by(
    "feeds.unsubscribe-by-address",
    feed_of=lambda self, text: next((one for one in self.followed() if text == one.id or ("quick" in text
                                     and text.endswith(one.url))), None),
)  # fmt: skip
broken_by("feeds.import", on_subscription_import=lambda self, p, body: self.ok())
broken_by("feeds.export", exported=lambda self: [])


@broken("folders.create")
class OnlyWithFeeds(NativeServer):
    def on_edit_tag(self, p: Parameters) -> Response:
        return super().on_edit_tag(p) if p.all("i") or "empty" not in p.one("a") else self.ok()


broken_by("folders.rename", on_rename_tag=lambda self, p: self.ok())


@broken("folders.disable")
class LosesFeeds(NativeServer):
    def without_folder(self, feed: Feed, name: str) -> None:
        if feed.folder == name and "staying" in feed.url:
            feed.folder = ""
