"""Posts in imported files, cleaned like posts from the web. Pure.

In a user's export they are jf2; what this server wrote comes back unchanged. Other readers use the format of the Google
Reader API (Takeout, Inoreader, FreshRSS), or their own (Miniflux, https://miniflux.app/docs/api.html#endpoint-get-entries).
Values of an unexpected type are ignored.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from microsub.base.urls import EXECUTABLE, safe_url
from microsub.formats.dates import from_text
from microsub.formats.html.sanitise import clean_html
from microsub.formats.html.text import without_controls
from microsub.formats.normalise import MAX_BODY, MAX_LIST, MAX_SUMMARY, RawEntry, finish, safe_review
from microsub.formats.podcast import bounded_podcast
from microsub.formats.wire import from_wire
from microsub.model.jf2 import LINK_LISTS, Card, Content, Enclosure, Entry
from microsub.parsing.task import Task

_DEEPEST = 4
"""How deep posts may be nested: a post, what it replies to, and so on."""
_LINKS = ("url", "featured", "quotation_of")
_TEXTS = ("type", "post_type", "name", "summary", "rsvp", "start", "end")
_MOST_BODY = 2 * MAX_BODY
_MOST_TEXTS = 4_000_000
"""Characters in all texts of a post, like `records.LONGEST_LINE`: this server writes less."""


def exported_posts(body: bytes) -> list[Entry | None]:
    """The posts in a JSON list, in its order; None for one that can't be used."""
    return [_post(one) for one in orjson.loads(body)]


EXPORTED_POSTS = Task(exported_posts)


_BODIES = ("html", "text")
_UNUSABLE = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)
"""Errors raised by values of an unexpected type or size."""


def _post(wire: Any) -> Entry | None:
    with suppress(*_UNUSABLE):
        if _characters(wire) <= _MOST_TEXTS:
            return _cleaned(from_wire(wire), 0)
    return None


def _characters(wire: Any, name: str = "") -> int:
    """Characters of all texts within. Raises ValueError for a text or list longer than this server writes."""
    if isinstance(wire, str):
        if len(wire) > (_MOST_BODY if name in _BODIES else MAX_SUMMARY):
            raise ValueError(f"'{name}' is too long")
        return len(wire)
    if not isinstance(wire, dict | list):
        return 0
    if len(wire) > MAX_LIST:
        raise ValueError(f"'{name}' has too many parts")
    parts = wire.items() if isinstance(wire, dict) else ((name, part) for part in wire)
    return sum(len(key) + _characters(part, key) for key, part in parts)


def _cleaned(entry: Entry, depth: int) -> Entry:
    if depth > _DEEPEST:
        raise ValueError("posts are nested too deeply")
    url = safe_url(entry.url)
    changes: dict[str, Any] = {name: safe_url(getattr(entry, name)) for name in _LINKS}
    changes |= {name: _links(getattr(entry, name)) for name in LINK_LISTS}
    changes |= {name: _text(getattr(entry, name)) for name in _TEXTS}
    changes["type"] = changes["type"] or "entry"
    changes["uid"] = None if entry.uid and EXECUTABLE.match(entry.uid) else _text(entry.uid)
    changes["category"] = tuple(without_controls(tag) for tag in entry.category)
    changes["content"] = _content(entry.content, url or "")
    for name in ("author", "checkin", "location"):
        card = getattr(entry, name)
        changes[name] = None if card is None else _card(card)
    changes["enclosure"] = tuple(
        Enclosure(safe, _text(one.type), _count(one.length), _count(one.duration), _text(one.title))
        for one in entry.enclosure
        if isinstance(one, Enclosure) and (safe := safe_url(one.url))
    )
    changes["podcast"] = entry.podcast and bounded_podcast(entry.podcast)
    changes["review"] = entry.review and safe_review(entry.review)
    changes["refs"] = _refs(entry.refs, depth)
    return replace(entry, **changes)


def _refs(refs: Mapping[str, Entry | Card], depth: int) -> dict[str, Entry | Card]:
    return {
        safe: _card(ref) if isinstance(ref, Card) else _cleaned(ref, depth + 1)
        for url, ref in refs.items()
        if (safe := safe_url(url))
    }


def _content(content: Content | None, base: str) -> Content | None:
    if content is None:
        return None
    cleaned = clean_html(content.html or "", base)
    if len(cleaned) > _MOST_BODY:  # with its links made absolute
        raise ValueError("the body is too long")
    return Content(cleaned, without_controls(content.text or ""))


def _card(card: Card) -> Card:
    texts = {
        name: _text(getattr(card, name))
        for name in ("name", "note", "latitude", "longitude", "street_address", "locality", "region", "country_name")
    }
    return replace(card, type=_text(card.type) or "card", url=safe_url(card.url), photo=safe_url(card.photo), **texts)


