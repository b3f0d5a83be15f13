"""A channel's `settings.filters`: by kind of post, words, and expressions.

A post passes if it is of an included kind, if any are named; if it contains one of the included words or the included
expression, if there are any; and if it contains nothing excluded. Title, summary, text and categories are searched,
each on its own line. The author isn't searched: mute and block are for that, and a name is often known only later.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import orjson
import re2

from microsub.base.plaintext import normalised


@dataclass(frozen=True, slots=True)
class Searched:
    """A post as filters see it: its kind, its text, and the same text folded for words."""

    kind: str
    text: str
    folded: str

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> Searched:
        """A post from an item's JSON (`protocol`, Items)."""
        content = wire.get("content")
        body = content.get("text") if isinstance(content, Mapping) else content
        categories = wire.get("category")
        named = categories if isinstance(categories, Sequence) and not isinstance(categories, str) else (categories,)
        parts = (wire.get("name"), wire.get("summary"), body, *named)
        text = "\n".join(part for part in parts if isinstance(part, str) and part)
        kind = wire.get("post-type")
        return cls(kind if isinstance(kind, str) else "", text, fold(text))

    @classmethod
    def all_of(cls, posts: Mapping[str, bytes]) -> dict[str, Searched]:
        """Posts from the JSON of items, by their ids. Takes seconds for long texts."""
        return {item_id: cls.of(orjson.loads(data)) for item_id, data in posts.items()}


FilterPart = Literal["include_types", "exclude_types", "include_words", "exclude_words"]
"""The parts of a filter that can refuse a post; expressions count with the words."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A channel's filter; empty parts refuse nothing. `broken` are unusable settings."""

    include_types: frozenset[str] = frozenset()
    exclude_types: frozenset[str] = frozenset()
    include_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()
    include: str = ""
    exclude: str = ""
    broken: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Filter:
        """A filter from a valid `filters` object, without expressions that are no longer valid."""
        patterns: dict[str, str] = {}
        broken = []
        for name in ("include_regex", "exclude_regex"):
            if pattern := settings.get(name):
                try:
                    compiled(pattern)
                except PatternError:
                    broken.append(name)
                else:
                    patterns[name] = pattern
        return cls(
            frozenset(_lowered(settings.get("include_types"))),
            frozenset(_lowered(settings.get("exclude_types"))),
            tuple(map(fold, settings.get("include_words") or ())),
            tuple(map(fold, settings.get("exclude_words") or ())),
            patterns.get("include_regex", ""),
            patterns.get("exclude_regex", ""),
            tuple(broken),
        )

    def chosen(self, posts: Mapping[str, Searched]) -> set[str]:
        """The ids of the posts that pass. Takes seconds for long texts and slow expressions."""
        return {item_id for item_id, post in posts.items() if self.takes(post)}

    def takes(self, post: Searched) -> bool:
        """Whether the post passes."""
        return not self.refusal(post)

    def refusal(self, post: Searched) -> FilterPart | None:
        """The first part of the filter that refuses the post; None if it passes."""
        if self.include_types and post.kind not in self.include_types:
            return "include_types"
        if post.kind in self.exclude_types:
            return "exclude_types"
        wanted = bool(self.include_words or self.include)
        if wanted and not (has_words(post.folded, self.include_words) or _found(self.include, post.text)):
            return "include_words"
        if has_words(post.folded, self.exclude_words) or _found(self.exclude, post.text):
            return "exclude_words"
        return None


def fold(text: str) -> str:
    """The form of text in which words are compared: without case, characters composed, single blanks."""
    return " ".join(normalised("NFKC", text).casefold().split())


def has_words(folded: str, words: Iterable[str]) -> bool:
    """Whether the text contains one of the words or phrases as a whole; both folded.

    In scripts without case, many of which put no space between words, a part of a word is enough.
    """
    return any(_stands(folded, word) for word in words if word)


def _stands(text: str, word: str) -> bool:
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not _one_word(text[at - 1 : at], word[0]) and not _one_word(word[-1], text[end : end + 1]):
            return True
        at = text.find(word, at + 1)
    return False


def _one_word(left: str, right: str) -> bool:
    return _joins(left) and _joins(right)


def _joins(character: str) -> bool:
    return (character.isalnum() or character == "_") and unicodedata.category(character) != "Lo"


def _found(pattern: str, text: str) -> bool:
    return bool(pattern) and compiled(pattern).search(text) is not None


def _lowered(kinds: Any) -> Iterable[str]:
    return (kind.lower() for kind in kinds or ())


# --- regular expressions from outside ---------------------------------------------------------------------------------


LONGEST = 2000
"""Maximum characters of an expression."""

_MEMORY = 4 * 1024 * 1024
"""Maximum bytes of one compiled expression, its cache of states included."""

MOST_COMPILED = 32
"""Expressions that a process keeps compiled: 128 MiB of the largest. An ordinary one compiles in microseconds."""

_WORDS = {
    "missing )": "a '(' that isn't closed",
    "unexpected )": "a ')' that nothing opens",
    "missing ]": "a '[' that isn't closed",
    "trailing \\": "a '\\' with nothing after it",
    "no argument for repetition operator": "nothing to repeat",
    "bad repetition operator": "two repetitions in a row",
    "invalid repetition size": "too many repetitions",
    "invalid perl operator": "an unsupported kind of group (there is no look-ahead or look-behind)",
    "invalid escape sequence": "an unsupported escape (there are no back-references)",
    "invalid character class range": "a range that ends before it begins",
    "pattern too large - compile failed": "an expression that would grow too large",
}


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> object | None:
        """The first match in the text, or None."""
        ...


class PatternError(ValueError):
    """An unusable expression: the reason (`reason`), and where it begins (`position`, from 0)."""

    def __init__(self, pattern: str, reason: str, position: int) -> None:
        super().__init__(f"{reason} at position {position}")
        self.pattern = pattern
        self.reason = reason
        self.position = position


@lru_cache(maxsize=MOST_COMPILED)
def compiled(pattern: str) -> Pattern:
    """The compiled expression; case-sensitive unless it has `(?i)`. Raises PatternError."""
    if len(pattern) > LONGEST:
        raise PatternError(pattern, f"more than {LONGEST} characters", LONGEST)
    try:
        made: Pattern = re2.compile(pattern, _options())
    except re2.error as error:
        raise _explained(pattern, error) from error
    re2.purge()  # otherwise it would keep 128 of its own
    return made


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


def _explained(pattern: str, error: Exception) -> PatternError:
    """The error with its position: RE2 gives the reason and quotes the part, whose position is looked up."""
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
    """The unmatched bracket: the last open one, or the first closing one without an open one."""
    opened: list[int] = []
    for found in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", pattern, re.DOTALL):
        if found[0] == "(":
            opened.append(found.start())
        elif found[0] == ")":
            if not opened:
                return found.start()
            opened.pop()
    return opened[-1] if opened else 0
