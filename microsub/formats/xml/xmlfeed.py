"""Reads the XML of a feed in feedparser's terms, at a third of the cost of `feedparser.parse`.

feedparser knows the elements, the namespaces and twenty years of mistakes; this module drives its two parsers. Its
sanitiser and URL resolver stay off, because `sanitise` does both for all formats. It gets no base address either, since
it would resolve that again for every element; relative links are returned as written, or relative to an `xml:base`. And
it gets only text in memory, never a name or a URL that it could open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from html.entities import html5
from itertools import chain
from typing import Any
from xml.sax.saxutils import unescape as _unescaped

from feedparser.api import LooseFeedParser

from microsub.formats.encoding import after_prologue
from microsub.formats.xml.elements import TRIPS, Elements
from microsub.formats.xml.wellformed import LONG, MAX_ELEMENTS, MAX_SHORT, TooMuch, WellFormed

Node = dict[str, Any]

_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE = r"&(?!(?:amp|lt|gt|quot|apos);|#(?:9|10|13|3[2-9]|[4-9]\d|[1-9]\d{2,3}|x(?:[2-9a-cA-C][0-9a-fA-F]{1,3}));)"
_NEEDS_REPAIR = re.compile(_REFERENCE)
_REPAIR = re.compile(rf"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|{_REFERENCE}(?:(#?\w{{1,32}});)?", re.S)


_LISTS = frozenset({"links", "authors", "tags", "content", "media_content", "media_thumbnail", "replies", "podcast"})
_NODES = frozenset({"image", "source", "where"})
_ELEMENT = re.compile(r"\s*<[^\W\d]")
_SECTIONS = (("<![CDATA[", "]]>"), ("<!--", "-->"))
_DOUBTFUL = re.compile(r"[&<\]-]")
_LONGEST_REFERENCE = 40
_LONGEST_PROLOGUE = 1 << 20
MAX_LOOSE = 4_000_000
"""Characters of a document that isn't well-formed. The tolerant parser makes several copies of it."""

__all__ = ["Node", "TooMuch", "read"]


def read(
    pieces: Callable[[], Iterable[str]], published: Callable[[Node], datetime | None]
) -> tuple[list[Node], Node, str]:
    """The entries, channel and version (`rss20`, … or `""`) of a document, in feedparser's terms.

    `pieces` returns the text from the start, each time it is called. Of many entries, the newest by `published` are
    kept. Raises TooMuch.
    """
    parser: Any = WellFormed(published)
    if not parser.read(repaired(_stripped(pieces()))):
        parser = _Loose("", None, "utf-8", {})
        parser.feed("".join(_beginning(repaired(_stripped(pieces())))))
    return [_typed(entry) for entry in parser.entries], _typed(parser.feeddata), parser.version or ""


def _beginning(pieces: Iterable[str]) -> Iterator[str]:
    room = MAX_LOOSE
    for piece in pieces:
        yield piece[:room]
        room -= len(piece)
        if room <= 0:
            return


def _typed(node: Node) -> Node:
    """`node` without values of the wrong type.

    feedparser stores an unknown element under its own name. So `<links>` or `<tags a="b"/>` in a document puts text or
    attributes where its own data is expected.
    """
    typed: Node = {}
    for name, value in node.items():
        if name in _LISTS:
            fits = isinstance(value, list) and all(isinstance(member, dict) for member in value)
        elif name in _NODES or name.endswith("_detail"):
            fits = isinstance(value, dict)
        else:
            fits = isinstance(value, str)
        if fits:
            typed[name] = value
    if isinstance(source := typed.get("source"), dict):
        typed["source"] = _typed(source)
    return typed


