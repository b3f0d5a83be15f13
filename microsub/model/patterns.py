"""Regular expressions from outside: RE2 (https://github.com/google/re2/wiki/Syntax), which needs time in proportion to
the text, whatever the expression. Python's own can be made to take for ever by anybody who may write one.

It is also what the older Go server's expressions were written for. Look-around and back-references don't exist in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

import re2

LONGEST = 2000
"""Characters of an expression."""

_MEMORY = 4 * 1024 * 1024
"""Bytes that one compiled expression may take, its cache of states included."""

_WORDS = {
    "missing )": "a '(' that isn't closed",
    "unexpected )": "a ')' that nothing opens",
    "missing ]": "a '[' that isn't closed",
    "trailing \\": "a '\\' with nothing behind it",
    "no argument for repetition operator": "nothing to repeat",
    "bad repetition operator": "two repetitions in a row",
    "invalid repetition size": "too many repetitions",
    "invalid perl operator": "a kind of group that isn't known here (look-ahead and look-behind aren't)",
    "invalid escape sequence": "an escape that isn't known here (back-references aren't)",
    "invalid character class range": "a range that ends before it begins",
    "pattern too large - compile failed": "an expression that would grow too large",
}


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> object | None:
        """What it finds in the text first, None for nothing."""
        ...


class PatternError(ValueError):
    """An expression that can't be used: `reason` says why, `position` where what is wrong begins (from 0)."""

    def __init__(self, pattern: str, reason: str, position: int) -> None:
        super().__init__(f"{reason} at position {position}")
        self.pattern = pattern
        self.reason = reason
        self.position = position


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Pattern:
    """The expression, ready for use. Upper and lower case differ unless it says `(?i)`. Raises PatternError."""
    if len(pattern) > LONGEST:
        raise PatternError(pattern, f"more than {LONGEST} characters", LONGEST)
    try:
        made: Pattern = re2.compile(pattern, _options())
    except re2.error as error:
        raise _explained(pattern, error) from error
    return made


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


def _explained(pattern: str, error: Exception) -> PatternError:
    """RE2 says what is wrong and quotes it; where that stands is looked up."""
    said = error.args[0] if error.args else b""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what, _, quoted = text.partition(": ")
    return PatternError(pattern, _WORDS.get(what, what or "no regular expression"), _place(pattern, what, quoted))


def _place(pattern: str, what: str, quoted: str) -> int:
    if what == "trailing \\":
        return len(pattern) - 1
    if what in {"missing )", "unexpected )"}:
        return _unbalanced(pattern)
    if what == "missing ]":
        return len(pattern) - len(quoted) if pattern.endswith(quoted) else 0
    return max(pattern.find(quoted), 0)


def _unbalanced(pattern: str) -> int:
    """The bracket without its other half: the last one left open, or the first that closes nothing."""
    opened: list[int] = []
    for found in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", pattern, re.DOTALL):
        if found[0] == "(":
            opened.append(found.start())
        elif found[0] == ")":
            if not opened:
                return found.start()
            opened.pop()
    return opened[-1] if opened else 0
