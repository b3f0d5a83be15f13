"""The tools of a check of the Google Reader API: an app's requests, feeds that are followed, and items."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import httpx

from microsub_conformance.bench import Bench, Run
from microsub_conformance.client import FORM, Client, MicrosubReply, Trail
from microsub_conformance.site.blogs import Person, SampleBlog, SamplePost
from microsub_conformance.verdict import Violation, expect

API = "reader/api/0/"
STATE, LABEL, LONG = "user/-/state/com.google/", "user/-/label/", "tag:google.com,2005:reader/item/"
ALL, READ, STARRED = f"{STATE}reading-list", f"{STATE}read", f"{STATE}starred"
DAY = timedelta(days=1)

Item = dict[str, Any]
Values = Mapping[str, str | int | Sequence[str]]


class NativeClient:
    """Sends requests as one app of one user. `address` is what people type into an app, without a slash at its end."""

    def __init__(self, address: str, user: str, password: str, trail: Trail) -> None:
        self.address = address.rstrip("/")
        self.user = user
        self.password = password
        self.auth = ""
        self.token = ""
        self._http = Client(self.address, password, trail)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def credentials(self) -> dict[str, str]:
        """The fields of a sign-in."""
        return {"Email": self.user, "Passwd": self.password}

    def sign_in(self) -> None:
        """Sign in as most apps do. Raises Violation if the reply has no line `Auth=`."""
        reply = self.send("accounts/ClientLogin", form=self.credentials)
        found = re.search(r"(?m)^Auth=(\S+)", reply.body.decode("utf-8", "replace"))
        if reply.status != 200 or found is None:
            raise Violation("a line 'Auth=' from accounts/ClientLogin", reply.text)
        self.auth = found[1]
        self.token = self.get("token").body.decode("utf-8", "replace").strip()

    def send(
        self,
        path: str,
        *,
        query: Values | None = None,
        form: Values | None = None,
        body: bytes | None = None,
        kind: str = FORM,
        headers: Mapping[str, str] | None = None,
        address: str | None = None,
    ) -> MicrosubReply:
        """GET a path, or POST a form or body to it."""
        content = urlencode(form, doseq=True).encode() if form is not None else body
        sent = {"Authorization": f"GoogleLogin auth={self.auth}"} if self.auth else {}
        sent |= {**({} if content is None else {"Content-Type": kind}), **(headers or {})}
        url = f"{self.address}/{path}" if address is None else address + path
        url += f"?{urlencode(query, doseq=True)}" if query else ""
        return self._http.send(
            "GET" if content is None else "POST", body=content, headers=sent, token=False, endpoint=url
        )

    def get(self, name: str, **query: str | int | Sequence[str]) -> MicrosubReply:
        """GET a name below `reader/api/0/`, with parameters that may repeat."""
        return self.send(API + name, query=query)

    def json(self, name: str, **query: str | int | Sequence[str]) -> Item:
        """The object that is the reply to a GET."""
        return self.get(name, output="json", **query).ok()

    def post(self, name: str, **form: str | int | Sequence[str]) -> MicrosubReply:
        """POST a form with the token for writes, which takes effect: status 200."""
        reply = self.send(API + name, form={"T": self.token, **form})
        expect(reply.status == 200, "status 200", reply.text)
        return reply

    def listed(self, name: str, key: str, **query: str | int | Sequence[str]) -> list[Item]:
        """The list of objects `key` in the reply to a GET."""
        return self.get(name, output="json", **query).listed(key)

    def subscriptions(self) -> list[Item]:
        """The followed feeds."""
        return self.listed("subscription/list", "subscriptions")

    def subscription(self, feed: str) -> Item:
        """One of them, by its id. Raises Violation if it is missing."""
        for one in self.subscriptions():
            if one.get("id") == feed:
                return one
        raise Violation(f"the feed {feed} in subscription/list", "it is missing")

    def tags(self) -> list[str]:
        """The ids of all tags."""
        return [str(tag.get("id")) for tag in self.listed("tag/list", "tags")]

    def ids(self, stream: str, **query: str | int | Sequence[str]) -> list[str]:
        """The ids of one page, the first 1,000 unless `query` has another `n`."""
        asked: Any = {"n": 1000, **query}
        return [str(ref.get("id")) for ref in self.listed("stream/items/ids", "itemRefs", s=stream, **asked)]

    def all_ids(self, stream: str, **query: str | int | Sequence[str]) -> list[str]:
        """The ids of all pages, up to a hundred pages."""
        found: list[str] = []
        asked: Any = {"s": stream, "n": 1000, **query}
        for _ in range(100):
            page = self.json("stream/items/ids", **asked)
            refs = page.get("itemRefs") or []
            found += [str(ref.get("id")) for ref in refs]
            if not page.get("continuation"):
                break
            asked["c"] = str(page["continuation"])
        return found

    def contents(self, ids: Sequence[str]) -> list[Item]:
        """The items with these ids, in the long form as most apps send them, or else in decimal."""
        numbers = [number(one) for one in ids]
        for named in ([f"{LONG}{one:016x}" for one in numbers], list(map(str, numbers))):
            found = self.post("stream/items/contents?output=json", i=named).listed("items")
            if found:
                break
        return found

    def remove_earlier(self, left: re.Pattern[str]) -> None:
        """Remove the feeds and folders of an earlier run that was killed, as far as that works."""
        with contextlib.suppress(Violation, httpx.HTTPError):
            for one in self.subscriptions():
                if re.search(r"/run[0-9a-f]{8}/native-", str(one.get("url"))):
                    self.post("subscription/edit", ac="unsubscribe", s=str(one["id"]))
            for tag in self.tags():
                if left.match(tag.removeprefix(LABEL)):
                    self.post("disable-tag", s=tag)


def number(given: object) -> int:
    """The number that an id means, in the long form, in 16 hexadecimal digits or in decimal. Raises Violation."""
    text = str(given).removeprefix(LONG)
    if re.fullmatch(r"[0-9A-Fa-f]{16}", text) and (text != str(given) or text.startswith("0")):
        return int(text, 16)
    if text.isdecimal():
        return int(text)
    raise Violation("an id", given)


def link_of(item: Item) -> str:
    """The address of an item's page."""
    for name in ("canonical", "alternate"):
        for one in item.get(name) or ():
            if isinstance(one, dict) and one.get("href"):
                return str(one["href"])
    return ""


