"""The demo's HTML: an index, front pages with an h-feed or links to the feed, permalinks. Pure.

Marked up with microformats2 (https://microformats.org/wiki/microformats2): h-feed, h-entry in all its kinds, h-event,
h-card, h-cite. Addresses in it are relative, as on most sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from microsub.demo.cast import BLOGS, Blog
from microsub.demo.markup import avatar_path, body_html, feed_path, home_path, photo_path, sound_path
from microsub.demo.posts import Post, path_of

MEDIA_TYPES = {
    "rss": "application/rss+xml",
    "rss091": "application/rss+xml",
    "rdf": "application/rdf+xml",
    "atom": "application/atom+xml",
    "jsonfeed": "application/feed+json",
}

STYLE = (
    "body{font:1.05rem/1.6 Georgia,serif;max-width:40rem;margin:3rem auto;padding:0 1rem;color:#222}"
    "article{border-top:1px solid #ddd;padding:1rem 0}img.u-photo{max-width:100%}small,time{color:#666}"
)


def _page(title: str, body: str, language: str = "en", head: str = "") -> bytes:
    text = (
        f'<!doctype html>\n<html lang="{language}">\n<head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>{head}</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )
    return text.encode()


def index() -> bytes:
    """The list of all blogs."""
    rows = "".join(
        f'<li><a href="{home_path(blog)}">{escape(blog.title)}</a> <small>({blog.format}, every {blog.every} s; '
        f'<a href="{feed_path(blog)}">feed</a>)</small></li>'
        for blog in BLOGS
    )
    return _page("Invented blogs", f"<h1>Invented blogs</h1><ul>{rows}</ul>")


def front(blog: Blog, posts: Sequence[Post]) -> bytes:
    """A blog's front page: an h-feed for the blog that has no other feed, else a plain list with `rel=alternate`."""
    card = _card(blog)
    if blog.format == "h-feed":
        entries = "\n".join(entry(post) for post in posts)
        body = (
            f'<div class="h-feed"><h1 class="p-name">{escape(blog.title)}</h1>'
            f'<p class="p-summary">{escape(blog.about)}</p>{card}\n{entries}\n</div>'
        )
        return _page(blog.title, body, blog.language)
    rows = "".join(f'<li><a href="{post.path}">{escape(post.title or str(post.number))}</a></li>' for post in posts)
    kind, title = MEDIA_TYPES[blog.format], escape(blog.title)
    link = f'<link rel="alternate" type="{kind}" title="{title}" href="{feed_path(blog)}">'
    body = f"<h1>{escape(blog.title)}</h1><p>{escape(blog.about)}</p>{card}<ul>{rows}</ul>"
    return _page(blog.title, body, blog.language, link)


def permalink(post: Post) -> bytes:
    """One post on a page of its own."""
    title = post.title or f"{post.blog.title}, no. {post.number}"
    return _page(title, entry(post, with_author=True), post.blog.language)


def _card(blog: Blog, kind: str = "p-author") -> str:
    return (
        f'<p><a class="{kind} h-card" href="{home_path(blog)}"><img class="u-photo" src="{avatar_path(blog)}" alt=""'
        f' width="32" height="32"> {escape(blog.author)}</a></p>'
    )


def _cite(kind: str, blog: Blog, number: int) -> str:
    """The post that another one answers, with as much context as sites usually give: author and name."""
    return (
        f'<div class="{kind} h-cite"><a class="u-url p-name" href="{path_of(blog, number)}">'
        f'{escape(blog.title)}, no. {number}</a> by <a class="p-author h-card" href="{home_path(blog)}">'
        f"{escape(blog.author)}</a></div>"
    )


CITED_AS = {"reply": "u-in-reply-to", "rsvp": "u-in-reply-to", "like": "u-like-of", "bookmark": "u-bookmark-of"}


def entry(post: Post, *, with_author: bool = False) -> str:
    """A post as h-entry or h-event."""
    parts = []
    if post.target is not None:
        parts.append(_cite(CITED_AS[post.kind], *post.target))
    if post.kind == "rsvp":
        parts.append('<p><data class="p-rsvp" value="yes">I shall be there.</data></p>')
    if post.title is not None:
        parts.append(f'<h2 class="p-name">{escape(post.title)}</h2>')
    if post.has_photo:
        parts.append(f'<img class="u-photo" src="{photo_path(post)}" alt="Hills, drawn by chance">')
    if post.kind == "episode":
        parts.append(f'<audio class="u-audio" controls src="{sound_path(post)}"></audio>')
    parts += _where_and_when(post)
    if post.paragraphs:
        parts.append(f'<div class="e-content">{body_html(post)}</div>')
    parts += [f'<a class="p-category" rel="tag" href="{home_path(post.blog)}">{escape(tag)}</a>' for tag in post.tags]
    stamp = post.published.isoformat()
    time = f'<time class="dt-published" datetime="{stamp}">{stamp}</time>'
    parts.append(f'<p><a class="u-url u-uid" href="{post.path}">{time}</a></p>')
    if with_author:
        parts.append(_card(post.blog))
    kind = "h-event" if post.kind == "event" else "h-entry"
    return f'<article class="{kind}">{"".join(parts)}</article>'


def _where_and_when(post: Post) -> list[str]:
    parts = []
    if post.place is not None:
        kind = "u-checkin" if post.kind == "checkin" else "p-location"
        parts.append(
            f'<div class="{kind} h-card"><span class="p-name">{escape(post.place.name)}</span> '
            f'<data class="p-latitude" value="{post.place.latitude}"></data>'
            f'<data class="p-longitude" value="{post.place.longitude}"></data></div>'
        )
    for name, instant in (("dt-start", post.starts), ("dt-end", post.ends)):
        if instant is not None:
            parts.append(f'<time class="{name}" datetime="{instant.isoformat()}">{instant:%d %B, %H:%M}</time> ')
    return parts
