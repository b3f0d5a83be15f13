"""Every field from a publisher is bounded: an item stays small, whatever its document contains."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from html import escape
from typing import Any

import orjson
import pytest

from microsub.formats.normalise import MAX_BODY, RawEntry, finish, shorten
from microsub.formats.parse import parse
from microsub.formats.wire import dump, feed_to_wire, to_wire
from microsub.model.jf2 import Card, Enclosure, Entry

URL = "https://reader.example/feed"
LONG = "long \x1b\x07 " + "long " * 200_000
"""A megabyte, with control characters."""

LONG_URL = "https://long.example/" + "a" * 1_000_000
MANY_URLS = [f"https://long.example/{number}/" + "a" * 4000 for number in range(300)]
LARGEST_ITEM = 2 * MAX_BODY + 600_000
"""Bytes of an item of ASCII; its body is there twice, as HTML and as text."""

_RSS_TEXTS = (
    "title link guid author category comments source dc:creator dc:subject itunes:author itunes:duration itunes:summary"
    " itunes:subtitle media:title media:description media:credit georss:point georss:featurename thr:in-reply-to"
    " feedburner:origLink feedburner:origEnclosureLink pubDate googleplay:author googleplay:description"
)
_RSS_ATTRIBUTES = (
    *("enclosure url length type", "media:content url type medium duration fileSize", "media:thumbnail url"),
    *("itunes:image href", "link href rel type", "thr:in-reply-to href ref", "category domain", "source url"),
)
_ATOM_TEXTS = "title id updated published summary rights author/name author/uri category contributor/name"
_ATOM_ATTRIBUTES = ("link href rel type title", "category term label scheme", "content src type")
_NAMESPACES = (
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
    ' xmlns:media="http://search.yahoo.com/mrss/" xmlns:georss="http://www.georss.org/georss"'
    ' xmlns:thr="http://purl.org/syndication/thread/1.0" xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0"'
    ' xmlns:googleplay="http://www.google.com/schemas/play-podcasts/1.0"'
)
_XML_LONG = escape(LONG).replace("\x1b", "&#27;").replace("\x07", "&#7;")
_PAGE_PROPERTIES = (
    "p-name p-summary p-category p-rsvp p-uid u-uid u-url u-photo u-video u-like-of u-in-reply-to u-syndication"
    " u-featured dt-published dt-start p-location p-geo p-latitude u-quotation-of"
)
_CARD_PROPERTIES = "p-name p-note u-url u-photo p-latitude p-longitude p-street-address p-locality p-country-name"


Documents = Iterator[tuple[str, str]]
"""Names and documents of a megabyte, made one by one."""


def _elements(texts: str, attributes: tuple[str, ...], inner: str) -> Documents:
    """In each, one element is long, as a text or in one of its attributes."""
    for path in texts.split():
        around, _, name = path.rpartition("/")
        element = f"<{name}>{_XML_LONG}</{name}>"
        yield path, inner.replace("…", f"<{around}>{element}</{around}>" if around else element)
    for line in attributes:
        name, *names = line.split()
        for long in names:
            values = " ".join(f'{a}="{_XML_LONG if a == long else LONG_URL[:30]}"' for a in names)
            yield f"{name}/@{long}", inner.replace("…", f"<{name} {values}/>")


def _xml() -> Documents:
    rss = f'<rss version="2.0" {_NAMESPACES}><channel><item><description>d</description>…</item></channel></rss>'
    channel = f'<rss version="2.0" {_NAMESPACES}><channel>…<item><title>t</title></item></channel></rss>'
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom" {_NAMESPACES}><entry><summary>d</summary>…</entry></feed>'
    many = "".join(f'<enclosure url="{url}" type="image/png"/><category>{url[:900]}</category>' for url in MANY_URLS)
    yield from _elements(_RSS_TEXTS, _RSS_ATTRIBUTES, rss)
    yield from _elements(_RSS_TEXTS, _RSS_ATTRIBUTES, channel)
    yield from _elements(_ATOM_TEXTS, _ATOM_ATTRIBUTES, atom)
    yield "many", rss.replace("…", many)


def _json() -> Documents:
    item: dict[str, Any] = {
        **dict.fromkeys(
            ("id", "url", "external_url", "title", "summary", "image", "banner_image", "date_published"), LONG
        ),
        "tags": [LONG, *(url[:900] for url in MANY_URLS)],
        "authors": [{"name": LONG, "url": LONG, "avatar": LONG}],
        "attachments": [
            {"url": LONG_URL[:30] + str(number), "mime_type": LONG, "title": LONG, "size_in_bytes": LONG}
            for number in range(3)
        ],
        "content_text": "short",
    }
    feed = dict.fromkeys(("title", "home_page_url", "feed_url", "description", "icon", "favicon", "language"), LONG)
    feed |= {"authors": [{"name": LONG, "url": LONG, "avatar": LONG}], "version": "https://jsonfeed.org/version/1.1"}
    yield "json", json.dumps({**feed, "items": [item]})


def _pages() -> Documents:
    """For properties in a class of `u-*` the value is an address, for others a text."""
    page = '<div class="h-feed"><div class="h-entry"><p class="e-content">short</p>…</div></div>'
    long = LONG.replace("\x1b", "").replace("\x07", "")[:400_000]
    for name in _PAGE_PROPERTIES.split():
        yield name, page.replace("…", f'<data class="{name}" value="{long}"></data>')
    for around in (
        "p-author h-card",
        "p-location h-card",
        "p-category h-card",
        "u-in-reply-to h-cite",
        "p-checkin h-adr",
    ):
        card = "".join(f'<data class="{name}" value="{long[:90_000]}"></data>' for name in _CARD_PROPERTIES.split())
        yield (
            around,
            page.replace("…", f'<div class="{around}"><a class="u-url" href="https://a.example/"></a>{card}</div>'),
        )
    cites = "".join(
        f'<div class="u-in-reply-to h-cite"><a class="u-url" href="https://a.example/{n}"></a>'
        f'<p class="e-content">{"x" * 9000}</p></div>'
        for n in range(150)
    )
    yield "many h-cites", page.replace("…", cites)


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for name, inner in value.items() for text in (name, *_strings(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(("documents", "count"), [(_xml, 102), (_json, 1), (_pages, 25)])
def test_a_long_field_makes_no_large_item(documents: Callable[[], Documents], count: int) -> None:
    """A megabyte in any field of any format is cut to the item's limits, and its control characters are removed."""
    for name, text in documents():
        count -= 1
        feed = parse(text.encode(), URL, None)
        assert feed.entries, name
        wire = feed_to_wire(feed)
        for item in [{**wire, "children": []}, *wire["children"]]:
            assert len(orjson.dumps(item)) < LARGEST_ITEM, name
            assert not any("\x1b" in text or "\x07" in text for text in _strings(item)), name
        assert all(len(entry.guid or "") <= 4096 for entry in feed.entries), name
    assert count == 0


