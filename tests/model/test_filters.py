"""The decisions of filters, as a pure function."""

from __future__ import annotations

import gc
import time
from dataclasses import fields
from typing import Any

import pytest

from microsub.model.filters import MOST_COMPILED, Filter, Searched, compiled
from microsub.model.settings import Filters


def post(text: str = "", kind: str = "note", **more: Any) -> Searched:
    return Searched.of({"type": "entry", "post-type": kind, "content": {"html": "", "text": text}, **more})


def takes(filters: dict[str, Any], found: Searched) -> bool:
    return Filter.of(filters).takes(found)


def test_no_filter_takes_everything() -> None:
    """An empty object and empty lists have no effect."""
    assert takes({}, post("anything"))
    assert takes(
        {name: [] for name in (field.name for field in fields(Filters)) if not name.endswith("regex")}, post("anything")
    )


def test_kinds_are_included_and_excluded() -> None:
    """By post type, in any case; exclusion takes precedence."""
    assert takes({"include_types": ["Photo"]}, post(kind="photo"))
    assert not takes({"include_types": ["photo"]}, post(kind="note"))
    assert not takes({"exclude_types": ["like", "repost"]}, post(kind="repost"))
    assert not takes({"include_types": ["photo"], "exclude_types": ["photo"]}, post(kind="photo"))
    assert not takes({"include_types": ["photo"]}, Searched.of({"type": "entry"}))


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("python", "About Python 3", True),
        ("python", "Pythonic code", False),
        ("c++", "I write C++, sometimes", True),
        ("rock and roll", "Rock  and\nroll!", True),
        ("ärger", "Viel ÄRGER.", True),
        ("arg", "Viel Ärger", False),
        ("straße", "STRASSE", True),
        ("東京", "明日東京に行く", True),
        ("snake", "snake_case", False),
        ("ﬁne", "fine", True),
        ("a", "", False),
    ],
)
def test_words_are_found_whole_in_any_case(word: str, text: str, found: bool) -> None:
    """Unicode's cases and forms are equal; scripts without case, often without spaces, match anywhere."""
    assert takes({"include_words": [word]}, post(text)) is found
    assert takes({"exclude_words": [word]}, post(text)) is not found


def test_filters_search_texts_but_not_the_author() -> None:
    """Each is searched as a separate line."""
    one = post("body", name="title", summary="short", category=["tag one", "tag two"], author={"name": "Ann"})
    for word in ("title", "short", "body", "tag two"):
        assert takes({"include_regex": f"(?m)^{word}$"}, one)
    assert not takes({"include_regex": "Ann"}, one)
    assert not takes({"include_words": ["note"]}, one)


def test_words_or_expression_and_the_kind_must_match() -> None:
    """An included word or the expression is enough, but the kind must match as well; exclusions take precedence."""
    both = {"include_words": ["tea"], "include_regex": "cof+ee"}
    assert takes(both, post("tea"))
    assert takes(both, post("coffee"))
    assert not takes(both, post("water"))
    assert not takes({**both, "include_types": ["photo"]}, post("tea"))
    assert not takes({**both, "exclude_regex": "green"}, post("green tea"))
    assert not takes({**both, "exclude_words": ["green"]}, post("green tea"))


def test_an_expression_that_cannot_be_used_is_left_out_and_named() -> None:
    """An expression that is invalid today may have been stored before: the rest of the filter applies."""
    rule = Filter.of({"include_regex": "(", "exclude_types": ["like"]})
    assert rule.broken == ("include_regex",)
    assert rule.takes(post("anything"))
    assert not rule.takes(post(kind="like"))


@pytest.mark.parametrize("wire", [{}, {"content": "text"}, {"category": "one"}, {"name": 5, "content": {"text": None}}])
def test_posts_of_any_shape_can_be_searched(wire: dict[str, Any]) -> None:
    """Imported and saved posts may lack fields that others have."""
    assert takes({"exclude_words": ["x"]}, Searched.of(wire))


@pytest.mark.parametrize("marks", ["\u0315\u0300" * 250_000, "\u0315" * 250_000 + "\uff9e\u0300" * 125_000])
def test_endless_combining_marks_take_no_long_time(marks: str) -> None:
    """Sorting them kept the worker busy for minutes; words next to them are found."""
    started = time.process_time()
    found = post(f"cats e\u0301te\u0301 a{marks} dogs")
    assert takes({"include_words": ["\u00e9t\u00e9"]}, found)
    assert takes({"include_words": ["dogs"]}, found)
    assert time.process_time() - started < 2


def test_few_expressions_are_kept_compiled() -> None:
    """Each may take 4 MB: filters keep their text, and a process keeps the last used expressions."""
    kind = type(compiled("a"))

    def there() -> int:
        gc.collect()
        return sum(isinstance(one, kind) for one in gc.get_objects())

    compiled.cache_clear()
    before = there()
    filters = [Filter.of({"exclude_regex": f"number {number}"}) for number in range(3 * MOST_COMPILED)]
    assert there() - before <= MOST_COMPILED
    assert not filters[0].takes(post("number 0")), "it is compiled again"


@pytest.mark.parametrize(
    "damaged", ['{"exclude_words":', "[]", '"a"', '{"exclude_words": 3}', '{"exclude_words": [3]}']
)
def test_a_damaged_filter_isnt_read(damaged: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        Filters.read(damaged)
