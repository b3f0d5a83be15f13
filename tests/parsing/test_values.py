"""Replies of a parser process become the project's own values, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed
from microsub.parsing import reader
from microsub.parsing.process import dumps
from microsub.posts.entries import PostsRead
from microsub.posts.values import ItemToStore, Listing

WHEN = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOTE = Entry(url="https://a.example/2", category=("x",), content=Content("<p>x</p>", "x"), author=Card(name="Ann"))
ENTRY = Entry(
    type="",
    guid="1",
    published=WHEN,
    enclosure=(Enclosure("https://a.example/x.mp3", length=0),),
    refs={"https://b.example/": Card(name=""), "https://a.example/2": NOTE},
)
FEED = Feed("https://a.example/feed", "rss", name="", ttl=0, entries=(ENTRY, NOTE))
ITEM = ItemToStore("1", '{"name":"Übung"}'.encode(), "h", 1.5, common="t", extra={"written_guid": "http://1"})
READ = PostsRead(FEED, (ITEM,), (1.0, -2.5), bytes(range(256)), Listing(b"guid", left=True, dated=False))


def test_values_are_returned_unchanged() -> None:
    """This includes empty values instead of usual ones, and bytes that are text or not."""
    assert reader(PostsRead)(dumps(READ)) == READ


def test_lone_surrogates_become_replacement_characters() -> None:
    """Escapes in JSON can contain lone surrogates, but stored text can't."""
    half, none = "a\ud800b", "a\ufffdb"
    sent = Entry(name=half, category=(half,), refs={half: Card(name=half)})
    assert reader(Entry)(dumps(sent)) == Entry(name=none, category=(none,), refs={none: Card(name=none)})


WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "a number for text": (Feed, {"url": 1, "format": "rss"}),
    "true for a number": (Feed, {"url": "x", "format": "rss", "ttl": True}),
    "nothing where something must be": (Feed, {"url": None, "format": "rss"}),
    "a name that is missing": (Feed, {"format": "rss"}),
    "a name that is unknown": (Feed, {"url": "x", "format": "rss", "run": "x"}),
    "text for a list": (Feed, {"url": "x", "format": "rss", "entries": "x"}),
    "text for a value": (Entry, {"author": "Ann"}),
    "a list for a value": (Entry, {"author": ["name"]}),
    "an invalid date": (Entry, {"published": "soon"}),
    "a number for bytes": (PostsRead, {"fingerprints": 7}),
    "text for bytes": (PostsRead, {"fingerprints": "ü"}),
}


@pytest.mark.parametrize(("kind", "value"), WRONG.values(), ids=WRONG)
def test_other_json_is_refused(kind: Any, value: dict[str, Any]) -> None:
    """The error is the one that ends the parser."""
    with pytest.raises(ValueError, match="validation error"):
        reader(kind)(orjson.dumps(value))
