"""Parameters as typed arguments, and their error messages."""

from __future__ import annotations

import itertools

import pytest

from microsub.api import arguments
from microsub.base.errors import InvalidRequest
from microsub.model.reader import Cursor, PageQuery
from microsub.web import actions
from microsub.web.params import Params, collect

LONGEST = "https://example.com/" + "x" * 2028
LONGEST_IN_UNICODE = "https://example.com/" + "ü" * 1014
"""Both have 2,048 bytes."""


def params(**values: str) -> Params:
    return collect(values.items())


def test_a_page_query_without_parameters_is_the_first_page() -> None:
    """Twenty items, read and unread."""
    assert arguments.page_query(params()) == PageQuery(limit=20)


def test_a_full_page_query() -> None:
    """Every parameter is read."""
    cursor = Cursor("1700000000.000001", "17")
    query = arguments.page_query(params(after=cursor.encode(), limit="5", is_read="false", source="3"))
    assert query == PageQuery(limit=5, after=cursor, view="unread", source="3")
    assert arguments.page_query(params(is_read="TRUE")).view == "read"


@pytest.mark.parametrize(
    ("text", "limit"),
    [("1", 1), ("100", 100), ("101", 100), ("100000", 100), ("9" * 23, 100), ("9" * 5000, 100), ("0" * 5000 + "7", 7)],
)
def test_a_limit_above_the_maximum_is_the_maximum(text: str, limit: int) -> None:
    """A client that asks for more gets the maximum."""
    assert arguments.page_query(params(limit=text)).limit == limit


NO_LIMIT = r"'limit' can't be used: found .*, expected a whole number from 1 to 100"
CURSORS = itertools.product(("before", "after"), ("x", "17", "MTcw", "!!!!", "\u00e9", "0" * 5000))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        *(("limit", text, NO_LIMIT) for text in ("0", "-1", "1.5", "ten", "١٠", " 5", "1e3", "000", "+7", "²")),
        *(("is_read", text, "'is_read' can't be used") for text in ("maybe", "2", "no")),
        *((name, text, f"'{name}' is not a cursor") for name, text in CURSORS),
    ],
)
def test_a_value_that_means_no_page_is_refused(name: str, text: str, problem: str) -> None:
    """A guess would show the first page, or read items as unread."""
    with pytest.raises(InvalidRequest, match=problem):
        arguments.page_query(collect([(name, text)]))


def test_before_and_after_exclude_each_other() -> None:
    """A page is next to one place."""
    cursor = Cursor("1", "1").encode()
    with pytest.raises(InvalidRequest, match="'before' and 'after'"):
        arguments.page_query(params(before=cursor, after=cursor))


@pytest.mark.parametrize("text", ["a b", "a.b", "../x", "ä", "x" * 65, "a\n"])
def test_a_channel_is_a_uid(text: str) -> None:
    """Only a valid uid becomes part of a key."""
    with pytest.raises(InvalidRequest, match="'channel' can't be used"):
        actions.channel_in(params(channel=text))


def test_ids_that_can_not_be_ours_are_ignored() -> None:
    """Unknown ids of any form are no error."""
    found = collect([("entry", entry) for entry in ("5", "05", "x", "-1", "5 ", "9" * 30, "7")])
    assert actions.entries_in(found) == ["5", "7"]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (" https://example.com/feed ", "https://example.com/feed"),
        ("HTTPS://Example.com", "HTTPS://Example.com"),
        ("feed:https://example.com/f", "https://example.com/f"),
        ("feed://example.com/f", "http://example.com/f"),
        ("http://[::1]:8080/f", "http://[::1]:8080/f"),
        ("https://bücher.example/ü", "https://bücher.example/ü"),
        (LONGEST, LONGEST),
        (LONGEST_IN_UNICODE, LONGEST_IN_UNICODE),
    ],
)
def test_urls_that_are_taken(text: str, url: str) -> None:
    """White space around and the `feed:` scheme are accepted."""
    assert actions.url_in(params(url=text)) == url


@pytest.mark.parametrize(
    "text",
    [
        "example.com", "/feed", "ftp://example.com/", "javascript:alert(1)", "http://", "http:///x", "https://a b/",
        "https://example.com:port/", "https://example.com:99999/", "http://[::1/", "file:///etc/passwd",
        "https://example.com/\n", "feed:", LONGEST + "x", LONGEST_IN_UNICODE + "x", "https://example.com/<script>",
    ],
)  # fmt: skip
def test_urls_that_are_refused(text: str) -> None:
    """Anything but an absolute http(s) URL; the message has the parameter and the value found."""
    if text.endswith("\n"):
        text = "https://exam\nple.com/"
    with pytest.raises(InvalidRequest, match=r"'url' can't be used: found '.*', expected an absolute http or https"):
        actions.url_in(params(url=text))


@pytest.mark.parametrize("text", [" ", "\x00", "a\u202eb", "x" * 201])
def test_names_are_printable_and_short(text: str) -> None:
    """Every client shows the name."""
    with pytest.raises(InvalidRequest, match="'name' can't be used"):
        arguments.name(params(name=text))


def test_white_space_in_names_is_tidied() -> None:
    """`News` and ` News ` are one channel."""
    assert arguments.name(params(name="  My \t news\n")) == "My news"
