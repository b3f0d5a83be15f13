"""Native apps, replayed: the requests that they send for a sync and for each change, and what their parsers refuse.

Written from the rules that the apps' code follows, as of 2026. Each keeps what its app would show: `feeds` with a title
and a folder, and `posts` by decimal id. A reply that the app's parser refuses raises `Refused`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from tests.support.world import World

SITE = "http://server.test"
STATE = "user/-/state/com.google/"
ALL, READ, STARRED = f"{STATE}reading-list", f"{STATE}read", f"{STATE}starred"
LABEL, LONG = "user/-/label/", "tag:google.com,2005:reader/item/"
FORM = "application/x-www-form-urlencoded"


class Refused(AssertionError):
    """The app's parser doesn't take the reply."""


class ConnectionLostError(Exception):
    """The app lost its connection."""


@dataclass
class Post:
    """What an app shows of a post."""

    feed: str
    title: str
    is_read: bool = False
    is_starred: bool = False


@dataclass
class Feed:
    """What an app shows of a feed."""

    title: str
    folder: str = ""


def need(condition: object, why: str) -> None:
    if not condition:
        raise Refused(why)


def text(value: object, name: str, *, empty: bool = True) -> str:
    """A text, as parsers with types want it: no number, no null."""
    need(isinstance(value, str), f"{name} is {value!r}, expected a text")
    need(empty or value, f"{name} is empty")
    return str(value)


def whole(value: object, name: str, bits: int = 31) -> int:
    need(isinstance(value, int) and not isinstance(value, bool), f"{name} is {value!r}, expected a whole number")
    assert isinstance(value, int)
    need(abs(value) < 2**bits, f"{name} is too large")
    return value


def many(value: object, name: str) -> list[Any]:
    need(isinstance(value, list), f"{name} is {value!r}, expected a list")
    assert isinstance(value, list)
    return value


def chunks(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(values), size):
        yield values[at : at + size]


def long_id(decimal: str) -> str:
    return f"{LONG}{int(decimal):016x}"


def decimal_id(long: str) -> str:
    need(re.fullmatch(rf"{LONG}[0-9a-f]{{16}}", long), f"{long} is no long id")
    return str(int(long[-16:], 16))


@dataclass
class NativeClient:
    """An app of one user. `lose_after` is how many further requests it sends before it loses its connection."""

    server: World
    user: str
    password: str
    feeds: dict[str, Feed] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    posts: dict[str, Post] = field(default_factory=dict)
    auth: str = ""
    token: str = ""
    lose_after: int | None = None
    sent: list[str] = field(default_factory=list)
    to_send: list[tuple[str, bool, list[str]]] = field(default_factory=list)

    base: ClassVar[str] = f"{SITE}/api/greader.php/"
    """The address in front of the paths, with what the app puts between them."""
    mark_size: ClassVar[int] = 1000
    """Posts in one request of marks."""

    async def send(
        self, path: str, body: str | bytes | None = None, kind: str = FORM, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The reply to a GET, or to a POST with a body. An error's status is what the app takes for a failure."""
        if self.lose_after is not None:
            if self.lose_after == 0:
                raise ConnectionLostError
            self.lose_after -= 1
        given = {"Authorization": f"GoogleLogin auth={self.auth}"} if self.auth else {}
        given |= {**(headers or {}), **({"Content-Type": kind} if body is not None and kind else {})}
        self.sent.append(path)
        method = "GET" if body is None else "POST"
        reply = await self.server.client.request(method, self.base + path, content=body, headers=given)
        need(reply.status_code < 300 or reply.status_code == 304, f"{path}: {reply.status_code} {reply.text[:200]}")
        return reply

    async def json(self, path: str, body: str | None = None) -> dict[str, Any]:
        found = (await self.send(path, body)).json()
        need(isinstance(found, dict), f"{path} is no object")
        return dict(found)

    async def ok(self, path: str, body: str) -> None:
        """A change, which the app takes as done only if the reply is this text."""
        reply = await self.send(path, body)
        need(reply.text == "OK", f"{path}: {reply.text!r}")

    async def sign_in(self) -> None:
        reply = await self.send("accounts/ClientLogin", f"Email={self.user}&Passwd={quote(self.password)}")
        lines = [line.split("=") for line in reply.text.split("\n")]
        self.auth = dict(line for line in lines if len(line) == 2)["Auth"]  # type: ignore[misc]
        self.token = (await self.send("reader/api/0/token")).text.removesuffix("\n")

    async def sync(self) -> None:
        """A whole sync, which begins with the changes that were made offline."""
        while self.to_send:
            tag, adds, ids = self.to_send[0]
            for some in chunks(ids, self.mark_size):
                await self.send_marks(tag, some, adds=adds)
            self.to_send.pop(0)
        await self.fetch()

    async def fetch(self) -> None:
        raise NotImplementedError

    def mark(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        """Mark posts offline."""
        for one in ids:
            post = self.posts[one]
            if tag == READ:
                post.is_read = adds
            else:
                post.is_starred = adds
        self.to_send.append((tag, adds, list(ids)))

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        items = "&".join(f"i={long_id(one)}" for one in ids)
        await self.ok("reader/api/0/edit-tag", f"T={self.token}&{items}&{'a' if adds else 'r'}={tag}")

    async def all_ids(self, path: str) -> list[str]:
        """The ids of all pages."""
        found: list[str] = []
        more = ""
        while True:
            page = await self.json(path + more)
            for one in many(page.get("itemRefs"), "itemRefs"):
                found.append(text(one.get("id"), "id"))
                need(re.fullmatch("[0-9]+", found[-1]), f"{found[-1]} is no decimal id")
            if "continuation" not in page:
                return found
            more = f"&c={text(page['continuation'], 'continuation', empty=False)}"
            need(page["itemRefs"], "an empty page continues")

    async def subscribe(self, url: str, folder: str) -> str:
        """Follow a feed in a folder; returns its id."""
        body = f"T={self.token}&quickadd={quote(url, safe='')}"
        added = await self.json("reader/api/0/subscription/quickadd", body)
        need(whole(added.get("numResults"), "numResults") > 0, "the feed wasn't found")
        feed = text(added.get("streamId"), "streamId")
        await self.ok("reader/api/0/subscription/edit", f"T={self.token}&s={feed}&ac=edit&a={LABEL}{quote(folder)}")
        return feed

    async def move(self, feed: str, folder: str) -> None:
        """Put a feed into another folder, as apps with one folder for a feed do."""
        title = quote(self.feeds[feed].title)
        body = f"T={self.token}&s={feed}&ac=edit&a={LABEL}{quote(folder)}&t={title}"
        await self.ok("reader/api/0/subscription/edit", body)

    async def rename(self, feed: str, title: str) -> None:
        await self.ok("reader/api/0/subscription/edit", f"T={self.token}&s={feed}&ac=edit&t={quote(title)}")

    async def unsubscribe(self, feed: str) -> None:
        await self.ok("reader/api/0/subscription/edit", f"T={self.token}&s={feed}&ac=unsubscribe")

    def listed(self, subscriptions: object, *, several: bool = False) -> None:
        """Take the list of subscriptions over: the first folder of each."""
        self.feeds = {}
        for one in many(subscriptions, "subscriptions"):
            labels = [text(category["label"], "label") for category in many(one["categories"], "categories")]
            need(several or len(labels) < 2, "a feed has two folders")
            given = text(one["id"], "id", empty=False)
            self.feeds[given] = Feed(text(one["title"], "title", empty=False), labels[0] if labels else "")

    def states(self, unread: Sequence[str], starred: Sequence[str]) -> None:
        """Make the states of all known posts those of the lists."""
        for given, post in self.posts.items():
            post.is_read, post.is_starred = given not in unread, given in starred


class NetNewsWire(NativeClient):
    """Skips its lists if they haven't changed, and asks for what came since the `Date` of its last first page."""

    since: int = 0
    tags: dict[str, str] | None = None
    known: dict[str, str] | None = None

    async def lists(self) -> None:
        self.known = self.known or {}
        for name in ("tag/list", "subscription/list"):
            headers = {"If-None-Match": self.known[name]} if name in self.known else {}
            reply = await self.send(f"reader/api/0/{name}?output=json", headers=headers)
            if reply.status_code == 304:
                need(reply.content == b"", "a 304 has a body")
                continue
            self.known[name] = reply.headers["etag"]
            if name == "tag/list":
                tags = [(text(tag["id"], "id"), tag.get("type")) for tag in many(reply.json()["tags"], "tags")]
                need(all(kind is None or isinstance(kind, str) for _, kind in tags), "a type is no text")
                self.folders = {name.removeprefix(LABEL) for name, _ in tags if "/label/" in name}
                need(self.folders, "without folders it stops syncing them")
            else:
                subscriptions = many(reply.json()["subscriptions"], "subscriptions")
                for one in subscriptions:
                    for key in ("title", "url", "htmlUrl", "iconUrl"):
                        need(one.get(key) is None or isinstance(one[key], str), f"{key} is no text")
                    for category in one["categories"]:
                        name_of = text(category["id"], "id").removeprefix(LABEL)
                        need(name_of in self.folders, f"{name_of} is missing in tag/list: syncing folders stops")
                self.listed(subscriptions, several=True)

    async def fetch(self) -> None:
        await self.lists()
        asked = int(self.server.now)
        ids = "reader/api/0/stream/items/ids?n=1000&output=json"
        everything = await self.all_ids(f"{ids}&ot={self.since}&s={ALL}")
        unread = await self.all_ids(f"{ids}&s={ALL}&xt={READ}")
        starred = await self.all_ids(f"{ids}&s={STARRED}")
        missing = [one for one in dict.fromkeys([*everything, *unread, *starred]) if one not in self.posts]
        for some in chunks(missing, 150):
            items = "&".join(f"i={long_id(one)}" for one in some)
            reply = await self.json("reader/api/0/stream/items/contents", f"T={self.token}&output=json&{items}")
            text(reply["id"], "id")
            whole(reply["updated"], "updated")
            for one in many(reply["items"], "items"):
                need(isinstance(one.get("published"), int | float | None), "published is no number")
                for key in ("title", "author", "crawlTimeMsec", "timestampUsec"):
                    need(one.get(key) is None or isinstance(one[key], str), f"{key} is no text")
                for category in many(one["categories"], "categories"):
                    text(category, "category")
                text(one["summary"]["content"], "content")
                feed = text(one["origin"]["streamId"], "streamId")
                self.posts[decimal_id(text(one["id"], "id"))] = Post(feed, one["title"])
        self.states(unread, starred)
        self.since = asked

    async def subscribe(self, url: str, folder: str) -> str:
        """It looks the feed up in the list, and takes 304 for a failure."""
        feed = await super().subscribe(url, folder)
        await self.lists()
        need(feed in self.feeds, "the new feed isn't listed")
        return feed

    async def move(self, feed: str, folder: str) -> None:
        former, body = self.feeds[feed].folder, f"T={self.token}&s={feed}&ac=edit"
        labels = f"&r={LABEL}{quote(former)}&a={LABEL}{quote(folder)}"
        await self.ok("reader/api/0/subscription/edit", body + labels)


class Readrops(NativeClient):
    """Reads JSON token by token: one folder for a feed, nothing but the id in lists, no empty title."""

    begun: int = 0

    async def sign_in(self) -> None:
        parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\nContent-Length: 5\r\n\r\n{value}\r\n'
                 for name, value in (("Email", self.user), ("Passwd", self.password))]  # fmt: skip
        reply = await self.send("accounts/ClientLogin", "".join(parts) + "--b--\r\n", "multipart/form-data; boundary=b")
        self.auth = re.findall("^Auth=(.*)$", reply.text, re.MULTILINE)[0]
        self.token = (await self.send("reader/api/0/token")).text
        text((await self.json("reader/api/0/user-info"))["userName"], "userName")

    async def ids(self, query: str) -> list[str]:
        refs = many((await self.json(f"reader/api/0/stream/items/ids?{query}")).get("itemRefs"), "itemRefs")
        need(all(set(one) == {"id"} for one in refs), "a reference has more than an id")
        found = [text(one["id"], "id", empty=False) for one in refs]
        need(all(len(one) == 16 for one in found), "it pads ids to their decimal length")
        return found

    async def contents(self, path: str) -> None:
        for one in many((await self.json(f"reader/api/0/stream/contents/{path}"))["items"], "items"):
            for key in ("id", "title"):
                text(one[key], key, empty=False)
            whole(one["published"], "published", 63)
            for link in many(one["alternate"], "alternate"):
                text(link["href"], "href")
            for category in many(one["categories"], "categories"):
                text(category, "category")
            need(one["summary"]["content"] is None or isinstance(one["summary"]["content"], str), "content")
            feed = text(one["origin"]["streamId"], "streamId")
            need(feed in self.feeds, f"{feed} is no known feed, so all posts are lost")
            self.posts[decimal_id(one["id"])] = Post(feed, one["title"].strip())

    async def fetch(self) -> None:
        now = int(self.server.now)
        for tag in many((await self.json("reader/api/0/tag/list?output=json"))["tags"], "tags"):
            text(tag["id"], "id", empty=False)
            text(tag.get("type", ""), "type")
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        for one in many(subscriptions, "subscriptions"):
            text(one["url"], "url", empty=False)
        self.listed(subscriptions)
        if not self.begun:
            await self.contents(f"{ALL}?xt={READ}&xt={STARRED}&n=2500")
            await self.contents(f"{STARRED}?n=1000")
        else:
            await self.contents(f"{ALL}?n=2500&ot={self.begun}")
        unread = await self.ids(f"xt={READ}&s={ALL}&n=2500")
        if self.begun:
            await self.ids(f"xt={STATE}unread&s={ALL}&n=2500")
        self.states(unread, await self.ids(f"s={STARRED}&n=1000"))
        self.begun = now

    async def subscribe(self, url: str, folder: str) -> str:
        body = f"T={self.token}&s={quote('feed/' + url, safe='')}&ac=subscribe&a={quote(LABEL + folder, safe='')}"
        await self.ok("reader/api/0/subscription/edit", body)
        await self.fetch()
        listed = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        return next(one["id"] for one in listed if one["url"] == url)


