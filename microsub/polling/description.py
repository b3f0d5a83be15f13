"""What a document says of its feed, beside what the record says. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.feeds.store.record import FeedRecord
    from microsub.model.jf2 import Feed


def description_of(parsed: Feed) -> dict[str, str | None]:
    """What the document says of the feed. What it no longer says stays as it was, but for the WebSub links."""
    found = {
        "title": parsed.name,
        "photo": parsed.photo,
        "home": parsed.home,
        "description": parsed.description,
        "format": parsed.format,
    }
    return {name: value for name, value in found.items() if value} | {
        "hub": parsed.hub,
        "self_url": parsed.self_url,
        "ttl": None if parsed.ttl is None else str(parsed.ttl),
    }


def described(feed: FeedRecord, name: str) -> str | None:
    """What the record says under that name."""
    return getattr(feed, name, None) if name != "ttl" else feed.extra.get("ttl")
