"""From a path and an instant to bytes: everything that the demo's publisher can serve, as one pure function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from microsub.demo import media, pages
from microsub.demo.cast import BLOGS, BY_SLUG, Blog
from microsub.demo.jsonfeed import jsonfeed
from microsub.demo.markup import avatar_path, feed_path, home_path
from microsub.demo.posts import SEED, Post, newest_number, post, posts
from microsub.demo.syndication import atom, rdf, rss, rss091

Writer = Callable[[Blog, Sequence[Post], str], bytes]

WRITERS: Mapping[str, tuple[Writer, str]] = {
    "rss": (rss, "application/rss+xml"),
    "rss091": (rss091, "text/xml"),
    "rdf": (rdf, "application/rdf+xml"),
    "atom": (atom, "application/atom+xml; charset=utf-8"),
    "jsonfeed": (jsonfeed, "application/feed+json"),
}

HTML = "text/html; charset=utf-8"
FOREVER = datetime(2020, 1, 1, tzinfo=UTC)
"""The date of what never changes."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a path shows at one instant. `changed` is the time of its last change, in whole seconds."""

    body: bytes
    content_type: str
    changed: datetime


def feed_paths() -> tuple[str, ...]:
    """The paths of all feeds, in the order of the cast."""
    return tuple(feed_path(blog) for blog in BLOGS)


def document(path: str, now: float, base: str, seed: int = SEED) -> Document | None:
    """What stands at `path` at `now` (Unix seconds), or None where there is nothing (yet)."""
    if path == "/":
        return Document(pages.index(), HTML, FOREVER)
    for blog in BLOGS:
        if path in {home_path(blog), feed_path(blog)}:
            return _blog_document(path, blog, posts(blog, now, seed), base)
        if path == avatar_path(blog):
            return Document(media.avatar(blog), "image/png", FOREVER)
    return _numbered(path, now, seed)


def _blog_document(path: str, blog: Blog, listed: Sequence[Post], base: str) -> Document:
    changed = max(one.updated for one in listed)
    if path == home_path(blog):
        return Document(pages.front(blog, listed), HTML, changed)
    write, content_type = WRITERS[blog.format]
    return Document(write(blog, listed, base), content_type, changed)


NUMBERED = re.compile(r"/(?P<media>media/)?(?P<slug>[a-z-]+)/(?P<number>\d{1,12})(?P<ending>\.svg|\.wav)?")


def _numbered(path: str, now: float, seed: int) -> Document | None:
    match = NUMBERED.fullmatch(path)
    blog = BY_SLUG.get(match["slug"]) if match else None
    if match is None or blog is None or bool(match["media"]) != bool(match["ending"]):
        return None
    number = int(match["number"])
    if number > newest_number(blog, now):
        return None
    if match["ending"] == ".svg":
        return Document(media.landscape(blog, number), "image/svg+xml", FOREVER)
    if match["ending"] == ".wav":
        return Document(media.foghorn(number), "audio/wav", FOREVER)
    shown = post(blog, number, now, seed)
    return Document(pages.permalink(shown), HTML, shown.updated)
