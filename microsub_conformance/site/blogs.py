"""Invented blogs, and their documents in RSS 2.0, Atom, JSON Feed 1.1 and h-feed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from html import escape
from typing import Any, Literal

from microsub_conformance.site.publisher import PublishedDocument

Format = Literal["rss", "atom", "json", "h-feed"]


@dataclass(frozen=True, slots=True)
class Person:
    """The author of a post."""

    name: str
    url: str
    photo: str | None = None


@dataclass(frozen=True, slots=True)
class SamplePost:
    """One post. `html` is written unchanged; `link` and `guid` None: derived from the blog's URL and `slug`.

    `enclosures` are (URL, media type). `markup` is the inner HTML of the h-entry when an h-feed is written.
    """

    slug: str
    published: datetime
    html: str
    title: str | None = None
    author: Person | None = None
    updated: datetime | None = None
    categories: tuple[str, ...] = ()
    enclosures: tuple[tuple[str, str], ...] = ()
    markup: str | None = None
    link: str | None = None


@dataclass
class SampleBlog:
    """A blog at `home` whose feed is at `url`; `posts` may be changed and written again."""

    name: str
    path: str
    base: str
    format: Format
    posts: list[SamplePost] = field(default_factory=list)
    author: Person | None = None

    @property
    def url(self) -> str:
        """The address of the feed."""
        return self.base + self.path

    @property
    def home(self) -> str:
        """The page of the feed."""
        return self.url if self.format == "h-feed" else f"{self.url}/home"

    def link(self, post: SamplePost) -> str:
        """The address of a post."""
        return post.link or f"{self.url}/{post.slug}"

    def links(self) -> list[str]:
        """The addresses of all posts, in the document's order."""
        return [self.link(post) for post in self.posts]

    def document(self) -> PublishedDocument:
        """The document of the feed now."""
        return _WRITERS[self.format](self)


def _person_xml(person: Person) -> str:
    return f"<author><name>{escape(person.name)}</name><uri>{escape(person.url)}</uri></author>"


def _rss(blog: SampleBlog) -> PublishedDocument:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>',
        f"<title>{escape(blog.name)}</title><link>{escape(blog.home)}</link><description>invented</description>",
    ]
    for post in blog.posts:
        lines.append("<item>")
        if post.title is not None:
            lines.append(f"<title>{escape(post.title)}</title>")
        lines.append(f"<link>{escape(blog.link(post))}</link><guid>{escape(blog.link(post))}</guid>")
        lines.append(f"<pubDate>{format_datetime(post.published)}</pubDate>")
        if post.author:
            lines.append(f"<dc:creator>{escape(post.author.name)}</dc:creator>")
        lines.extend(f"<category>{escape(name)}</category>" for name in post.categories)
        lines.extend(
            f'<enclosure url="{escape(url)}" type="{escape(kind)}" length="4096"/>' for url, kind in post.enclosures
        )
        lines.append(f"<description>{escape(post.html)}</description></item>")
    lines.append("</channel></rss>")
    return PublishedDocument("application/rss+xml; charset=utf-8", "\n".join(lines).encode())


def _atom(blog: SampleBlog) -> PublishedDocument:
    newest = max((post.updated or post.published for post in blog.posts), default=None)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="http://www.w3.org/2005/Atom"><title>{escape(blog.name)}</title><id>{escape(blog.url)}</id>',
        f'<link rel="self" href="{escape(blog.url)}"/><link rel="alternate" href="{escape(blog.home)}"/>',
    ]
    if newest:
        lines.append(f"<updated>{newest.isoformat()}</updated>")
    if blog.author:
        lines.append(_person_xml(blog.author))
    for post in blog.posts:
        link = escape(blog.link(post))
        lines.append(f'<entry><id>{link}</id><link rel="alternate" href="{link}"/>')
        lines.append(f"<title>{escape(post.title or '')}</title><published>{post.published.isoformat()}</published>")
        lines.append(f"<updated>{(post.updated or post.published).isoformat()}</updated>")
        if post.author:
            lines.append(_person_xml(post.author))
        lines.extend(f'<category term="{escape(name)}"/>' for name in post.categories)
        lines.extend(
            f'<link rel="enclosure" href="{escape(url)}" type="{escape(kind)}"/>' for url, kind in post.enclosures
        )
        lines.append(f'<content type="html">{escape(post.html)}</content></entry>')
    lines.append("</feed>")
    return PublishedDocument("application/atom+xml; charset=utf-8", "\n".join(lines).encode())


def _json_person(person: Person) -> dict[str, str]:
    made = {"name": person.name, "url": person.url}
    return made | ({"avatar": person.photo} if person.photo else {})


def _json(blog: SampleBlog) -> PublishedDocument:
    items: list[dict[str, Any]] = []
    for post in blog.posts:
        item: dict[str, Any] = {
            "id": blog.link(post),
            "url": blog.link(post),
            "date_published": post.published.isoformat(),
            "content_html": post.html,
        }
        if post.title is not None:
            item["title"] = post.title
        if post.updated:
            item["date_modified"] = post.updated.isoformat()
        if post.author:
            item["authors"] = [_json_person(post.author)]
        if post.categories:
            item["tags"] = list(post.categories)
        if post.enclosures:
            item["attachments"] = [{"url": url, "mime_type": kind} for url, kind in post.enclosures]
        items.append(item)
    feed: dict[str, Any] = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": blog.name,
        "home_page_url": blog.home,
        "feed_url": blog.url,
        "items": items,
    }
    if blog.author:
        feed["authors"] = [_json_person(blog.author)]
    return PublishedDocument("application/feed+json", json.dumps(feed, ensure_ascii=False).encode())


def _h_card(person: Person) -> str:
    photo = f'<img class="u-photo" src="{escape(person.photo)}" alt="">' if person.photo else ""
    name = f'<a class="p-name u-url" href="{escape(person.url)}">{escape(person.name)}</a>'
    return f'<span class="p-author h-card">{photo}{name}</span>'


def _h_feed(blog: SampleBlog) -> PublishedDocument:
    lines = [
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(blog.name)}</title></head><body>',
        f'<div class="h-feed"><h1 class="p-name">{escape(blog.name)}</h1>',
        f'<a class="u-url" href="{escape(blog.url)}">permalink</a>',
    ]
    if blog.author:
        lines.append(_h_card(blog.author))
    for post in blog.posts:
        lines.append('<article class="h-entry">')
        if post.title is not None:
            lines.append(f'<h2 class="p-name">{escape(post.title)}</h2>')
        if post.author:
            lines.append(_h_card(post.author))
        stamp = post.published.isoformat()
        lines.append(
            f'<a class="u-url" href="{escape(blog.link(post))}"><time class="dt-published" datetime="{stamp}">'
        )
        lines.append(f"{stamp}</time></a>")
        lines.extend(f'<span class="p-category">{escape(name)}</span>' for name in post.categories)
        if post.markup is not None:
            lines.append(post.markup)
        else:
            lines.append(f'<div class="e-content">{post.html}</div>')
        lines.append("</article>")
    lines.append("</div></body></html>")
    return PublishedDocument("text/html; charset=utf-8", "\n".join(lines).encode())


_WRITERS: dict[Format, Callable[[SampleBlog], PublishedDocument]] = {
    "rss": _rss,
    "atom": _atom,
    "json": _json,
    "h-feed": _h_feed,
}
