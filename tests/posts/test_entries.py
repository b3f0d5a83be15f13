"""Order, dates and identities of stored posts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from microsub.formats.wire import timestamp, to_wire
from microsub.model.jf2 import Card, Content, Entry, Feed
from microsub.posts.entries import content_hash, items_to_store, with_hub

NOW = 1_700_000_000.25
DAY = datetime(2023, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)


def feed(*entries: Entry) -> Feed:
    return Feed("http://a.test/feed", "rss", entries=entries)


def entry(guid: str, published: datetime | None = None, **parts: object) -> Entry:
    return Entry(guid=guid, name=guid, published=published, **parts)  # type: ignore[arg-type]


def test_ties_keep_the_documents_order() -> None:
    """60 undated entries get 60 scores, the first the highest, all within a millisecond of the discovery."""
    found = items_to_store(feed(*(entry(f"e{n}") for n in range(60))), NOW)
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 60
    assert scores[-1] == NOW
    assert round((scores[0] - NOW) * 1e6) == 59


def test_a_dated_entry_scores_its_milliseconds() -> None:
    """Microseconds only separate entries of the same instant, so the last of these has none."""
    found = items_to_store(feed(entry("b", DAY), entry("x", DAY - timedelta(1)), entry("a", DAY)), NOW)
    assert [item.score for item in found] == [
        DAY.replace(microsecond=678_001).timestamp(),
        DAY.replace(microsecond=678_000).timestamp() - 86400,
        DAY.replace(microsecond=678_000).timestamp(),
    ]


def test_no_date_lies_in_the_future() -> None:
    """A future or missing date is replaced by the time of discovery, in stored posts as well."""
    late = datetime(2100, 1, 1, tzinfo=UTC)
    ahead, undated = items_to_store(feed(entry("a", late, updated=late), entry("b")), NOW)
    discovered = datetime.fromtimestamp(NOW, UTC)
    assert ahead.published == undated.published == timestamp(discovered)
    wires = [orjson.loads(item.wire) for item in (ahead, undated)]
    assert wires[0]["published"] == wires[0]["updated"] == wires[1]["published"] == timestamp(discovered)
    assert "updated" not in wires[1]
    assert ahead.score > undated.score


def test_dates_before_1970_and_offsets() -> None:
    """The year 1 is a date like any other; offsets are converted."""
    old, offset = items_to_store(
        feed(
            entry("a", datetime(1, 1, 1, tzinfo=UTC)),
            entry("b", datetime.fromisoformat("2020-01-01T02:00:00+02:00")),
        ),
        NOW,
    )
    assert old.score == -62135596800
    assert offset.score == datetime(2020, 1, 1, tzinfo=UTC).timestamp()


def test_the_hash_sees_what_readers_see() -> None:
    """Changes of title, content, author and enclosures are edits; changes of dates and guids aren't."""
    before = Entry(guid="a", name="A", content=Content("<p>x</p>", "x"), published=DAY)
    same = Entry(guid="b", name="A", content=Content("<p>x</p>", "x"), published=None, updated=DAY)
    assert content_hash(to_wire(before)) == content_hash(to_wire(same))
    for edited in (
        Entry(name="B", content=Content("<p>x</p>", "x")),
        Entry(name="A", content=Content("<p>y</p>", "y")),
        Entry(name="A", content=Content("<p>x</p>", "x"), author=Card(name="C")),
        Entry(name="A", content=Content("<p>x</p>", "x"), audio=("http://a.test/a.mp3",)),
    ):
        assert content_hash(to_wire(edited)) != content_hash(to_wire(before))


@pytest.mark.parametrize(
    ("header", "hub", "topic"),
    [
        (None, "https://in.test/hub", "https://in.test/feed"),
        ("", "https://in.test/hub", "https://in.test/feed"),
        ("<https://h.test/>; rel=hub, <https://t.test/>; rel=self", "https://h.test/", "https://t.test/"),
        ('<//h.test/a>; rel="alternate HUB", <b>; rel="self"', "https://h.test/a", "https://blog.test/b"),
        ("<https://h.test/1>; rel=hub, <https://h.test/2>; rel=hub", "https://h.test/1", "https://in.test/feed"),
        ("<https://t.test/>; rel=self", "https://in.test/hub", "https://in.test/feed"),
        ("<javascript:a()>; rel=hub, <https://t.test/>; rel=self", "https://in.test/hub", "https://in.test/feed"),
        ('<https://h.test/>; rel=hub; anchor="https://other.test/"', "https://in.test/hub", "https://in.test/feed"),
    ],
)
def test_the_hub_in_the_header_precedes_the_documents(header: str | None, hub: str, topic: str) -> None:
    """WebSub, 4: `Link` headers first, then the document; the first match counts."""
    feed = Feed(url="https://blog.test/", format="atom", hub="https://in.test/hub", self_url="https://in.test/feed")
    found = with_hub(feed, header, "https://blog.test/")
    assert (found.hub, found.self_url) == (hub, topic)
