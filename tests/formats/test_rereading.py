"""A document that is read again gives the same posts, whether known entries are read again or not."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microsub.base.errors import ParseError
from microsub.formats import parse as parsing
from microsub.formats.normalise import MAX_BODIES, MAX_BODY
from microsub.formats.parse import parse, reread
from microsub.posts.entries import items_of, items_to_store
from microsub.posts.values import ItemToStore
from tests.support import examples

URL = "https://blog.test/feed"
NOW = 1_800_000_000.0


@dataclass(frozen=True)
class Post:
    guid: int | None
    link: int | None
    title: str
    body: str
    hour: int | None
    author: str | None


@dataclass(frozen=True)
class Document:
    title: str
    owner: str | None
    posts: tuple[Post, ...]

    def rss(self) -> bytes:
        owner = f"<managingEditor>x@y.test ({self.owner})</managingEditor>" if self.owner else ""
        items = "".join(map(_item, self.posts))
        return (
            "<rss version='2.0' xmlns:dc='http://purl.org/dc/elements/1.1/'><channel>"
            f"<title>{self.title}</title><link>https://blog.test/</link>{owner}{items}</channel></rss>"
        ).encode()


def _item(post: Post) -> str:
    parts = [f"<title>{post.title}</title><description>{escape(post.body)}</description>"]
    if post.guid is not None:
        parts.append(f"<guid isPermaLink='false'>g{post.guid}</guid>")
    if post.link is not None:
        parts.append(f"<link>https://blog.test/{post.link}?utm_source=x</link>")
    if post.hour is not None:
        # Hours may be in the future, and several posts may share one.
        parts.append(f"<pubDate>{15 + post.hour // 24} Jan 2027 {post.hour % 24:02d}:00:00 GMT</pubDate>")
    if post.author is not None:
        parts.append(f"<dc:creator>{post.author}</dc:creator>")
    return f"<item>{''.join(parts)}</item>"


def _few(*values: object) -> st.SearchStrategy:
    return st.sampled_from(values)


POSTS = st.builds(
    Post,
    guid=_few(None, *range(6)),
    link=_few(None, *range(4)),
    title=_few("One", "Two", "Three &amp; a half"),
    body=_few("", "plain words", "<p>Marked <a href='/up'>up</a> <script>x</script></p>", "<img src='a.png'>"),
    hour=_few(None, 0, 1, 2, 30, 400),
    author=_few(None, None, "Ann", "Bob"),
)
DOCUMENTS = st.builds(Document, _few("Blog", "Log"), _few(None, "Ann"), st.lists(POSTS, max_size=8).map(tuple))


class Store:
    """The known posts of a feed: guid to hash."""

    def __init__(self) -> None:
        self.hashes: dict[str, str] = {}

    def take(self, items: list[ItemToStore]) -> list[ItemToStore]:
        """The new and changed ones among these; they are known from now on."""
        news = [item for item in items if self.hashes.get(item.guid) != item.hash]
        self.hashes.update((item.guid, item.hash) for item in news)
        return news


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(DOCUMENTS, min_size=2, max_size=6))
def test_the_same_news_as_without_marks(documents: list[Document]) -> None:
    """For any sequence of documents, new posts and their places equal those of a complete read each time."""
    whole, marked = Store(), Store()
    fingerprints = None
    for number, document in enumerate(documents):
        now = NOW + 1000 * number
        reading = reread(document.rss(), URL, None, URL, fingerprints)
        fingerprints = reading.fingerprints
        everything = parse(document.rss(), URL, None)
        assert [one.published for one in reading.listed] == [entry.published for entry in everything.entries]
        assert marked.take(items_of(reading.listed, now, reading.feed, URL)) == whole.take(
            items_to_store(everything, now, URL)
        )
        assert marked.hashes == whole.hashes


def _posts(count: int, body: str = "words") -> tuple[Post, ...]:
    return tuple(Post(n, n, f"Post {n}", body, n, None) for n in range(count, 0, -1))


def _read(posts: tuple[Post, ...], fingerprints: bytes | None, title: str = "Blog", url: str = URL) -> parsing.Reading:
    return reread(Document(title, "Ann", posts).rss(), url, None, url, fingerprints)


def _new(reading: parsing.Reading) -> list[str]:
    return [one.entry.name or "" for one in reading.listed if one.entry is not None]


def test_only_what_is_new_or_changed_is_read() -> None:
    """Of a document with one new and one changed entry, these two are read; all are listed."""
    fingerprints = _read(_posts(20), None).fingerprints
    posts = _posts(21)
    edited = Post(5, 5, "Post 5, edited", "words", 5, None)
    reading = _read((*posts[:16], edited, *posts[17:]), fingerprints)
    assert _new(reading) == ["Post 21", "Post 5, edited"]
    assert len(reading.listed) == 21


def test_fingerprints_include_feed_address_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fingerprint includes the feed's data that entries inherit, the base address, and the code."""
    fingerprints = _read(_posts(3), None).fingerprints
    assert _new(_read(_posts(3), fingerprints)) == []
    assert len(_new(reread(Document("Blog", "Bob", _posts(3)).rss(), URL, None, URL, fingerprints))) == 3
    assert len(_new(_read(_posts(3), fingerprints, url="https://moved.test/feed"))) == 3
    monkeypatch.setattr(parsing, "edition", lambda: b"another")
    assert len(_new(_read(_posts(3), fingerprints))) == 3


def test_entries_that_share_a_guid_are_all_read() -> None:
    """The identity of entries that share a guid depends on all of them, so they have no fingerprints."""
    fingerprints = _read(_posts(3), None).fingerprints
    again = Post(2, 9, "The second, once more", "words", 2, None)
    reading = _read((*_posts(3), again), fingerprints)
    assert len(_new(reading)) == 4
    assert reading.fingerprints is None
    assert len({one.guid for one in reading.listed}) == 4


def test_the_room_for_bodies_is_shared_with_known_entries() -> None:
    """A known body uses its part of the limit for all bodies of a document, so the same ones are truncated."""
    long = "<p>" + "word " * (MAX_BODY // 5 - 10) + "</p>"
    before = _posts(MAX_BODIES // MAX_BODY + 2, long)
    fingerprints = _read(before, None).fingerprints
    late = Post(99, 99, "Late", long, 0, None)
    reading = _read((*before, late), fingerprints)
    assert _new(reading) == ["Late"]
    everything = parse(Document("Blog", "Ann", (*before, late)).rss(), URL, None)
    assert reading.listed[-1].entry == everything.entries[-1]
    assert len(everything.entries[-1].content.text) < MAX_BODY / 10  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("fingerprints", [b"", b"x", b"x" * 24, b"\0" * 48])
def test_damaged_fingerprints_are_ignored(fingerprints: bytes) -> None:
    """Bytes that aren't fingerprints are ignored."""
    assert len(_new(_read(_posts(3), fingerprints))) == 3


def test_a_document_without_feed_is_an_error() -> None:
    """As with `parse`."""
    with pytest.raises(ParseError):
        reread(b"nothing", URL, None, URL)


def test_every_module_of_the_formats_belongs_to_the_edition() -> None:
    """After a change of any module, results of the former version are read again."""
    package = Path(parsing.__file__).parents[1]
    missing = {*package.glob("formats/**/*.py"), package / "base/urls.py"} - {*parsing.code_files()}
    assert not missing
