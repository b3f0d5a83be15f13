"""Parsing in threads, with an end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from microsub.errors import ParseError
from microsub.fetch import Fetched
from microsub.model.jf2 import Feed
from microsub.pipeline.parsing import ParsePool


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
    go_on = threading.Event()

    def parse(body: bytes, url: str, _content_type: str | None) -> Feed:
        if body == b"slow":
            go_on.wait(10)
        return Feed(url, "rss")

    pool = ParsePool(threads=2, seconds=0.1, parse=parse)
    slow = asyncio.create_task(pool.parse(document(b"slow")))
    await pool.parse(document(b"quick"))
    with pytest.raises(ParseError) as failure:
        await slow
    assert "u:p" not in str(failure.value)
    go_on.set()
    pool.close()
