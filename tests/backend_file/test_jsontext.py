# ruff: noqa: E501 - messages are compared as people see them
"""JSON text: strict reading, lines of values, rewriting that keeps the rest unchanged."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from microsub.base.errors import ConfigError
from microsub.configuration.json_text import read, rewrite, show


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "line 1, column 1: found an empty file, expected a JSON object"),
        (b" \n", "line 1, column 1: found an empty file, expected a JSON object"),
        (b'{"a": 1', "line 1, column 8: found the end of the file, expected a comma or a closing bracket"),
        (b'{"a" 1}', "line 1, column 6: found a text that isn't shown, expected a colon after the key"),
        (b'{\n  // mine\n}', "line 2, column 3: found a text that isn't shown, expected a key in double quotes (JSON allows no comments)"),
        (b'{"a": }', "line 1, column 7: found '}', expected a value: text in double quotes, a number, true, false, null, a list or an object"),
        (b'{"a":\n tru}', "line 2, column 2: found a word without quotes, expected a value: text in double quotes, a number, true, false, null, a list or an object"),
        (b'{"a": true, b: 1}', "line 1, column 13: found a word without quotes, expected a key in double quotes"),
        (b'{} x', "line 1, column 4: found a word without quotes, expected the end of the file"),
        (b'{"a":1,\n "a":2}', "line 2, column 2: found the key 'a' a second time in one object, expected each key only once"),
        (b'{"a":\n"\xff"}', "line 2: found the byte 0xff, which isn't UTF-8, expected UTF-8 text"),
        (b'{"a": NaN}', "found NaN, expected a finite number"),
        (b'{"a": "\\ud800"}', "found half of a surrogate pair (\\ud8… to \\udf…), expected complete characters"),
        (b'{"a": ' + b"1" * 5000 + b"}", "found a number of more than 4,300 digits, expected fewer digits"),
        (b"[" * 100_000, "found lists or objects nested too deeply, expected at most 100 levels"),
        (b"[" * 102 + b"]" * 102, "found lists or objects nested too deeply, expected at most 100 levels"),
    ],
)  # fmt: skip
def test_invalid_json_is_reported_with_line_and_column(text: bytes, error: str) -> None:
    """The message has the position, the text found there, and what was expected."""
    with pytest.raises(ConfigError) as caught:
        read(text, "b.json")
    assert str(caught.value) == f"b.json: {error}"


def test_a_comma_too_many_is_named() -> None:
    """The most frequent mistake has its own message."""
    with pytest.raises(ConfigError, match=r"no comma before a closing bracket|trailing comma"):
        read(b'{"a": [1,]}', "b.json")


def test_a_byte_order_mark_is_no_mistake() -> None:
    """Some editors write it."""
    assert read(b'\xef\xbb\xbf{"a": 1}', "b.json").value == {"a": 1}


def test_lines_of_values() -> None:
    """The line of a value, or of the nearest container if the value is missing."""
    text = read(b'{\n "a": [\n  1,\n  {"b": 2}\n ]\n}', "b.json")
    assert text.line(("a", 0)) == 3
    assert text.line(("a", 1, "b")) == 4
    assert text.line(("a", 1, "c", "d")) == 4
    assert text.line(()) == 1


def test_paths_are_shown_as_people_write_them() -> None:
    """Keys that aren't plain words are quoted."""
    assert show(("users", "alice-b", "channels", 0, "uid")) == "users.alice-b.channels[0].uid"
    assert show(("feeds", "https://a/", "ttl")) == 'feeds["https://a/"].ttl'


ORIGINAL = b"""{
\t"a": [ 1,2,   3 ],
\t"b": {"uid": "x", "n": "\\u00e9",
\t      "deep": {"y": [true]}},
\t"c": [{"uid": "one", "v": [1,  2]}, {"uid": "two"}]
}
"""


def test_unchanged_parts_keep_their_text() -> None:
    """Spacing, escapes and tabs stay; changed parts are written with the file's indentation."""
    source = read(ORIGINAL, "b.json")
    document = copy.deepcopy(source.value)
    document["b"]["uid"] = "z"
    document["c"] = [{"uid": "new"}, {"uid": "two"}, {"uid": "one", "v": [1, 2], "w": "é"}]
    assert rewrite(source, document) == (
        '{\n\t"a": [ 1,2,   3 ],\n'
        '\t"b": {\n\t\t"uid": "z",\n\t\t"n": "\\u00e9",\n\t\t"deep": {"y": [true]}\n\t},\n'
        '\t"c": [\n\t\t{"uid": "new"},\n\t\t{"uid": "two"},\n'
        '\t\t{\n\t\t\t"uid": "one",\n\t\t\t"v": [1,  2],\n\t\t\t"w": "é"\n\t\t}\n\t]\n}\n'
    )


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
_documents = st.dictionaries(st.sampled_from("abcd"), _values, max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_documents, _documents, st.sampled_from([None, 1, "\t"]))
def test_rewriting_gives_the_new_document_from_any_old_one(
    old: dict[str, Any], new: dict[str, Any], indent: int | str | None
) -> None:
    """Whatever parts are kept, the text means the new document, in its order of keys."""
    try:
        source = read(json.dumps(old, indent=indent).encode(), "b.json")
    except ConfigError:  # half surrogates in keys
        return
    assert rewrite(source, old) == source.text
    assert json.dumps(json.loads(rewrite(source, new))) == json.dumps(new)
