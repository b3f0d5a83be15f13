"""The feeds that a document names, and their order."""

from __future__ import annotations

import time

from microsub.discovery.search import MAX_PATHS
from microsub.formats.feed_links import FeedLink, better_feeds, common_paths, discover, forwarded

URL = "https://blog.example/about"


def urls(links: list[FeedLink]) -> list[str]:
    return [link.url for link in links]


def test_international_titles_in_a_header() -> None:
    """`title*` takes precedence over `title`, in both permitted encodings (RFC 8187, 3.2)."""
    for parameters, title in (
        ("title=plain; title*=UTF-8'de'%C3%9Cber%20uns", "Über uns"),
        ("title*=iso-8859-1''%DCber", "Über"),
        ("title=plain; title*=utf-7''+AFw-", "plain"),
        ("title=plain; title*=broken", "plain"),
    ):
        header = f'</feed>; rel=alternate; type="application/rss+xml"; {parameters}'
        (link,) = discover(b"<p>x", "https://a.example/", "text/html", header)
        assert (link.url, link.title) == ("https://a.example/feed", title)


def test_titles_have_no_controls() -> None:
    """An app may run in a terminal."""
    page = "<link rel=alternate type=application/rss+xml href=/f title='A\x1b[2J\x9d0;b'>"
    (link,) = discover(page.encode(), URL, "text/html; charset=utf-8", None)
    assert link.title == "A[2J0;b"


def test_documents_without_links_name_no_feed() -> None:
    """Broken documents, plain text and images give an empty list; links in the header still count."""
    for body in (b"", b"\x89PNG\r\n", b"<rss", b"{", b"<html>"):
        assert discover(body, URL, "image/png", None) == []
        assert urls(discover(body, URL, None, "</f>; rel=feed")) == ["https://blog.example/f"]


def test_hostile_pages_take_no_time() -> None:
    """Unclosed tags, thousands of links and deep nesting take at most a second each, without an error."""
    pieces = (b"<link rel=alternate ", b'"feedUrl":', b"https://api.w.org/", b"&quot;feedUrl&quot;:&quot;https:")
    hostile = [b"<!doctype html><p>" + piece * (2_000_000 // len(piece)) for piece in pieces]
    hostile += [
        b"<meta http-equiv=refresh content='0;url=" + b" " * 32_000 + b"&quot;'>",
        b"<meta http-equiv=refresh content='0;" + b" " * 32_000 + b"&quot;'>",
        b"<div>" * 300_000,
        b"<a href=/feed.xml>x</a>" * 80_000,
        b"<link rel=alternate type=text/rss href=/?%d>" * 9,
        b"<link rel=alternate type=application/rss+xml href=/" + b"a" * 2000 + b"/b>" * 1000,
    ]
    start = time.process_time()
    for body in hostile:
        for url in (
            "https://podcasts.apple.com/id1",
            "https://www.youtube.com/@x",
            f"https://blog.example/{'a' * 1000}",
        ):
            discover(body, url, "text/html", "<" * 10_000)
            better_feeds(body, url, "text/html", "; rel=" * 10_000)
            forwarded(body, url, "text/html")
    assert time.process_time() - start < 3 * 2 * len(hostile)


def test_common_paths_lie_beside_the_page_and_at_the_root() -> None:
    """They are absolute and unique: the common names at the root first, then in the page's folder; nothing lies below a
    file, and no feed lies in the folder of a year or a day. A person's folder comes before the root of the host.
    """
    names = ["feed", "index.xml", "feed.xml", "rss.xml", "atom.xml", "rss"]
    for page, first, then in (
        ("https://blog.example/2024/post.html", "https://blog.example/", ""),
        ("https://blog.example/notes/2024/05/01/post.html", "https://blog.example/", "https://blog.example/notes/"),
        ("https://blog.example/notes/peas/", "https://blog.example/", "https://blog.example/notes/peas/"),
        ("https://blog.example/post.html", "https://blog.example/", ""),
        ("https://blog.example/notes", "https://blog.example/", "https://blog.example/notes/"),
        ("https://blog.example/notes/", "https://blog.example/", "https://blog.example/notes/"),
        ("https://host.example/~ann/blog", "https://host.example/~ann/", "https://host.example/"),
        ("https://host.example/~ann/posts/2024/x.html", "https://host.example/~ann/", "https://host.example/"),
    ):
        found = common_paths(page)
        assert found[:MAX_PATHS] == [first + name for name in names] + (
            [then + name for name in names[:3]]
            if then
            else [first + name for name in ("feed.json", "blog-feed.xml", "feed.atom")]
        )
        assert len(found) == len(set(found))
        assert not any("post.html" in url for url in found)
    assert common_paths("https://[x") == []
