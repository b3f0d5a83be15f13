"""Invented posts and feeds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Card, Content, Entry, Feed
from microsub.posts.entries import content_hash, own_digest
from microsub.posts.values import OWN, ItemToStore

NOON = 1_700_000_000.0
"""The time, in Unix seconds, that tests use as the current one."""


def candidate(name: str, *, text: str = "words", at: float = NOON, host: str = "blog.example", **changes: Any) -> Any:
    """A post as a poll finds it; guid, link and title are derived from `name`, the content from `text`."""
    link = f"https://{host}/{name}"
    entry = Entry(
        guid=link,
        url=link,
        name=name,
        content=Content(html=f"<p>{text}</p>", text=text),
        published=datetime.fromtimestamp(at, UTC),
        author=Card(name="Ann", url=f"https://{host}/"),
    )
    values: dict[str, Any] = {
        "guid": link,
        "wire": dump(to_wire(entry)),
        "published": entry.published.isoformat(),
        "hash": content_hash(to_wire(entry)),
        "extra": {OWN: own_digest(to_wire(entry), Feed("", "rss"))},
        "score": at,
        "author": f"https://{host}/",
        "link": link,
        "common": None,
    }
    return ItemToStore(**{**values, **changes})
