"""Search queries, as people type them, parsed into values. Pure.

    words "a phrase" begin* -without this OR that author:ann title:"a word" feed:example kind:photo
    is:unread is:read is:saved after:2024-05 before:2025

All terms must match; `OR` joins the terms next to it, and binds more closely than the blank between terms. Words with
a colon that aren't one of these fields are text, so addresses and times of day need no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import shown
from microsub.model.settings import POST_TYPES
from microsub.model.words import Phrase

MOST_BYTES = 10_240
MOST_TERMS = 64
MOST_WORDS = 256
"""Limit for all terms together; a long word of an unspaced script counts by its pairs."""
LEAST_OF_BEGINNING = 3
"""Minimum letters before a `*`: a shorter beginning matches too many words."""

STATES = ("unread", "read", "saved")


class QueryUnreadable(InvalidRequest):
    """An invalid query; `position` is the character where the invalid part begins, from 1."""

    def __init__(self, position: int, found: str, expected: str) -> None:
        super().__init__(f"'query' can't be used at character {position}: found {found}, expected {expected}")
        self.position, self.found, self.expected = position, found, expected


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on a post's text. `field` is '', `title`, `author`, `feed` or `kind`; `text` as it was typed."""

    field: str
    text: str
    phrase: Phrase
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class PostQuery:
    """All `clauses` hold; of each clause, at least one term matches.

    `states` maps names of `STATES` to the required value. `since` and `until` are Unix times, the second one
    exclusive.
    """

    clauses: tuple[tuple[Term, ...], ...] = ()
    states: Mapping[str, bool] = field(default_factory=dict)
    since: float | None = None
    until: float | None = None

    @property
    def feeds(self) -> tuple[str, ...]:
        """The query's terms on feeds."""
        return tuple(dict.fromkeys(term.text for clause in self.clauses for term in clause if term.field == "feed"))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A term in the query. `at` is its position, from 1; `field` is '' if it has none."""

    at: int
    text: str
    field: str = ""
    excluded: bool = False
    quoted: bool = False

    @property
    def is_or(self) -> bool:
        return self.text == "OR" and not (self.field or self.excluded or self.quoted)


_FIELDS = ("author", "title", "feed", "kind", "is", "before", "after")
_PIECE = re.compile(rf'(-?)(?:((?i:{"|".join(_FIELDS)})):)?(?:"([^"]*)("?)|([^\s"]*))')
_QUOTES = str.maketrans("“”„«»", '"""""')
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_AGO = re.compile(r"(\d{1,5})([hdwmy])", re.ASCII | re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}
_DATES = "a day as in before:2024-05-31 or before:2024, or a time back from now as in after:12h, 7d, 2w, 3m or 1y"
_OR = 'a word or phrase before and after it, as in boat OR ship; "OR" in quotes is a word'


