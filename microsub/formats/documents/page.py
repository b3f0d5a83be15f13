"""A page with an h-feed (https://microformats.org/wiki/h-feed): for people, and for readers that follow pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape, unescape
from typing import Literal

from microsub.formats.documents.context import context
from microsub.formats.documents.values import FeedDocument, body, files, link, media_type, printable, title, with_uris
from microsub.formats.documents.words import Words, day, words
from microsub.formats.html.players import page_of, player_link
from microsub.formats.wire import timestamp
from microsub.formats.xml.media import kind_of
from microsub.model.jf2 import Card, Enclosure, Entry

_ALTERNATES = {"rss": "application/rss+xml", "atom": "application/atom+xml", "json": "application/feed+json"}
_NAMES = {"rss": "RSS", "atom": "Atom", "json": "JSON Feed"}

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src https: http:; media-src https: http:; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
"""The minimal content security policy of such a page."""

_FRAME = re.compile(r"<iframe([^>]*)></iframe>")
_ATTRIBUTE = re.compile(r'\s(src|title)="([^"]*)"')


def write(document: FeedDocument) -> bytes:
    """The document as a page without scripts."""
    return (with_uris("\n".join(_page(document))) + "\n").encode("utf-8", "replace")


def write_post(entry: Entry, address: str, stylesheet: str) -> bytes:
    """One post as a page without scripts."""
    lines = (
        *_head(title(entry), stylesheet),
        f'<link rel="canonical" href="{escape(address)}"></head><body><main>',
        *_entry(printable(replace(entry, guid=address)), str),
        "</main></body></html>",
    )
    return (with_uris("\n".join(lines)) + "\n").encode("utf-8", "replace")


def _head(name: str, stylesheet: str, language: str = "") -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield f'<html lang="{escape(language or "en")}"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(name)}</title>"
    if stylesheet:
        yield f'<link rel="stylesheet" href="{escape(stylesheet)}">'


def _page(document: FeedDocument) -> Iterator[str]:
    name, said = escape(document.title), words(document.language)
    yield from _head(document.title, document.stylesheet, document.language)
    yield f'<link rel="canonical self" href="{escape(document.addresses["html"])}">'
    feeds = document.current or document.addresses
    for form, kind in _ALTERNATES.items():
        yield f'<link rel="alternate" type="{kind}" title="{_NAMES[form]}" href="{escape(feeds[form])}">'
    for hub in document.hubs:
        yield f'<link rel="hub" href="{escape(hub)}">'
    yield "</head><body>"
    yield '<main class="h-feed">'
    yield f'<h1><a class="p-name u-url u-uid" href="{escape(feeds["html"])}">{name}</a></h1>'
    if document.image:
        yield f'<p><img class="u-photo" alt="" width="120" src="{escape(document.image)}"></p>'
    if document.author and (document.author.name or document.author.url):
        yield f"<p>{_card(document.author)}</p>"
    if document.description:
        yield f'<p class="p-summary">{escape(document.description)}</p>'
    addresses = (f'<a href="{escape(feeds[form])}">{_NAMES[form]}</a>' for form in _ALTERNATES)
    yield f"<p>{said('Follow:')} {', '.join(addresses)}</p>"
    for entry in map(printable, document.entries):
        yield from _entry(entry, said)
    if older := document.previous.get("html"):
        yield f'<p><a rel="prev-archive" href="{escape(older)}">{said("Older posts")}</a></p>'
    yield "</main></body></html>"


def _entry(entry: Entry, said: Words) -> Iterator[str]:
    yield '<article class="h-entry">'
    address, name = link(entry), escape(title(entry, said))
    heading = "p-name" if entry.name else ""
    if address:
        yield f'<h2 dir="auto"><a class="{f"{heading} u-url".strip()}" href="{escape(address)}">{name}</a></h2>'
    else:
        yield f'<h2 class="{heading}" dir="auto">{name}</h2>' if heading else f'<h2 dir="auto">{name}</h2>'
    yield f'<data class="u-uid" value="{escape(entry.guid or "")}"></data>'
    yield f"<p>{' · '.join(_byline(entry, said))}</p>"
    if entry.summary:
        yield f'<p class="p-summary" dir="auto">{escape(entry.summary)}</p>'
    if about := context(entry, said):
        yield f'<div dir="auto">{about}</div>'
    if content := body(entry):
        yield f'<div class="e-content" dir="auto">{content}</div>'
        yield from map(_player, _FRAME.findall(content))
    if entry.featured:
        yield f'<p><a class="u-featured" href="{escape(entry.featured)}">{said("Picture")}</a></p>'
    for one in files(entry):
        yield _file(one)
    if entry.category:
        tags = ", ".join(f'<span class="p-category">{escape(tag)}</span>' for tag in entry.category)
        yield f"<p>{tags}</p>"
    yield "</article>"


def _byline(entry: Entry, said: Words) -> Iterator[str]:
    if entry.author and (entry.author.name or entry.author.url):
        yield _card(entry.author)
    dated: tuple[Literal["published"], Literal["updated"]] = ("published", "updated")
    for name in dated:
        if moment := getattr(entry, name):
            written = f"{day(moment, said)}, {moment:%H:%M}"
            text = written if name == "published" else f"{said('changed')} {moment:%Y-%m-%d}"
            yield f'<time class="dt-{name}" datetime="{timestamp(moment)}">{text}</time>'


def _card(author: Card) -> str:
    name = escape(author.name or author.url or "")
    if author.url:
        return f'<a class="p-author h-card" href="{escape(author.url)}">{name}</a>'
    return f'<span class="p-author h-card">{name}</span>'


def _player(attributes: str) -> str:
    """A link to what a foreign player shows: its frame stays in the post for followers, but the policy allows none."""
    found = {name: unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
    page, _ = page_of(found.get("src", ""))
    return f"<p>{player_link(page, found.get('title', ''))}</p>" if page else ""


def _file(one: Enclosure) -> str:
    """A file, with a player or preview if browsers have one, in the markup of the media microformats."""
    url, kind = escape(one.url), kind_of(one)
    text = escape(one.title or one.url.rpartition("/")[2] or one.url)
    if kind in {"audio", "video"}:
        shown = f'<{kind} class="u-{kind}" controls preload="none" src="{url}"></{kind}><br>'
    elif kind == "photo":
        shown = f'<img class="u-photo" loading="lazy" alt="" src="{url}"><br>'
    else:
        shown = ""
    return f'<p>{shown}<a class="u-enclosure" type="{escape(media_type(one))}" href="{url}">{text}</a></p>'
