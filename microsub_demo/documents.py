"""All documents of the demo's publisher, by path and instant: one pure function, `document`.

Feeds in RSS 2.0 (https://www.rssboard.org/rss-specification), RSS 0.91, RDF (RSS 1.0,
https://web.resource.org/rss/1.0/spec), Atom (RFC 4287) and JSON Feed (https://www.jsonfeed.org/version/1.1/), each with
what such feeds carry in practice; pages with microformats2 (https://microformats.org/wiki/microformats2), in which
addresses are relative, as on most sites; pictures and sounds, drawn from a number, so that no binary files are shipped:
SVG 1.1, PNG (RFC 2083) and RIFF WAVE are simple enough for that.
"""

from __future__ import annotations

import json
import math
import random
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape
from textwrap import shorten
from typing import Any
from xml.sax.saxutils import quoteattr

from microsub_demo import cast
from microsub_demo.blog import Blog
from microsub_demo.cast import BLOGS, BY_SLUG, SEED, InventedPost, newest_number, path_of

EMPHASIS = re.compile(r"\*(.+?)\*")


def photo_path(post: InventedPost) -> str:
    """The path of a post's picture."""
    return f"/media/{post.blog.slug}/{post.number}.png"


def sound_path(post: InventedPost) -> str:
    """The path of an episode's sound."""
    return f"/media/{post.blog.slug}/{post.number}.wav"


def avatar_path(blog: Blog) -> str:
    """The path of the author's picture."""
    return f"/media/{blog.slug}.png"


def home_path(blog: Blog) -> str:
    """The path of the blog's front page, which is also its author's profile."""
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
    """The path of the blog's feed; an h-feed is the front page itself."""
    return home_path(blog) + FEED_FILES[blog.format]


def body_html(post: InventedPost, prefix: str = "") -> str:
    """The post's text as HTML; `prefix` is put before paths, empty for relative ones."""
    texts = (EMPHASIS.sub(r"<em>\1</em>", escape(text, quote=False)) for text in post.paragraphs)
    paragraphs = "".join(f"<p>{text}</p>" for text in texts)
    link = ""
    if post.kind == "article" and post.number % 3 == 0:
        earlier = path_of(post.blog, post.number - 3)
        link = f'<p>Earlier: <a href="{prefix}{earlier}">no. {post.number - 3}</a>.</p>'
    picture = ""
    if post.has_photo and not post.blog.has_photo_field:
        picture = (
            f'<p><img src="{prefix}{photo_path(post)}" alt="{escape(post.title or "Hills, drawn by chance")}"/></p>'
        )
    inset = INSETS[post.blog.inset] if post.kind == "article" else ""
    return picture + paragraphs + inset + link


INSETS: Mapping[str, str] = {
    "": "",
    "code": "<pre><code>def tide(hour):\n    return 2.1 + 0.9 * sin(hour / 6.2)\n</code></pre>",
    "list": "<ul><li>Faster start</li><li>Fewer questions</li><li>The old icons, back by demand</li></ul>",
    "table": "<table><tr><th>For</th><th>Flour</th><th>Water</th></tr><tr><td>2</td><td>150 g</td><td>90 ml</td></tr>"
    "<tr><td>6</td><td>450 g</td><td>270 ml</td></tr></table>",
    "quote": "<blockquote><p>Let n be large. No, larger.</p></blockquote>",
}
"""Markup in articles, by the blog's `inset`."""

BEGINNING = 180
"""How many characters of a text a feed with excerpts has."""


def excerpt(post: InventedPost) -> str:
    """The beginning of the text, which ends between two words."""
    return shorten(body_text(post), BEGINNING, placeholder=" …")


def body_text(post: InventedPost) -> str:
    """The post's text without markup."""
    return "\n".join(EMPHASIS.sub(r"\1", text) for text in post.paragraphs)


AVATAR_PIXELS = 32
PHOTO_WIDTH, PHOTO_HEIGHT = 240, 135
SOUND_RATE = 8_000
SOUND_SECONDS = 60


