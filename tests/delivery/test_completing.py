"""Look-ups for entries: cached, limited, and without errors for the entry."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from microsub.cache import CachingFetcher
from microsub.delivery import look_ups as completing
from microsub.delivery.look_ups import Completing
from microsub.fetch import Fetcher, FetchFailed, FetchRequest, FetchResult, FetchSettings
from microsub.model.jf2 import Card, Entry
from microsub.parsing.pool import ParsePool
from tests.support.parsing import PARSER
from tests.support.readers import Web

HOME = "https://ann.example/"
THERE = "https://bob.example/1"
CARD = (
    b'<div class="h-card"><a class="u-url u-uid p-name" href="/">Ann</a><img class="u-photo" src="/a.png" alt=""></div>'
)
POST = b'<article class="h-entry"><h1 class="p-name">Pears</h1><p class="e-content">They are ripe.</p></article>'
LIKE = Entry(url=f"{HOME}likes/1", author=Card(url=HOME), like_of=(THERE,))


class HungWeb(Web):
    """Some hosts never answer; `most` is the highest number of simultaneous requests."""

    def __init__(self, *hung: str) -> None:
        super().__init__()
        self.hung = hung
        self.open = self.most = 0
        self.tried: list[str] = []

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.open += 1
        self.tried.append(request.url)
        self.most = max(self.most, self.open)
        try:
            await (asyncio.Event().wait() if request.url in self.hung else asyncio.sleep(0))
            return await super().fetch(request)
        finally:
            self.open -= 1


def web(*hung: str) -> HungWeb:
    made = HungWeb(*hung)
    made.documents |= {HOME: (CARD, "text/html"), THERE: (POST, "text/html")}
    return made


async def test_an_entry_is_completed() -> None:
    """Author and target are added; a second run changes nothing."""
    pages = web()
    completer = Completing(CachingFetcher({}, pages), PARSER)
    done = await completer.complete(LIKE)
    assert done.author == Card(name="Ann", url=HOME, photo=f"{HOME}a.png")
    found = done.refs[THERE]
    assert isinstance(found, Entry)
    assert found.name == "Pears"
    assert await completer.complete(done) is done
    assert await Completing(CachingFetcher({}, pages), PARSER).complete(LIKE) == done


async def test_a_failed_look_up_leaves_the_entry_unchanged() -> None:
    """A missing page, a page without data and a huge page: the other look-up still counts."""
    pages = web()
    del pages.documents[THERE]
    done = await Completing(pages, PARSER).complete(LIKE)
    assert done.author is not None
    assert (done.author.name, done.refs) == ("Ann", {})
    pages.documents[HOME] = (b"\x89PNG", "image/png")
    assert await Completing(pages, PARSER).complete(LIKE) is LIKE
    pages.documents[HOME] = (b"<b>" * 2_000_000, "text/html")
    assert await Completing(pages, PARSER).complete(LIKE) is LIKE


async def test_a_hanging_page_doesnt_delay_the_results() -> None:
    """The results until the time limit are used."""
    done = await Completing(web(THERE), PARSER, seconds=2).complete(LIKE)
    assert done.author is not None
    assert (done.author.name, done.refs) == ("Ann", {})


async def test_a_busy_host_doesnt_delay_other_hosts() -> None:
    """There is one request at a time per host, and look-ups on other hosts don't wait for it."""
    hung = tuple(f"https://slow.example/{n}" for n in range(20))
    pages = web(*hung)
    entries = [replace(LIKE, like_of=(url,)) for url in (*hung, THERE)]
    done = await Completing(pages, PARSER, at_once=3, seconds=3).complete_all(entries)
    assert list(done[-1].refs) == [THERE]
    assert sum(url in hung for url in pages.tried) == 1


async def test_look_ups_of_one_call_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document full of likes doesn't turn the server into a crawler."""
    monkeypatch.setattr(completing, "MOST", 10)
    pages = web()
    entries = [replace(LIKE, like_of=(f"https://b{n}.example/",)) for n in range(30)]
    await Completing(pages, PARSER).complete_all(entries)
    assert len(pages.asked) == 10


async def test_authors_are_remembered_for_a_while() -> None:
    """The next posts of a blog need no request, even if its author wasn't found; hours later they do."""
    now = 0.0
    pages = web()
    pages.documents["https://eve.example/"] = (b"<p>Nobody</p>", "text/html")
    completer = Completing(pages, PARSER, clock=lambda: now)
    entries = [replace(LIKE, author=Card(url=url), like_of=()) for url in (HOME, "https://eve.example/")]
    for later, requests in ((0.0, 2), (300.0, 2), (700.0, 3), (completing.REMEMBERED + 1, 5)):
        now = later
        await completer.complete_all(entries)
        assert len(pages.asked) == requests


async def test_private_addresses_are_refused() -> None:
    """A post that likes a page in our own network reveals nothing of it."""
    fetcher = Fetcher(FetchSettings())
    seen: list[FetchResult] = []

    class Watched:
        async def fetch(self, request: FetchRequest) -> FetchResult:
            seen.append(await fetcher.fetch(request))
            return seen[-1]

    targets = ("http://127.0.0.1:6379/", "http://[::1]/", "http://169.254.169.254/latest/", "http://localhost/")
    entry = Entry(url=f"{HOME}1", author=Card(url="http://10.0.0.1/"), like_of=targets)
    try:
        assert await Completing(CachingFetcher({}, Watched()), PARSER).complete(entry) is entry
    finally:
        await fetcher.aclose()
    assert len(seen) == 5
    assert all(isinstance(reply, FetchFailed) and reply.forbidden for reply in seen)


async def test_a_bug_is_an_exception() -> None:
    """An error in our own code isn't mistaken for a page without data."""

    class Wrong(ParsePool):
        async def measured(self, *_: Any, **_how: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Completing(web(), Wrong(())).complete(LIKE)
