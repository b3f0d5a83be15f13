"""The demo's documents: deterministic, well-formed, and growing with the clock."""

from __future__ import annotations

import feedparser
import mf2py
import pytest

from microsub_demo.blog import Blog
from microsub_demo.cast import BLOGS, BY_SLUG, newest_number, post, posts, time_of
from microsub_demo.documents import document, feed_path

NOW = 1_780_000_000.0
BASE = "http://127.0.0.1:9"
READABLE = [blog for blog in BLOGS if blog.status == 200]
VERSIONS = {"rss": "rss20", "rss091": "rss091u", "rdf": "rss10", "atom": "atom10"}


def feed(slug: str, now: float = NOW) -> feedparser.FeedParserDict:
    found = document(feed_path(BY_SLUG[slug]), now, BASE)
    assert found is not None
    return feedparser.parse(found.body, response_headers={"content-type": found.content_type})


def entries(now: float = NOW) -> list[dict]:
    found = document("/mo/", now, BASE)
    assert found is not None
    page = mf2py.parse(doc=found.body.decode(), url=BASE + "/mo/")
    (h_feed,) = [item for item in page["items"] if "h-feed" in item["type"]]
    return [child for child in h_feed["children"] if child["type"][0] in {"h-entry", "h-event"}]


def address(value: str | dict) -> str:
    """The URL in a parsed value: a plain one, one with a text, or an embedded item."""
    if isinstance(value, str):
        return value
    return value["properties"]["url"][0] if "properties" in value else value["value"]


@pytest.mark.parametrize("blog", READABLE, ids=lambda blog: blog.slug)
def test_a_post_appears_at_its_own_time_and_never_before(blog: Blog) -> None:
    """A document changes exactly when its blog posts, and its newest post is not in the future."""
    number = newest_number(blog, NOW) + 1
    instant = time_of(blog, number)
    path = feed_path(blog)
    assert document(f"/{blog.slug}/{number}", instant - 0.001, BASE) is None
    assert document(f"/{blog.slug}/{number}", instant, BASE) is not None
    before, after = document(path, instant - 0.001, BASE), document(path, instant, BASE)
    assert before is not None
    assert after is not None
    assert before.body != after.body
    assert posts(blog, instant)[0].published.timestamp() == instant
    assert len(posts(blog, instant)) == blog.window


def test_edits_change_title_text_and_updated_but_not_published() -> None:
    """A post of Second Thoughts is revised three times and keeps its id and time."""
    blog = BY_SLUG["second-thoughts"]
    number = newest_number(blog, NOW)
    start = time_of(blog, number)
    seen = [post(blog, number, start + age) for age in (0, *blog.edits)]
    assert [one.revision for one in seen] == [0, 1, 2, 3]
    assert len({one.title for one in seen}) == 4
    assert len({one.paragraphs for one in seen}) == 4
    assert {one.published for one in seen} == {seen[0].published}
    assert [one.updated.timestamp() - start for one in seen] == [0, *blog.edits]
    first, last = feed("second-thoughts", start), feed("second-thoughts", start + 90)
    old = {entry.id: entry for entry in first.entries}[f"{BASE}/second-thoughts/{number}"]
    new = {entry.id: entry for entry in last.entries}[old.id]
    assert new.title == old.title + " (revised 3×)"
    assert new.published == old.published
    assert new.updated > old.updated


@pytest.mark.parametrize("blog", [blog for blog in READABLE if blog.format in VERSIONS], ids=lambda blog: blog.slug)
def test_formats_are_what_they_claim(blog: Blog) -> None:
    """feedparser recognises each format and finds all posts in it, with absolute links."""
    parsed = feed(blog.slug)
    assert not parsed.bozo
    assert parsed.version == VERSIONS[blog.format]
    assert parsed.feed.title == blog.title
    links = [entry.link for entry in parsed.entries]
    if "link" in blog.kinds:
        assert all(document(link.removeprefix(BASE), NOW, BASE) for link in links)
    else:
        assert links == [BASE + one.path for one in posts(blog, NOW)]