def test_every_string_of_an_entry_has_a_bound() -> None:
    """The text of any jf2 field is truncated when an entry is finished."""
    card = Card(**{field.name: LONG for field in fields(Card)})
    enclosure = Enclosure(LONG_URL[:30], LONG, title=LONG)
    strings = {field.name: LONG for field in fields(Entry) if field.type in {"str", "str | None"}}
    lists = {field.name: (LONG, *MANY_URLS) for field in fields(Entry) if field.type == "tuple[str, ...]"}
    cards = {field.name: card for field in fields(Entry) if field.type == "Card | None"}
    refs = dict.fromkeys(MANY_URLS, card)
    entry = Entry(**strings, **lists, **cards, enclosure=(enclosure,) * 3, refs=refs)
    item = to_wire(finish(RawEntry(entry, URL), None))
    assert len(strings) > 10
    assert len(lists) > 8
    assert all(len(text) < 21_000 and "\x1b" not in text for text in _strings(item))
    assert len(orjson.dumps(item)) < 2 * LARGEST_ITEM


@pytest.mark.parametrize("body", ["html", "text"])
def test_a_body_has_a_limit_in_bytes(body: str) -> None:
    """Characters outside ASCII take up to four bytes, and a post was as much larger than others."""
    raw = RawEntry(Entry(url=URL), URL, **{body: "\N{GRINNING FACE}" * 499_999})
    shorten(raw)
    content = finish(raw).content
    assert content is not None
    assert content.text == "\N{GRINNING FACE}" * (MAX_BODY // 4)
    assert len((content.html or "").encode()) <= MAX_BODY + 100


def test_quoted_posts_have_a_limit_together() -> None:
    """A page with hundreds of them, inside of each other, made one post of ten megabytes."""

    def reply(name: str, inner: str = "") -> str:
        body = f'<p class="e-content">{"😀" * 19_000}</p>'
        return f'<div class="u-in-reply-to h-cite"><a class="u-url" href="/{name}"></a>{body}{inner}</div>'

    quoted = "".join(reply(f"{n}", reply(f"{n}-a") + reply(f"{n}-b")) for n in range(9))
    page = f'<article class="h-entry"><a class="u-url" href="/">A</a><p class="e-content">B</p>{quoted}</article>'
    (entry,) = parse(page.encode(), URL, "text/html").entries
    refs = list(entry.refs.values())
    assert len(refs) == 9
    assert [isinstance(ref, Entry) and ref.content is not None for ref in refs[-2:]] == [False, False]
    assert isinstance(refs[0], Entry)
    assert refs[0].content is not None
    assert len(dump(to_wire(entry))) < LARGEST_ITEM
