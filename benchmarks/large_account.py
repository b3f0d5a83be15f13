"""The web interface for users with many follows: requests to a small and a large account in turn, over HTTP.

Both accounts are filled by the product's own steps for storing and delivering posts. The requests are those that a
browser sends: the first page, the form that marks all as read, and the form that undoes that.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import orjson

from benchmarks.report import aligned
from benchmarks.shelves import entry
from benchmarks.world import SETTINGS, rewritten, web
from microsub import server
from microsub.accounts.sessions import Sessions
from microsub.base.settings import Settings
from microsub.formats.wire import dump, to_wire
from microsub.posts.ingest import PostWriter
from microsub.posts.values import ItemToStore
from microsub.redis.scripts import batches
from microsub.web.forms import FIELD

MOST_TIMES, MOST_SECONDS = 1.5, 2.0
_PASSED = re.compile(r'<form id="mark-all".*?</form>', re.DOTALL)
_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
_UNDO = re.compile(r'<form id="undo".*?</form>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an account; each feed has `posts`, all of them unread."""

    channels: int
    feeds: int
    posts: int

    @property
    def items(self) -> int:
        """Items in all timelines together."""
        return self.feeds * self.posts


SMALL, LARGE = Size(5, 20, 40), Size(500, 5000, 40)


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """The waiting times of one account, in seconds: the median for its first page, the maximum for the others."""

    size: Size
    page: float
    bytes: int
    mark_all: float
    undo: float


@dataclass(frozen=True, slots=True)
class AccountReport:
    """The two accounts of one run."""

    small: AccountFigures
    large: AccountFigures

    @property
    def times(self) -> float:
        """The time of the large account's first page, as a multiple of the small one's."""
        return self.large.page / self.small.page

    def aims(self) -> list[tuple[str, str, bool]]:
        """Each aim with its result, and whether it was reached."""
        one = self.large
        return [
            ("first page, times the small one", f"{self.times:.2f} of {MOST_TIMES}", self.times <= MOST_TIMES),
            ("mark all as read", f"{one.mark_all:.2f} s of {MOST_SECONDS:.0f}", one.mark_all < MOST_SECONDS),
            ("undo", f"{one.undo:.2f} s of {MOST_SECONDS:.0f}", one.undo < MOST_SECONDS),
        ]

    @property
    def met(self) -> bool:
        """Whether all aims were reached."""
        return all(is_met for _, _, is_met in self.aims())


def measure(*, quick: bool) -> AccountReport:
    """Fill both accounts and send requests to them in turn."""
    large, pages, marks = (Size(50, 200, 20), 10, 1) if quick else (LARGE, 60, 3)
    with tempfile.TemporaryDirectory(prefix="microsub-bench-") as place:
        folder = Path(place)
        cookies = asyncio.run(_filled(folder, {"small": SMALL, "large": large}))
        with web(folder) as (endpoint, _):
            sizes = {"small": SMALL, "large": large}
            visitors = {name: Visitor(endpoint, cookie) for name, cookie in cookies.items()}
            took: dict[str, list[float]] = {name: [] for name in visitors}
            for number in range(pages + 5):
                for name, visitor in visitors.items():
                    seconds = visitor.open()
                    if number >= 5:
                        took[name].append(seconds)
            found = {
                name: AccountFigures(
                    sizes[name], median(took[name]), visitor.bytes, *visitor.mark_and_undo(sizes[name].items, marks)
                )
                for name, visitor in visitors.items()
            }
    return AccountReport(found["small"], found["large"])