class ReadYou(NativeClient):
    """Joins parameters without encoding them, and reads a month of read posts by a second tag."""

    base = f"{SITE}/api/greader.php/"
    mark_size = 500

    async def sign_in(self) -> None:
        names = "client=ReadYou&accountType=HOSTED_OR_GOOGLE&service=reader"
        body = f"output=json&Email={self.user}&Passwd={quote(self.password)}&{names}"
        self.auth = text((await self.json("accounts/ClientLogin", body))["Auth"], "Auth")
        self.token = (await self.send("reader/api/0/token")).text
        text((await self.json("reader/api/0/user-info?output=json"))["userName"], "userName")

    async def fetch(self) -> None:
        ids = "reader/api/0/stream/items/ids?output=json"
        month = int(self.server.now) - 30 * 86_400
        unread, starred, read = await asyncio.gather(
            self.all_ids(f"{ids}&s={ALL}&xt={READ}&n=1000"),
            self.all_ids(f"{ids}&s={STARRED}&n=1000"),
            self.all_ids(f"{ids}&s={ALL}&it={READ}&ot={month}&n=1000"),
        )
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        need(all(one["id"] and (one["url"] or one["htmlUrl"]) for one in subscriptions), "an id or address is missing")
        self.listed(subscriptions)
        missing = [one for one in dict.fromkeys([*unread, *starred, *read]) if one not in self.posts]
        for some in chunks(missing, 800):
            await asyncio.gather(*(self.contents(few) for few in chunks(some, 100)))
        self.states(unread, starred)

    async def contents(self, ids: Sequence[str]) -> None:
        body = "&".join([*(f"i={one}" for one in ids), f"T={self.token}"])
        reply = await self.json("reader/api/0/stream/items/contents?output=json", body)
        whole(reply["updated"], "updated", 63)
        for one in many(reply["items"], "items"):
            whole(one["published"], "published", 63)
            text(one["crawlTimeMsec"], "crawlTimeMsec")
            feed = text(one["origin"]["streamId"], "streamId")
            self.posts[decimal_id(one["id"])] = Post(feed, text(one["title"], "title"))

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        items = "&".join(f"i={one}" for one in ids)
        body = f"{items}&{'a' if adds else 'r'}={quote(tag, safe='')}&T={self.token}"
        await self.ok("reader/api/0/edit-tag?output=json", body)

    async def subscribe(self, url: str, folder: str) -> str:
        path = f"reader/api/0/subscription/quickadd?output=json&quickadd={url}"
        added = await self.json(path, f"quickadd={quote(url, safe='')}&T={self.token}")
        feed = text(added["streamId"], "streamId")
        body = f"ac=edit&s={quote(feed, safe='')}&a={quote(LABEL + folder, safe='')}&t=A%20blog&T={self.token}"
        await self.ok("reader/api/0/subscription/edit?output=json", body)
        return feed


