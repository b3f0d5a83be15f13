"""Recognising formats, and the common properties of entries of all formats."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest

from microsub.base.errors import ParseError
from microsub.formats.dates import from_text
from microsub.formats.encoding import decode
from microsub.formats.entry_id import post_type, says_no_more
from microsub.formats.parse import parse, sniff
from microsub.formats.wire import card_to_wire, encode, feed_to_wire, timestamp, to_wire
from microsub.model.jf2 import Card, Content, Enclosure, Entry

URL = "https://reader.example/feed"


@pytest.mark.parametrize(
    ("text", "content_type", "kind"),
    [
        ('<?xml version="1.0"?><!-- c --><rss>', "text/html", "syndication"),
        ("\ufeff\n <feed xmlns='x'>", None, "syndication"),
        ("<rdf:RDF>", None, "syndication"),
        ("<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x'><html>", "application/xml", "html"),
        ("<!doctype html><html>", "application/rss+xml", "html"),
        ("<div class=h-feed>", None, "html"),
        (' {"version"', "text/html", "json"),
        ("text", "text/plain", None),
        ("", None, None),
        ("&lt;<", "application/atom+xml", "syndication"),
    ],
)
def test_the_document_determines_its_format(text: str, content_type: str | None, kind: str | None) -> None:
    """The document decides; HTTP counts only if the document doesn't."""
    assert sniff(text, content_type) == kind


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"hello", "neither a feed"),
        (b"<html><body>Hello</body></html>", "no h-feed"),
        (b"{}", "no JSON Feed"),
        (b"[1]", "neither a feed"),
        (b'{"a":', "isn't"),
        (b"<rss></rss>", "no feed"),
        (b'<p class="h-card">me</p>', "no h-feed"),
        (b'<p class="h-entry-wrapper">me</p>', "no"),
    ],
)
def test_an_error_names_the_kind_of_document(body: bytes, part: str) -> None:
    """The error names the address and the kind of document found."""
    with pytest.raises(ParseError, match=part) as caught:
        parse(body, URL, None)
    assert caught.value.url == URL


def test_an_empty_feed_is_a_feed() -> None:
    """A new blog has no posts yet and can still be followed."""
    feed = parse(b'<rss version="2.0"><channel><title>New</title></channel></rss>', URL, None)
    assert (feed.name, feed.entries) == ("New", ())