def parsed(text: str, now: float) -> PostQuery:
    """The parsed query of `text`; `now` is Unix time, from which `12h` counts back. Raises QueryUnreadable."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        place = len(text.encode("utf-8", "replace")[:MOST_BYTES].decode("utf-8", "ignore")) + 1
        raise QueryUnreadable(place, "more text", f"{MOST_BYTES} bytes at most")
    reading = _Reading(now)
    joined = False
    for piece in _pieces(text):
        if piece.is_or:
            if joined or not reading.can_be_joined:
                raise QueryUnreadable(piece.at, "'OR'", _OR)
            joined, last = True, piece
            continue
        if reading.take(piece, joined=joined):
            joined = False
    if joined:
        raise QueryUnreadable(last.at, "'OR'", _OR)
    if reading.is_empty:
        raise QueryUnreadable(1, f"'{shown(text)}'", "a word to look for, as in boat or boat -ship")
    return reading.query()


def _pieces(text: str) -> Iterator[_Piece]:
    text = text.translate(_QUOTES)
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _PIECE.match(text, at)
        assert found is not None  # the pattern also matches the empty text
        minus, name, quoted, end, bare = found.groups()
        if quoted is not None and not end:
            raise QueryUnreadable(found.start(3), f"'{shown(text[at:])}'", 'a second quotation mark, as in "old boat"')
        if quoted is None and bare == "" and name is None:
            yield _Piece(at + 1, minus or text[at])  # only a sign
        else:
            yield _Piece(at + 1, quoted or bare or "", (name or "").lower(), bool(minus), quoted is not None)
        at = max(found.end(), at + 1)


class _Reading:
    """The parts of a query read so far."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._clauses: list[tuple[Term, ...]] = []
        self._states: dict[str, bool] = {}
        self._since: list[float] = []
        self._until: list[float] = []
        self._terms = self._words = 0
        self.can_be_joined = False
        """Whether `OR` is allowed here: after a condition on text."""

    @property
    def is_empty(self) -> bool:
        return not (self._clauses or self._states or self._since or self._until)

    def query(self) -> PostQuery:
        """The complete query."""
        since, until = max(self._since, default=None), min(self._until, default=None)
        return PostQuery(tuple(self._clauses), self._states, since, until)

    def take(self, piece: _Piece, *, joined: bool) -> bool:
        """Add the next piece, with `joined` by `OR` to the last one; returns whether it has any effect."""
        take = _CONDITIONS.get(piece.field)
        if take is not None:
            if joined:
                raise QueryUnreadable(
                    piece.at, f"'{piece.field}:' after 'OR'", "a condition without 'OR', as in boat is:unread"
                )
            take(self, piece)
            self.can_be_joined = False
            return True
        term = _term(piece)
        if term is None:
            return False
        self._terms += 1
        self._words += len(term.phrase.words)
        if self._terms > MOST_TERMS:
            raise QueryUnreadable(piece.at, "another term", f"{MOST_TERMS} terms at most")
        if self._words > MOST_WORDS:
            raise QueryUnreadable(piece.at, "more words", f"{MOST_WORDS} words at most")
        if joined:
            self._clauses[-1] = (*self._clauses[-1], term)
        else:
            self._clauses.append((term,))
        self.can_be_joined = True
        return True

    def take_state(self, piece: _Piece) -> None:
        """Add a condition such as `is:unread`."""
        state = piece.text.lower()
        if state not in STATES:
            raise QueryUnreadable(piece.at, f"'is:{shown(piece.text)}'", "is:unread, is:read or is:saved")
        wanted = not piece.excluded
        name, wanted = ("unread", not wanted) if state == "read" else (state, wanted)
        if self._states.setdefault(name, wanted) != wanted:
            raise QueryUnreadable(piece.at, f"'is:{state}'", "a condition that agrees with those before it")

    def take_before(self, piece: _Piece) -> None:
        """Add a limit: before the beginning of that day, month or year."""
        self._until.append(self._moment(piece))

    def take_after(self, piece: _Piece) -> None:
        """Add a limit: in that day, month or year, or later."""
        self._since.append(self._moment(piece))

    def _moment(self, piece: _Piece) -> float:
        if piece.excluded:
            raise QueryUnreadable(piece.at, f"'-{piece.field}:'", "the condition without '-', as in before:2024")
        try:
            if ago := _AGO.fullmatch(piece.text):
                back = timedelta(hours=int(ago[1]) * _HOURS[ago[2].lower()])
                return (datetime.fromtimestamp(self._now, UTC) - back).timestamp()
            if day := _DAY.fullmatch(piece.text):
                year, month, number = (int(part or 1) for part in day.groups())
                return datetime(year, month, number, tzinfo=UTC).timestamp()
        except (ValueError, OverflowError):  # for example, the 31st of June
            pass
        raise QueryUnreadable(piece.at, f"'{piece.field}:{shown(piece.text)}'", _DATES)


_CONDITIONS: Mapping[str, Callable[[_Reading, _Piece], None]] = {
    "is": _Reading.take_state,
    "before": _Reading.take_before,
    "after": _Reading.take_after,
}
"""Conditions on something other than a post's text, which `OR` can't join."""


def _term(piece: _Piece) -> Term | None:
    """The condition of a piece; None if it contains no word."""
    text = piece.text
    if piece.field == "kind":
        if text.lower() not in POST_TYPES:
            raise QueryUnreadable(
                piece.at, f"'kind:{shown(text)}'", f"one of {', '.join(POST_TYPES)}, as in kind:photo"
            )
        return Term("kind", text.lower(), Phrase((text.lower(),)), piece.excluded)
    begins = text.endswith("*") and not piece.quoted
    phrase = Phrase.of(text, open_ended=begins)
    if piece.field and not phrase.words:
        raise QueryUnreadable(
            piece.at, f"'{piece.field}:{shown(text)}'", "a word right after the colon, as in title:boat"
        )
    if begins and phrase.words and phrase.words[-1].isascii() and len(phrase.words[-1]) < LEAST_OF_BEGINNING:
        expected = f"{LEAST_OF_BEGINNING} letters or more before the '*', as in boa*"
        raise QueryUnreadable(piece.at, f"'{shown(text)}'", expected)
    return Term(piece.field, text, phrase, piece.excluded) if phrase.words else None