class FluentReader(NativeClient):
    """Sends no token, stops at the newest post that it knows, and drops posts of unknown feeds."""

    newest: str = ""
    since: int = 0

    async def sign_in(self) -> None:
        reply = await self.send("accounts/ClientLogin", f"Email={self.user}&Passwd={quote(self.password)}")
        self.auth = re.findall(r"Auth=(\S+)", reply.text)[0]

    async def ids(self, query: str) -> list[str]:
        """All pages; it stops at the first one below a thousand."""
        found: list[str] = []
        more = ""
        while True:
            page = await self.json(f"reader/api/0/stream/items/ids?output=json&{query}&n=1000{more}")
            found += [text(one["id"], "id") for one in page["itemRefs"]]
            if "continuation" not in page or len(page["itemRefs"]) < 1000:
                return found
            more = f"&c={page['continuation']}"

    async def fetch(self) -> None:
        need((await self.send("reader/api/0/user-info")).status_code == 200, "the token is refused")
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        addresses = [one["url"] or one["htmlUrl"] for one in subscriptions]
        need(len(set(addresses)) == len(addresses), "two feeds have one address, and the second replaces the first")
        self.listed(subscriptions)
        unread, starred = await asyncio.gather(self.ids(f"s={ALL}&xt={READ}"), self.ids(f"s={STARRED}"))
        found: list[dict[str, Any]] = []
        more = ""
        while True:
            since = f"&ot={self.since}" if self.since else ""
            page = await self.json(f"reader/api/0/stream/contents?output=json&n=1000{since}{more}")
            for one in page["items"]:
                if decimal_id(one["id"]) == self.newest:
                    break
                found.append(one)
            if "continuation" not in page or len(found) >= 5000:
                break
            more = f"&c={page['continuation']}"
        for one in found:
            text(one["canonical"][0]["href"], "href")
            text(one["summary"]["content"], "content")
            feed = one["origin"]["streamId"]
            need(feed in self.feeds, f"{feed} is unknown, so its post is dropped")
            self.posts[decimal_id(one["id"])] = Post(feed, text(one["title"], "title"))
        if found:
            self.newest = decimal_id(found[0]["id"])
            self.since = int(int(found[0]["crawlTimeMsec"]) / 1000 + 0.5)
        self.states(unread, starred)

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        body = f"i={'&i='.join(ids)}&{'a' if adds else 'r'}={quote(tag, safe='')}"
        await self.send("reader/api/0/edit-tag", body, f"{FORM};charset=UTF-8")


