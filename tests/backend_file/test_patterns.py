"""Regular expressions from outside: RE2, and the messages for those that it doesn't accept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microsub.model.filters import LONGEST, PatternError, compiled


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("(", 0),
        ("é(a", 1),
        ("(a)(b", 3),
        ("ab)", 2),
        (r"\(a)", 3),
        ("[(])", 3),
        ("[a", 0),
        ("ok [a", 3),
        ("a**", 1),
        ("a|*", 2),
        ("x(?=y)", 1),
        (r"(a)\1", 3),
        ("[z-a]", 1),
        ("a{5000}", 1),
        ("\\", 0),
        ("a" * (LONGEST + 1), LONGEST),
    ],
)
def test_an_error_has_its_position(pattern: str, position: int) -> None:
    """The position is that of the first wrong character, in characters and not in bytes."""
    with pytest.raises(PatternError) as caught:
        compiled(pattern)
    assert caught.value.position == position
    assert caught.value.reason
    assert str(caught.value).endswith(f"at position {position}")


@given(st.text(alphabet="a()[]{}|*+?\\^$.1é-,", max_size=12))
def test_any_text_compiles_or_is_explained(pattern: str) -> None:
    """An expression causes no error but PatternError, whose position is in the expression or at its end."""
    place = 0
    try:
        compiled(pattern).search("aaa(é")
    except PatternError as error:
        place = error.position
    assert 0 <= place <= len(pattern)


def test_nested_repetitions_take_no_time() -> None:
    """Nested repetitions over a text that almost matches: Python's own engine would practically never end."""
    assert compiled("(a+)+$").search("a" * 50_000 + "b") is None


def test_case_counts_unless_the_expression_says_otherwise() -> None:
    """The older server did the same."""
    assert compiled("Spam").search("spam") is None
    assert compiled("(?i)Spam").search("a spam b")
    assert re.search("Spam", "spam") is None