@pytest.mark.parametrize("blog", [blog for blog in BLOGS if blog.excerpts], ids=lambda blog: blog.slug)
def test_excerpts_end_early_and_the_page_has_the_whole_text(blog: Blog) -> None:
    """The feed has one short paragraph; the page that it links has all of them."""
    for entry, shown in zip(feed(blog.slug).entries, posts(blog, NOW), strict=True):
        assert entry.summary.endswith(" …")
        assert len(entry.summary) <= 180
        assert "content" not in entry
        page = document(shown.path, NOW, BASE)
        assert page is not None
        (item,) = mf2py.parse(doc=page.body.decode())["items"]
        assert len(item["properties"]["content"][0]["value"]) > 3 * len(entry.summary)


@pytest.mark.parametrize(("slug", "encoding"), [("cafe-desuet", "iso-8859-1"), ("dry-watercolour", "windows-1251")])
def test_other_encodings_arrive_intact(slug: str, encoding: str) -> None:
    """The French and the Russian blog are served in their own encodings and read back letter by letter."""
    found = document(feed_path(BY_SLUG[slug]), NOW, BASE)
    assert found is not None
    with pytest.raises(UnicodeDecodeError):
        found.body.decode()
    parsed = feed(slug)
    assert parsed.encoding.lower() == encoding
    assert [entry.title for entry in parsed.entries] == [one.title for one in posts(BY_SLUG[slug], NOW)]


def test_podcast_has_enclosures_of_the_announced_length() -> None:
    """Each episode's audio file exists, with the type and length in the feed."""
    for episode in feed("nine-minutes-of-fog").entries:
        (enclosure,) = episode.enclosures
        sound = document(enclosure.href.removeprefix(BASE), NOW, BASE)
        assert sound is not None
        assert (enclosure.type, int(enclosure.length)) == (sound.content_type, len(sound.body))


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("note", {"content"}),
        ("photo", {"photo", "content"}),
        ("reply", {"in-reply-to", "content"}),
        ("like", {"like-of"}),
        ("article", {"name", "content"}),
        ("bookmark", {"bookmark-of"}),
        ("checkin", {"checkin"}),
        ("event", {"name", "start", "end", "location"}),
        ("rsvp", {"rsvp", "in-reply-to"}),
    ],
)
def test_h_feed_has_every_kind_of_post(kind: str, properties: set[str]) -> None:
    """The h-feed holds each kind three times, with the properties that make it that kind."""
    wanted = {BASE + one.path for one in posts(BY_SLUG["mo"], NOW) if one.kind == kind}
    found = [entry for entry in entries() if entry["properties"]["url"][0] in wanted]
    assert len(found) == 3
    for entry in found:
        assert properties | {"published", "url", "uid"} <= entry["properties"].keys()
        assert entry["type"] == (["h-event"] if kind == "event" else ["h-entry"])


def test_pictures_and_answered_posts_exist() -> None:
    """Every picture, avatar and target of a reply that the h-feed names exists."""
    for entry in entries():
        for name in ("photo", "in-reply-to", "like-of", "bookmark-of"):
            for value in entry["properties"].get(name, []):
                url = address(value)
                assert document(url.removeprefix(BASE), NOW, BASE) is not None
    png = document("/media/mo.png", NOW, BASE)
    assert png is not None
    assert png.body.startswith(b"\x89PNG")


def test_front_pages_lead_to_their_feeds() -> None:
    """Each front page that isn't an h-feed itself links its feed with rel=alternate; a list names them all."""
    listed = document("/", NOW, BASE)
    assert listed is not None
    for blog in BLOGS:
        assert f'<a href="/{blog.slug}/">'.encode() in listed.body
        found = document(f"/{blog.slug}/", NOW, BASE)
        assert found is not None
        rels = mf2py.parse(doc=found.body.decode(), url=BASE + f"/{blog.slug}/")["rels"]
        expected = [] if blog.format == "h-feed" else [BASE + feed_path(blog)]
        assert rels.get("alternate", []) == expected