class Visitor:
    """An HTTP client with the session of a signed-in browser."""

    def __init__(self, endpoint: str, session: str) -> None:
        host, _, port = endpoint.removeprefix("http://").partition("/")[0].partition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=120)
        self._cookies = {f"microsub-session-{port}": session}
        self._page = ""
        self.bytes = 0

    def open(self) -> float:
        """Request the first page; returns the seconds."""
        began = time.perf_counter()
        self._page = self._ask("GET", "/")
        took = time.perf_counter() - began
        self.bytes = len(self._page.encode())
        return took

    def mark_and_undo(self, items: int, times: int) -> tuple[float, float]:
        """Mark all as read and undo that, several times; returns the maximum of each in seconds."""
        marking, undoing = [], []
        for _ in range(times):
            self.open()
            fields = self._fields(_PASSED)
            began = time.perf_counter()
            marked = orjson.loads(self._ask("POST", "/marks/all", fields))
            marking.append(time.perf_counter() - began)
            _expect(marked["unread"]["global"], 0)
            fields = {**self._fields(_UNDO), "undo": marked["undo"]}
            began = time.perf_counter()
            undone = orjson.loads(self._ask("POST", "/marks/undo", fields))
            undoing.append(time.perf_counter() - began)
            _expect(undone["unread"]["global"], items)
        return max(marking), max(undoing)

    def _fields(self, form: re.Pattern[str]) -> dict[str, str]:
        found = form.search(self._page)
        if found is None:
            raise RuntimeError(f"the page has no such form: {self._page[:500]}")
        fields = dict(_FIELD.findall(found[0]))
        return {FIELD: fields.pop(FIELD), **fields}

    def _ask(self, method: str, path: str, fields: Mapping[str, str] | None = None) -> str:
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        body = None
        if fields is not None:
            headers |= {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
            body = urlencode(fields)
        self._connection.request(method, path, body, headers)
        reply = self._connection.getresponse()
        text = reply.read().decode()
        for cookie in reply.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:500]}")
        return text


def _expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} posts are unread, of {wanted} that should be")


# --- filling ----------------------------------------------------------------------------------------------------------


async def _filled(folder: Path, sizes: Mapping[str, Size]) -> dict[str, str]:
    """The users' cookies."""
    (folder / "backend.json").write_text(SETTINGS)
    settings = Settings(data_dir=folder / "data", backend=folder / "backend.json")
    cookies: dict[str, str] = {}
    now = float(int(time.time()))
    async with server.stores.open_stores(settings, create=True) as stores:
        for user, size in sizes.items():
            began = time.perf_counter()
            await stores.accounts.add_user(user, "", now)
            for number in range(size.channels):
                await stores.channels.create(user, f"Channel {number}", now, f"c{number}")
            for feeds in batches([str(number) for number in range(size.feeds)], 20):
                await asyncio.gather(*(_followed(stores, user, size, int(number), now) for number in feeds))
            cookies[user] = await Sessions(stores.redis).begin(user, "", "benchmark", "", now)
            print(f"  {user} account: {size.items:,} items in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        await rewritten(stores.redis)
    return cookies


async def _followed(stores: server.stores.Stores, user: str, size: Size, number: int, now: float) -> None:
    """A feed that the user follows, with posts that were ingested as new ones."""
    uid = f"c{number % size.channels}"
    feed = await stores.feeds.ensure(f"https://{user}{number}.example/feed", now)
    await stores.channels.follow(user, uid, feed.id, feed.url, now)
    await stores.feeds.subscribe(feed.id, user, uid)
    moments = [now - (place * size.feeds + number) * 10 for place in range(size.posts)]
    written = [(entry(place, at), at) for place, at in enumerate(moments)]
    posts = [ItemToStore(one.guid or "", dump(to_wire(one)), "-", at) for one, at in written]
    stored = await PostWriter(stores.redis).write(feed, posts, now, mostly_new=True)
    ids = [item.id for item in stored.new]
    items = await stores.items.timeline_items(ids)
    await stores.adder.add(user, uid, feed.id, items, now=now, limit=0, fresh=size.posts)
    await stores.items.done(feed.id, ids)


# --- what it says -----------------------------------------------------------------------------------------------------


def text(found: AccountReport) -> str:
    """The tables, for the terminal and for pages."""
    rows = [("account", "channels", "feeds", "items", "first page, ms", "bytes", "mark all, s", "undo, s")]
    for name, one in (("small", found.small), ("large", found.large)):
        size = (f"{one.size.channels:,}", f"{one.size.feeds:,}", f"{one.size.items:,}")
        rows.append((name, *size, f"{one.page * 1e3:.1f}", f"{one.bytes:,}", f"{one.mark_all:.2f}", f"{one.undo:.2f}"))
    aims = [("aim", "reached", ""), *((name, value, "met" if met else "MISSED") for name, value, met in found.aims())]
    return f"{aligned(rows)}\n\n{aligned(aims)}"


def document(found: AccountReport) -> dict[str, Any]:
    """The figures for programs."""
    return {**asdict(found), "times": found.times}
