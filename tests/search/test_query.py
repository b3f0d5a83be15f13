"""The query language: its syntax, its errors with their positions, and that SQLite accepts each result."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microsub.model.query import MOST_BYTES, MOST_TERMS, QueryUnreadable, parsed
from microsub.search.words import ALL, document, expression, feed_word, kind_word, link_words
from tests.support import cases, examples

PREFIXES = [link_words("x")[0][:-1], feed_word(""), kind_word(""), ALL]
NOW = datetime(2024, 6, 15, 12, tzinfo=UTC).timestamp()


def asked(text: str, **feeds: list[str]) -> str:
    """The FTS5 expression, with `~`, `~f`, `~k` and `~all` for the prefixes of words that no text contains."""
    query = parsed(text, NOW)
    found = expression(query, {name: feeds.get(name, []) for name in query.feeds})
    return found.translate(str.maketrans(dict(zip(PREFIXES, ("~", "~f", "~k", "~all"), strict=True))))


@pytest.mark.parametrize(("text", "found"), cases("queries_are_parsed", "text", "found"))
def test_queries_are_parsed(text: str, found: str) -> None:
    assert asked(text, pier=["7", "9"]) == found


@pytest.mark.parametrize(
    ("text", "states", "since", "until"),
    [
        ("is:unread", {"unread": True}, None, None),
        ("is:read", {"unread": False}, None, None),
        ("-is:read", {"unread": True}, None, None),
        ("is:saved -is:unread", {"saved": True, "unread": False}, None, None),
        ("after:2024", {}, datetime(2024, 1, 1, tzinfo=UTC), None),
        ("after:2024-05 before:2024-05-31", {}, datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 31, tzinfo=UTC)),
        ("after:2w", {}, datetime(2024, 6, 1, 12, tzinfo=UTC), None),
        ("after:36h", {}, datetime(2024, 6, 14, 0, tzinfo=UTC), None),
        ("before:1Y", {}, None, datetime(2023, 6, 16, 12, tzinfo=UTC)),
        ("after:2020 after:2023 before:2025 before:2024", {}, datetime(2023, 1, 1, tzinfo=UTC),
         datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_states_and_times(text: str, states: dict[str, bool], since: datetime | None, until: datetime | None) -> None:
    query = parsed(text, NOW)
    assert (query.states, query.clauses) == (states, ())
    assert (query.since, query.until) == (since and since.timestamp(), until and until.timestamp())


INVALID = [
    ('tide "late ferry', 6, "found '\"late ferry', expected a second quotation mark"),
    ('title:"late', 7, "a second quotation mark"),
    ("OR tide", 1, "a word or phrase before and after it"),
    ("tide OR", 6, "a word or phrase before and after it"),
    ("tide OR OR fog", 9, "a word or phrase before and after it"),
    ("tide OR is:read", 9, "a condition without 'OR'"),
    ("is:read OR tide", 9, "a word or phrase before and after it"),
    ("tide is:starred", 6, "is:unread, is:read or is:saved"),
    ("is:read is:unread", 9, "agrees with those before"),
    ("kind:poem", 1, "one of article, note"),
    ("before:soon", 1, "a day as in before:2024-05-31"),
    ("tide after:2024-02-31", 6, "a day as in"),
    ("after:99999y", 1, "a time back from now as in after:12h"),
    ("-before:2024", 1, "the condition without '-'"),
    ("author: ann", 1, "a word right after the colon, as in title:boat"),
    ("feed:--", 1, "a word right after the colon"),
    ("ab*", 1, "3 letters or more before the '*'"),
    ("&&&", 1, "a word to look for"),
    ("w " * MOST_TERMS + "last", 2 * MOST_TERMS + 1, "64 terms at most"),
    ("語" * 300, 1, "256 words at most"),
    ("é" * MOST_BYTES, MOST_BYTES // 2 + 1, "10240 bytes at most"),
]


@pytest.mark.parametrize(("text", "position", "words"), INVALID)
def test_invalid_queries_are_refused_with_their_position(text: str, position: int, words: str) -> None:
    with pytest.raises(QueryUnreadable) as refused:
        parsed(text, NOW)
    assert refused.value.position == position
    assert words in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.fixture(scope="module")
def table() -> Iterator[sqlite3.Connection]:
    with sqlite3.connect(":memory:") as database:
        database.execute(
            "CREATE VIRTUAL TABLE words USING fts5(title, author, body, marks, content='', tokenize='ascii')"
        )
        yield database


PIECES = st.sampled_from(
    ["-", '"', "OR", "AND", "NOT", "NEAR(", ")", "*", "^", ":", "author:", "title:", "feed:", "kind:note", "is:read",
     "a", "after:2024", "before:7d", "東京", "ษ", "\x00", "\ue000", "\ud800", "İ", "🎉", "{title}", "+", "abc*", "xx"]
)  # fmt: skip


@settings(max_examples=examples(600), deadline=None)
@given(text=st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=70).map(" ".join), st.lists(PIECES).map("".join)))
def test_any_text_is_answered_or_refused_with_a_place(table: sqlite3.Connection, text: str) -> None:
    """Every result is valid FTS5."""
    try:
        query = parsed(text, NOW)
    except QueryUnreadable as refused:
        assert 1 <= refused.position <= len(text) + 1  # noqa: PT017 - most are understood
        return
    found = expression(query, {name: [str(number) for number in range(500)] for name in query.feeds})
    table.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT 3", (found,)).fetchall()


def test_words_of_different_fields_never_match() -> None:
    """A part of an address that looks like another's word is none."""
    assert len(set(PREFIXES)) == len(PREFIXES)
    address = "https://blog.example/f12/kphoto/all/none/" + "".join(PREFIXES)
    post = document(1, 1.0, {"url": address, "name": address, "_source": "7", "post-type": "note"})
    marks = post.marks.split()
    assert marks[:3] == [ALL, feed_word("7"), kind_word("note")]
    assert {mark[0] for mark in marks[3:]} == {PREFIXES[0]}
    assert not set("".join(PREFIXES)) & set(post.title)
