"""Documents that keep a parser busy, at every door by which foreign documents come in.

None is read in the process that serves or polls, so what they cost is for the limits of a parser process
(`tests/parsing`), and nobody else waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import nh3
import orjson
import pytest

from microsub.cache import FeedCache
from microsub.delivery.completing import Completing
from microsub.discovery import links
from microsub.discovery.search import Search
from microsub.errors import MicrosubError
from microsub.fetch import Answered, Fetched, FetchRequest, Sending
from microsub.formats import jsonfeed
from microsub.formats.html import depth, trees
from microsub.formats.mf2 import hfeed
from microsub.formats.xml import syndication
from microsub.identity.page_check.doctor import PageDoctor
from microsub.identity.page_check.server_findings import CheckedAgainst
from microsub.identity.provider.clients import Asker, Clients
from microsub.identity.sign_in.profiles import Profiles
from microsub.model.jf2 import Card, Entry
from microsub.parsing.pool import ParsePool
from microsub.redis.protocol import Redis
from tests.support.readers import instance

URL = "https://hostile.example/"
MANY = 4_000
HELD_UP = 0.3
"""Seconds of processor time without a turn for readers: ordinary requests take a hundredth, these documents seconds."""


def item(markup: str) -> str:
    return f"<rss><channel><item><title>t</title><description><![CDATA[{markup}]]></description></item></channel></rss>"


DOCUMENTS = {
    "list items that nest": "<li><dd>" * MANY,
    "options that nest": "<option><optgroup>" * MANY,
    "annotations that nest": "<rt><rp>" * MANY,
    "cells that nest": "<table>" + "<tr><td><li><dd>" * (MANY // 2),
    "tables in tables": "<table><td>" * MANY,
    "formatting that is never closed": "".join(f"<b id=a{number}>" for number in range(1000)) + "<p>" * MANY,
    "links that are never closed": "<p><a href=x>" * MANY,
    "attributes by the ten thousand": "<p " + " ".join(f"a{number}=1" for number in range(2 * MANY)) + ">",
    "templates in templates": "<template>" * MANY,
    "selects": "<select><option><select><optgroup>" * MANY,
    "foreign content": "<svg><desc><math><mtext>" * MANY,
    "end tags in comments and values": "<li title='</li>'><!--</li>--><dd title='</dd>'>" * MANY,
    "an entry of a feed": item("<li><dd>" * MANY),
    "an h-feed": '<div class="h-feed"><div class="h-entry"><div class="e-content">' + "<li><dd>" * MANY,
    "arrays in arrays": '{"version":"https://jsonfeed.org/version/1","items":' + "[" * MANY,
}


class Site:
    """Answers everything with one document."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def send(self, sending: Sending) -> Answered:
        """As `fetch.Fetcher`."""
        return Answered(200, {"content-type": "text/html"}, self.body, sending.url)

    async def fetch(self, request: FetchRequest) -> Fetched:
        """As `fetch.Fetcher`."""
        return Fetched(request.url, request.url, 200, {}, self.body, "text/html", None, None, None)


@pytest.fixture
async def pool() -> AsyncIterator[ParsePool]:
    """Parsers with short limits."""
    made = ParsePool(quick=0.2, seconds=0.3)
    yield made
    made.close()


@asynccontextmanager
async def loop_watched() -> AsyncIterator[list[float]]:
    """The processor time that this thread spends between two looks, which is what others wait for: seconds.

    A machine that is busy with other things doesn't lengthen it.
    """
    found = [0.0]

    async def look() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            found.append(now - before)
            before = now

    watching = asyncio.create_task(look())
    try:
        yield found
    finally:
        watching.cancel()


@pytest.fixture
def parsers_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of parsers in this process, none of which goes on."""
    calls: list[str] = []

    def refused(name: str) -> Callable[..., object]:
        def parser(*_: object, **__: object) -> object:
            calls.append(name)
            raise AssertionError(f"{name} was called in the process that serves")

        return parser

    for module, name in (
        *((depth, "LexborHTMLParser"), (links, "LexborHTMLParser"), (trees, "LexborHTMLParser")),
        *((hfeed, "to_jf2"), (hfeed, "read_page"), (jsonfeed, "to_jf2"), (syndication, "to_jf2"), (nh3, "Cleaner")),
    ):
        monkeypatch.setattr(module, name, refused(f"{module.__name__}.{name}"))
    return calls


@pytest.mark.parametrize("body", [body.encode() for body in DOCUMENTS.values()], ids=list(DOCUMENTS))
async def test_nothing_foreign_is_parsed_where_others_wait(
    real_redis: Redis, pool: ParsePool, parsers_here: list[str], body: bytes
) -> None:
    """Whichever door it comes by, and a reader is answered meanwhile."""
    site = Site(body)
    document = Fetched(URL, URL, 200, {}, body, "text/html", None, None, None)
    entry = Entry(url="https://ann.example/1", author=Card(url="https://ann.example/"), like_of=("https://b.example/",))
    old = orjson.dumps({"type": "entry", "name": "N", "content": {"html": body.decode()}})
    async with instance(real_redis, parser=pool) as server, FeedCache(fetcher=site) as cache:
        reader = await server.reader("alice", "home")
        search = Search(site, server.services.search._directory, pool)
        doors: list[Awaitable[object]] = [
            Profiles(site, pool).discover(URL),
            Clients(site, pool).find(URL, Asker("192.0.2.1", "ann")),
            PageDoctor(site, pool).examine(URL, CheckedAgainst()),
            search.feeds(URL, 0.0),
            search.preview(URL, 0.0),
            pool.posts_in(document, URL, None, 0.0),
            pool.better_feeds(document),
            Completing(site, pool).complete(entry),
            pool.old_post("6162", old, ""),
            cache.fetch(URL),
        ]

        async def through(door: Awaitable[object]) -> None:
            with suppress(MicrosubError):
                await door

        tasks = [asyncio.create_task(through(door)) for door in doors]
        answered = 0
        async with loop_watched() as held_up:
            while not all(task.done() for task in tasks):
                assert (await reader.get(action="channels"))["channels"]
                answered += 1
                await asyncio.sleep(0.05)
            await asyncio.gather(*tasks)
        assert answered > 1
        assert max(held_up) < HELD_UP
    assert parsers_here == []
