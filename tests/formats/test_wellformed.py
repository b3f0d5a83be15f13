"""The short way through feedparser gives the result of the long one; large documents are read like small ones."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from xml.sax import SAXException, handler
from xml.sax.expatreader import ExpatParser
from xml.sax.xmlreader import InputSource

import pytest
from feedparser.api import StrictFeedParser

from microsub.base.errors import ParseError
from microsub.formats import encoding
from microsub.formats import parse as parsing
from microsub.formats.encoding import DocumentText, after_prologue
from microsub.formats.normalise import MAX_BODY, Newest
from microsub.formats.parse import parse
from microsub.formats.wire import from_wire, to_wire
from microsub.formats.xml import xmlfeed
from microsub.formats.xml.elements import Elements
from microsub.formats.xml.wellformed import MAX_DEPTH, MAX_SHORT, TooMuch, WellFormed
from microsub.model.jf2 import Feed
from tests.formats.test_cases import CASES

URL = "https://reader.example/feed"
XML = [path for path in CASES if path.suffix == ".xml"]


class LongWay(Elements, StrictFeedParser):  # type: ignore[misc]
    """feedparser itself, without sanitising and resolving."""

    resolve_relative_uris = False
    sanitize_html = False


def by_the_long_way(text: str) -> LongWay | None:
    parser = LongWay("", None, "utf-8")
    reader = ExpatParser(1)
    reader.setFeature(handler.feature_external_ges, False)
    reader.setContentHandler(parser)
    reader.setErrorHandler(parser)
    source = InputSource()
    source.setByteStream(io.BytesIO(text.encode()))
    try:
        reader.parse(source)
    except SAXException:
        return None
    except ValueError as error:
        pytest.skip(f"feedparser gives up: {error}")
    return parser


def plain(value: Any) -> Any:
    """The compared values: all but languages and base64 flags; long texts as far as both have them."""
    if isinstance(value, str):
        return value[:MAX_SHORT]
    if isinstance(value, time.struct_time):
        return tuple(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if key not in {"language", "base64"}}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("path", XML, ids=lambda path: path.name)
def test_well_formed_feeds_are_read_as_feedparser_reads_them(path: Any) -> None:
    """Entries, channel and version agree, and both refuse the same documents."""
    text = DocumentText(path.read_bytes(), None).take()
    text = "".join(xmlfeed.repaired([text[after_prologue(text) :]]))
    short, long = WellFormed(lambda _: None), by_the_long_way(text)
    try:
        well_formed = short.read([text])
    except TooMuch as error:
        pytest.skip(str(error))
    assert well_formed == (long is not None)
    if long is not None:
        assert plain(short.entries) == plain(long.entries)
        assert plain(short.feeddata) == plain(long.feeddata)
        assert short.version == long.version


def outcome(body: bytes) -> Feed | str:
    try:
        return parse(body, URL, None)
    except ParseError as error:
        return str(error)


@pytest.mark.parametrize("path", XML, ids=lambda path: path.name)
def test_pieces_make_no_difference(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that is read in pieces gives the same feed, wherever it is split."""
    body = path.read_bytes()
    whole = outcome(body)
    monkeypatch.setattr(parsing, "LARGE", 0)
    for size in (80, 1000):
        monkeypatch.setattr(encoding, "PIECE", size)
        assert outcome(body) == whole, size


@pytest.mark.parametrize("size", [1, 7, 50])
def test_repairs_know_what_they_are_in_across_pieces(size: int) -> None:
    """References are repaired in text, and kept in comments and CDATA sections, as in one piece."""
    text = (
        "<a>&nbsp;&amp;&x; <![CDATA[&nbsp;]]>&eacute;<!-- &nbsp; <![CDATA[ -->&hellip;"
        f"<![CDATA[<!-- ]]>&copy;{'x&rarr;' * 200}<![CDATA[{'&nbsp; ' * 200}]]>&nbsp;</a>"
    )
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert "".join(xmlfeed.repaired(pieces)) == "".join(xmlfeed.repaired([text]))
    assert "&copy;" not in "".join(xmlfeed.repaired(pieces))


def dates(*days: int | None) -> Iterator[tuple[int, datetime | None]]:
    for place, day in enumerate(days):
        yield place, None if day is None else datetime(2024, 1, day, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "kept"),
    [
        ((3, 2, 1), [0, 1, 2]),
        ((1, 2, 3, 4, 5), [2, 3, 4]),
        ((5, 1, 4, 2, 3), [0, 2, 4]),
        ((1, 1, 1, 1, 1), [0, 1, 2]),
        ((1, 2, 3, None, 9), [0, 1, 2]),
        ((None, 2, 3, 4, 9), [0, 1, 2]),
        ((1, 2, 3, 4, None), [0, 1, 2]),
    ],
)
def test_the_newest_are_kept_in_their_order(days: tuple[int | None, ...], kept: list[int]) -> None:
    """By date if all have one, otherwise the first ones."""
    newest: Newest[tuple[int, datetime | None]] = Newest(lambda entry: entry[1], most=3)
    for entry in dates(*days):
        newest.add(entry)
    assert [place for place, _ in newest.kept()] == kept


def test_the_depth_of_elements_is_limited() -> None:
    """Documents of that depth are unreadable."""
    inside = "<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH
    with pytest.raises(ParseError, match="nested more than"):
        parse(f"<rss><channel><title>t</title>{inside}</channel></rss>".encode(), URL, None)


def test_very_long_texts_are_truncated() -> None:
    """Titles, and bodies, of a megabyte are truncated."""
    item = f"<item><title>{'t' * 1_000_000}</title><description>{'words ' * 200_000}</description></item>"
    (entry,) = parse(f"<rss><channel><title>t</title>{item}</channel></rss>".encode(), URL, None).entries
    assert entry.name is not None
    assert len(entry.name) == 1000
    assert entry.content is not None
    assert 499_000 < len(entry.content.text or "") <= 500_000
    assert entry.is_cut
    assert from_wire(to_wire(entry)).is_cut


@pytest.mark.parametrize("form", ["{}", "<![CDATA[{}]]>", "{}   \n", "{}&undefined;"])
@pytest.mark.parametrize(("more", "is_cut"), [(-50, False), (0, False), (1, True)])
def test_only_a_text_that_lost_something_counts_as_cut(form: str, more: int, is_cut: bool) -> None:
    """One of exactly the limit is whole."""
    most = MAX_BODY + more - len("&undefined;") * ("&" in form)
    document = f"<rss><channel><title>t</title><item><description>{form.format('w' * most)}</description></item>"
    (entry,) = parse(f"{document}</channel></rss>".encode(), URL, None).entries
    assert entry.is_cut == is_cut