class RssGuard(NativeClient):
    """Asks for all ids at once, downloads what it misses or what has changed, and sends addresses in the query."""

    base = f"{SITE}/api/greader.php/api/greader.php/"
    mark_size = 200

    async def fetch(self) -> None:
        tags = many((await self.json("reader/api/0/tag/list?output=json"))["tags"], "tags")
        self.folders = {tag["id"].rpartition("/")[2] for tag in tags if tag.get("type") == "folder"}
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        self.listed(subscriptions)
        need(all(feed.folder in {"", *self.folders} for feed in self.feeds.values()), "a feed's folder isn't listed")
        year = int(self.server.now) - 365 * 86_400
        ids = f"reader/api/0/stream/items/ids?output=json&n=200000&s={quote(ALL, safe='')}"
        marked = ids.replace(quote(ALL, safe=""), quote(STARRED, safe=""))
        starred = await self.all_ids(f"{marked}&ot={year}")
        everything = await self.all_ids(f"{ids}&ot={year}")
        unread = await self.all_ids(f"{ids}&xt={READ}&ot={year}")
        known = self.posts
        wanted = [
            one
            for one in dict.fromkeys([*everything, *starred])
            if one not in known or known[one].is_read == (one in unread) or known[one].is_starred != (one in starred)
        ]
        for some in chunks(wanted, 9999):
            body = "&".join(f"i={quote(long_id(one), safe='')}" for one in some)
            reply = await self.json("reader/api/0/stream/items/contents?output=json&n=200000", body)
            need("continuation" not in reply, "it asks for the same posts again")
            for one in many(reply["items"], "items"):
                whole(one["published"], "published")
                links = [link["href"] for link in one["alternate"] if link.get("type", "text/html") == "text/html"]
                text(links[0], "href", empty=False)
                tags_of = many(one["categories"], "categories")
                self.posts[decimal_id(one["id"])] = Post(
                    text(one["origin"]["streamId"], "streamId"),
                    text(one["title"], "title", empty=False),
                    any(tag.endswith("state/com.google/read") for tag in tags_of),
                    any(tag.endswith("state/com.google/starred") for tag in tags_of),
                )

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        items = "&".join(f"i={long_id(one)}" for one in ids)
        await self.send("reader/api/0/edit-tag", f"{'a' if adds else 'r'}={tag}&{items}")

    async def subscribe(self, url: str, folder: str) -> str:
        query = f"ac=subscribe&s=feed/{url}&t=A blog&a={LABEL}{folder}"
        await self.send(f"reader/api/0/subscription/edit?{query}", "T=", FORM)
        await self.fetch()
        listed = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        return next(one["id"] for one in listed if one["url"] == url)

    async def move(self, feed: str, folder: str) -> None:
        query = f"ac=edit&s={feed}&t={self.feeds[feed].title}&a={LABEL}{folder}"
        await self.send(f"reader/api/0/subscription/edit?{query}", "T=", FORM)


