"""Reads well-formed feed documents: passes expat's events directly to feedparser's element handlers.

feedparser knows the meaning of each element, in methods named after it (`_start_pubdate`, `_end_media_title`). The
layers between those and expat (SAX, names that are parsed again for each element, dictionaries with aliases, repairs
tried on every text) cost more than all handlers. This module replaces them, and works once per name, and only if
necessary. The results are the same, except for the languages of texts, which nothing uses, and for texts beyond their
limits.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape as escaped

from feedparser.api import StrictFeedParser
from feedparser.urls import make_safe_absolute_uri
from feedparser.util import FeedParserDict

from microsub.formats.normalise import MAX_BODY, Newest
from microsub.formats.xml.elements import TRIPS, Elements

MAX_SHORT = 5000  # more than the limit of an address, so that no address is cut to another one
MAX_LONG = MAX_BODY + 1000
"""Characters of one text: bodies may be long, and those that are too long must be seen to be so, after white space at
their ends has gone; in anything else, a megabyte is an attack on the patterns for dates and addresses."""

LONG = frozenset(
    {"content", "description", "summary", "subtitle", "info", "rights", "fullitem", "body", "media_description"}
)
MAX_ELEMENTS = 200_000
"""A feed of ten thousand entries has half as many. Each takes about ten microseconds."""

MAX_DEPTH = 1000
"""Nesting of elements. expat and feedparser use three hundred bytes for each level."""

MAX_ATTRIBUTES = 200
"""The time for one element grows with the square of this number."""

_CHUNK = 1 << 16
_NAMES = 1000  # cached; feeds have about thirty
_XHTML = "application/xhtml+xml"
_OWN_NAMESPACES = frozenset(
    {("math", "http://www.w3.org/1998/Math/MathML"), ("svg", "http://www.w3.org/2000/svg")}
)  # fmt: skip
_USERLAND = "http://backend.userland.com/rss"
_BROKEN_REFERENCE = re.compile(r"&(\w+);", re.A)


class TooMuch(Exception):
    """The document has more of something than any real feed; the message says of what."""


class _Name(NamedTuple):
    """An element's name in feedparser (`dc:date`), its handlers' name (`dc_date`), and the handlers."""

    tag: str
    plain: str
    namespaced: bool
    markup: str | None
    start: Callable[[dict[str, str]], object] | None
    end: Callable[[], object] | None


class _Entry(FeedParserDict):  # type: ignore[misc]
    """feedparser's dictionary, whose other names for a few keys cost the others nothing."""

    _ALIASED = frozenset({*FeedParserDict.keymap, "category", "enclosures", "license", "updated", "updated_parsed"})

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key) if key in self._ALIASED else dict.__getitem__(self, key)

    def __contains__(self, key: object) -> bool:
        return bool(super().__contains__(key) if key in self._ALIASED else dict.__contains__(self, key))

    def setdefault(self, k: str, default: Any) -> Any:
        """The value, which is `default` if there was none."""
        return super().setdefault(k, default) if k in self._ALIASED else dict.setdefault(self, k, default)


