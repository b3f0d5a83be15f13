"""Pieces that several formats share: escaping, absolute addresses, a post's HTML."""

from __future__ import annotations

import re
from html import escape

from microsub.demo.cast import Blog
from microsub.demo.posts import Post, path_of

EMPHASIS = re.compile(r"\*(.+?)\*")


def photo_path(post: Post) -> str:
    """Where the picture of a post lies."""
    return f"/media/{post.blog.slug}/{post.number}.svg"


def sound_path(post: Post) -> str:
    """Where the sound of an episode lies."""
    return f"/media/{post.blog.slug}/{post.number}.wav"


def avatar_path(blog: Blog) -> str:
    """Where the author's picture lies."""
    return f"/media/{blog.slug}.png"


def home_path(blog: Blog) -> str:
    """The blog's front page, which is its author's profile too."""
    return f"/{blog.slug}/"


FEED_FILES = {
    "rss": "feed.xml",
    "rss091": "feed.rss",
    "rdf": "index.rdf",
    "atom": "atom.xml",
    "jsonfeed": "feed.json",
    "h-feed": "",
}


def feed_path(blog: Blog) -> str:
    """Where the blog's feed lies; the h-feed is the front page itself."""
    return home_path(blog) + FEED_FILES[blog.format]


def body_html(post: Post, prefix: str = "") -> str:
    """The post's text as HTML; `prefix` stands before paths, so that it may be relative (empty) or absolute."""
    texts = (EMPHASIS.sub(r"<em>\1</em>", escape(text, quote=False)) for text in post.paragraphs)
    paragraphs = "".join(f"<p>{text}</p>" for text in texts)
    link = ""
    if post.kind == "article" and post.number % 3 == 0:
        earlier = path_of(post.blog, post.number - 3)
        link = f'<p>Earlier: <a href="{prefix}{earlier}">no. {post.number - 3}</a>.</p>'
    return paragraphs + link


def body_text(post: Post) -> str:
    """The post's text without markup."""
    return "\n".join(EMPHASIS.sub(r"\1", text) for text in post.paragraphs)
