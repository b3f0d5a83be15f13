"""Parsing with an end, as a plain function."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from microsub.errors import ParseError, ParserUnavailable, ParsingStopped
from microsub.formats.parse import parse
from microsub.parsing.bounded import BoundedParser
from tests.support.waiting import wait_until

URL = "http://u:p@a.test/x"
SMALL = b"<rss><channel><title>t</title><item><title>x</title></item></channel></rss>"
LARGE = b"<rss><channel><title>t</title>" + b"<item><title>x</title><description>y</description></item>" * 1000
HARD = b'<div class="h-feed"><div class="h-entry"><div class="e-content">' + (
    b'<p class="u-like-of h-cite"><a href=x class="u-url p-author h-card">x</a></p>' * 24_000
)
"""Two megabytes that take some ten seconds."""


def test_it_reads_what_the_parser_reads() -> None:
    """Small or large, feed or not."""
    bounded = BoundedParser()
    for body in (SMALL, LARGE):
        assert bounded(body, URL, "text/xml") == parse(body, URL, "text/xml")
    for body in (b"nothing", b" " * 300_000):
        with pytest.raises(ParseError) as failure:
            bounded(body, URL, None)
        assert not isinstance(failure.value, ParsingStopped)
    bounded.close()


def test_a_document_that_takes_too_long_is_ended() -> None:
    """Its address is masked; the next one is read."""
    bounded = BoundedParser(seconds=0.5)
    with pytest.raises(ParsingStopped, match=r"in 0\.5 s of processor time") as failure:
        bounded(HARD, URL, "text/html")
    assert "u:p" not in str(failure.value)
    assert bounded(SMALL, URL, None).name == "t"
    bounded.close()


def test_a_document_that_takes_too_much_memory_is_ended() -> None:
    """As a failure of that document."""
    bounded = BoundedParser(memory=2 * 1024 * 1024)
    with pytest.raises(ParsingStopped):
        bounded(LARGE * 20, URL, None)
    bounded.close()


def test_many_threads() -> None:
    """Each gets its own document's feed."""
    bounded = BoundedParser()
    with ThreadPoolExecutor(6) as threads:
        titles = [f"t{number}" for number in range(12)]
        bodies = [LARGE.replace(b"<title>t<", f"<title>{title}<".encode()) for title in titles]
        assert [feed.name for feed in threads.map(lambda body: bounded(body, URL, None), bodies)] == titles
    bounded.close()


async def test_closing_ends_what_is_read() -> None:
    """Those who wait for a document aren't held up by it; later documents are read as before."""
    bounded = BoundedParser(at_once=1)
    stopped: list[ParserUnavailable] = []

    def read() -> None:
        try:
            bounded(HARD, URL, "text/html")
        except ParserUnavailable as error:
            stopped.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    await wait_until(lambda: len(bounded._pool._crew.running) == 1 and len(bounded._pool._quick) == 2)
    bounded.close()
    await wait_until(lambda: len(stopped) == 3)
    assert bounded(LARGE, URL, None).name == "t"
    bounded.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_each_process_has_its_own() -> None:
    """The child neither uses nor ends the parent's parser."""
    bounded = BoundedParser(at_once=1)
    bounded(LARGE, URL, None)
    mine = bounded._pool.processes
    child = os.fork()
    if child == 0:
        fine = bounded(LARGE, URL, None).name == "t" and not mine & bounded._pool.processes
        bounded.close()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bounded(LARGE, URL, None)
    assert bounded._pool.processes == mine
    bounded.close()
