"""Documents that keep a parser busy, at every door for foreign documents, while a user reads.

A server as in production: a web process and a worker, a real Redis, a publisher on loopback; everything over HTTP. In
both processes every parser of foreign documents logs its calls, and so does the event loop when it has been busy for
more than a moment of processor time, which doesn't grow on a busy machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.hostile.busy import FEEDS, PAGES, in_a_feed
from tests.hostile.doors_program import HELD_UP, PARSED_HERE
from tests.support import THOROUGH
from tests.support.own_server import Surfer, enrolled, sign_in
from tests.support.polling import dated, rss
from tests.support.process import Installation, Reader, reader
from tests.support.waiting import PATIENCE, wait_until
from tests.support.web import Answer, Asked, Publisher, publisher

DOCUMENTS = {**PAGES, **FEEDS}
AT_ONCE = 3
"""At each door."""
TURNS = 1 if THOROUGH else 3
"""Each door gets every third document, each document comes to two doors or more; with `make test-matrix` all to all."""
POSTS = 20


def kind(name: str) -> str:
    return "text/html; charset=utf-8" if name in PAGES else "application/xml"


def serve_all(site: Publisher) -> None:
    """/3 is the fourth document, /feed-3 a feed that contains it, /posts-3 a page whose post likes it."""
    for number, (name, text) in enumerate(DOCUMENTS.items()):
        site.serve(f"/{number}", Answer(text.encode(), headers=[("Content-Type", kind(name))]))
        wrapped = in_a_feed(text).encode()
        site.serve(f"/feed-{number}", Answer(wrapped, headers=[("Content-Type", "application/rss+xml")]))
        site.serve(f"/posts-{number}", lambda asked, number=number: liking(asked, number))


def liking(asked: Asked, number: int) -> Answer:
    port = asked.host.rpartition(":")[2]
    author, target = f"http://author-{number}.test:{port}/{number}", f"http://target-{number}.test:{port}/{number}"
    links = f'<a class="u-author" href="{author}"></a><a class="u-like-of" href="{target}">it</a>'
    post = (
        f'<div class="h-feed"><div class="h-entry"><a class="u-url" href="/one"></a><p class="e-content">x</p>{links}'
    )
    return Answer(f"<title>Notes</title>{post}</div></div>".encode(), headers=[("Content-Type", "text/html")])


@dataclass
class Doors:
    """The doors for a document: each requests one from a host of its own and returns the status of the answer."""

    url: str
    site: Publisher
    ann: Reader
    surfer: Surfer

    @property
    def all(self) -> dict[str, Callable[[int], Awaitable[int]]]:
        return {
            "sign-in": self.sign_in,
            "check of a page": self.check,
            "page of an app": self.app_page,
            "preview": self.preview,
            "search": self.search,
            "follow": self.follow,
            "HTML in a feed": self.follow_feed,
            "look-ups": self.follow_posts,
        }

    def address(self, door: str, number: int, path: str = "") -> str:
        return self.site.url(f"/{path}{number}", f"{door}-{number}.test")

    @asynccontextmanager
    async def stranger(self, number: int) -> AsyncIterator[Surfer]:
        """Strangers with an address of their own each."""
        way = httpx.AsyncHTTPTransport(local_address=f"127.0.1.{number + 1}")
        async with Surfer(http=httpx.AsyncClient(transport=way, timeout=PATIENCE)) as surfer:
            yield surfer

    async def sign_in(self, number: int) -> int:
        async with self.stranger(number) as surfer:
            await surfer.goto(f"{self.url}/sign-in?next=/account")
            await surfer.submit("/sign-in", me=self.address("me", number))
            return surfer.reply.status_code

    async def check(self, number: int) -> int:
        # For strangers, the server requests only the ports of websites, so Ann has pages checked, from many networks.
        async with self.stranger(number) as surfer:
            surfer.http.cookies = self.surfer.http.cookies
            await surfer.goto(f"{self.url}/check")
            await surfer.submit("/check", address=self.address("check", number))
            return surfer.reply.status_code

    async def app_page(self, number: int) -> int:
        client = self.address("app", number)
        asked = {"client_id": client, "redirect_uri": f"{client}/back", "state": "s", "response_type": "code"}
        asked |= {"scope": "read", "code_challenge": "x" * 43, "code_challenge_method": "S256"}
        while (reply := await self.surfer.http.get(f"{self.url}/auth", params=asked)).status_code == 429:
            await asyncio.sleep(1)  # so that documents that wait for a parser don't take the places of this account
        return reply.status_code

    async def preview(self, number: int) -> int:
        return await self._asked("GET", action="preview", url=self.address("preview", number))

    async def search(self, number: int) -> int:
        return await self._asked("POST", action="search", query=self.address("search", number))

    async def follow(self, number: int) -> int:
        return await self._asked("POST", action="follow", channel="odd", url=self.address("follow", number))

    async def follow_feed(self, number: int) -> int:
        return await self._asked("POST", action="follow", channel="odd", url=self.address("feed", number, "feed-"))

    async def follow_posts(self, number: int) -> int:
        return await self._asked("POST", action="follow", channel="odd", url=self.address("posts", number, "posts-"))

    async def _asked(self, method: str, **parameters: str) -> int:
        headers = {"Authorization": f"Bearer {self.ann.token}"}
        sent = {"params": parameters} if method == "GET" else {"data": parameters}
        reply = await self.ann.client.request(method, self.ann.endpoint, headers=headers, **sent)  # type: ignore[arg-type]
        return reply.status_code


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Doors, Reader, Installation]]:
    """A server with Ann, who uses every door, and Bob, who reads."""
    async with publisher() as site, httpx.AsyncClient(timeout=PATIENCE) as http:
        serve_all(site)
        feed = site.serve_document("/good", rss(dated(POSTS)))
        users = {
            "ann": {"me": "https://ann.example/", "channels": [{"uid": "odd", "name": "Odd"}]},
            "bob": {"me": "https://bob.example/", "channels": [{"uid": "home", "feeds": [feed]}]},
        }
        installed = Installation(folder, program=("-m", "tests.hostile.doors_program"))
        installed.write({"users": users, "settings": {"polling": {"host_interval": 0}}})
        try:
            url = await installed.serve("web")
            await installed.start("work")
            printed = await installed.run_each("token create ann", "token create bob")
            tokens = [out.strip() for out in printed]
            await enrolled(installed, url, "ann")
            async with Surfer(http=httpx.AsyncClient(timeout=PATIENCE)) as surfer, reader(url, tokens[1]) as bob:
                await surfer.goto(f"{url}/sign-in?next=/account")
                await sign_in(surfer, "https://ann.example/")
                ann = Reader("ann", tokens[0], http, f"{url}/microsub")

                async def there() -> bool:
                    return len((await bob.get(action="timeline", channel="home", limit=POSTS))["items"]) == POSTS

                await wait_until(there)
                await ann.get(action="preview", url=feed)  # the modules that the first document needs are loaded
                yield Doors(url, site, ann, surfer), bob, installed
        finally:
            await installed.stop()


async def use(doors: Doors) -> dict[str, list[int]]:
    """Sends the documents to the doors, some at a time; the statuses of the answers."""

    async def one(door: Callable[[int], Awaitable[int]], turn: asyncio.Semaphore, number: int) -> int:
        async with turn:
            return await door(number)

    async def each(place: int, door: Callable[[int], Awaitable[int]]) -> list[int]:
        turn = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(one(door, turn, number) for number in numbers(place)))

    found = await asyncio.gather(*(each(place, door) for place, door in enumerate(doors.all.values())))
    return dict(zip(doors.all, found, strict=True))


def numbers(place: int) -> range:
    """The documents that the door at this place gets."""
    return range(place % TURNS, len(DOCUMENTS), TURNS)


def untried(doors: Doors, log: str) -> set[str]:
    """The hosts that got no request for their document, and those of feeds that weren't polled.

    A busy machine may have no time for a feed, or none for all look-ups of a post, which the log says.
    """
    asked = {asked.host.partition(":")[0] for asked in doors.site.asked}
    lines = [json.loads(line) for line in log.splitlines() if '"event"' in line]
    polled, failed = (
        {host for line in lines if line["event"] == event for host in re.findall(r"[a-z]+-[0-9]+\.test", str(line))}
        for event in ("feed polled", "feed could not be polled")
    )
    late = sum(line["missing"] for line in lines if line["event"] == "look-ups took too long")
    at_once, followed = ("me", "check", "app", "preview", "search"), ("follow", "feed", "posts")
    tried = {host: numbers(place) for place, host in enumerate((*at_once, *followed))}
    wanted = {host: {f"{host}-{number}.test" for number in given} for host, given in tried.items()}
    found = set().union(*(hosts - (polled | failed if host in followed else asked) for host, hosts in wanted.items()))
    posts = [number for number in tried["posts"] if f"posts-{number}.test" in polled]
    looked_up = {f"{host}-{number}.test" for host in ("author", "target") for number in posts}
    return found if len(looked_up - asked) <= late else found | (looked_up - asked)


async def test_a_reader_pages_on_while_every_door_gets_documents(tmp_path: Path) -> None:
    """No document is parsed in a process that serves or polls, nothing blocks the event loop, no error is internal, and
    every document was requested by its doors.
    """
    async with running(tmp_path) as (doors, bob, installed):

        async def page() -> None:
            assert len((await bob.get(action="timeline", channel="home", limit=POSTS))["items"]) == POSTS
            await asyncio.sleep(0.1)

        attack = asyncio.create_task(use(doors))
        while not attack.done():
            await page()
        statuses = await attack
        # 503 is correct where a machine has no time for parsers; 429 would mean that a door was never tried.
        assert not {429, 500} & {status for found in statuses.values() for status in found}, statuses
        waited_from = time.monotonic()
        while missing := untried(doors, installed.log):
            assert time.monotonic() - waited_from < PATIENCE, f"never requested: {sorted(missing)}"
            await page()
        assert any(asked.host.startswith("author-") for asked in doors.site.asked)
        for wrong in (PARSED_HERE, HELD_UP, "Traceback"):
            assert wrong not in installed.log