class CapyReader(NativeClient):
    """Refuses a whole reply for one missing field or unknown kind; eight requests for contents at once."""

    async def fetch(self) -> None:
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        for one in many(subscriptions, "subscriptions"):
            for key in ("id", "title", "htmlUrl"):
                text(one.get(key), key)
            for key in ("url", "iconUrl", "frss:priority"):
                need(one.get(key) is None or isinstance(one[key], str), f"{key} is no text")
            for category in many(one.get("categories"), "categories"):
                text(category.get("id"), "id")
        self.listed(subscriptions, several=True)
        for tag in many((await self.json("reader/api/0/tag/list?output=json")).get("tags"), "tags"):
            text(tag.get("id"), "id")
            need(tag.get("type", "folder") in {"folder", "tag"}, "an unknown type of tag")
        ids = "reader/api/0/stream/items/ids?n=10000&output=json"
        starred = await self.all_ids(f"{ids}&s={quote(STARRED, safe='')}")
        unread = await self.all_ids(f"{ids}&s={quote(ALL, safe='')}&xt={quote(READ, safe='')}")
        read = await self.all_ids(f"{ids}&s={quote(READ, safe='')}")
        missing = [one for one in dict.fromkeys([*starred, *unread, *read]) if one not in self.posts]
        for some in chunks(missing, 8 * 250):
            await asyncio.gather(*(self.contents(few) for few in chunks(some, 250)))
        self.states(unread, starred)

    async def contents(self, ids: Sequence[str]) -> None:
        body = "&".join([*(f"i={quote(long_id(one), safe='')}" for one in ids), f"T={self.token}"])
        for one in many(
            (await self.json("reader/api/0/stream/items/contents?output=json", body)).get("items"), "items"
        ):
            whole(one.get("published"), "published", 63)
            need(isinstance(one["summary"], dict), "summary is missing")
            text(one.get("content", one["summary"])["content"], "content")
            for link in many(one.get("canonical"), "canonical"):
                text(link.get("href"), "href")
            for key in ("streamId", "htmlUrl", "title"):
                text(one["origin"].get(key), key)
            for file in many(one.get("enclosure", []), "enclosure"):
                need(file.get("href") is None or isinstance(file["href"], str), "href is no text")
            title = text(one.get("title"), "title")
            self.posts[decimal_id(text(one.get("id"), "id"))] = Post(one["origin"]["streamId"], title)

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        items = "&".join(f"i={quote(long_id(one), safe='')}" for one in ids)
        body = f"{items}&T={self.token}&{'a' if adds else 'r'}={quote(tag, safe='')}"
        await self.ok("reader/api/0/edit-tag?output=json", body)


