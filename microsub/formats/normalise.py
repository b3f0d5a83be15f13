"""What every format's entries go through last: cleaned bodies, safe URLs, authors, post types, limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from microsub.errors import ParseError
from microsub.formats.media import kind_of
from microsub.formats.post_types import body_text, fold, post_type, repeats
from microsub.formats.raw import RawEntry, RawFeed
from microsub.formats.sanitise import clean_html, text_to_html
from microsub.formats.text import html_to_text
from microsub.formats.urls import safe_url
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed

MAX_ENTRIES = 300
MAX_LIST = 100
MAX_NAME = 1000


def normalise(raw: RawFeed) -> Feed:
    """The finished feed. Raises ParseError where there is nothing to follow: no entry and no name."""
    feed = raw.feed
    if not raw.entries and not feed.name and not feed.home:
        raise ParseError(feed.url, "there is no feed in this document")
    chosen = _newest(raw.entries)
    fallback = _feed_author(feed)
    sole = len({entry.entry.author.name for entry in chosen if entry.entry.author}) <= 1
    entries = tuple(_entry(entry, fallback, sole) for entry in chosen)
    return replace(feed, author=feed.author and _safe_card(feed.author), entries=entries)


def _newest(entries: list[RawEntry]) -> list[RawEntry]:
    """At most `MAX_ENTRIES`, in document order; undated documents are taken for newest first, as nearly all are."""
    if len(entries) <= MAX_ENTRIES:
        return entries
    dated = [(raw.entry.published.timestamp(), i) for i, raw in enumerate(entries) if raw.entry.published]
    if len(dated) < len(entries):
        return entries[:MAX_ENTRIES]
    keep = {index for _, index in sorted(dated, key=lambda pair: (-pair[0], pair[1]))[:MAX_ENTRIES]}
    return [raw for index, raw in enumerate(entries) if index in keep]


def content_of(html: str | None, text: str | None, base: str) -> Content | None:
    """A body both ways, from whichever the publisher gave; None where nothing of it remains."""
    if html:
        cleaned = clean_html(html, base)
        return Content(cleaned, html_to_text(cleaned)) if cleaned else None
    if text and text.strip():
        return Content(text_to_html(text.strip()), text.strip())
    return None


def _entry(raw: RawEntry, fallback: Card, sole: bool) -> Entry:
    entry = finish(raw)
    return replace(entry, author=_author(entry.author, fallback, sole))


def finish(raw: RawEntry) -> Entry:
    """One entry cleaned, with its post type; what only the feed around it knows is left out."""
    entry = raw.entry
    content = content_of(raw.html, raw.text, raw.base)
    body = (content.text if content else None) or ""
    summary = entry.summary
    if raw.summary_html:
        summary = html_to_text(clean_html(raw.summary_html, raw.base))
    if summary and repeats(summary, body):
        summary = None
    entry = _with_media(replace(entry, content=content, summary=summary or None))
    lists: dict[str, Any] = {name: _safe_urls(getattr(entry, name)) for name in _URL_LISTS}
    entry = replace(
        entry,
        name=_name(entry),
        author=entry.author and _safe_card(entry.author),
        category=_distinct(fold(tag).lstrip("#") for tag in entry.category),
        url=safe_url(entry.url),
        featured=safe_url(entry.featured),
        quotation_of=safe_url(entry.quotation_of),
        checkin=entry.checkin and _safe_card(entry.checkin),
        location=entry.location and _safe_card(entry.location),
        **lists,
    )
    return replace(entry, post_type=entry.post_type or post_type(entry))


_URL_LISTS = ("photo", "video", "audio", "syndication", "like_of", "repost_of", "bookmark_of", "in_reply_to")


def _with_media(entry: Entry) -> Entry:
    """Enclosures sorted into pictures, films and sound, behind those that the format names itself."""
    enclosures = tuple(_safe_enclosure(e, url) for e in entry.enclosure if (url := safe_url(e.url)))
    if not enclosures:
        return entry if not entry.enclosure else replace(entry, enclosure=())
    by_kind: dict[str, list[str]] = {"photo": [*entry.photo], "video": [*entry.video], "audio": [*entry.audio]}
    for enclosure in enclosures:
        if kind := kind_of(enclosure):
            by_kind[kind].append(enclosure.url)
    return replace(
        entry,
        enclosure=enclosures,
        photo=tuple(by_kind["photo"]),
        video=tuple(by_kind["video"]),
        audio=tuple(by_kind["audio"]),
    )


def _safe_enclosure(enclosure: Enclosure, url: str) -> Enclosure:
    return enclosure if url == enclosure.url else replace(enclosure, url=url)


def _name(entry: Entry) -> str | None:
    name = fold(entry.name or "")[:MAX_NAME]
    return None if repeats(name, body_text(entry)) else name


def _feed_author(feed: Feed) -> Card:
    """Who stands behind entries that don't say: the feed's author, completed by the feed itself."""
    author = feed.author or Card()
    home = feed.home if feed.home else None
    return Card(name=author.name or feed.name, url=safe_url(author.url) or home, photo=safe_url(author.photo) or None)


def _author(author: Card | None, fallback: Card, sole: bool) -> Card:
    """The entry's author with gaps filled. A planet's many authors must not all get the planet's address."""
    if author is None or not (author.name or author.url):
        return fallback
    card = author
    same = sole or (card.name is not None and card.name == fallback.name) or (card.url == fallback.url)
    if not same:
        return card
    return replace(
        card,
        name=card.name or fallback.name,
        url=card.url or fallback.url,
        photo=card.photo or (fallback.photo if card.url in {None, fallback.url} else None),
    )


def _safe_card(card: Card) -> Card:
    return replace(
        card, name=fold(card.name or "")[:MAX_NAME] or None, url=safe_url(card.url), photo=safe_url(card.photo)
    )


def _safe_urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    return _distinct(url for value in urls if (url := safe_url(value)))


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))[:MAX_LIST]
