"""What a channel's filters (`settings.filters` of backend.json) let in: by kind of post, words, and expressions.

A post comes in when it is of an included kind, if any are named; when one of the included words or the included
expression is found in it, if there are any; and when nothing that is excluded is found. What is searched is title,
summary, text and categories, each on a line of its own. The author isn't: that is what mute and block are for, and a
name is often known only later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from microsub.model.patterns import Pattern, PatternError, compiled


@dataclass(frozen=True, slots=True)
class Searched:
    """A post as filters see it: its kind, its text, and the same text folded for words."""

    kind: str
    text: str
    folded: str

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> Searched:
        """From an item's JSON (`protocol`, Items)."""
        content = wire.get("content")
        body = content.get("text") if isinstance(content, Mapping) else content
        categories = wire.get("category")
        named = categories if isinstance(categories, Sequence) and not isinstance(categories, str) else (categories,)
        parts = (wire.get("name"), wire.get("summary"), body, *named)
        text = "\n".join(part for part in parts if isinstance(part, str) and part)
        kind = wire.get("post-type")
        return cls(kind if isinstance(kind, str) else "", text, fold(text))


@dataclass(frozen=True, slots=True)
class Filter:
    """What a channel takes. Empty parts say nothing. `broken` names the settings whose expression can't be used."""

    include_types: frozenset[str] = frozenset()
    exclude_types: frozenset[str] = frozenset()
    include_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()
    include: Pattern | None = None
    exclude: Pattern | None = None
    broken: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Filter:
        """From a `filters` object that the configuration has let pass; an expression that it wouldn't is left out."""
        patterns: dict[str, Pattern] = {}
        broken = []
        for name in ("include_regex", "exclude_regex"):
            if pattern := settings.get(name):
                try:
                    patterns[name] = compiled(pattern)
                except PatternError:
                    broken.append(name)
        return cls(
            frozenset(_lowered(settings.get("include_types"))),
            frozenset(_lowered(settings.get("exclude_types"))),
            tuple(map(fold, settings.get("include_words") or ())),
            tuple(map(fold, settings.get("exclude_words") or ())),
            patterns.get("include_regex"),
            patterns.get("exclude_regex"),
            tuple(broken),
        )

    def takes(self, post: Searched) -> bool:
        """Whether the post comes in."""
        if self.include_types and post.kind not in self.include_types:
            return False
        if post.kind in self.exclude_types:
            return False
        wanted = bool(self.include_words) or self.include is not None
        if wanted and not (has_words(post.folded, self.include_words) or _found(self.include, post.text)):
            return False
        return not (has_words(post.folded, self.exclude_words) or _found(self.exclude, post.text))


def fold(text: str) -> str:
    """The text as words are compared in it: without case, in one form of composed characters and of white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def has_words(folded: str, words: Iterable[str]) -> bool:
    """Whether one of the words or phrases stands in the text, whole; both folded.

    In scripts that know no case, of which many put no space between words, a part of a word will do.
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


def _found(pattern: Pattern | None, text: str) -> bool:
    return pattern is not None and pattern.search(text) is not None


def _lowered(kinds: Any) -> Iterable[str]:
    return (kind.lower() for kind in kinds or ())