class Newsboat(NativeClient):
    """Reads each feed with its posts, and has no other state than theirs. From version 2.24 on."""

    mark_size = 1

    async def fetch(self) -> None:
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        self.listed(subscriptions, several=True)
        for feed in self.feeds:
            page = await self.json(f"reader/api/0/stream/contents/{quote(feed, safe='')}?n=1000")
            for one in many(page["items"], "items"):
                (content,) = [value for name, value in sorted(one["summary"].items()) if value is not None][:1]
                text(content, "content")
                text(one["canonical"][0]["href"], "href")
                whole(one["published"], "published")
                post = Post(feed, text(one["title"], "title"), READ in one["categories"], STARRED in one["categories"])
                self.posts[decimal_id(text(one["id"], "id"))] = post

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        marks = f"a={tag}" if adds else f"r={tag}"
        if tag == READ:
            kept = "user/-/state/com.google/"
            opposite = f"r={kept}kept-unread" if adds else f"a={kept}kept-unread&a={kept}tracking-kept-unread"
            marks = f"{marks}&{opposite}"
        await self.ok("reader/api/0/edit-tag", f"i={long_id(ids[0])}&{marks}&ac=edit&T={self.token}")


class Liferea(NativeClient):
    """Reads up to fifty posts of each feed, and repeats the token as `T`."""

    base = f"{SITE}/api/greader.php/"
    mark_size = 1

    async def fetch(self) -> None:
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        self.listed(subscriptions, several=True)
        await self.json("reader/api/0/unread-count?output=json&all=true&client=liferea")
        for feed in self.feeds:
            asked = f"s={quote(feed, safe='')}&client=liferea&n=50&output=json&merge=true"
            refs = many((await self.json(f"reader/api/0/stream/items/ids?{asked}"))["itemRefs"], "itemRefs")
            items = "".join(f"&i={text(one['id'], 'id')}" for one in refs)
            body = f"output=json&mediaRss=true&T={self.auth}{items}"
            for one in (await self.json("reader/api/0/stream/items/contents", body))["items"] if refs else ():
                text(one["canonical"][0]["href"], "href")
                states = one["categories"]
                post = Post(feed, text(one["title"], "title"), READ in states, STARRED in states)
                self.posts[decimal_id(one["id"])] = post

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        feed = quote(self.posts[ids[0]].feed, safe="")
        token = (await self.send("reader/api/0/token")).text
        marks = f"a={quote(tag, safe='')}" if adds else f"r={quote(tag, safe='')}"
        if tag == READ and not adds:
            marks = f"a={quote(f'{STATE}kept-unread', safe='')}&{marks}"
        body = f"i={quote(long_id(ids[0]), safe='')}&s=feed%2F{feed}&{marks}&ac=edit-tags&T={token}&async=true"
        await self.ok("reader/api/0/edit-tag?client=liferea", body)

    async def subscribe(self, url: str, folder: str) -> str:
        body = f"s=feed%2F{quote(url, safe='')}&i=null&ac=subscribe&T={self.token}"
        await self.ok("reader/api/0/subscription/edit?client=liferea", body)
        listed = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        feed = next(str(one["id"]) for one in listed if one["url"] == url)
        await self.ok(
            "reader/api/0/subscription/edit?client=liferea",
            f"s={quote(feed, safe='')}&a={quote(LABEL + folder, safe='')}&ac=edit&T={self.token}&async=true",
        )
        return feed


