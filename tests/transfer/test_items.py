"""Items of the older Go server to jf2: its own fields, older formats, corrupt data, and the items' feeds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from microsub.base.errors import ParseError
from microsub.formats.entry_id import identity
from microsub.formats.wire import to_wire
from microsub.model.jf2 import Entry
from microsub.transfer.ekster import guid_of, old_post, source_among


def read(item_id: str = "61", **fields: Any) -> tuple[Entry, str | None]:
    return old_post(json.dumps({"type": "entry", "name": "N", **fields}).encode(), item_id)


def test_all_fields_come_over_cleaned() -> None:
    """Every field of the server has its place in our format, without scripts and unsafe URLs."""
    post, source = read(
        published="2020-01-02T03:04:05+01:00", updated="2020-01-03T00:00:00Z", url="https://a.test/1?utm_source=x",
        author={"type": "card", "name": "Ann", "url": "https://a.test/", "photo": "javascript:alert(1)"},
        category=["#one", "two"], photo=["https://a.test/p.jpg", "data:x"], summary="S",
        content={"html": "<p onclick='x'>Hi <script>x</script><a href='/b'>b</a></p>", "text": "Hi b"},
        checkin={"type": "card", "name": "Bar", "latitude": "1.5", "longitude": "2.5"},
        **{"in-reply-to": ["https://b.test/1"], "like-of": None, "bookmark-of": ["javascript:x"]},
        refs={"https://b.test/1": {"type": "entry", "name": "Theirs", "content": {"html": "<b>x</b>"}}},
        _id="61", _is_read=True, _source={"_id": "3", "url": "https://a.test/feed", "name": "A", "photo": ""},
    )  # fmt: skip
    wire = to_wire(post)
    link = '<a href="https://a.test/b" rel="noopener noreferrer">b</a>'
    assert wire["content"] == {"html": f"<p>Hi {link}</p>", "text": "Hi b"}
    assert wire["author"] == {"type": "card", "name": "Ann", "url": "https://a.test/"}
    assert (wire["published"], wire["category"]) == ("2020-01-02T03:04:05+01:00", ["one", "two"])
    assert (wire["photo"], wire["in-reply-to"]) == (["https://a.test/p.jpg"], ["https://b.test/1"])
    assert wire["refs"]["https://b.test/1"]["name"] == "Theirs"
    assert wire["post-type"] == "reply"
    assert "bookmark-of" not in wire
    assert (source, post.guid) == ("https://a.test/feed", "a")


def test_older_forms_are_understood() -> None:
    """Lists for single values, text for content, URLs for cards, and missing values."""
    post, _ = read(summary=["S", "T"], content="plain < text", author="https://a.test/", photo="https://a.test/p.jpg",
                category=None, published=None)  # fmt: skip
    wire = to_wire(post)
    assert wire["content"]["text"] == "plain < text"
    assert wire["summary"] == "S"
    assert wire["author"]["url"] == "https://a.test/"
    assert wire["photo"] == ["https://a.test/p.jpg"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "{}", '{"type": "entry", "name": 5}', "\ud800"])
def test_unreadable_items_are_named_by_id(text: str) -> None:
    """Broken JSON, other JSON, an empty item."""
    with pytest.raises(ParseError) as caught:
        old_post(text.encode("utf-8", "surrogatepass"), "6162")
    assert caught.value.url == "6162"


@pytest.mark.parametrize(("item_id", "guid"), [
    (b"https://a.test/12".hex(), "https://a.test/12"),
    (b"https://a.example/12".hex(), "https://a.example/12"),  # as long as a SHA-1
    ("tag:a,2020:ü".encode().hex(), "tag:a,2020:ü"),
    ("da39a3ee5e6b4b0d3255bfef95601890afd80709", None), ("xyz", None), ("", None),
])  # fmt: skip
def test_the_id_is_the_guid_in_hex(item_id: str, guid: str | None) -> None:
    """Ids of Micropub posts are hashes without a guid."""
    assert guid_of(item_id) == guid


def test_the_identity_is_that_of_a_poll() -> None:
    """As in feeds, scheme, tracking parameters and trailing slashes make no difference."""
    post, _ = read(b"http://a.test/1/?utm_source=rss".hex())
    assert identity(post) == "https://a.test/1"


A, A2, B = "https://a.test/feed", "https://a.test/notes/feed", "https://www.b.test/feed"


@pytest.mark.parametrize(("fields", "own", "feeds", "expected"), [
    ({"_source": {"url": A}}, [A], [A, B], A),
    ({"_source": {"url": "HTTPS://A.test:443/feed"}}, [B], [A, B], A),  # another channel's
    ({"_source": {"url": "http://a.test/feed"}}, [A, B], [A, B], A),  # moved to https
    ({"_source": {"url": "https://c.test/feed"}}, [A], [A, B], None),  # no longer followed
    ({"_source": {"_id": "micropub:1", "name": "x"}}, [A], [A], None),
    ({"url": "https://a.test/notes/1"}, [A, A2, B], [A, A2, B], A2),
    ({"url": "https://b.test/1"}, [A, B], [A, B], B),
    ({"url": "https://posts.test/1", "author": {"url": "https://b.test/"}}, [A, B], [A, B], B),
    ({"url": "https://posts.test/1"}, [A, B], [A, B], None),
    ({"url": "https://posts.test/1"}, [A], [A, B], A),  # the channel's only one
    ({}, [], [A], None),
])  # fmt: skip
def test_a_posts_feed_is_its_source_or_its_hosts(
    fields: dict[str, Any], own: list[str], feeds: list[str], expected: str | None
) -> None:
    """The item's source, otherwise the feed on its host, otherwise the channel's only feed."""
    assert source_among(*read(**fields), feeds, own) == expected
