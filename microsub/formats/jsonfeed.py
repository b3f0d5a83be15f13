"""JSON Feed 1.0 and 1.1 to jf2 (https://www.jsonfeed.org/version/1.1/)."""

from __future__ import annotations

import json
from typing import Any

import orjson

from microsub.errors import ParseError
from microsub.formats import media
from microsub.formats.dates import from_text
from microsub.formats.raw import RawEntry, RawFeed
from microsub.formats.urls import safe_url
from microsub.model.jf2 import Card, Enclosure, Entry, Feed

Node = dict[str, Any]

MAX_ITEMS = 20_000
"""The first ones count: JSON feeds begin with the newest."""


def to_jf2(text: str, url: str) -> RawFeed:
    """Read a JSON Feed. Raises ParseError when it is other JSON, or none."""
    document = _load(text, url)
    items = document.get("items")
    if "jsonfeed.org" not in str(document.get("version") or "") and not isinstance(items, list):
        raise ParseError(url, "this is JSON, but no JSON Feed")
    feed = Feed(
        url=url,
        format="jsonfeed",
        name=_string(document, "title"),
        home=safe_url(_string(document, "home_page_url"), url),
        photo=safe_url(_string(document, "icon"), url) or safe_url(_string(document, "favicon"), url),
        description=_string(document, "description"),
        author=_author(document, url),
        hub=next((u for hub in _nodes(document, "hubs") if (u := safe_url(_string(hub, "url"), url))), None),
        self_url=safe_url(_string(document, "feed_url"), url),
    )
    base = feed.home or url
    return RawFeed(feed, [_entry(item, base) for item in (items or [])[:MAX_ITEMS] if isinstance(item, dict)])


def _load(text: str, url: str) -> Node:
    text = text.lstrip("\ufeff \t\r\n\0")
    try:
        document = orjson.loads(text)
    except ValueError:
        try:
            # Raw line breaks and tabs inside strings occur; they are meant as they stand.
            document = json.loads(text, strict=False)
        except (ValueError, RecursionError) as error:
            raise ParseError(url, f"this begins like JSON, but isn't: {error}") from error
    if not isinstance(document, dict):
        raise ParseError(url, "this is JSON, but no JSON Feed")
    return document


def _entry(item: Node, base: str) -> RawEntry:
    link = safe_url(_string(item, "url"), base)
    published = from_text(item.get("date_published"))
    updated = from_text(item.get("date_modified"))
    guid = item.get("id")
    external = safe_url(_string(item, "external_url"), base)
    entry = Entry(
        guid=(str(guid).strip() or None) if isinstance(guid, str | int | float) else None,
        url=link or external,
        name=_string(item, "title"),
        summary=_string(item, "summary"),
        published=published or updated,
        updated=updated if published and updated != published else None,
        author=_author(item, base),
        category=tuple(tag for tag in item.get("tags") or [] if isinstance(tag, str))
        if isinstance(item.get("tags"), list)
        else (),
        photo=tuple(u for u in (safe_url(_string(item, "image"), base),) if u),
        featured=safe_url(_string(item, "banner_image"), base),
        bookmark_of=(external,) if external and link and external != link else (),
        enclosure=tuple(e for node in _nodes(item, "attachments") if (e := _attachment(node, base))),
    )
    return RawEntry(entry, link or base, html=_string(item, "content_html"), text=_string(item, "content_text"))


def _attachment(node: Node, base: str) -> Enclosure | None:
    url = safe_url(_string(node, "url"), base)
    if not url:
        return None
    length, duration = media.number(node.get("size_in_bytes")), media.number(node.get("duration_in_seconds"))
    return Enclosure(url, _string(node, "mime_type"), length or None, duration or None, _string(node, "title"))


def _author(node: Node, base: str) -> Card | None:
    """1.1 has a list, 1.0 one object; the first that says anything."""
    single = node.get("author")
    for author in [*_nodes(node, "authors"), *([single] if isinstance(single, dict) else [])]:
        card = Card(
            name=_string(author, "name"),
            url=safe_url(_string(author, "url"), base),
            photo=safe_url(_string(author, "avatar"), base),
        )
        if card.name or card.url:
            return card
    return None


def _string(node: Node, name: str) -> str | None:
    value = node.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _nodes(node: Node, name: str) -> list[Node]:
    value = node.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
