"""Parsing in threads and in processes, with an end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from microsub.errors import ParseError
from microsub.fetch import Fetched
from microsub.model.jf2 import Feed
from microsub.parsing.pool import ParsePool, is_heavy
from tests.support.waiting import wait_until


def document(body: bytes = b"") -> Fetched:
    return Fetched("http://u:p@a.test/", "http://a.test/x", 200, {}, body, "text/xml", None, None, None)


async def test_documents_are_parsed_at_their_final_address() -> None:
    """The base of relative links is where the document was found; the loop goes on meanwhile."""
    seen: list[object] = []

    def parse(body: bytes, url: str, content_type: str | None) -> Feed:
        seen.extend((body, url, content_type, threading.current_thread() is threading.main_thread()))
        return Feed(url, "rss")

    pool = ParsePool(parse=parse)
    assert (await pool.parse(document(b"x"))).url == "http://a.test/x"
    assert seen == [b"x", "http://a.test/x", "text/xml", False]
    pool.close()


async def test_a_document_that_takes_for_ever_fails() -> None:
    """The waiting ends, with the address masked; other documents have a thread left."""
    begun, go_on = threading.Event(), threading.Event()

    def parse(body: bytes, url: str, _content_type: str | None) -> Feed:
        if body == b"slow":
            begun.set()
            go_on.wait(60)
        return Feed(url, "rss")

    pool = ParsePool(threads=2, seconds=0.1, parse=parse)
    slow = asyncio.create_task(pool.parse(document(b"slow")))
    await wait_until(begun.is_set)
    pool._seconds = 60  # this machine may have other things to do
    await pool.parse(document(b"quick"))
    with pytest.raises(ParseError) as failure:
        await slow
    assert "u:p" not in str(failure.value)
    go_on.set()
    pool.close()


LARGE = b"<rss><channel><title>t</title>" + b"<item><title>x</title><description>y</description></item>" * 5000


async def test_large_documents_are_parsed_in_a_process() -> None:
    """The process is kept for the next one; what isn't a feed is said as in a thread."""
    pool = ParsePool()
    assert is_heavy(LARGE)
    feed = await pool.parse(document(LARGE))
    assert (feed.name, len(feed.entries), feed.url) == ("t", 300, "http://a.test/x")
    first = pool.processes
    with pytest.raises(ParseError, match="empty"):
        await pool.parse(document(b" " * 300_000))
    assert pool.processes == first
    assert len(first) == 1
    pool.close()


async def test_documents_are_heavy_by_their_tags_too() -> None:
    """A small document of nothing but tags, in any encoding, costs as much as a large one of text."""
    assert not is_heavy(b"x" * 200_000)
    for body in (b"<a>" * 5000, b"&lt;" * 5000, b"{}," * 5000, ("<a>" * 5000).encode("utf-16")):
        assert is_heavy(body)


async def test_a_process_is_ended_when_it_takes_too_long() -> None:
    """Its document has failed, and the next one gets a new process."""
    pool = ParsePool(seconds=2.5)
    with pytest.raises(ParseError, match="could not be parsed in"):
        await pool.parse(document(b"<rss><channel><title>t</title>" + b"<" * 5_000_000))
    assert not pool.processes
    pool._seconds = 60  # this machine may have other things to do
    assert (await pool.parse(document(LARGE))).name == "t"
    pool.close()


async def test_a_process_is_ended_when_it_takes_too_much_memory() -> None:
    """The document fails, here or in the process; nothing else does."""
    pool = ParsePool(memory=8 * 1024 * 1024)
    with pytest.raises(ParseError, match="memory"):
        await pool.parse(document(LARGE * 10))
    pool.close()


async def test_a_process_that_died_while_idle_costs_nothing() -> None:
    """The next document gets another one, and isn't blamed."""
    pool = ParsePool()
    await pool.parse(document(LARGE))
    (pid,) = pool.processes
    os.kill(pid, signal.SIGKILL)
    assert (await pool.parse(document(LARGE))).name == "t"
    assert pool.processes != {pid}
    pool.close()