class Vienna(NativeClient):
    """Reads the feeds whose unread count or newest post isn't what it has, since fifteen minutes before the last time.

    The other feeds are read whole, as by its command *Force Refresh*: only so it sees stars from elsewhere.
    """

    mark_size = 1

    async def sign_in(self) -> None:
        account = f"Email={quote(self.user)}&Passwd={quote(self.password)}"
        reply = await self.send("accounts/ClientLogin?accountType=GOOGLE&service=reader", account)
        (self.auth,) = [line.removeprefix("Auth=") for line in reply.text.split("\n") if line.startswith("Auth=")]
        self.token = (await self.send("reader/api/0/token")).text  # with its line end
        self.updated: dict[str, int] = {}

    async def fetch(self) -> None:
        self.listed((await self.json("reader/api/0/subscription/list?client=Vienna&output=json"))["subscriptions"])
        need(all(feed.startswith("feed/") for feed in self.feeds), "a feed isn't called feed/…")
        self.posts = {given: post for given, post in self.posts.items() if post.feed in self.feeds}
        counts = await self.json("reader/api/0/unread-count?client=Vienna&output=json&allcomments=false")
        unread = {one["id"]: one for one in many(counts["unreadcounts"], "unreadcounts")}
        for feed in self.feeds:
            known = sum(not post.is_read for post in self.posts.values() if post.feed == feed)
            there = unread.get(feed, {"count": 0, "newestItemTimestampUsec": "0"})
            newest = int(text(there["newestItemTimestampUsec"], "newestItemTimestampUsec")) // 10**6
            since = self.updated.get(feed, 0)
            await self.read(feed, since if newest > since or whole(there["count"], "count") != known else None)

    async def read(self, feed: str, since: int | None) -> None:
        """Read a feed since that Unix time, or whole."""
        named = f"feed/{quote(feed.removeprefix('feed/'), safe='')}"
        limit = "&n=10000" if since is None else f"&ot={max(0, since - 900)}&n=1000"
        path = f"reader/api/0/stream/contents/{named}?client=Vienna&comments=false&likes=false{limit}&output=json"
        page = await self.json(path)
        self.updated[feed] = whole(page["updated"], "updated", 63)  # a text would crash it
        for one in many(page["items"], "items"):
            text((one.get("content") or one["summary"])["content"], "content")
            text(one["alternate"][0]["href"], "href")
            whole(one["published"], "published", 63)
            self.posts[decimal_id(text(one["id"], "id"))] = Post(feed, text(one["title"], "title"))
        lists = []
        for state in (f"xt={READ}", f"it={STARRED}"):
            asked = f"client=Vienna&s={named}&{state}&n=1000&output=json"
            refs = many((await self.json(f"reader/api/0/stream/items/ids?{asked}"))["itemRefs"], "itemRefs")
            lists.append({str(int(text(one["id"], "id"))) for one in refs})
        for given, post in self.posts.items():
            if post.feed == feed:
                post.is_read, post.is_starred = given not in lists[0], given in lists[1]

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        marks = f"{'a' if adds else 'r'}={quote(tag, safe='')}&async=true&i={quote(long_id(ids[0]), safe='')}"
        await self.send("reader/api/0/edit-tag", f"T={quote(self.token, safe='')}&{marks}")

    async def edit(self, feed: str, change: str) -> None:
        body = f"T={quote(self.token, safe='')}&ac=edit&s={quote(feed, safe='')}&{change}"
        await self.send("reader/api/0/subscription/edit?client=Vienna", body)

    async def subscribe(self, url: str, folder: str) -> str:
        body = f"T={quote(self.token, safe='')}&quickadd={quote(url, safe='')}"
        feed = text((await self.json("reader/api/0/subscription/quickadd?client=Vienna", body))["streamId"], "streamId")
        await self.edit(feed, f"a={quote(LABEL + folder, safe='')}")
        return feed

    async def move(self, feed: str, folder: str) -> None:
        before = self.feeds[feed].folder
        await self.edit(feed, f"a={quote(LABEL + folder, safe='')}")
        await self.edit(feed, f"r={quote(LABEL + before, safe='')}")

    async def rename(self, feed: str, title: str) -> None:
        await self.edit(feed, f"t={quote(title, safe='')}")


