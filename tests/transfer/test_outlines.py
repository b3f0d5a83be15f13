"""Feed lists that are broken, hostile or not lists at all."""

from __future__ import annotations

import time

import pytest

from microsub.base.errors import ParseError, ParsingStopped
from microsub.parsing.pool import ParsePool
from microsub.transfer.outlines import MOST_BYTES, MOST_OUTLINES, MOST_PROBLEMS, READ_LIST, read_list

CATEGORIES = b"\n<outline xmlUrl='http://a/' category='%b'/>" % b",".join(b"%d" % n for n in range(100))
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 20))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "line 1: the list is empty"),
        (b"\0\0\0\0", "line 1: found no XML element"),
        (b'\xef\xbb\xbf {"a": "<p>"}', "line 1: found JSON, expected OPML, which is XML"),
        (b"[1]", "line 1: found JSON, expected OPML, which is XML"),
        (b"feeds", "line 1: found no XML element"),
        (b"<!DOCTYPE html>\n<html><body><p>Sign in</p></body></html>", "line 2: found <html>, expected <opml>"),
        (b"<rss version='2.0'><channel></channel></rss>", "line 1: found <rss>, expected <opml>"),
        (f"<!DOCTYPE opml [{LAUGHS}]>\n<opml>&l19;</opml>".encode(), "line 1: the list declares entities"),
        (b"<opml>\n<!ENTITY x SYSTEM 'file:///etc/passwd'></opml>", "line 2: the list declares entities"),
        (b"<opml>\n<body>\n<outline text='a'>\n<outline xmlUrl='http://a/'/>", "line 4: the list is incomplete"),
        (b"<opml><body>\n<!-- <outline xmlUrl='http://a/'/></body></opml>", "line 2: a comment isn't closed"),
        (b"<opml><body>" + b"\n<outline text='a'>" * 200 + b"</body>", "line 102: folders are nested more than"),
        (b"<opml><body>" + b"\n<outline/>" * 100_000 + b"</body>", f"line {MOST_OUTLINES + 2}: the list has more"),
        (b"<opml><body>" + CATEGORIES * 600, "line 502: the list names more"),
        (b" " * (MOST_BYTES + 1), f"line 1: the list has {MOST_BYTES + 1} bytes"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_invalid_lists_are_refused_as_a_whole(body: bytes, why: str) -> None:
    """The error names the line, and nothing of the list is used."""
    with pytest.raises(ParseError) as caught:
        read_list(body)
    assert why in str(caught.value)


def test_problems_are_named_up_to_a_bound() -> None:
    """Every line of a list may be invalid."""
    found = read_list(b"<opml><body>" + b"<outline xmlUrl='javascript:alert(1)'/>\n" * 3000 + b"</body></opml>")
    assert (len(found.problems), found.more_problems, found.feeds) == (MOST_PROBLEMS, 2000, ())
    assert [one.line for one in found.problems[:3]] == [1, 2, 3]


def test_feeds_and_folders_named_like_another_readers_settings() -> None:
    """Only folders of Tiny Tiny RSS with exactly these names are left out, never feeds."""
    inside = b'<outline text="tt-rss-prefs"/><outline text="tt-rss-releases" xmlUrl="https://a.example/feed"/>'
    found = read_list(
        b'<opml><body><outline text="tt-rss-labels"><outline label-name="later"/></outline>'
        b'<outline text="tt-rss-news">' + inside + b"</outline></body></opml>"
    )
    assert [folder.name for folder in found.folders] == ["tt-rss-news"]
    assert [(feed.name, feed.folder) for feed in found.feeds] == [("tt-rss-releases", 0)]
    assert found.problems == ()


@pytest.mark.parametrize(
    "piece",
    [
        b"</a ",
        b"<!DOCTYPE [",
        b"<outline ",
        b'<outline "',
        b"<outline text='",
        b"<!--",
        b"<![CDATA[",
        b"<!DOCTYPE ",
        b"<a " + b"b=" * 50,
        b"&" * 9,
    ],
    ids=repr,
)
def test_no_markup_takes_long(piece: bytes) -> None:
    """The time grows linearly with the length of a list."""
    begun = time.process_time()
    with pytest.raises(ParseError):
        read_list(b"<opml><body>" + piece * 50_000)
    assert time.process_time() - begun < 10


async def test_a_list_is_read_in_a_process_with_limits() -> None:
    """A list that takes too much processor time stops the process."""
    pool = ParsePool((READ_LIST,), 1, quick=0.05, seconds=0.05)
    try:
        with pytest.raises(ParsingStopped):
            await pool.run(
                READ_LIST,
                "the list",
                b"<opml><body>" + b"<outline text='a' xmlUrl='http://a.example/'/>" * 49_000 + b"</body></opml>",
            )
    finally:
        pool.close()