def landscape(blog: Blog, number: int) -> bytes:
    """A PNG of hills under a sky in the blog's colours, different for each number."""
    chance = random.Random(f"{blog.slug}/{number}")  # noqa: S311 - a drawing, no secret
    dark, light = (bytes.fromhex(colour[1:]) for colour in blog.colours)
    colours = [light, _mixed(light, b"\xff\xff\xff", 0.8), *(_mixed(light, dark, part) for part in (0.35, 0.6, 0.85))]
    peaks = [[75 + layer * 18 - chance.randint(0, 30) for _ in range(PHOTO_WIDTH // 30 + 2)] for layer in range(3)]
    across, down, radius = chance.randint(30, 210), chance.randint(20, 55), chance.randint(8, 17)
    rows = []
    for y in range(PHOTO_HEIGHT):
        row = bytearray(PHOTO_WIDTH)
        for x in range(PHOTO_WIDTH):
            first, part = divmod(x, 30)
            hill = [peak[first] + (peak[first + 1] - peak[first]) * part / 30 <= y for peak in peaks]
            sun = (x - across) ** 2 + (y - down) ** 2 <= radius**2
            row[x] = 4 if hill[2] else 3 if hill[1] else 2 if hill[0] else 1 if sun else 0
        rows.append(b"\0" + bytes(row))
    header = struct.pack(">IIBBBBB", PHOTO_WIDTH, PHOTO_HEIGHT, 8, 3, 0, 0, 0)
    return _png(header, rows, _chunk(b"PLTE", b"".join(colours)))


def _mixed(one: bytes, other: bytes, part: float) -> bytes:
    """A colour between two."""
    return bytes(round(a + (b - a) * part) for a, b in zip(one, other, strict=True))


def avatar(blog: Blog) -> bytes:
    """A PNG of a mirrored block pattern, 32 by 32 pixels, in the blog's two colours."""
    chance = random.Random(blog.slug)  # noqa: S311 - a drawing, no secret
    half = [[chance.random() < 0.5 for _ in range(4)] for _ in range(8)]
    grid = [row + row[::-1] for row in half]
    colours = [bytes.fromhex(colour[1:]) for colour in blog.colours]
    block = AVATAR_PIXELS // 8
    rows = []
    for y in range(AVATAR_PIXELS):
        row = grid[y // block]
        rows.append(b"\0" + b"".join(colours[row[x // block]] for x in range(AVATAR_PIXELS)))
    header = struct.pack(">IIBBBBB", AVATAR_PIXELS, AVATAR_PIXELS, 8, 2, 0, 0, 0)
    return _png(header, rows)


def _png(header: bytes, rows: Sequence[bytes], palette: bytes = b"") -> bytes:
    """The file of these rows, each of which begins with its filter."""
    data = _chunk(b"IDAT", zlib.compress(b"".join(rows), 9))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + palette + data + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def foghorn(number: int) -> bytes:
    """A WAV of a minute (8 kHz, mono, 8 bit): every five seconds two low tones that beat against each other."""
    pitch = 90 + number % 7 * 12
    blast = bytes(
        int(
            128
            + 50 * math.sin(2 * math.pi * pitch * i / SOUND_RATE)
            + 40 * math.sin(2 * math.pi * (pitch + 3) * i / SOUND_RATE)
        )
        for i in range(SOUND_RATE)
    )
    frames = (blast + bytes([128]) * (4 * SOUND_RATE)) * (SOUND_SECONDS // 5)
    form = struct.pack("<HHIIHH", 1, 1, SOUND_RATE, SOUND_RATE, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(frames)) + frames
    return b"RIFF" + struct.pack("<I", len(body)) + body


SOUND_BYTES = 44 + SOUND_RATE * SOUND_SECONDS
"""Length of every `foghorn`, for the enclosures that announce it."""


def _document(blog: Blog, lines: Sequence[str]) -> bytes:
    head = f'<?xml version="1.0" encoding="{blog.encoding.upper()}"?>'
    return "\n".join([head, *lines, ""]).encode(blog.encoding, "xmlcharrefreplace")


def _element(name: str, text: str, attributes: str = "") -> str:
    return f"<{name}{attributes}>{escape(text, quote=False)}</{name}>"


def rss(blog: Blog, posts: Sequence[InventedPost], base: str) -> bytes:
    """RSS 2.0 with `content:encoded`, `dc:creator`, categories, and a podcast's elements."""
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


def _rss_item(post: InventedPost, base: str) -> list[str]:
    blog = post.blog
    texts = [_element("description", excerpt(post))]
    if not blog.excerpts:
        html = body_html(post, base)
        texts = [
            _element("description", body_text(post).partition("\n")[0]),
            f"<content:encoded>{escape(html, quote=False)}</content:encoded>",
        ]
    link = path_of(*post.target) if post.kind == "link" and post.target else post.path
    lines = [
        "<item>",
        _element("title", post.title or ""),
        _element("link", base + link),
        _element("guid", f"{blog.slug}-{post.number}", ' isPermaLink="false"'),
        _element("pubDate", format_datetime(post.published)),
        _element("dc:creator", blog.author),
        *texts,
        *(_element("category", tag) for tag in post.tags),
    ]
    if post.kind == "episode":
        lines += [
            f'<enclosure url={quoteattr(base + sound_path(post))} length="{SOUND_BYTES}" type="audio/wav"/>',
            _element("itunes:duration", str(SOUND_SECONDS)),
            _element("itunes:episode", str(post.number)),
        ]
    return [*lines, "</item>"]


def rss091(blog: Blog, posts: Sequence[InventedPost], base: str) -> bytes:
    """RSS 0.91: items have title, link and description, so their time is unknown."""
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


def rdf(blog: Blog, posts: Sequence[InventedPost], base: str) -> bytes:
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


def atom(blog: Blog, posts: Sequence[InventedPost], base: str) -> bytes:
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
            _atom_text(post),
            "</entry>",
        ]
    return _document(blog, [*lines, "</feed>"])


def _atom_text(post: InventedPost) -> str:
    if post.blog.excerpts:
        return _element("summary", excerpt(post))
    return f'<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">{body_html(post)}</div></content>'


def jsonfeed(blog: Blog, posts: Sequence[InventedPost], base: str) -> bytes:
    """JSON Feed 1.1, with a picture and an attachment where a post has one."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": blog.title,
        "home_page_url": base + home_path(blog),
        "feed_url": base + feed_path(blog),
        "description": blog.about,
        "icon": base + avatar_path(blog),
        "language": blog.language,
        "authors": [{"name": blog.author, "url": base + home_path(blog), "avatar": base + avatar_path(blog)}],
        "items": [_item(post, base) for post in posts],
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _item(post: InventedPost, base: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": base + post.path,
        "url": base + post.path,
        "title": post.title,
        "content_html": body_html(post, base),
        "content_text": body_text(post),
        "date_published": post.published.isoformat(),
        "tags": list(post.tags),
    }
    if post.has_photo:
        item["image"] = base + photo_path(post)
        item["attachments"] = [{"url": base + photo_path(post), "mime_type": "image/png"}]
    return item


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


def _span(seconds: int) -> str:
    for name, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {name}"
    return f"{seconds} seconds"


def index() -> bytes:
    """The list of all blogs."""
    rows = "".join(
        f'<li><a href="{home_path(blog)}">{escape(blog.title)}</a> <small>({blog.format}, every {_span(blog.every)}; '
        f'<a href="{feed_path(blog)}">feed</a>)</small></li>'
        for blog in BLOGS
    )
    return _page("Invented blogs", f"<h1>Invented blogs</h1><ul>{rows}</ul>")


def front(blog: Blog, posts: Sequence[InventedPost]) -> bytes:
    """A blog's front page: an h-feed, or, if it has another feed, a list with `rel=alternate`."""
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


def permalink(post: InventedPost) -> bytes:
    """One post on a page of its own."""
    title = post.title or f"{post.blog.title}, no. {post.number}"
    return _page(title, entry(post, with_author=True), post.blog.language)


def _card(blog: Blog, kind: str = "p-author") -> str:
    return (
        f'<p><a class="{kind} h-card" href="{home_path(blog)}"><img class="u-photo" src="{avatar_path(blog)}" alt=""'
        f' width="32" height="32"> {escape(blog.author)}</a></p>'
    )


def _cite(kind: str, blog: Blog, number: int) -> str:
    """The post that another one answers, as sites show it: author and name."""
    return (
        f'<div class="{kind} h-cite"><a class="u-url p-name" href="{path_of(blog, number)}">'
        f'{escape(blog.title)}, no. {number}</a> by <a class="p-author h-card" href="{home_path(blog)}">'
        f"{escape(blog.author)}</a></div>"
    )


CITED_AS = {
    "reply": "u-in-reply-to",
    "rsvp": "u-in-reply-to",
    "like": "u-like-of",
    "bookmark": "u-bookmark-of",
    "link": "u-bookmark-of",
}


def entry(post: InventedPost, *, with_author: bool = False) -> str:
    """A post as h-entry or h-event."""
    parts = []
    if post.target is not None:
        parts.append(_cite(CITED_AS[post.kind], *post.target))
    if post.kind == "rsvp":
        parts.append('<p><data class="p-rsvp" value="yes">I shall be there.</data></p>')
    if post.title is not None:
        parts.append(f'<h2 class="p-name">{escape(post.title)}</h2>')
    if post.has_photo and post.blog.has_photo_field:
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


def _where_and_when(post: InventedPost) -> list[str]:
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


Writer = Callable[[Blog, Sequence[InventedPost], str], bytes]

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
    """The document of a path at one instant; `changed`: its last change, in whole seconds; `status`: of the reply."""

    body: bytes
    content_type: str
    changed: datetime
    status: int = 200


def document(path: str, now: float, base: str, seed: int = SEED) -> Document | None:
    """The document at `path` at `now` (Unix seconds), or None if there is none (yet)."""
    if path == "/":
        return Document(index(), HTML, FOREVER)
    for blog in BLOGS:
        if path in {home_path(blog), feed_path(blog)}:
            return _blog_document(path, blog, cast.posts(blog, now, seed), base)
        if path == avatar_path(blog):
            return Document(avatar(blog), "image/png", FOREVER)
    return _numbered(path, now, seed)


def _blog_document(path: str, blog: Blog, listed: Sequence[InventedPost], base: str) -> Document:
    changed = max(one.updated for one in listed)
    if path == home_path(blog):
        return Document(front(blog, listed), HTML, changed)
    if blog.status != 200:
        return Document(b"This feed can't be read.\n", "text/plain", changed, blog.status)
    write, content_type = WRITERS[blog.format]
    return Document(write(blog, listed, base), content_type, changed)


NUMBERED = re.compile(r"/(?P<media>media/)?(?P<slug>[a-z-]+)/(?P<number>\d{1,12})(?P<ending>\.png|\.wav)?")


def _numbered(path: str, now: float, seed: int) -> Document | None:
    match = NUMBERED.fullmatch(path)
    blog = BY_SLUG.get(match["slug"]) if match else None
    if match is None or blog is None or bool(match["media"]) != bool(match["ending"]):
        return None
    number = int(match["number"])
    if number > newest_number(blog, now):
        return None
    if match["ending"] == ".png":
        return Document(landscape(blog, number), "image/png", FOREVER)
    if match["ending"] == ".wav":
        return Document(foghorn(number), "audio/wav", FOREVER)
    shown = cast.post(blog, number, now, seed)
    return Document(permalink(shown), HTML, shown.updated)