def _links(urls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(safe for url in urls if (safe := safe_url(url)))


def _text(text: str | None) -> str | None:
    return None if text is None else without_controls(text)


# --- of other readers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReaderPost:
    """A post of another reader, or of the older server: its id there, its feed's address ('' if unknown), its state.

    `guid` is its publisher's id, and `digest` the SHA-256 of that, if the file has either.
    """

    id: str
    feed: str
    entry: Entry
    read: bool
    saved: bool = False
    guid: str = ""
    digest: str = ""


def posts_of_reader(body: bytes) -> list[ReaderPost | None]:
    """The posts in a JSON list, in its order; None for one that can't be used."""
    return [_reader_post(one) for one in orjson.loads(body)]


POSTS_OF_READER = Task(posts_of_reader)


def _reader_post(node: Any) -> ReaderPost | None:
    if not isinstance(node, dict):
        return None
    read: Callable[[dict[str, Any]], ReaderPost | None] = _miniflux if "feed_id" in node or "hash" in node else _google
    with suppress(*_UNUSABLE):
        return read(node)
    return None


def _google(node: dict[str, Any]) -> ReaderPost | None:
    origin = _object(node, "origin")
    stream = _string(origin, "streamId").removeprefix("feed/")
    states = [tag for tag in _list(node, "categories") if isinstance(tag, str)]
    content = _string(_object(node, "content"), "content") or _string(_object(node, "summary"), "content")
    links = [_string(one, "href") for name in ("canonical", "alternate") for one in _list(node, name)]
    when = node.get("published") or _seconds(node.get("crawlTimeMsec"), 1000)
    entry = Entry(
        url=safe_url(next(filter(None, links), None)),
        name=html.unescape(_string(node, "title")) or None,
        published=from_text(when),
        author=_author(_string(node, "author"), origin),
        category=tuple(tag for tag in states if not tag.startswith("user/")),
        enclosure=tuple(
            Enclosure(_string(one, "href"), _string(one, "type") or None, _count(one.get("length")))
            for one in _list(node, "enclosure")
            if isinstance(one, dict) and _string(one, "href")
        ),
    )
    return _found(
        _string(node, "id"),
        safe_url(_string(origin, "feedUrl")) or safe_url(stream) or "",
        entry,
        content,
        read=_is(states, "read"),
        saved=_is(states, "starred"),
        guid=_string(node, "guid"),
    )


def _miniflux(node: dict[str, Any]) -> ReaderPost | None:
    feed = _object(node, "feed")
    entry = Entry(
        url=safe_url(_string(node, "url")),
        name=_string(node, "title") or None,
        published=from_text(_string(node, "published_at")),
        author=_author(_string(node, "author"), {"title": feed.get("title"), "htmlUrl": feed.get("site_url")}),
        category=tuple(tag for tag in _list(node, "tags") if isinstance(tag, str)),
        enclosure=tuple(
            Enclosure(_string(one, "url"), _string(one, "mime_type") or None, _count(one.get("size")))
            for one in _list(node, "enclosures")
            if isinstance(one, dict) and _string(one, "url")
        ),
    )
    return _found(
        str(node.get("id", "")),
        safe_url(_string(feed, "feed_url")) or "",
        entry,
        _string(node, "content"),
        read=node.get("status") == "read",
        saved=node.get("starred") is True,
        digest=_string(node, "hash"),
    )


def _found(item: str, feed: str, entry: Entry, body: str, **state: Any) -> ReaderPost | None:
    made = finish(RawEntry(entry, entry.url or feed, html=body or None))
    if not item or not (made.url or made.content or made.name):
        return None
    return ReaderPost(item, feed, made, **state)


def _author(name: str, origin: Mapping[str, Any]) -> Card | None:
    """The author, or else the feed, because a post of no feed wouldn't name it otherwise."""
    url, title = safe_url(_string(origin, "htmlUrl")), _string(origin, "title")
    return Card(name=name or title or None, url=url) if name or title or url else None


def _is(states: list[str], state: str) -> bool:
    """Whether one of the tags is the state `user/…/state/com.google/…`."""
    return any(tag.startswith("user/") and tag.endswith(f"/state/com.google/{state}") for tag in states)


def _seconds(value: Any, per_second: int) -> float | None:
    return int(value) / per_second if isinstance(value, int | str) and str(value).isdecimal() else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**63 else None


def _string(node: Any, name: str) -> str:
    value = node.get(name) if isinstance(node, dict) else None
    return value if isinstance(value, str) else ""


def _object(node: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = node.get(name)
    return value if isinstance(value, dict) else {}


def _list(node: Mapping[str, Any], name: str) -> list[Any]:
    value = node.get(name)
    return value if isinstance(value, list) else []
