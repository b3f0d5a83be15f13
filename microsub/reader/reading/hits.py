"""The words of a search, marked in the posts that it finds. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from urllib.parse import urlencode

from markupsafe import Markup

from microsub.base.errors import InvalidRequest
from microsub.formats.html.shapes import Token, pieces
from microsub.model.query import parsed
from microsub.model.words import Phrase, placed_phrases

_MARKED = 100_000
"""Characters of a post in which words are marked: as many as the index has."""
_LOOKED_AT = 20_000
"""Characters of a post in which an excerpt is sought: a page has fifty posts."""
_NARROW = 30
"""Characters in which an excerpt begins with the marked word."""
_AFTER = 240
"""Characters of an excerpt behind the first marked word."""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What a search looks for in texts, in titles and in names of authors; `words` is the search as it was typed."""

    words: str = ""
    phrases: tuple[Phrase, ...] = ()
    of_titles: tuple[Phrase, ...] = ()
    of_authors: tuple[Phrase, ...] = ()

    @classmethod
    def of(cls, words: str, now: float) -> SearchHits:
        """The hits of a search; none for a search that can't be read. `now` is Unix time."""
        try:
            query = parsed(words, now) if words else None
        except InvalidRequest:
            query = None
        if query is None:
            return NO_HITS
        found: dict[str, list[Phrase]] = {"": [], "title": [], "author": []}
        for term in (term for clause in query.clauses for term in clause if not term.excluded):
            for field in ("", "title", "author") if not term.field else (term.field,):
                found.get(field, []).append(term.phrase)
        return cls(words, tuple(found[""]), tuple(found["title"]), tuple(found["author"]))

    @property
    def query(self) -> str:
        """The parameter by which a post's page marks the same words; empty without hits."""
        return "?" + urlencode({"q": self.words}) if self.words else ""

    def title(self, text: str, room: int = 0) -> Markup:
        """A title as HTML; with `room` for so many characters, what is before a later hit is a part of its own."""
        first = next(iter(placed_phrases(text, self.of_titles)), (0, 0)) if room and self.of_titles else (0, 0)
        start = _start(text, first[0], room) if first[1] > room else 0
        early = (
            Markup('<span class="early">{}</span><span class="after-early"></span>').format(text[:start])
            if start
            else Markup()
        )
        return early + _marked(text[start:], self.of_titles)

    def author(self, text: str) -> Markup:
        """A name of an author as HTML."""
        return _marked(text, self.of_authors)

    def text(self, text: str) -> Markup:
        """Any other text as HTML."""
        return _marked(text, self.phrases)

    def html(self, html: str) -> str:
        """Sanitised HTML with marks in its texts; phrases go on behind tags. Formulas stay as they are."""
        found = pieces(html) if self.phrases else None
        if found is None:
            return html
        texts = {at: unescape(found[at]["text"]) for at in _readable(found)}
        places = deque(_places("\n".join(texts.values())[:_MARKED], self.phrases))
        parts, beginning = [piece[0] for piece in found], 0
        for at, text in texts.items():
            end, here = beginning + len(text), list[tuple[int, int]]()
            while places and places[0][0] < end:
                first, last = places[0]
                here.append((max(first, beginning) - beginning, min(last, end) - beginning))
                if last > end:
                    break
                places.popleft()
            if here:
                parts[at] = _with_marks(text, here)
            beginning = end + 1
        return "".join(parts)

    def excerpt(self, room: int, beginning: str, *texts: str) -> str:
        """The part with the first hit of the first text that has one.

        It is the `beginning` if that has a hit in its first `room` characters, or none has one.
        """
        if not self.phrases or _places(beginning[:room], self.phrases):
            return beginning
        for text in texts:
            plain = " ".join(text[:_LOOKED_AT].split())
            if first := next(iter(placed_phrases(plain, self.phrases)), None):
                start = _start(plain, first[0], room)
                end = plain.find(" ", first[1] + _AFTER)
                shown = plain[start:] if end < 0 else f"{plain[start:end]} …"
                return f"… {shown}" if start else shown
        return beginning


NO_HITS = SearchHits()


def _start(text: str, hit: int, room: int) -> int:
    """Where the shown part of a text begins, with some words before the hit if there is room for them."""
    return text.rfind(" ", 0, max(0, hit - (room // 3 if room > _NARROW else 0))) + 1


def _marked(text: str, phrases: Sequence[Phrase]) -> Markup:
    return Markup(_with_marks(text, _places(text, phrases) if phrases else ()))  # noqa: S704 - escaped there


def _with_marks(text: str, places: Iterable[tuple[int, int]]) -> str:
    parts, at = list[str](), 0
    for start, end in places:
        parts += (str(Markup.escape(text[at:start])), f"<mark>{Markup.escape(text[start:end])}</mark>")
        at = end
    return "".join((*parts, str(Markup.escape(text[at:]))))


def _places(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int]]:
    """The places of all phrases in order; those that overlap are joined."""
    found: list[tuple[int, int]] = []
    for start, end in placed_phrases(text, phrases):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _readable(found: Sequence[Token]) -> Iterator[int]:
    """The numbers of the pieces that are text, but for those in formulas."""
    formulas = 0
    for at, piece in enumerate(found):
        if piece["name"] == "math":
            formulas += -1 if piece["closing"] else 1
        elif piece["text"] and not formulas:
            yield at
