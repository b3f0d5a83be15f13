"""Which feeds a document names, and in which order."""

from __future__ import annotations

import time

from microsub.discovery.links import FeedLink, better_feeds, common_paths, discover, forwarded

URL = "https://blog.example/about"

PAGE = b"""<!doctype html><html><head><title>The blog</title><base href="/en/">
<meta name="description" content="Words about  things"><link rel="icon" href="/icon.png">
<link rel="alternate" type="application/rss+xml" title="The blog &raquo; Comments Feed" href="/comments/feed/">
<link rel="alternate" type="application/rss+xml; charset=utf-8" title="RSS" href="feed.xml">
<link rel="alternate stylesheet" type="application/rss+xml" href="/no">
<link rel="ALTERNATE" type="Application/Atom+XML" href="https://blog.example/atom.xml#x">
<link rel="alternate" type="application/json" href="/wp-json/wp/v2/pages/2">
<link rel="alternate" type="application/json" href="/feed.json">
<link rel="alternate" type="application/rss+xml" href="javascript:alert(1)">
<link rel="alternate" hreflang="de" href="/de/">
</head><body><a rel="feed" href="/notes">Notes</a>
<div class="h-feed"><p class="p-name">Latest</p>
<div class="h-entry"><a class="p-name u-url" href="/1">One</a></div></div>
</body></html>"""


def urls(links: list[FeedLink]) -> list[str]:
    return [link.url for link in links]


def test_international_titles_in_a_header() -> None:
    """`title*` counts before `title`, in the two encodings that it may have (RFC 8187, 3.2)."""
    for parameters, title in (
        ("title=plain; title*=UTF-8'de'%C3%9Cber%20uns", "Über uns"),
        ("title*=iso-8859-1''%DCber", "Über"),
        ("title=plain; title*=utf-7''+AFw-", "plain"),
        ("title=plain; title*=broken", "plain"),
    ):
        header = f'</feed>; rel=alternate; type="application/rss+xml"; {parameters}'
        (link,) = discover(b"<p>x", "https://a.example/", "text/html", header)
        assert (link.url, link.title) == ("https://a.example/feed", title)


def test_a_page_names_its_feeds_best_first() -> None:
    """HTTP header, alternates, rel=feed, the page's own h-feed; comments last; each once; no scripts."""
    header = '</hub>; rel="hub", </from-http>; rel=alternate; type="application/atom+xml"; title="A, \\"B\\""'
    links = discover(PAGE, URL, "text/html", header)
    assert urls(links) == [
        "https://blog.example/from-http",
        "https://blog.example/en/feed.xml",
        "https://blog.example/atom.xml#x",
        "https://blog.example/feed.json",
        "https://blog.example/notes",
        "https://blog.example/about",
        "https://blog.example/comments/feed/",
    ]
    assert [link.format for link in links] == ["atom", "rss", "atom", "jsonfeed", "h-feed", "h-feed", "rss"]
    assert links[0].title == 'A, "B"'
    assert links[1] == FeedLink(
        "https://blog.example/en/feed.xml",
        "rss",
        "The blog (RSS)",
        "https://blog.example/icon.png",
        "Words about things",
    )
    assert links[2].title == "The blog"
    assert links[5].title == "Latest"


def test_a_feed_is_its_own_result() -> None:
    """A document that is a feed is described by itself."""
    body = b'<rss version="2.0"><channel><title>T</title><description>D</description></channel></rss>'
    assert discover(body, URL, None, None) == [FeedLink(URL, "rss", "T", None, "D")]


def test_the_permalink_of_one_post_is_no_feed() -> None:
    """Following a single post would never show another one."""
    page = b'<div class="h-entry"><a class="u-url" href="/about">x</a></div>'
    assert discover(page, URL, "text/html", None) == []


def test_what_says_nothing_names_nothing() -> None:
    """Broken documents, plain text and images give an empty list, but the header still counts."""
    for body in (b"", b"\x89PNG\r\n", b"<rss", b"{", b"<html>"):
        assert discover(body, URL, "image/png", None) == []
        assert urls(discover(body, URL, None, "</f>; rel=feed")) == ["https://blog.example/f"]


def test_hostile_pages_take_no_time() -> None:
    """Tags that never end, thousands of links, deep nesting: a second at most each, and no error."""
    pieces = (b"<link rel=alternate ", b'"feedUrl":', b"https://api.w.org/", b"&quot;feedUrl&quot;:&quot;https:")
    hostile = [b"<!doctype html><p>" + piece * (2_000_000 // len(piece)) for piece in pieces]
    hostile += [
        b"<meta http-equiv=refresh content='0;url=" + b" " * 32_000 + b"&quot;'>",
        b"<meta http-equiv=refresh content='0;" + b" " * 32_000 + b"&quot;'>",
        b"<div>" * 300_000,
        b"<a href=/feed.xml>x</a>" * 80_000,
        b"<link rel=alternate type=text/rss href=/?%d>" * 9,
    ]
    start = time.process_time()
    for body in hostile:
        for url in ("https://podcasts.apple.com/id1", "https://www.youtube.com/@x", URL):
            discover(body, url, "text/html", "<" * 10_000)
            better_feeds(body, url, "text/html", "; rel=" * 10_000)
            forwarded(body, url, "text/html")
    assert time.process_time() - start < 3 * 2 * len(hostile)


def test_common_paths_lie_beside_the_page_and_at_the_root() -> None:
    """Absolute, each once, the commonest name first, of each the nearest first."""
    found = common_paths("https://host.example/~ann/blog")
    assert found[:4] == [
        "https://host.example/~ann/blog/feed",
        "https://host.example/~ann/feed",
        "https://host.example/feed",
        "https://host.example/~ann/blog/feed.xml",
    ]
    assert "https://host.example/~ann/feed.xml" in found
    assert "https://host.example/feed" in found
    assert len(found) == len(set(found))
    assert common_paths("https://[x") == []