class Twine(NativeClient):
    """Reads what arrived since a day before its last sync, at first two weeks; and sends no token with its changes."""

    mark_size = 500
    synced: float | None = None

    async def sign_in(self) -> None:
        reply = await self.send("accounts/ClientLogin", f"Email={self.user}&Passwd={quote(self.password)}")
        found = re.search("Auth=([^&]+)", reply.text)
        self.auth = found[1].strip() if found else ""
        need(self.auth and "\n" not in self.auth, "Auth isn't the last line")
        text((await self.json("reader/api/0/user-info?output=json"))["userName"], "userName", empty=False)

    async def fetch(self) -> None:
        now = self.server.now
        subscriptions = (await self.json("reader/api/0/subscription/list?output=json"))["subscriptions"]
        self.listed(subscriptions, several=True)
        self.posts = {given: post for given, post in self.posts.items() if post.feed in self.feeds}
        tags = {text(one["id"], "id") for one in (await self.json("reader/api/0/tag/list?output=json"))["tags"]}
        for one in subscriptions:
            need({text(category["id"], "id") for category in one["categories"]} <= tags, "a folder isn't listed")
        since = now - 14 * 86_400 if self.synced is None else self.synced - 86_400
        await self.articles(f"s={quote(ALL, safe='')}&n=500&ot={int(since)}&output=json")
        self.synced = now
        await self.articles(f"s={quote(STARRED, safe='')}&n=500&output=json")
        lists = []
        for state in (f"s={quote(ALL, safe='')}&xt={quote(READ, safe='')}", f"s={quote(STARRED, safe='')}"):
            page = await self.json(f"reader/api/0/stream/items/ids?{state}&n=50000&output=json")
            lists.append([str(int(text(one["id"], "id"))) for one in many(page["itemRefs"], "itemRefs")])
        self.states(*lists)

    async def articles(self, asked: str) -> None:
        """Read a stream in pages; posts of feeds that it doesn't know are left out."""
        more = ""
        while True:
            page = await self.json(f"reader/api/0/stream/contents?{asked}{more}")
            for one in many(page["items"], "items"):
                text(one["summary"]["content"], "content")
                whole(one["published"], "published", 63)
                [text(link["href"], "href") for link in [*one["canonical"], *one["alternate"]]]
                feed = text(one["origin"]["streamId"], "streamId")
                if feed in self.feeds:
                    self.posts[decimal_id(text(one["id"], "id"))] = Post(feed, text(one["title"], "title"))
            if not page["items"] or page.get("continuation") is None:
                return
            more = f"&c={quote(text(page['continuation'], 'continuation'), safe='')}"

    async def send_marks(self, tag: str, ids: Sequence[str], *, adds: bool) -> None:
        items = "&".join(f"i={quote(long_id(one), safe='')}" for one in ids)
        await self.send("reader/api/0/edit-tag", f"{items}&{'a' if adds else 'r'}={quote(tag, safe='')}")

    async def edit(self, feed: str, change: str) -> None:
        await self.send("reader/api/0/subscription/edit", f"{change}&s={quote(feed, safe='')}")

    async def subscribe(self, url: str, folder: str) -> str:
        added = (await self.send(f"reader/api/0/subscription/quickadd?quickadd={quote(url, safe='')}", b"", "")).json()
        feed = text(added["streamId"], "streamId", empty=False)
        with suppress(Refused):  # it makes the folder first, and doesn't look at the reply
            await self.edit("", f"ac=edit&a={quote(LABEL + folder, safe='')}")
        await self.edit(feed, f"ac=edit&a={quote(LABEL + folder, safe='')}")
        return feed

    async def move(self, feed: str, folder: str) -> None:
        await self.edit(feed, f"ac=edit&a={quote(LABEL + folder, safe='')}")

    async def rename(self, feed: str, title: str) -> None:
        await self.edit(feed, f"ac=edit&t={quote(title, safe='')}")

    async def unsubscribe(self, feed: str) -> None:
        await self.edit(feed, "ac=unsubscribe")


CLIENTS: tuple[Callable[..., NativeClient], ...] = (
    NetNewsWire, Readrops, ReadYou, FluentReader, RssGuard, CapyReader, Newsboat, Liferea, Vienna, Twine,
)  # fmt: skip
