"""Streams as Atom documents, by which Newsboat before version 2.24 reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from microsub.formats.documents.values import allowed
from microsub.greader.ids import READ, STATE

_ATOM = "http://www.w3.org/2005/Atom"
_SCHEME = "http://www.google.com/reader/"
CONTENT_TYPE = b"application/atom+xml; charset=utf-8"


def atom_of(name: str, title: str, updated: float, items: Iterable[Mapping[str, Any]]) -> bytes:
    """The document of a stream with its items, as contents have them. `updated` is Unix time."""
    feed = Element("feed", xmlns=_ATOM)
    _text(feed, "id", f"tag:google.com,2005:reader/{name}")
    _text(feed, "title", title)
    _text(feed, "updated", _time(updated))
    for item in items:
        _entry(SubElement(feed, "entry"), item)
    document: bytes = tostring(feed, "utf-8", xml_declaration=True)
    return document


def _entry(entry: Element, item: Mapping[str, Any]) -> None:
    _text(entry, "id", item["id"])
    _text(entry, "title", item["title"])
    _text(entry, "published", _time(item["published"]))
    _text(entry, "updated", _time(item.get("updated") or item["published"]))
    SubElement(entry, "link", rel="alternate", type="text/html", href=allowed(item["canonical"][0]["href"]))
    for file in item.get("enclosure", ()):
        SubElement(entry, "link", rel="enclosure", type=allowed(file["type"]), href=allowed(file["href"]))
    if "author" in item:
        _text(SubElement(entry, "author"), "name", item["author"])
    _text(entry, "content", item["summary"]["content"], type="html")
    # Without `fresh` Newsboat never turns a post unread again. A folder could be named `read`, so folders are left out.
    states = [one for one in item["categories"] if one.startswith(STATE)]
    for state in states if READ in states else [*states, f"{STATE}fresh"]:
        SubElement(entry, "category", scheme=_SCHEME, term=state, label=state.removeprefix(STATE))
    source = SubElement(entry, "source")
    _text(source, "title", item["origin"]["title"])


def _text(parent: Element, name: str, text: str, **attributes: str) -> None:
    SubElement(parent, name, attributes).text = allowed(text)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