@dataclass(frozen=True)
class Scene:
    """A followed blog in a folder: its stream, the folder's name, its posts' ids by slug."""

    blog: SampleBlog
    feed: str
    folder: str
    posts: Mapping[str, str]

    @property
    def ids(self) -> list[str]:
        """The ids of all posts."""
        return list(self.posts.values())


class NativeWorld(Bench):
    """The argument of every check of the Google Reader API. A full page has `page` items, `many` a quarter more.

    `named` is how many items apps name in one request.
    """

    page, named = 1000, 10_000

    def __init__(self, run: Run, client: NativeClient) -> None:
        super().__init__(run)
        self.client = client
        self._now = datetime.now(UTC).replace(microsecond=0)

    @property
    def scene(self) -> Scene:
        """The posts that most requirements look at, unread. `lasting` stays as it is, others may be marked."""
        return self.shared("scene", lambda world: world.followed("scene", _kinds(self._now)))

    @property
    def many(self) -> Scene:
        """A folder of several feeds, because servers limit the posts of a feed; the folder is its stream."""
        return self.shared("many", NativeWorld._filled)

    def _filled(self) -> Scene:
        folder, blogs, size = self.folder("many"), [], self.page * 5 // 4
        for name in ("many-a", "many-b", "many-c", "many-d", "many-e"):
            times = [self._now - DAY - at * timedelta(minutes=1) for at in range(size // 5)]
            posts = [SamplePost(f"m{at}", then, f"<p>No. {at}</p>", f"{name} {at}") for at, then in enumerate(times)]
            blogs.append(self.blog(name, posts))
            self.follow(blogs[-1], folder)
        ids = self.arrived(LABEL + folder, size)
        self.mark(ids, r=READ)
        return Scene(blogs[0], LABEL + folder, folder, {one: one for one in ids})

    def blog(self, name: str, posts: Sequence[SamplePost] = ()) -> SampleBlog:
        """A blog that is published and not followed, of two posts unless others are given."""
        chosen = list(posts) or [SamplePost(f"p{at}", self._now - at * DAY, f"<p>{name} {at}</p>", f"{name} {at}")
                                 for at in range(2)]  # fmt: skip
        path = f"/{self.run}/native-{name}"
        blog = SampleBlog(f"Native {name}", path, self.publisher.base, "atom", chosen)
        self.publisher.put(blog.path, blog.document())
        return blog

    def folder(self, label: str) -> str:
        """The name of a folder, which is removed afterwards."""
        name = self.name(label)
        self.afterwards(lambda: self.client.post("disable-tag", s=LABEL + name))
        return name

    def follow(self, blog: SampleBlog, folder: str) -> str:
        """Follow a blog in a folder, as Readrops does; returns the id of its stream."""
        self.client.post("subscription/edit", ac="subscribe", s=f"feed/{blog.url}", a=LABEL + folder)
        return self.id_of(blog)

    def id_of(self, blog: SampleBlog) -> str:
        """The stream of a followed blog, which is unfollowed afterwards. Raises Violation if it isn't followed."""
        for one in self.client.subscriptions():
            if blog.url in (one.get("url"), str(one.get("id")).removeprefix("feed/")):
                form = {"ac": "unsubscribe", "s": str(one["id"])}
                self.afterwards(partial(self.client.post, "subscription/edit", **form))
                return form["s"]
        raise Violation(f"the followed feed {blog.url} in subscription/list", "it is missing")

    def followed(self, name: str, posts: Sequence[SamplePost] = ()) -> Scene:
        """Follow a blog in a folder of its own, and wait for its posts, which are unread then."""
        blog, folder = self.blog(name, posts), self.folder(name)
        feed = self.follow(blog, folder)
        ids = self.arrived(feed, len(blog.posts))
        self.mark(ids, r=READ)
        some = self.client.contents(ids[:250])
        by_link = {link_of(item): number(item.get("id")) for item in some}
        found = {number(one): one for one in ids}
        by_slug = {post.slug: found.get(by_link.get(blog.link(post), 0), "") for post in blog.posts}
        return Scene(blog, feed, folder, {slug: one for slug, one in by_slug.items() if one})

    def arrived(self, feed: str, count: int) -> list[str]:
        """Wait until a stream has so many items; returns their ids."""
        found: list[str] = []

        def probe() -> list[str] | None:
            found[:] = self.client.all_ids(feed)
            return list(found) if len(found) >= count else None

        return self.until(probe, f"{count} items in {feed}", lambda: f"{len(found)} items")

    def mark(self, ids: Sequence[str], **tags: str) -> MicrosubReply:
        """Add a tag `a` and remove a tag `r`, as most apps do."""
        named = [f"{LONG}{number(one):016x}" for one in ids]
        return self.client.post("edit-tag", i=named, **tags)

    @contextlib.contextmanager
    def tagged(self, slug: str, tag: str) -> Iterator[str]:
        """An item of the scene has a tag within the block; yields its id."""
        one = self.scene.posts[slug]
        self.mark([one], a=tag)
        try:
            yield one
        finally:
            self.mark([one], r=tag)

    def item(self, slug: str) -> Item:
        """An item of the scene with its contents."""
        found = self.client.contents([self.scene.posts[slug]])
        expect(len(found) == 1, "the requested item in stream/items/contents", found)
        return found[0]

    def is_unread(self, one: str) -> bool:
        """Whether an item of the scene is in the list of those that aren't read."""
        return one in self.client.ids(self.scene.feed, xt=READ)


def _kinds(now: datetime) -> list[SamplePost]:
    """Posts of every kind that some app takes badly, and others."""
    old, away = datetime(2005, 5, 5, tzinfo=UTC), "https://files.example"
    sent = {
        "note": SamplePost("note", now - DAY, "<p>Only a short note without a name.</p>"),
        "signs": SamplePost("signs", now - DAY, "<p>Signs</p>", "Tom & Jerry <3 cheese"),
        "old": SamplePost("old", old, "<p>Written long ago.</p>", "An old post"),
        "episode": SamplePost(
            "episode", now - DAY, "<p>Listen</p>", "An episode", enclosures=((f"{away}/a.mp3", "audio/mpeg"),)
        ),
        "signed": SamplePost("signed", now - DAY, "<p>By Ann</p>", "Signed", Person("Ann", f"{away}/ann")),
    }
    names = ("lasting", "one", "two", "three", "four", "five", "six")
    plain = [SamplePost(name, now - DAY, f"<p>Of {name}</p>", f"Post {name}") for name in names]
    return [*sent.values(), *plain]
