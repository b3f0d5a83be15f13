"""The XML of a feed, as feedparser sees it, at a third of what `feedparser.parse` costs.

feedparser knows the elements, the namespaces and twenty years of mistakes; this module drives its two parsers. Its
sanitiser and URL resolver stay off: `sanitise` does both, for every format. It gets no base address either, since it
would resolve that anew for every element; relative links come out as written, or relative to an `xml:base`. And it
gets text in memory alone, never a name or a URL that it might open.
"""

from __future__ import annotations

import re
from html.entities import html5
from typing import Any

from feedparser.api import LooseFeedParser

from microsub.formats.elements import Elements
from microsub.formats.wellformed import LONG, MAX_ELEMENTS, MAX_SHORT, TooMuch, WellFormed

Node = dict[str, Any]

_PROLOGUE = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE\b[^\[>]*(?:\[.*?\]\s*)?>)", re.S | re.I)
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE = r"&(?!(?:amp|lt|gt|quot|apos);|#(?:9|10|13|3[2-9]|[4-9]\d|[1-9]\d{2,3}|x(?:[2-9a-cA-C][0-9a-fA-F]{1,3}));)"
_NEEDS_REPAIR = re.compile(_REFERENCE)
_REPAIR = re.compile(rf"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|{_REFERENCE}(?:(#?\w{{1,32}});)?", re.S)


_LISTS = frozenset({"links", "authors", "tags", "content", "media_content", "media_thumbnail", "replies"})
_NODES = frozenset({"image", "source", "where"})
__all__ = ["Node", "TooMuch", "after_prologue", "read"]


def read(text: str) -> tuple[list[Node], Node, str]:
    """Entries, channel and version (`rss20`, `atom10`, … or `""`) of a document, in feedparser's terms."""
    text = _stripped(text)
    parser: Any = WellFormed()
    if not parser.read(_REPAIR.sub(_reference, text) if _NEEDS_REPAIR.search(text) else text):
        parser = _Loose("", None, "utf-8", {})
        parser.feed(text)
    return [_typed(entry) for entry in parser.entries], _typed(parser.feeddata), parser.version or ""


def _typed(node: Node) -> Node:
    """`node` without what has the wrong type.

    feedparser keeps an element that it doesn't know under its own name. So `<links>` or `<tags a="b"/>` in a document
    puts text, or its attributes, where everybody expects what feedparser makes itself.
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


def after_prologue(text: str) -> int:
    """Where the root element begins: behind declarations, comments and the document type with all it declares."""
    position = 0
    while match := _PROLOGUE.match(text, position):
        position = match.end()
    return position


class _Loose(Elements, LooseFeedParser):  # type: ignore[misc]
    """For documents that aren't well-formed: no cleaning, no resolving, and short fields stay short."""

    resolve_relative_uris = False
    sanitize_html = False
    elementstack: list[list[Any]]
    _elements = 0

    def unknown_starttag(self, tag: str, attrs: Any) -> Any:
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise TooMuch(f"the document has more than {MAX_ELEMENTS} elements")
        return super().unknown_starttag(tag, attrs)

    def pop(self, element: str, strip_whitespace: int = 1) -> Any:
        if element not in LONG and self.elementstack and self.elementstack[-1][0] == element:
            pieces = self.elementstack[-1][2]
            if len(pieces) > 16 or (pieces and len(pieces[0]) > MAX_SHORT):
                whole = "".join(p.decode("utf-8", "replace") if isinstance(p, bytes) else p for p in pieces)
                self.elementstack[-1][2] = [whole[:MAX_SHORT]]
        return super().pop(element, strip_whitespace)


def _stripped(text: str) -> str:
    """The document without declarations (so that no entity can be expanded) and without what XML forbids."""
    text = text[after_prologue(text) :]
    return _INVALID.sub("", text) if _INVALID.search(text) else text


def _reference(match: re.Match[str]) -> str:
    """A reference that XML doesn't know: names of HTML become their characters, anything else the text it is."""
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
    """A numeric reference that the cheap pattern didn't know: the character if XML allows it, else nothing."""
    try:
        code = int(reference[2:], 16) if reference[1:2] in {"x", "X"} else int(reference[1:])
        char = chr(code)
    except (ValueError, OverflowError):
        return ""
    return "" if code < 0x20 or _INVALID.match(char) else char
