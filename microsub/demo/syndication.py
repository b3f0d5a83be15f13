"""XML feeds of the demo: RSS 2.0 (https://www.rssboard.org/rss-specification), RSS 0.91, RDF (RSS 1.0,
https://web.resource.org/rss/1.0/spec) and Atom (RFC 4287), each with what such feeds carry in practice. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import format_datetime
from xml.sax.saxutils import escape, quoteattr

from microsub.demo.cast import Blog
from microsub.demo.markup import avatar_path, body_html, body_text, feed_path, home_path, sound_path
from microsub.demo.media import SOUND_BYTES, SOUND_SECONDS
from microsub.demo.posts import Post


def _document(blog: Blog, lines: Sequence[str]) -> bytes:
    head = f'<?xml version="1.0" encoding="{blog.encoding.upper()}"?>'
    return "\n".join([head, *lines, ""]).encode(blog.encoding, "xmlcharrefreplace")


def _element(name: str, text: str, attributes: str = "") -> str:
    return f"<{name}{attributes}>{escape(text)}</{name}>"


def rss(blog: Blog, posts: Sequence[Post], base: str) -> bytes:
    """RSS 2.0 with `content:encoded`, `dc:creator`, categories and, for a podcast, enclosures and iTunes elements."""
    lines = [
        '<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom"'
        ' xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd">',
        "<channel>",
        _element("title", blog.title),
        _element("link", base + home_path(blog)),
        _element("description", blog.about),
        _element("language", blog.language),
        f'<atom:link rel="self" type="application/rss+xml" href={quoteattr(base + feed_path(blog))}/>',
        f"<image>{_element('url', base + avatar_path(blog))}{_element('title', blog.title)}"
        f"{_element('link', base + home_path(blog))}</image>",
    ]
    if "episode" in blog.kinds:
        lines += [_element("itunes:author", blog.author), f"<itunes:image href={quoteattr(base + avatar_path(blog))}/>"]
    for post in posts:
        lines += _rss_item(post, base)
    return _document(blog, [*lines, "</channel>", "</rss>"])


def _rss_item(post: Post, base: str) -> list[str]:
    blog = post.blog
    html = body_html(post, base)
    lines = [
        "<item>",
        _element("title", post.title or ""),
        _element("link", base + post.path),
        _element("guid", f"{blog.slug}-{post.number}", ' isPermaLink="false"'),
        _element("pubDate", format_datetime(post.published)),
        _element("dc:creator", blog.author),
        _element("description", body_text(post).partition("\n")[0]),
        f"<content:encoded>{escape(html)}</content:encoded>",
        *(_element("category", tag) for tag in post.tags),
    ]
    if post.kind == "episode":
        lines += [
            f'<enclosure url={quoteattr(base + sound_path(post))} length="{SOUND_BYTES}" type="audio/wav"/>',
            _element("itunes:duration", str(SOUND_SECONDS)),
            _element("itunes:episode", str(post.number)),
        ]
    return [*lines, "</item>"]


def rss091(blog: Blog, posts: Sequence[Post], base: str) -> bytes:
    """RSS 0.91: title, link and description are all that an item has, so its time is unknown to readers."""
    lines = [
        '<rss version="0.91">',
        "<channel>",
        _element("title", blog.title),
        _element("link", base + home_path(blog)),
        _element("description", blog.about),
        _element("language", blog.language),
        *(
            f"<item>{_element('title', post.title or '')}{_element('link', base + post.path)}"
            f"{_element('description', body_text(post))}</item>"
            for post in posts
        ),
        "</channel>",
        "</rss>",
    ]
    return _document(blog, lines)


def rdf(blog: Blog, posts: Sequence[Post], base: str) -> bytes:
    """RSS 1.0 in RDF, with Dublin Core for dates, authors and subjects."""
    seats = "".join(f"<rdf:li rdf:resource={quoteattr(base + post.path)}/>" for post in posts)
    lines = [
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/">',
        f"<channel rdf:about={quoteattr(base + feed_path(blog))}>",
        _element("title", blog.title),
        _element("link", base + home_path(blog)),
        _element("description", blog.about),
        f"<items><rdf:Seq>{seats}</rdf:Seq></items>",
        "</channel>",
    ]
    for post in posts:
        lines += [
            f"<item rdf:about={quoteattr(base + post.path)}>",
            _element("title", post.title or ""),
            _element("link", base + post.path),
            _element("description", body_text(post)),
            _element("dc:creator", blog.author),
            _element("dc:date", post.published.isoformat()),
            *(_element("dc:subject", tag) for tag in post.tags),
            "</item>",
        ]
    return _document(blog, [*lines, "</rdf:RDF>"])


def atom(blog: Blog, posts: Sequence[Post], base: str) -> bytes:
    """Atom with XHTML content under `xml:base`, so that the links inside are relative."""
    home = base + home_path(blog)
    newest = max(post.updated for post in posts)
    lines = [
        f'<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{blog.language}" xml:base={quoteattr(base)}>',
        _element("id", home),
        _element("title", blog.title),
        _element("subtitle", blog.about),
        _element("updated", newest.isoformat()),
        f"<author>{_element('name', blog.author)}{_element('uri', home)}</author>",
        _element("icon", base + avatar_path(blog)),
        f'<link rel="alternate" type="text/html" href={quoteattr(home)}/>',
        f'<link rel="self" type="application/atom+xml" href={quoteattr(base + feed_path(blog))}/>',
    ]
    for post in posts:
        lines += [
            "<entry>",
            _element("id", base + post.path),
            _element("title", post.title or ""),
            f'<link rel="alternate" type="text/html" href={quoteattr(post.path)}/>',
            _element("published", post.published.isoformat()),
            _element("updated", post.updated.isoformat()),
            *(f"<category term={quoteattr(tag)}/>" for tag in post.tags),
            f'<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">{body_html(post)}</div></content>',
            "</entry>",
        ]
    return _document(blog, [*lines, "</feed>"])