def test_the_300_newest_entries_stay_in_document_order() -> None:
    """By date if all have one, otherwise by position."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    items = [
        {"id": str(i), "content_text": str(i), "date_published": (start + timedelta(days=i)).isoformat()}
        for i in range(400)
    ]
    version = "https://jsonfeed.org/version/1.1"
    feed = parse(json.dumps({"version": version, "items": items}).encode(), URL, None)
    assert [entry.guid for entry in feed.entries] == [str(i) for i in range(100, 400)]
    for item in items:
        del item["date_published"]
    feed = parse(json.dumps({"version": version, "items": items}).encode(), URL, None)
    assert [entry.guid for entry in feed.entries] == [str(i) for i in range(300)]


def test_of_ten_thousand_entries_the_newest_300_stay() -> None:
    """By date, in the order of the document, from a shuffled feed."""
    start = datetime(2020, 1, 1, tzinfo=UTC)
    days = [(number * 7919) % 10_000 for number in range(10_000)]
    items = "".join(
        f"<item><title>{day}</title><guid>{day}</guid>"
        f"<pubDate>{(start + timedelta(days=day)).isoformat()}</pubDate></item>"
        for day in days
    )
    feed = parse(f"<rss version='2.0'><channel><title>All</title>{items}</channel></rss>".encode(), URL, None)
    assert [entry.guid for entry in feed.entries] == [str(day) for day in days if day >= 9700]


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("ä €".encode(), None, "ä €"),
        ("ä €".encode(), "text/xml; charset=iso-8859-1", "ä €"),
        ("ä €".encode("cp1252"), None, "ä €"),
        ("ä €".encode("cp1252"), "text/xml; charset=ISO-8859-1", "ä €"),
        ("ä €".encode("cp1252"), "text/xml; charset=utf-8", "ä €"),
        ("Лёд".encode("koi8-r"), "text/xml; charset=koi8-r", "Лёд"),
        ("Лёд тронулся, господа".encode("koi8-r"), None, "Лёд тронулся, господа"),
        ("Лёд тронулся, господа".encode("cp1251"), None, "Лёд тронулся, господа"),
        ("日本".encode("shift_jis"), "text/xml; charset=Shift_JIS", "日本"),
        ("日本".encode("iso2022_jp"), "text/xml; charset=iso-2022-jp", "日本"),
        ("<ä".encode("utf-16"), None, "<ä"),
        ("<ä".encode("utf-16-be"), None, "<ä"),
        ("<ä".encode("utf-32-le"), None, "<ä"),
        ("viele Wörter, öfter".encode() + b"\xff", "x; charset=utf-8", "viele Wörter, öfter\ufffd"),
        ('<?xml encoding="windows-1250"?>ł'.encode("cp1250"), None, '<?xml encoding="windows-1250"?>ł'),
        ('<meta charset="iso-8859-2">ł'.encode("iso-8859-2"), None, '<meta charset="iso-8859-2">ł'),
        (b"\x81", None, "\x81"),
        ("ä".encode("cp1252"), "x; charset=zlib", "ä"),
        ("ä".encode("cp1252"), "x; charset=", "ä"),
    ],
)  # fmt: skip
def test_encodings_are_seen_through(body: bytes, content_type: str | None, text: str) -> None:
    """Byte order marks and valid UTF-8 take precedence over declarations, and decoding never fails."""
    assert decode(body, content_type) == text


@pytest.mark.timeout(30)  # trying every split of the blanks took minutes in the serving process
def test_the_time_for_a_content_type_grows_with_its_length() -> None:
    """A header may have 100 KiB of blanks."""
    assert decode(b"\xe4", f"text/xml; charset={' ' * 95_000}!") == "ä"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02 03:04-0800", datetime(2024, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=-8)))),
        ("2024-01-02T03:04:05.25+05:30", datetime(2024, 1, 1, 21, 34, 5, 250000, UTC)),
        ("2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
        ("2024-01-01T24:00:00Z", datetime(2024, 1, 2, tzinfo=UTC)),
        ("Tue, 02 Jan 2024 03:04:05 +0100", datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", None),
        ("0000-00-00", None),
        ("2024-13-40T00:00:00Z", None),
        ("2024-01-02T03:04:05+99:00", None),
        ("9999-12-31T23:59:59-12:00", None),
        ("yesterday", None),
        ("", None),
        ("1" * 200, None),
        (17, None),
    ],
)  # fmt: skip
def test_dates_are_instants_or_nothing(text: object, expected: datetime | None) -> None:
    """Common spellings are read; an impossible date is None."""
    assert from_text(text) == expected


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (Entry(type="event", name="x"), "event"),
        (Entry(rsvp="yes", in_reply_to=("u",)), "rsvp"),
        (Entry(rsvp="perhaps", in_reply_to=("u",)), "reply"),
        (Entry(in_reply_to=("u",), like_of=("u",)), "reply"),
        (Entry(repost_of=("u",), like_of=("u",)), "repost"),
        (Entry(like_of=("u",), photo=("u",)), "like"),
        (Entry(bookmark_of=("u",), name="x"), "bookmark"),
        (Entry(checkin=Card(), photo=("u",)), "checkin"),
        (Entry(video=("u",), photo=("u",)), "video"),
        (Entry(follow_of=("u",), photo=("u",)), "follow"),
        (Entry(photo=("u",), name="x"), "photo"),
        (Entry(audio=("u",), name="x"), "audio"),
        (Entry(name="x"), "article"),
        (Entry(name="Hello\n world", content=Content("", "Hello world, again")), "note"),
        (Entry(name="Title", content=Content("", "Body")), "article"),
        (Entry(name="Sum", summary="Sum of all"), "note"),
        (Entry(name="Sum", summary="Summary"), "article"),
        (Entry(content=Content("", "Body")), "note"),
        (Entry(), "note"),
    ],
)
def test_post_types_follow_the_order_of_the_specification(entry: Entry, kind: str) -> None:
    """The first property in the order decides; the comparison of name and content comes last."""
    assert post_type(entry) == kind


def test_a_cut_title_repeats_its_body() -> None:
    """A title that an engine cut from the text is left out; short ones with dots may be titles, and whole ones are."""
    assert says_no_more("The weather today is…", "The weather today is fine.")
    assert says_no_more("The weather today is [...]".replace(" [...]", "..."), "The weather today is fine.")
    assert not says_no_more("So...", "Some people think")
    assert not says_no_more("The weather today", "The weather today will be as it was yesterday.")
    assert says_no_more(None, "x")
    assert not says_no_more("x", "")


def test_the_wire_form_has_the_types_that_clients_need() -> None:
    """Lists are lists, coordinates strings, dates ISO 8601 with offset, absent is absent, the author always there."""
    entry = Entry(
        post_type="checkin",
        url="https://a.example/1",
        published=datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        photo=("https://a.example/p.jpg",),
        like_of=("https://b.example/",),
        content=Content("<b>x</b>", "x"),
        checkin=Card(name="Pier", latitude="1.5", longitude="-2"),
        enclosure=(Enclosure("https://a.example/p.jpg", "image/jpeg", 5),),
        refs={"https://b.example/": Entry(type="cite", name="B"), "https://c.example/": Card(name="C")},
    )
    assert to_wire(entry) == {
        "type": "entry",
        "post-type": "checkin",
        "url": "https://a.example/1",
        "published": "2024-01-02T00:00:00+02:00",
        "content": {"html": "<b>x</b>", "text": "x"},
        "author": {"type": "card"},
        "checkin": {"type": "card", "name": "Pier", "latitude": "1.5", "longitude": "-2"},
        "photo": ["https://a.example/p.jpg"],
        "like-of": ["https://b.example/"],
        "enclosure": [{"url": "https://a.example/p.jpg", "type": "image/jpeg", "length": 5}],
        "refs": {
            "https://b.example/": {"type": "cite", "name": "B"},
            "https://c.example/": {"type": "card", "name": "C"},
        },
    }
    assert card_to_wire(Card(name="A", country_name="NZ")) == {"type": "card", "name": "A", "country-name": "NZ"}


def test_an_encoded_item_can_be_spliced() -> None:
    """It is compact, begins with its type, and has id and source as strings."""
    body = encode(Entry(name="ü", content=Content("<p>x</p>", "x")), item_id="17", source="3")
    assert body.startswith(b'{"type":"entry",')
    assert b": " not in body
    assert orjson.loads(body) | {"_id": "17", "_source": "3"} == orjson.loads(body)


def test_broken_unicode_does_not_stop_an_item() -> None:
    """Half of a surrogate pair, which is valid in JSON but can't be stored, becomes a replacement character."""
    document = (
        b'{"version":"https://jsonfeed.org/version/1","title":"t\\ud83d","items":'
        b'[{"id":"\\udc00","title":"a\\ud800b","content_text":"\\udc00 \\ud83d\\ude00","tags":["\\ud800"]}]}'
    )
    feed = parse(document, URL, None)
    (entry,) = feed.entries
    assert (feed.name, entry.guid, entry.category) == ("t\ufffd", "\ufffd", ("\ufffd",))
    assert (entry.name, entry.content and entry.content.text) == ("a\ufffdb", "\ufffd \U0001f600")
    assert orjson.loads(encode(entry, item_id="1", source="1"))["name"] == "a\ufffdb"
    assert orjson.dumps(feed_to_wire(feed))


