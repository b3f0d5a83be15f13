"""Writes feed documents: jf2 to RSS, Atom, JSON Feed and an h-feed page. Pure.

`FORMATS` maps the ending of an address to its format. The output passes the format's validators, and `formats.parse`
reads title, dates, author, content, files and categories back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from microsub.formats.documents import page, xml
from microsub.formats.documents.values import (
    FeedDocument,
    files,
    is_playable,
    link,
    media_type,
    printable,
    shown,
    title,
    uri,
)
from microsub.formats.documents.words import Words, words
from microsub.formats.wire import card_to_wire, dump, podcast_to_wire, timestamp
from microsub.model.jf2 import Card, Enclosure, Entry


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format: its media type, its writer, and the bytes with which each entry begins, and nothing else."""

    content_type: str
    write: Callable[[FeedDocument], bytes]
    entry: bytes

    def starts(self, written: bytes) -> list[int]:
        """The positions at which the entries of a written document begin."""
        return [found.start() for found in re.finditer(re.escape(self.entry), written)]


def json_feed(document: FeedDocument) -> bytes:
    """The document in JSON Feed 1.1 (https://www.jsonfeed.org/version/1.1/).

    The extension `_podcast` has what the format has no names for.
    `next_url` is the next older archive. An archive's address depends on its content, so following the links ends.
    """
    head = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": document.title,
        "home_page_url": uri(document.addresses["html"]),
        "feed_url": uri(document.addresses["json"]),
        "description": document.description,
        "icon": uri(document.image),
        "authors": _authors(document.author),
        "language": document.language,
        "next_url": document.previous.get("json"),
        "hubs": [{"type": "WebSub", "url": hub} for hub in document.hubs],
    }
    said = words(document.language)
    # A line for each entry: inside of the JSON of one there is no end of a line.
    items = b",".join(b"\n" + dump(_item(printable(entry), said)) for entry in document.entries)
    return b'%b,"items":[%b]}' % (dump(_stated(head))[:-1], items)


def _item(entry: Entry, said: Words) -> dict[str, Any]:
    content = shown(entry, said)
    external = next((target for target in entry.bookmark_of if target != entry.url), None)
    found = {
        "id": entry.guid,
        "url": uri(link(entry)),
        "external_url": external and uri(external),
        "title": title(entry, said),
        "content_html": content,
        "summary": entry.summary,
        "image": uri(entry.featured) if entry.featured and entry.name else None,
        "banner_image": uri(entry.featured) if entry.featured and not entry.name else None,
        "date_published": entry.published and timestamp(entry.published),
        "date_modified": entry.updated and timestamp(entry.updated),
        "authors": _authors(entry.author),
        "tags": list(entry.category),
        "attachments": [_attachment(one) for one in files(entry)],
        "_podcast": _episode(entry),
    }
    # One of the two is required, and the title isn't repeated.
    return _stated(found) | ({} if content else {"content_text": entry.summary or ""})


def _authors(author: Card | None) -> list[dict[str, Any]]:
    if author is None or not (author.name or author.url):
        return []
    return [_stated({"name": author.name, "url": uri(author.url or ""), "avatar": uri(author.photo or "")})]


def _attachment(one: Enclosure) -> dict[str, Any]:
    sizes = {"size_in_bytes": one.length, "duration_in_seconds": one.duration}
    return _stated({"url": uri(one.url), "mime_type": media_type(one), "title": one.title, **sizes})


def _episode(entry: Entry) -> dict[str, Any]:
    """The extension's members: those of `_podcast` in an item, and the place that the episode is about."""
    found = podcast_to_wire(entry.podcast) if entry.podcast is not None else {}
    if entry.location is not None and any(map(is_playable, files(entry))):
        found["location"] = card_to_wire(entry.location)
    return {name: _with_uris(member, name) for name, member in found.items()}


def _with_uris(value: Any, name: str) -> Any:
    """A member of the extension, in which addresses are URIs."""
    if isinstance(value, dict):
        return {name: _with_uris(member, name) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_uris(member, name) for member in value]
    return uri(value) if name in {"url", "photo", "chapters"} else value


def _stated(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


FORMATS: Mapping[str, DocumentFormat] = {
    "rss": DocumentFormat("application/rss+xml; charset=utf-8", xml.rss, b"\n<item>"),
    "atom": DocumentFormat("application/atom+xml; charset=utf-8", xml.atom, b"\n<entry>"),
    "json": DocumentFormat("application/feed+json", json_feed, b"\n{"),
    "html": DocumentFormat("text/html; charset=utf-8", page.write, b'\n<article class="h-entry">'),
}
