"""Parses JSON Feed 1.0 and 1.1 to jf2 (https://www.jsonfeed.org/version/1.1/)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson

from microsub.base.errors import ParseError
from microsub.base.urls import safe_url
from microsub.formats.dates import from_text
from microsub.formats.normalise import Newest, RawEntry
from microsub.formats.wire import card_from_wire, podcast_from_wire
from microsub.formats.xml import media
from microsub.model.jf2 import Card, Enclosure, Entry, Feed

Node = dict[str, Any]

MAX_ITEMS = 20_000
"""The first items count, because JSON feeds start with the newest."""

MAX_OBJECTS = 100_000
"""Objects and lists in one document, including braces in its texts. Each takes two hundred bytes."""


def to_jf2(text: str, url: str) -> tuple[Feed, list[RawEntry]]:
    """Read a JSON Feed. Raises ParseError for other JSON and for invalid JSON."""
    document = read_object(text, url)
    items = document.get("items")
    items = [items] if isinstance(items, dict) else items
    if "jsonfeed.org" not in str(document.get("version") or "") and not isinstance(items, list):
        raise ParseError(url, "this is JSON, but no JSON Feed")
    home = safe_url(_string(document, "home_page_url"), url)
    base = home or url  # addresses should be absolute; relative ones refer to the site
    feed = Feed(
        url=url,
        format="jsonfeed",
        name=_string(document, "title"),
        home=home,
        photo=safe_url(_string(document, "icon"), base) or safe_url(_string(document, "favicon"), base),
        description=_string(document, "description"),
        author=_author(document, base),
        hub=next(
            (u for hub in _nodes(document, "hubs") if _is_websub(hub) and (u := safe_url(_string(hub, "url"), url))),
            None,
        ),
        self_url=safe_url(_string(document, "feed_url"), url),
    )
    chosen: Newest[RawEntry] = Newest(lambda raw: raw.entry.published)
    for item in (items or [])[:MAX_ITEMS]:
        if isinstance(item, dict):
            chosen.add(_entry(item, base))
    return feed, chosen.kept()


def _is_websub(hub: Node) -> bool:
    """Whether a hub is a WebSub hub; rssCloud and others use other protocols."""
    return (_string(hub, "type") or "").strip().lower() == "websub"


def read_object(text: str, url: str) -> Node:
    """The object of a JSON document, with at most `MAX_OBJECTS` in it. Raises ParseError."""
    text = text.lstrip("\ufeff \t\r\n\0")
    if len(text) > MAX_OBJECTS and text.count("{") + text.count("[") > MAX_OBJECTS:
        raise ParseError(url, f"the document has more than {MAX_OBJECTS} objects")
    try:
        # It starts with a brace; `sniff` has checked that.
        document: Node = orjson.loads(text)
    except ValueError:
        try:
            # Raw line breaks and tabs in strings occur; they are meant literally.
            document = _whole(json.loads(text, strict=False))
        except (ValueError, RecursionError) as error:
            raise ParseError(url, f"this starts like JSON, but isn't valid: {error}") from error
    return document


def _whole(document: Node) -> Node:
    """Remove lone surrogates, which escapes can contain but no store can."""
    text = json.dumps(document, ensure_ascii=False)
    if text.isascii():
        return document
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return document if whole == text else json.loads(whole)


def _entry(item: Node, base: str) -> RawEntry:
    link = safe_url(_string(item, "url"), base)
    published = from_text(item.get("date_published"))
    updated = from_text(item.get("date_modified"))
    number_or_text = item.get("id")
    known = isinstance(number_or_text, str | int | float) and not isinstance(number_or_text, bool)
    guid = str(number_or_text).strip() if known else ""
    external = safe_url(_string(item, "external_url"), base)
    name = _string(item, "title")
    # The main image belongs to a post without a title; in an article, it is the illustration.
    episode = item.get("_podcast")  # the extension that our own documents have
    episode = episode if isinstance(episode, dict) else {}
    images = [safe_url(_string(item, field), base) for field in ("image", "banner_image")]
    main = images[0] if not name else None
    entry = Entry(
        guid=guid or None,
        url=link or external or safe_url(guid),
        name=name,
        summary=_string(item, "summary"),
        published=published or updated,
        updated=updated if published and updated != published else None,
        author=_author(item, base),
        category=tuple(tag for tag in item.get("tags") or [] if isinstance(tag, str))
        if isinstance(item.get("tags"), list)
        else (),
        photo=(main,) if main else (),
        featured=images[1] if main else next((image for image in images if image), None),
        podcast=podcast_from_wire(episode) if episode else None,
        location=_place(episode),
        bookmark_of=(external,) if external and link and external != link else (),
        enclosure=tuple(e for node in _nodes(item, "attachments") if (e := _attachment(node, base))),
    )
    return RawEntry(
        entry, link or safe_url(guid) or base, html=_string(item, "content_html"), text=_string(item, "content_text")
    )


def _place(episode: Node) -> Card | None:
    place = episode.get("location")
    texts = {name: word for name, word in place.items() if isinstance(word, str)} if isinstance(place, dict) else {}
    return card_from_wire({**texts, "type": "card"}) if texts else None


def _attachment(node: Node, base: str) -> Enclosure | None:
    url = safe_url(_string(node, "url"), base)
    if not url:
        return None
    length, duration = media.number(node.get("size_in_bytes")), media.number(node.get("duration_in_seconds"))
    return Enclosure(url, _string(node, "mime_type"), length or None, duration or None, _string(node, "title"))


def _author(node: Node, base: str) -> Card | None:
    """The author: 1.1 has a list, 1.0 one object, which counts if there is no list.

    Several authors become one line of names, with the address and picture of the first.
    """
    several = node.get("authors")
    found = [several] if isinstance(several, dict) else _nodes(node, "authors")
    cards = []
    for author in found or [single for single in (node.get("author"),) if isinstance(single, dict)]:
        card = Card(
            name=_string(author, "name"),
            url=safe_url(_string(author, "url"), base),
            photo=safe_url(_string(author, "avatar"), base),
        )
        if card.name or card.url:
            cards.append(card)
    names = dict.fromkeys(card.name for card in cards if card.name)
    return replace(cards[0], name=", ".join(names) or None) if cards else None


def _string(node: Node, name: str) -> str | None:
    value = node.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _nodes(node: Node, name: str) -> list[Node]:
    value = node.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
