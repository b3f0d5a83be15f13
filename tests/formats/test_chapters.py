"""Chapters in JSON documents, as parser processes read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from microsub.base.errors import ParseError
from microsub.formats.chapters import CHAPTERS_IN
from microsub.formats.podcast import MAX_CHAPTERS
from microsub.model.jf2 import PodcastChapter
from tests.support.parsing import PARSER

URL = "https://pod.example/1/chapters.json"
TYPE = "application/json+chapters"


async def read(body: bytes) -> tuple[PodcastChapter, ...]:
    return await PARSER.run(CHAPTERS_IN, URL, body, URL, TYPE)


def document(*chapters: Any) -> bytes:
    return json.dumps({"version": "1.2.0", "chapters": chapters}).encode()


async def test_chapters_in_their_order() -> None:
    """Those that the publisher leaves out of the table of contents aren't read; addresses become absolute."""
    body = document(
        {"startTime": 90.5, "title": "Boats", "url": "/boats"},
        {"startTime": 0, "title": "Hello"},
        {"startTime": 30, "title": "A picture", "img": "https://pod.example/a.png", "toc": False},
    )
    assert await read(body) == (
        PodcastChapter(0.0, "Hello"),
        PodcastChapter(90.5, "Boats", "https://pod.example/boats"),
    )


@pytest.mark.parametrize("start", [-1, "5", None, True, 1e300, [0], {}])
async def test_starts_that_are_no_times_are_left_out(start: Any) -> None:
    assert await read(document({"startTime": start, "title": "x"}, {"startTime": 1, "title": "y"})) == (
        PodcastChapter(1.0, "y"),
    )


async def test_not_a_number_is_no_start() -> None:
    assert await read(b'{"chapters": [{"startTime": NaN}, {"startTime": Infinity}, {"startTime": 1e999}]}') == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"[1]",
        b'{"chapters": {}}',
        b'{"chapters": [' + b"{}," * 1_000_000 + b"{}]}",
        b'{"chapters": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
        b'{"a":' * 90_000 + b"1" + b"}" * 90_000,
    ],
)
async def test_other_documents_are_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        await read(body)


async def test_number_and_texts_are_bounded() -> None:
    found = await read(document(*({"startTime": n, "title": "t" * 100_000, "url": "javascript:1"} for n in range(300))))
    assert 0 < len(found) <= MAX_CHAPTERS
    assert all(len(one.title or "") <= 300 and one.url is None for one in found)