def test_timestamps_have_an_offset() -> None:
    """A time without offset counts as UTC; seconds are whole."""
    assert timestamp(datetime(2024, 1, 2)) == "2024-01-02T00:00:00+00:00"
    assert timestamp(datetime(2024, 1, 2, microsecond=250000, tzinfo=UTC)) == "2024-01-02T00:00:00+00:00"


def test_chapters_and_texts_of_an_episode_are_bounded() -> None:
    """A hundred chapters, twenty people, and texts cut to their limits; the whole stays small."""
    chapters = "".join(f'<psc:chapter start="{n}" title="{"t" * 900}"/>' for n in range(500))
    people = "".join(f'<podcast:person role="{"r" * 900}">P{n}</podcast:person>' for n in range(500))
    document = (
        '<rss xmlns:psc="http://podlove.org/simple-chapters" xmlns:podcast="https://podcastindex.org/namespace/1.0">'
        f"<channel><title>x</title><item><title>y</title><link>https://e.example/1</link>{people}{chapters}"
        "</item></channel></rss>"
    )
    podcast = parse(document.encode(), "https://e.example/feed", None).entries[0].podcast
    assert podcast is not None
    assert (len(podcast.chapter), len(podcast.person)) == (100, 20)
    assert {len(one.title or "") for one in podcast.chapter} == {300}
    assert {len(one.role or "") for one in podcast.person} == {100}


def test_the_name_of_a_namespace_is_compared_in_linear_time() -> None:
    """One with 100,000 slashes once took half a minute."""
    before = time.process_time()
    feed = parse(f'<rss xmlns:q="http:{"/" * 100_000}x"><channel><title>t</title></channel></rss>'.encode(), URL, None)
    assert feed.name == "t"
    assert time.process_time() - before < 5
