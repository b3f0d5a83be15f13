"""The XML of a feed, as feedparser sees it, at a third of what `feedparser.parse` costs.

feedparser knows the elements, the namespaces and twenty years of mistakes; this module drives its two parsers. Its
sanitiser and URL resolver stay off: `sanitise` does both, for every format. It gets no base address either, since it
would resolve that anew for every element; relative links come out as written, or relative to an `xml:base`. And it
gets text in memory alone, never a name or a URL that it might open.
"""

from __future__ import annotations

import io
import re
from html.entities import html5
from typing import Any
from xml.sax import SAXException, handler
from xml.sax.expatreader import ExpatParser
from xml.sax.xmlreader import InputSource

from feedparser.api import LooseFeedParser, StrictFeedParser

Node = dict[str, Any]

_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_DOCTYPE = re.compile(r"<!DOCTYPE\b[^\[>]*(?:\[.*?\]\s*)?>", re.S | re.I)
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE = r"&(?!(?:amp|lt|gt|quot|apos);|#(?:9|10|13|3[2-9]|[4-9]\d|[1-9]\d{2,3}|x(?:[2-9a-cA-C][0-9a-fA-F]{1,3}));)"
_NEEDS_REPAIR = re.compile(_REFERENCE)
_REPAIR = re.compile(rf"<!\[CDATA\[.*?\]\]>|<!--.*?-->|{_REFERENCE}(?:(#?\w{{1,32}});)?", re.S)


def read(text: str) -> tuple[list[Node], Node, str]:
    """Entries, channel and version (`rss20`, `atom10`, … or `""`) of a document, in feedparser's terms."""
    text = _stripped(text)
    strict = StrictFeedParser("", None, "utf-8")
    if _strictly(strict, _REPAIR.sub(_reference, text) if _NEEDS_REPAIR.search(text) else text):
        parser = strict
    else:
        parser = _without_markup(LooseFeedParser("", None, "utf-8", {}))
        parser.feed(text)
    return [dict(entry) for entry in parser.entries], dict(parser.feeddata), parser.version or ""


def _strictly(parser: Any, text: str) -> bool:
    """Whether the document is well-formed; `parser` has read it then."""
    reader = _Reader(1, 1 << 20)
    reader.setFeature(handler.feature_external_ges, False)
    reader.setContentHandler(_without_markup(parser))
    reader.setErrorHandler(parser)
    source = InputSource()
    source.setByteStream(io.BytesIO(text.encode("utf-8", "replace")))
    try:
        reader.parse(source)
    except SAXException:
        return False
    return True


class _Reader(ExpatParser):
    """Reports a run of text once, not once for each of its lines and entities."""

    _parser: Any

    def reset(self) -> None:
        super().reset()
        self._parser.buffer_text = True
        self._parser.buffer_size = 1 << 18


def _without_markup(parser: Any) -> Any:
    parser.resolve_relative_uris = False
    parser.sanitize_html = False
    return parser


def _stripped(text: str) -> str:
    """The document without declarations (so that no entity can be expanded) and without what XML forbids."""
    text = _DECLARATION.sub("", text.lstrip("\ufeff \t\r\n\0"), count=1)
    if "<!doctype" in text[:4096].lower():
        text = _DOCTYPE.sub("", text, count=1)
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
