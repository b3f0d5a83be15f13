"""The comparison with lemon24's reader: its feeds, publisher and arithmetic. The rest is `make bench`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.refresh import compare
from benchmarks.refresh.feeds import ENTRIES, content_type, document
from benchmarks.refresh.publisher import Publisher
from benchmarks.refresh.report import STEPS
from microsub.formats.parse import parse

NOW = datetime(2026, 11, 1, tzinfo=UTC)
LOAD = STEPS[0]


@pytest.mark.parametrize("number", range(8))
def test_every_feed_has_20_entries_in_27_kilobytes(number: int) -> None:
    """RSS and Atom; all entries are parsed with title, content, date and author."""
    body = document(number, "http://127.0.1.1:1", ENTRIES, NOW)
    assert 26_500 <= len(body) <= 27_700
    feed = parse(body, f"http://127.0.1.1:1/{number}", content_type(number))
    assert len(feed.entries) == ENTRIES
    for entry in feed.entries:
        assert entry.name
        assert entry.content is not None
        assert entry.published is not None
        assert entry.author is not None
        assert entry.author.name == "Ida Venn"
    assert feed.entries[0].published == NOW


def test_the_next_document_has_one_new_entry() -> None:
    """The window moves by one: 19 posts stay the same, byte for byte."""
    documents = [document(1, "http://127.0.1.1:1", newest, NOW) for newest in (ENTRIES, ENTRIES + 1)]
    before, after = ([part.partition(b"</entry>")[0] for part in body.split(b"<entry>")[1:]] for body in documents)
    assert after[1:] == before[:-1]
    assert after[0] not in before


def test_the_publisher_answers_304_to_its_validator() -> None:
    """Without validators every request gets the whole document, whatever its headers."""
    publisher = Publisher(["127.0.1.1"], 80, NOW)
    first = publisher.reply(0, b"GET /0 HTTP/1.1\r\nHost: x\r\n")
    tag = next(row for row in first.split(b"\r\n") if row.startswith(b"ETag: ")).removeprefix(b"ETag: ")
    conditional = b"GET /0 HTTP/1.1\r\nif-none-match: " + tag + b"\r\n"
    assert publisher.reply(0, conditional).startswith(b"HTTP/1.1 304 ")
    assert publisher.served == {200: 1, 304: 1}
    publisher.enter("bare")
    bare = publisher.reply(0, conditional)
    assert bare.startswith(b"HTTP/1.1 200 ")
    assert b"ETag" not in bare
    assert bare.partition(b"\r\n\r\n")[2] == first.partition(b"\r\n\r\n")[2]
    publisher.enter("news")
    assert publisher.reply(0, conditional).startswith(b"HTTP/1.1 200 ")


def test_pages_and_icons_of_a_publisher_are_missing_and_not_counted() -> None:
    """A reader's server asks for them too; the figures are those of feeds."""
    publisher = Publisher(["127.0.1.1"], 80, NOW)
    for path in (b"/", b"/favicon.ico", b"/1", b"/00"):
        assert publisher.reply(0, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n").startswith(b"HTTP/1.1 404 "), path
    assert publisher.served == {}


def test_an_incomplete_refresh_gives_no_figure() -> None:
    """Other replies or missing posts end the comparison."""
    good = {"feeds": 2, "entries": 40}
    compare._check(LOAD, 2, {"200": 2}, good)
    for served, state in (({"200": 3}, good), ({"304": 2}, good), ({"200": 2}, {"feeds": 2, "entries": 39})):
        with pytest.raises(compare.NotComparedError):
            compare._check(LOAD, 2, served, state)
