"""Writes a feed and its entries as RSS, Atom or JSON Feed, for programs: the counterpart of `formats.parse`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from microsub.base.clock import EPOCH
from microsub.formats.documents import FORMATS
from microsub.formats.documents.values import FeedDocument, is_iri, link, permanent_id, title
from microsub.model.jf2 import Content, Entry, Feed

__all__ = ["write_atom", "write_jsonfeed", "write_rss"]


_KINDS = {"published": datetime, "updated": datetime, "content": Content}
"""Fields of entries that programs often fill with text."""


def write_rss(feed: Feed) -> bytes:
    """A feed with its entries, in their order, as RSS 2.0. `feed.url` is the address at which it will be published.

    Raises TypeError, naming the field, for a value that a program made and that no writer can use.
    """
    return FORMATS["rss"].write(_document(feed, "rss"))


def write_atom(feed: Feed) -> bytes:
    """The same as Atom."""
    return FORMATS["atom"].write(_document(feed, "atom"))


def write_jsonfeed(feed: Feed) -> bytes:
    """The same as JSON Feed 1.1."""
    return FORMATS["json"].write(_document(feed, "json"))


def _document(feed: Feed, form: str) -> FeedDocument:
    _expect(Feed, feed, "the feed")
    for number, entry in enumerate(feed.entries):
        _expect(Entry, entry, f"entries[{number}]")
        for name, kind in _KINDS.items():
            if (value := getattr(entry, name)) is not None:
                _expect(kind, value, f"entries[{number}].{name}")
    moments = [moment for entry in feed.entries for moment in (entry.published, entry.updated) if moment is not None]
    return FeedDocument(
        id=feed.url if is_iri(feed.url) else permanent_id("", feed.url),
        title=feed.name or feed.url,
        addresses={form: feed.url, "html": feed.home or feed.url},
        updated=max(map(_aware, moments), default=EPOCH),
        entries=tuple(_identified(feed)),
        description=feed.description or "",
        image=feed.photo or "",
        author=feed.author,
        hubs=(feed.hub,) if feed.hub else (),
    )


def _identified(feed: Feed) -> Iterator[Entry]:
    """The entries, each with an id of its own: the publisher's if Atom allows it, else one derived from it."""
    seen = set[str]()
    for entry in feed.entries:
        guid = entry.guid or entry.uid or link(entry) or title(entry)
        if not is_iri(guid) or guid in seen:
            guid = permanent_id(f"{guid} {link(entry)}", feed.url)
        seen.add(guid)
        yield replace(entry, guid=guid)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _expect(kind: type, value: object, place: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{place} is {type(value).__name__}, {value!r:.60}: expected {kind.__name__}")
