"""The refreshed feeds: 20 posts of a weblog with pictures, links, quotes and code, 27 KB, RSS and Atom.

Everything is derived from the feed's number, so both programs get the same bytes, and no two feeds have equal posts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html import escape
from random import Random

ENTRIES = 20
_TEXT = (
    "the a of to in and with from under behind after before kettle lathe harbour ladder orrery fog chard brass gauge "
    "margin rope tide lamp sparrow quarry ferry granite compost pigment ledger turbine almond mortar valve beacon "
    "writes holds turns leaves keeps measures repairs forgets folds carries was is had slow bright narrow early plain"
)
_WORDS = _TEXT.split()
_RSS_ENTRY_WORDS, _ATOM_ENTRY_WORDS = 100, 80


@dataclass(frozen=True, slots=True)
class Post:
    """One post; `html` is its content."""

    number: int
    link: str
    title: str
    summary: str
    html: str
    published: datetime
    tags: tuple[str, ...]


def is_rss(feed: int) -> bool:
    """Whether the feed is RSS 2.0 (even numbers); odd numbers are Atom 1.0."""
    return feed % 2 == 0


def content_type(feed: int) -> str:
    """The feed's media type."""
    return "application/rss+xml; charset=utf-8" if is_rss(feed) else "application/atom+xml; charset=utf-8"


def document(feed: int, base: str, newest: int, now: datetime) -> bytes:
    """The feed up to the post `newest`; post `ENTRIES` was published at `now`, the others 5 h apart."""
    posts = [_post(feed, number, base, now) for number in range(newest, newest - ENTRIES, -1)]
    return (_rss if is_rss(feed) else _atom)(feed, base, posts).encode()


def _post(feed: int, number: int, base: str, now: datetime) -> Post:
    chance = Random(f"{feed}/{number}")
    link = f"{base}/{feed}/{number}-{chance.choice(_WORDS)}"
    size = _RSS_ENTRY_WORDS if is_rss(feed) else _ATOM_ENTRY_WORDS
    words = [chance.choice(_WORDS) for _ in range(size)]
    text = [" ".join(words[begin : begin + size // 5]) for begin in range(0, size, size // 5)]
    html = (
        f'<p>{text[0].capitalize()}, <a href="/{feed}/about/{words[0]}">{words[1]} {words[2]}</a> {text[1]}.</p>\n'
        f'<p><img src="/media/{feed}-{number}.jpg" alt="{words[3]} &amp; {words[4]}" width="640" height="480"></p>\n'
        f"<blockquote><p>{text[2].capitalize()} <em>{words[5]}</em>.</p></blockquote>\n"
        f"<ul><li>{words[6]}</li><li><strong>{words[7]}</strong> {words[8]}</li></ul>\n"
        f"<p>{text[3].capitalize()}: <code>{words[9]} --{words[10]}</code> {text[4]}.</p>"
    )
    return Post(
        number=number,
        link=link,
        title=f"{words[11].capitalize()} {words[12]} & {words[13]}, part {number}",
        summary=" ".join(words[:12]),
        html=html,
        published=now + timedelta(hours=5 * (number - ENTRIES)),
        tags=(words[14], words[15]),
    )


def _rss(feed: int, base: str, posts: list[Post]) -> str:
    items = "".join(
        f"<item><title>{escape(post.title)}</title><link>{post.link}</link>"
        f'<guid isPermaLink="true">{post.link}</guid><pubDate>{format_datetime(post.published)}</pubDate>'
        f"<dc:creator>Ida Venn</dc:creator>{''.join(f'<category>{tag}</category>' for tag in post.tags)}"
        f"<description>{escape(post.summary)}</description>"
        f"<content:encoded><![CDATA[{post.html}]]></content:encoded></item>\n"
        for post in posts
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/'
        'content/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
        f'<title>Weblog {feed}</title><link>{base}/{feed}/</link><atom:link rel="self" href="{base}/{feed}"/>'
        f"<description>What weblog {feed} has to say</description><language>en</language>\n"
        f"<lastBuildDate>{format_datetime(posts[0].published)}</lastBuildDate>\n{items}</channel></rss>\n"
    )


def _atom(feed: int, base: str, posts: list[Post]) -> str:
    entries = "".join(
        f"<entry><title>{escape(post.title)}</title><link href='{post.link}'/><id>{post.link}</id>"
        f"<published>{post.published.isoformat()}</published><updated>{post.published.isoformat()}</updated>"
        f"{_terms(post)}<summary>{escape(post.summary)}</summary>"
        f'<content type="html">{escape(post.html, quote=False)}</content></entry>\n'
        for post in posts
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>Weblog {feed}</title>"
        f'<id>{base}/{feed}</id><link href="{base}/{feed}/"/><link rel="self" href="{base}/{feed}"/>'
        f"<author><name>Ida Venn</name><uri>{base}/{feed}/</uri></author>"
        f"<updated>{posts[0].published.astimezone(UTC).isoformat()}</updated>\n{entries}</feed>\n"
    )


def _terms(post: Post) -> str:
    return "".join(f'<category term="{tag}"/>' for tag in post.tags)