class WellFormed(Elements, StrictFeedParser):  # type: ignore[misc]
    """Reads one document with `read`.

    `entries`, `feeddata` and `version` are in feedparser's form. Of many entries, the newest are kept. `published`
    returns the date of a finished entry.
    """

    contentparams: dict[str, Any]
    decls: dict[str, str]
    elementstack: list[list[Any]]

    def __init__(self, published: Callable[[dict[str, Any]], datetime | None]) -> None:
        super().__init__("", None, "utf-8")
        # A plain dictionary has no aliases: feedparser's one returns `published` for a missing `updated`, with a
        # warning.
        self._newest: Newest[dict[str, Any]] = Newest(lambda node: published(dict(node)))
        self._nesting = 0
        self.contentparams = {}
        self._names: dict[str, _Name] = {}
        self._declared: dict[str | None, str | None] = {}
        self._attribute_names: dict[str, tuple[str, str]] = {}
        self._elements = 0
        self._room = 0
        self._depths: dict[str, int] = {}

    def read(self, pieces: Iterable[str]) -> bool:
        """Read a text without declarations; returns whether it is well-formed.

        If it is, all of it was read. Raises TooMuch.
        """
        parser = expat.ParserCreate("utf-8", " ", {})
        parser.namespace_prefixes = True
        parser.buffer_text = True
        parser.buffer_size = _CHUNK
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = self.handle_data
        parser.StartNamespaceDeclHandler = self._declare
        parser.EntityDeclHandler = _refuse
        try:
            for piece in pieces:
                for start in range(0, len(piece), _CHUNK):
                    parser.Parse(piece[start : start + _CHUNK].encode("utf-8", "replace"), False)
            parser.Parse(b"", True)
        except (expat.ExpatError, _Refused):
            return False
        self._lay_by()
        self.entries = self._newest.kept()
        return True

    # -- events of expat

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        self.startPrefixMapping(prefix, uri)
        if self._declared.get(prefix) != uri:
            self._declared[prefix] = uri
            self._names.clear()  # names in a formerly unknown namespace may have handlers now

    def _open(self, raw: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise TooMuch(f"the document has more than {MAX_ELEMENTS} elements")
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise TooMuch(f"the document has elements nested more than {MAX_DEPTH} levels deep")
        name = self._names.get(raw) or self._name(raw)
        self.depth += 1
        attrs: dict[str, str] = {}
        if attributes or name.markup or self.decls:
            attrs = self._attributes(name, attributes)
            if base := attrs.get("xml:base", attrs.get("base")):
                self.baseuri = self._joined(base)
        self.basestack.append(self.baseuri)
        if self.incontent:
            kind = self.contentparams.get("type", "xml")
            if not kind.endswith("xml"):
                if name.tag in {"xhtml:div", "div"}:
                    return  # Typepad, 2007
                # It was declared as escaped markup, but isn't.
                self.contentparams["type"] = kind = _XHTML
            if kind == _XHTML:
                self._open_inside(name.tag, attrs)
                return
        if not name.namespaced:
            if name.tag not in {"title", "link", "description", "name"}:
                self.intextinput = 0
            if name.tag not in {"title", "link", "description", "url", "href", "width", "height"}:
                self.inimage = 0
        if name.start is not None:
            try:
                name.start(attrs)
            except TRIPS:  # an element whose handler fails is treated as an unknown one
                pass
            else:
                return
        if attrs:
            self._get_context()[name.plain] = attrs
        else:
            self.push(name.plain, 1)

    def _open_inside(self, tag: str, attrs: dict[str, str]) -> None:
        """Write an element of XHTML content as markup again, without its prefix."""
        prefix, colon, local = tag.rpartition(":")
        if colon:
            prefix, _, local = tag.partition(":")
            namespace = self.namespaces_in_use.get(prefix, "")
            if (local, namespace) in _OWN_NAMESPACES:
                attrs["xmlns"] = namespace
        if local == "svg":
            self.svgOK += 1
        self.handle_data(f"<{local}{self.strattrs(attrs.items())}>", escape=0)

    def _close(self, raw: str) -> None:
        self._nesting -= 1
        name = self._names.get(raw) or self._name(raw)
        if self.svgOK and name.tag.rpartition(":")[2] == "svg":
            self.svgOK -= 1
        if name.end is None or self.svgOK:
            self.pop(name.plain)
        else:
            try:
                name.end()
            except TRIPS:
                self.pop(name.plain)
        if not self._close_inside(name.tag):
            return
        self.basestack.pop()
        if self.basestack:
            self.baseuri = self.basestack[-1]
        self.depth -= 1

    def _close_inside(self, tag: str) -> bool:
        """End an element of XHTML content; False if feedparser stops there."""
        if self.incontent:
            kind = self.contentparams.get("type", "xml")
            if not kind.endswith("xml"):
                if tag in {"xhtml:div", "div"}:
                    return False
                self.contentparams["type"] = kind = _XHTML
            if kind == _XHTML:
                self.handle_data(f"</{tag.rpartition(':')[2]}>", escape=0)
        return True

    def handle_data(self, text: str, escape: int = 1) -> None:
        """Add text, or markup in a text (`escape=0`); anything beyond the element's limit is dropped."""
        if not self.elementstack or self._room <= 0:
            return
        if escape and self.contentparams.get("type") == _XHTML:
            text = escaped(text)
        if len(text) > self._room and escape:
            text = text[: self._room]
        self._room -= len(text)
        self.elementstack[-1][2].append(text)

    # -- names

    def _name(self, raw: str) -> _Name:
        """Parse `namespace local prefix`, as expat writes names; the prefix doesn't matter."""
        parts = raw.split()
        namespace, local = (parts[0], parts[1]) if len(parts) > 1 else (None, raw)
        lower = (namespace or "").lower()
        if "backend.userland.com/rss" in lower:
            namespace = lower = _USERLAND
        tag = local.lower()
        markup = namespace if (tag, namespace) in _OWN_NAMESPACES else None
        if prefix := self._matchnamespaces.get(lower):
            tag = f"{prefix.lower()}:{tag}"
        elif namespace:
            used = next((name for name, uri in self.namespaces_in_use.items() if name and uri == namespace), None)
            tag = f"{used}:{tag}".lower() if used else tag
        prefix, _, suffix = tag.partition(":") if ":" in tag else ("", "", tag)
        prefix = self.namespacemap.get(prefix, prefix)
        plain = f"{prefix}_{suffix}" if prefix else suffix
        start, end = getattr(self, f"_start_{plain}", None), getattr(self, f"_end_{plain}", None)
        if len(self._names) > _NAMES:
            self._names.clear()
        found = self._names[raw] = _Name(tag, plain, bool(prefix), markup, start, end)
        return found

    def _attributes(self, name: _Name, found: dict[str, str]) -> dict[str, str]:
        """The attributes with their known prefix or none, and with the prefix that the document uses."""
        if len(found) > MAX_ATTRIBUTES:
            raise TooMuch(f"an element has more than {MAX_ATTRIBUTES} attributes")
        attrs, self.decls = self.decls, {}
        if name.markup:
            attrs["xmlns"] = name.markup
        prefixed = []
        for raw, value in found.items():
            known, written = self._attribute_names.get(raw) or self._attribute_name(raw)
            attrs[known] = value.lower() or value if known in {"rel", "type"} else value
            if written != known:
                prefixed.append((written, value))
        attrs.update(prefixed)
        return attrs

    def _attribute_name(self, raw: str) -> tuple[str, str]:
        parts = raw.split()
        namespace, local = (parts[0], parts[1]) if len(parts) > 1 else ("", raw)
        prefix = self._matchnamespaces.get(namespace.lower(), "")
        known = f"{prefix}:{local}".lower() if prefix else local.lower()
        written = f"{parts[2]}:{local}".lower() if len(parts) == 3 else local.lower()
        if len(self._attribute_names) > _NAMES:
            self._attribute_names.clear()
        names = self._attribute_names[raw] = (known, written)
        return names

    def _joined(self, base: str) -> str:
        """Resolve a base address against the enclosing one."""
        if not self.baseuri:
            return str(self.resolve_uri(base))
        return str(make_safe_absolute_uri(self.baseuri, base) or self.baseuri)

    # -- texts

    def push(self, element: str, expecting_text: int) -> None:
        """Start collecting text for `element`."""
        self._room = MAX_LONG if element in LONG else MAX_SHORT
        self.elementstack.append([element, expecting_text, []])

    def push_content(self, tag: str, attrs_d: dict[str, str], default_content_type: str, expecting_text: int) -> None:
        """Start collecting a text that may contain markup."""
        self.incontent += 1
        kind = self.map_content_type(attrs_d.get("type", default_content_type))
        self.contentparams = {"type": kind, "base": self.baseuri}
        self.contentparams["base64"] = self._is_base64(attrs_d, self.contentparams)
        self.push(tag, expecting_text)

    def pop(self, element: str, strip_whitespace: int = 1) -> str | None:
        """End `element`, store its text, and return it; None if another element is open."""
        if not self.elementstack or self.elementstack[-1][0] != element:
            return None
        _, expecting_text, pieces = self.elementstack.pop()
        self._room = MAX_SHORT
        params = self.contentparams
        if params and self.version == "atom10" and params.get("type", "text") == _XHTML:
            pieces = unwrapped(pieces)
        output = "".join(pieces)
        if strip_whitespace:
            output = output.strip()
        if not expecting_text:
            return output
        if params.get("base64"):
            output = from_base64(output)
        if output and element in self.can_be_relative_uri and (element != "id" or self.guidislink):
            output = self.resolve_uri(output)
        if params:
            if params.get("type") == "text/plain" and not self.version.startswith("atom") and may_be_html(output):
                # RSS has no types, so feedparser guesses.
                params["type"] = "text/html" if self.looks_like_html(output) else "text/plain"
            params.pop("mode", None)
            params.pop("base64", None)
        if not output.isascii():
            output = repaired(output)
        if element not in {"category", "tags", "itunes_keywords"} and not (
            element == "title" and -1 < self.title_depth <= self.depth
        ):
            self._keep(element, output)
        return output

    def _keep(self, element: str, output: str) -> None:
        """Store a text in the entry or feed, with its type."""
        if self.inentry and not self.insource:
            entry = self.entries[-1]
            if element == "content":
                entry.setdefault(element, []).append({**self.contentparams, "value": output})
            elif element == "link":
                if not self.inimage:
                    output = entry[element] = _BROKEN_REFERENCE.sub(r"&\1", output.replace("&amp;", "&"))
                    if output:
                        entry["links"][-1]["href"] = output
            else:
                element = "summary" if element == "description" else element
                # Of two texts with the same name, the outer one counts.
                if self.depth <= self._depths.get(element, self.depth):
                    self._depths[element] = self.depth
                    entry[element] = output
                if self.incontent:
                    entry[f"{element}_detail"] = {**self.contentparams, "value": output}
        elif self.infeed or self.insource:
            context = self._get_context()
            element = "subtitle" if element == "description" else element
            context[element] = output
            if element == "link":
                output = context[element] = _BROKEN_REFERENCE.sub(r"&\1", output)
                context["links"][-1]["href"] = output
            elif self.incontent:
                context[f"{element}_detail"] = {**self.contentparams, "value": output}

    def _start_item(self, attrs_d: dict[str, str]) -> None:
        self._depths = {}
        self._lay_by()
        super()._start_item(attrs_d)
        self.entries[-1] = _Entry(self.entries[-1])

    _start_entry = _start_item

    def _lay_by(self) -> None:
        """Move finished entries away: feedparser looks only at the last one."""
        while self.entries:
            self._newest.add(self.entries.pop())


class _Refused(Exception):
    """The document declares entities."""


def _refuse(*_: object) -> None:
    raise _Refused


# The windows-1252 characters at the places of Unicode's C1 controls, which nobody means. Five places are empty.
_CONTROLS = re.compile(rb"\xc2[\x80-\x9f]")  # in UTF-8, because searching bytes costs a tenth of searching text
_MEANT = {code: bytes([code]).decode("cp1252") for code in range(0x80, 0xA0) if code not in b"\x81\x8d\x8f\x90\x9d"}


def unwrapped(pieces: list[str]) -> list[str]:
    """XHTML content without the single `div` that RFC 4287, 3.1.1.3, requires around it."""
    first, last = 0, len(pieces)
    while last - first > 1 and not pieces[last - 1].strip():
        last -= 1
    while last - first > 1 and not pieces[first].strip():
        first += 1
    pieces = pieces[first:last]
    if not pieces or not pieces[0].startswith(("<div>", "<div ")) or pieces[-1] != "</div>":
        return pieces
    depth = 0
    for piece in pieces[:-1]:
        if piece.startswith("</"):
            depth -= 1
            if depth == 0:
                return pieces  # the first `div` ends before the last piece does
        elif piece.startswith("<"):
            depth += 1
    return pieces[1:-1]


def may_be_html(text: str) -> bool:
    """Whether feedparser should guess: it looks for an end tag or a reference."""
    return "</" in text or "&" in text


def from_base64(text: str) -> str:
    """Decode `text`, or return it unchanged if it is invalid."""
    try:
        return base64.decodebytes(text.encode()).decode()
    except (binascii.Error, ValueError):
        return text


def repaired(text: str) -> str:
    """Correct a text that was decoded as ISO-8859-1, but is UTF-8 or windows-1252."""
    with suppress(ValueError):
        text = text.encode("iso-8859-1").decode("utf-8")
    return text.translate(_MEANT) if _CONTROLS.search(text.encode("utf-8", "surrogatepass")) else text
