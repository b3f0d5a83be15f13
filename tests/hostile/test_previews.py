"""Search and preview of documents that keep a parser busy: parsing is ended, and other users get their answers."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator

import pytest

from microsub.parsing.pool import ParsePool
from microsub.parsing.process import ParserProcess
from microsub.redis.protocol import Redis
from microsub.server.parsers import TASKS
from tests.support.polling import dated, rss
from tests.support.readers import instance
from tests.support.waiting import wait_until
from tests.support.world import World

URL = "https://hostile.example/feed"
FEED = "application/rss+xml"
SPINS = b"<rss><channel><title>t</title>" + b"<" * 5_000_000
LARGE = rss([(f"e{number}", f"Entry {number} " + "word " * 300, None) for number in range(400)])
SECONDS = 1.0
ENOUGH = 600.0
"""For documents that are only large."""


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """An instance with a limit of one second of processor time per document."""
    async with instance(real_redis, parser=ParsePool(TASKS, quick=0.5, seconds=SECONDS)) as made:
        yield made


async def test_a_preview_that_would_never_end_is_ended(server: World) -> None:
    """The error gives the reason, the process has ended, and other requests were answered meanwhile."""
    alice = await server.reader("alice", "home")
    server.web.documents[URL] = (SPINS, FEED)
    preview = asyncio.create_task(alice.get(400, action="preview", url=URL))
    assert (await alice.get(action="channels"))["channels"]
    assert not preview.done()
    reply = await preview
    # On a busy machine, the time for the whole preview can end before the process has had its second.
    reasons = "could not be parsed in 1 s of processor time", "no answer in time"
    assert any(reason in reply["error_description"] for reason in reasons)
    assert URL in reply["error_description"]
    await wait_until(lambda: not server.parser._parsers.running)


async def test_without_a_parser_documents_are_refused_for_a_moment(
    server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apps get a plain 503, and so do people who sign in; afterwards documents are read again."""
    alice = await server.reader("alice", "home")
    server.parser._seconds = ENOUGH
    server.web.documents[URL] = (LARGE, FEED)

    def out_of_descriptors(*_given: object) -> ParserProcess:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("microsub.parsing.pool.ParserProcess", out_of_descriptors)
        for ask in (alice.get(503, action="preview", url=URL), alice.post(503, action="search", query=URL)):
            reply = await ask
            assert reply["error"] == "server_error"
            assert "Too many open files" in reply["error_description"]
    assert len((await alice.get(action="preview", url=URL))["items"]) == 20


async def test_a_search_that_would_never_end_finds_nothing(server: World) -> None:
    """An empty result isn't an error; afterwards large documents are read again."""
    alice = await server.reader("alice", "home")
    server.web.documents[URL] = (SPINS, FEED)
    assert (await alice.post(action="search", query=URL))["results"] == []
    server.parser._seconds = ENOUGH
    server.web.documents[URL] = (LARGE, FEED)
    found = await alice.post(action="search", query=URL)
    assert [result["url"] for result in found["results"]] == [URL]
    assert len((await alice.get(action="preview", url=URL))["items"]) == 20


async def test_small_documents_do_not_wait_for_one_that_spins(server: World) -> None:
    """They are read in a process that is reserved for them."""
    alice = await server.reader("alice", "home")
    server.parser._seconds = ENOUGH
    server.web.documents[URL] = (SPINS, FEED)
    server.web.documents["https://good.example/feed"] = (rss(dated(3)), FEED)
    preview = asyncio.create_task(alice.get(400, action="preview", url=URL))
    assert len((await alice.get(action="preview", url="https://good.example/feed"))["items"]) == 3
    assert not preview.done()
    preview.cancel()
