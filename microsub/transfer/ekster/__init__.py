"""Converts items of the older Go server (https://github.com/pstuifzand/ekster) to jf2.

An item is jf2 as JSON with lists for repeatable properties, `_source` for the feed and `_id`, the hex form of the
publisher's id: a feed's guid, or else its link; a page's `uid`, or else its URL. Posts by Micropub have a SHA-1 there,
and a source without an address. Older versions wrote fields in other forms, so every value is checked before use, and
everything is cleaned like a feed's posts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from microsub.base.errors import ParseError
from microsub.base.urls import canonical_feed_url, host_of, safe_url
from microsub.formats.dates import from_text
from microsub.formats.normalise import RawEntry, finish
from microsub.model.jf2 import Card, Entry
from microsub.parsing.task import Task

MAX_DEPTH = 2
MAX_BYTES = 4_000_000
_TYPES = frozenset({"entry", "event", "card", "review", "cite"})


def old_post(body: bytes, item_id: str, published: str = "") -> tuple[Entry, str | None]:
    """Read one item; `published` is the date of an undated one. Raises ParseError, naming `item_id`.

    Returns the post, and the address of the source that the item names: empty if it can't be used, None for no source.
    """
    if len(body) > MAX_BYTES:
        raise ParseError(item_id, f"its JSON has {len(body)} bytes, which is too large for a post")
    try:
        node = orjson.loads(body)
    except ValueError as error:
        raise ParseError(item_id, f"its JSON can't be read: {error}") from error
    if not isinstance(node, dict):
        raise ParseError(item_id, "its JSON isn't an object")
    raw = _raw(node, 0)
    if not any((raw.html, raw.text, raw.entry.name, raw.entry.url, raw.entry.photo, raw.entry.summary)):
        raise ParseError(item_id, "it has no content")
    source = node.get("_source")
    raw.entry = _dated(raw.entry, published, guid_of(item_id) or raw.entry.uid or raw.entry.url)
    return finish(raw), safe_url(_text(source, "url")) or "" if isinstance(source, dict) and source else None


OLD_POST = Task(old_post)


def guid_of(item_id: str) -> str | None:
    """The publisher's id of the post, decoded from the item's id; None if the id has another form."""
    try:
        text = bytes.fromhex(item_id).decode().strip()
    except ValueError:
        return None
    return text if text and text.isprintable() else None


def source_among(post: Entry, source: str | None, feeds: Sequence[str], own: Sequence[str]) -> str | None:
    """The feed of a post: one of `feeds`; `own` are those of its channel; `source` as returned by `old_post`.

    This is the feed that the item names; or else the feed with the longest common prefix on the host of the post or its
    author; or, if the item names none, the channel's only feed. None for a post of no feed.
    """
    if source:
        wanted = canonical_feed_url(source)
        for url in (*own, *feeds):
            if canonical_feed_url(url) == wanted:
                return url
    elif source is not None:
        return None
    author = post.author.url if post.author else None
    addresses = [url for url in (source, post.url, author, post.guid) if url]
    for candidates in (own, feeds):
        near = [url for url in candidates if any(_bare(url) == _bare(address) for address in addresses)]
        if near:
            return max(near, key=lambda url: max(_common(url, address) for address in addresses))
    return own[0] if len(own) == 1 and source is None else None


def _bare(url: str) -> str:
    return host_of(url).removeprefix("www.")


def _common(one: str, other: str) -> int:
    """How many characters after the host two URLs have in common."""
    one, other = (url.partition("://")[2].partition("/")[2] for url in (one, other))
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _raw(node: dict[str, Any], depth: int) -> RawEntry:
    url = safe_url(_text(node, "url"))
    kind = _text(node, "type")
    content = node.get("content")
    entry = Entry(
        type=kind if kind in _TYPES else "entry",
        uid=_text(node, "uid"),
        url=url,
        name=_text(node, "name"),
        summary=_text(node, "summary"),
        published=from_text(node.get("published")),
        updated=from_text(node.get("updated")),
        author=_card(node.get("author")),
        category=_texts(node, "category"),
        photo=_urls(node, "photo"),
        video=_urls(node, "video"),
        audio=_urls(node, "audio"),
        like_of=_urls(node, "like-of"),
        repost_of=_urls(node, "repost-of"),
        bookmark_of=_urls(node, "bookmark-of"),
        follow_of=_urls(node, "follow-of"),
        in_reply_to=_urls(node, "in-reply-to"),
        checkin=_card(node.get("checkin")),
        location=_place(node),
        refs=_refs(node, depth),
    )
    html, text = (
        (_text(content, "html"), _text(content, "text") or _text(content, "value"))
        if isinstance(content, dict)
        else (None, content if isinstance(content, str) else None)
    )
    return RawEntry(entry, url or "", html=html, text=text)


def _dated(entry: Entry, published: str, guid: str | None) -> Entry:
    moment: datetime | None = entry.published or from_text(published)
    return replace(entry, published=moment, guid=guid)


def _refs(node: dict[str, Any], depth: int) -> dict[str, Entry | Card]:
    refs = node.get("refs")
    if not isinstance(refs, dict) or depth >= MAX_DEPTH:
        return {}
    found: dict[str, Entry | Card] = {}
    for address, value in list(refs.items())[:20]:
        if isinstance(value, dict) and (url := safe_url(address)):
            found[url] = finish(_raw(value, depth + 1))
    return found


def _card(value: Any) -> Card | None:
    if isinstance(value, str):
        url = safe_url(value)
        return Card(url=url, name=None if url else value) if value.strip() else None
    if not isinstance(value, dict):
        return None
    card = Card(
        name=_text(value, "name"),
        url=safe_url(_text(value, "url")),
        photo=safe_url(_text(value, "photo")),
        latitude=_text(value, "latitude"),
        longitude=_text(value, "longitude"),
        locality=_text(value, "locality"),
        region=_text(value, "region"),
        country_name=_text(value, "country-name"),
    )
    return card if card != Card() else None


def _place(node: dict[str, Any]) -> Card | None:
    latitude, longitude = _text(node, "latitude"), _text(node, "longitude")
    return Card(latitude=latitude, longitude=longitude) if latitude and longitude else None


def _texts(node: dict[str, Any], name: str) -> tuple[str, ...]:
    value = node.get(name)
    values = value if isinstance(value, list) else [value]
    return tuple(one for one in values if isinstance(one, str) and one.strip())


def _text(node: dict[str, Any], name: str) -> str | None:
    return next(iter(_texts(node, name)), None)


def _urls(node: dict[str, Any], name: str) -> tuple[str, ...]:
    return tuple(url for value in _texts(node, name) if (url := safe_url(value)))