class _Loose(Elements, LooseFeedParser):  # type: ignore[misc]
    """The tolerant parser, without sanitising and resolving; short fields stay short."""

    resolve_relative_uris = False
    sanitize_html = False
    elementstack: list[list[Any]]
    _elements = 0

    def unknown_starttag(self, tag: str, attrs: Any) -> Any:
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise TooMuch(f"the document has more than {MAX_ELEMENTS} elements")
        with suppress(*TRIPS):
            super().unknown_starttag(tag, attrs)

    def unknown_endtag(self, tag: str) -> Any:
        if tag == "subtitle" and self.elementstack and self.elementstack[-1][0] == "title":
            tag = "title"  # it isn't markup in the title, which would never end
        with suppress(*TRIPS):
            super().unknown_endtag(tag)

    def decode_entities(self, element: str, data: str) -> str:
        decoded: str = super().decode_entities(element, data)
        # feedparser leaves references in texts that can't have markup.
        return decoded if self.contentparams else _unescaped(decoded, {"&quot;": '"', "&apos;": "'"})

    def pop(self, element: str, strip_whitespace: int = 1) -> Any:
        if element not in LONG and self.elementstack and self.elementstack[-1][0] == element:
            pieces = self.elementstack[-1][2]
            if len(pieces) > 16 or (pieces and len(pieces[0]) > MAX_SHORT):
                whole = "".join(p.decode("utf-8", "replace") if isinstance(p, bytes) else p for p in pieces)
                self.elementstack[-1][2] = [whole[:MAX_SHORT]]
            elif element == "link":
                # feedparser turns "&amp;b" into "&ampb" in the feed's link.
                self.elementstack[-1][2] = ["&" if piece == "&amp;" else piece for piece in pieces]
        return super().pop(element, strip_whitespace)


def _stripped(pieces: Iterable[str]) -> Iterator[str]:
    """The document without declarations, which could expand entities, and without characters that XML forbids."""
    rest = iter(pieces)
    begun = ""
    for piece in rest:
        begun += piece
        if _ELEMENT.match(begun, after_prologue(begun)) or len(begun) > _LONGEST_PROLOGUE:
            break
    for piece in chain((begun[after_prologue(begun) :],), rest):
        yield _INVALID.sub("", piece) if _INVALID.search(piece) else piece


def repaired(pieces: Iterable[str]) -> Iterator[str]:
    """The text with references that XML knows, except in comments and CDATA sections."""
    held = section = ""
    for piece in pieces:
        held += piece
        cut = _cut(held)
        ready, held = held[:cut], held[cut:]
        text, section = _repaired(ready, section)
        yield text
    yield _repaired(held, section)[0]


def _repaired(text: str, section: str) -> tuple[str, str]:
    """A repaired piece, and the end mark of the section it stops in; `section` is that of its first one."""
    position = 0
    if section:
        position = text.find(section) + len(section)
        if position < len(section):
            return text, section
    if position:
        rest, section = _repaired(text[position:], "")
        return text[:position] + rest, section
    section = _open_section(text)
    return (_REPAIR.sub(_reference, text) if _NEEDS_REPAIR.search(text) else text), section


def _open_section(text: str) -> str:
    """The end mark of the comment or CDATA section in which `text` stops; empty if there is none."""
    position = 0
    while (position := text.find("<!", position)) >= 0:
        for begin, end in _SECTIONS:
            if text.startswith(begin, position):
                position = text.find(end, position + len(begin))
                if position < 0:
                    return end
                break
        position += 2
    return ""


def _cut(text: str) -> int:
    """A position to cut `text` at, outside of references and of the start and end marks of sections."""
    if end := text.rfind(">") + 1:
        return end
    tail = max(0, len(text) - _LONGEST_REFERENCE)
    doubtful = _DOUBTFUL.search(text, tail)
    return doubtful.start() if doubtful else len(text)


def _reference(match: re.Match[str]) -> str:
    """Replace a reference unknown to XML: HTML's names become characters, anything else text."""
    found = match[0]
    if found[0] == "<":
        return found
    name = match[1]
    if not name:
        return "&amp;"
    if name[0] == "#":
        return _character(name)
    return html5.get(f"{name};", f"&amp;{name};")


def _character(reference: str) -> str:
    """The character of a numeric reference if XML allows it, else an empty text."""
    try:
        code = int(reference[2:], 16) if reference[1:2] in {"x", "X"} else int(reference[1:])
        char = chr(code)
    except (ValueError, OverflowError):
        return ""
    return "" if code < 0x20 or _INVALID.match(char) else char
