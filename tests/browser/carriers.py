"""Documents of every format with one payload in every field, and the fields that result from them."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import Any

from microsub.base.errors import ParseError
from microsub.formats.parse import parse
from microsub.formats.wire import feed_to_wire

URL = "https://feeds.example/feed"
ADDRESSES = {
    "url", "photo", "video", "audio", "syndication", "like-of", "repost-of", "bookmark-of", "follow-of", "in-reply-to",
    "featured", "quotation-of", "home", "hub", "self_url",
}  # fmt: skip
LOOSE = {"uid", "category"}
"""These may hold an address or anything else."""

Field = tuple[str, str]
"""What kind of field (`html`, `text`, `address`, `loose`) and its value."""


def documents(payload: str, *, attributes: bool = True) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each way to publish `payload`; `attributes`: also unescaped in those of a page."""
    ways = {"in CDATA": _cdata, "escaped": html.escape, "escaped twice": _twice, "as it is": str}
    for name, way in ways.items():
        yield f"RSS, {name}", _rss(way(payload), html.escape(payload) if name != "as it is" else payload)
    for kind, text in (("html", html.escape(payload)), ("text", html.escape(payload)), ("xhtml", _div(payload))):
        yield f"Atom, {kind}", _atom(kind, text, html.escape(payload))
    yield "Atom with a base", _atom("html", html.escape(payload), html.escape(payload), base=html.escape(payload))
    yield "RDF", _rdf(_cdata(payload), html.escape(payload))
    yield "JSON Feed", _json(payload)
    yield "h-feed", _page(payload, html.escape(payload))
    if attributes:
        yield "h-feed, attributes as they are", _page(payload, payload)


def fields(document: bytes) -> set[Field]:
    """The distinct values of all fields that a reader app gets; none if the document is refused."""
    try:
        wire = feed_to_wire(parse(document, URL, None))
    except ParseError:
        return set()
    # In its form on the wire: characters that JSON can't carry don't arrive.
    return set(_walk(json.loads(json.dumps(wire).encode("utf-8", "replace")), ""))


def _walk(value: Any, name: str) -> Iterator[Field]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if name == "refs":
                yield "address", key
            yield from _walk(inner, key if name != "refs" else "")
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, name)
    elif isinstance(value, str):
        yield "html" if name == "html" else "address" if name in ADDRESSES else "text", value
        if name in LOOSE:
            yield "loose", value


def _cdata(text: str) -> str:
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


def _twice(text: str) -> str:
    return html.escape(html.escape(text))


def _div(text: str) -> str:
    return f'<div xmlns="http://www.w3.org/1999/xhtml">{text}</div>'


_NAMES = (
    'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:media="http://search.yahoo.com/mrss/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" '
    'xmlns:atom="http://www.w3.org/2005/Atom" xmlns:thr="http://purl.org/syndication/thread/1.0" '
    'xmlns:georss="http://www.georss.org/georss" xmlns:slash="http://purl.org/rss/1.0/modules/slash/" '
    'xmlns:wfw="http://wellformedweb.org/CommentAPI/"'
)


def _rss(t: str, a: str) -> bytes:
    items = (
        f"<title>{t}</title><link>{t}</link><guid>{t}</guid><description>{t}</description>"
        f"<content:encoded>Longer than the description: {t}</content:encoded><author>{t}</author>"
        f'<category domain="{a}">{t}</category><comments>{t}</comments><source url="{a}">{t}</source>'
        f'<enclosure url="{a}" type="image/png" length="1"/><enclosure url="{a}" type="{a}" length="{a}"/>'
        f'<itunes:image href="{a}"/><itunes:summary>{t}</itunes:summary><itunes:subtitle>{t}</itunes:subtitle>'
        f'<media:content url="{a}" medium="video" type="{a}"><media:title>{t}</media:title>'
        f'<media:description>{t}</media:description></media:content><media:thumbnail url="{a}"/>'
        f'<thr:in-reply-to ref="{a}" href="{a}"/><pubDate>{t}</pubDate><wfw:commentRss>{t}</wfw:commentRss>'
        f'<atom:link rel="alternate" href="{a}"/><georss:point>{t}</georss:point>',
        f'<title>x</title><guid isPermaLink="true">{t}</guid><description>{t}</description><dc:creator>{t}</dc:creator>'
        f'<dc:subject>{t}</dc:subject><media:group><media:content url="{a}"/><media:player url="{a}"/></media:group>'
        f"<itunes:author>{t}</itunes:author><itunes:keywords>{t}</itunes:keywords><link>https://good.example/{t}</link>",
    )
    return (
        f'<?xml version="1.0"?><rss version="2.0" {_NAMES}><channel><title>{t}</title><link>{t}</link>'
        f"<description>{t}</description><image><url>{t}</url><title>{t}</title><link>{t}</link></image>"
        f'<atom:link rel="self" href="{a}"/><atom:link rel="hub" href="{a}"/><itunes:author>{t}</itunes:author>'
        f'<itunes:image href="{a}"/><managingEditor>{t}</managingEditor><ttl>{t}</ttl>'
        f"{''.join(f'<item>{item}</item>' for item in items)}</channel></rss>"
    ).encode("utf-8", "replace")


def _rdf(t: str, a: str) -> bytes:
    return (
        f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" {_NAMES}>'
        f'<channel rdf:about="{a}"><title>{t}</title><link>{t}</link><description>{t}</description></channel>'
        f'<image rdf:about="{a}"><url>{t}</url></image><item rdf:about="{a}"><title>{t}</title><link>{t}</link>'
        f"<description>{t}</description><dc:creator>{t}</dc:creator><dc:subject>{t}</dc:subject><dc:date>{t}</dc:date>"
        "</item></rdf:RDF>"
    ).encode("utf-8", "replace")


def _atom(kind: str, t: str, a: str, base: str | None = None) -> bytes:
    text = t if kind != "xhtml" else a
    xml_base = f' xml:base="{base}"' if base is not None else ""
    author = f"<author><name>{text}</name><uri>{text}</uri><email>{text}</email></author>"
    links = "".join(
        f'<link rel="{rel}" href="{a}" type="{type_}" title="{a}"/>'
        for rel, type_ in (
            *(("alternate", "text/html"), ("related", "text/html"), ("via", "text/html")),
            *(("enclosure", "image/png"), ("enclosure", "video/mp4"), ("enclosure", "audio/mpeg"), ("enclosure", a)),
        )
    )
    entry = (
        f'<title type="{kind}">{t}</title><id>{text}</id>{links}{author}<published>{text}</published>'
        f'<category term="{a}" scheme="{a}" label="{a}"/><thr:in-reply-to ref="{a}" href="{a}" source="{a}"/>'
        f"<source><id>{text}</id><title>{text}</title>{author}{links}</source><contributor><name>{text}</name></contributor>"
    )
    return (
        f'<feed xmlns="http://www.w3.org/2005/Atom" xmlns:thr="http://purl.org/syndication/thread/1.0"{xml_base}>'
        f'<title type="{kind}">{t}</title><subtitle type="{kind}">{t}</subtitle><id>{text}</id><logo>{text}</logo>'
        f'<icon>{text}</icon><link href="{a}"/><link rel="hub" href="{a}"/><link rel="self" href="{a}"/>{author}'
        f'<generator uri="{a}">{text}</generator>'
        f'<entry{xml_base}>{entry}<summary type="{kind}">{t}</summary><content type="{kind}"{xml_base}>'
        f"Much more: {t}</content></entry>"
        f'<entry>{entry}<content src="{a}" type="text/html"/><summary type="{kind}">{t}</summary></entry></feed>'
    ).encode("utf-8", "replace")


def bodies(payload: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of a document for each way to publish HTML, with `payload` only in its bodies."""
    rss = f"<rss><channel><title>x</title><item><description>{_cdata(payload)}</description></item></channel></rss>"
    yield "RSS", rss.encode("utf-8", "replace")
    content = f'<content type="xhtml">{_div(payload)}</content>'
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry>{content}</entry></feed>'
    yield "Atom", atom.encode("utf-8", "replace")
    item = {"id": "1", "url": "https://good.example/post", "content_html": payload, "summary": payload}
    yield "JSON Feed", json.dumps({"version": "https://jsonfeed.org/version/1", "items": [item]}).encode()


def _json(t: str) -> bytes:
    author = {"name": t, "url": t, "avatar": t}
    file = [{"url": t, "mime_type": kind, "title": t} for kind in (t, "image/png", "video/mp4", "audio/mpeg")]
    item = {
        **{"id": t, "url": t, "external_url": t, "title": t, "summary": t, "image": t, "banner_image": t},
        **{"date_published": t, "authors": [author], "tags": [t], "attachments": file, "language": t},
    }
    document = {
        **{"version": "https://jsonfeed.org/version/1.1", "title": t, "home_page_url": t, "feed_url": t},
        **{"description": t, "icon": t, "favicon": t, "author": author, "hubs": [{"type": "WebSub", "url": t}]},
        "items": [
            {**item, "content_html": t},
            {**item, "content_text": t},
            {**item, "external_url": "https://good.example/", "content_html": f"<p>{t}</p>", "content_text": t},
            # A relative address needs a base.
            {**item, "url": "https://good.example/post", "content_html": t},
        ],
    }
    return json.dumps(document).encode("utf-8", "replace")


def _page(t: str, a: str) -> bytes:
    # One element may be many properties, which saves work for the HTML parser.
    links = (
        "url uid in-reply-to like-of repost-of bookmark-of follow-of quotation-of syndication featured category checkin"
        " location"
    )
    link = f'<a class="{" ".join(f"u-{name}" for name in links.split())}" href="{a}">{t}</a>'
    media = f'<img class="u-photo" src="{a}" alt="{a}"><video class="u-video u-audio" src="{a}" poster="{a}"></video>'
    text = f'<span class="p-name p-summary p-category p-rsvp p-location p-locality p-note">{t}</span>'
    time = f'<time class="dt-published dt-start" datetime="{a}"></time><data class="p-latitude" value="{a}"></data>'
    card = f'<a class="u-url" href="{a}"></a><img class="u-photo" src="{a}" alt="{a}">{text}'
    entries = (
        f'{link}{media}{text}{time}<div class="p-author h-card">{card}</div><div class="e-content">{t}</div>',
        f'<a class="u-url" href="/2"></a><div class="u-in-reply-to u-like-of h-cite">{card}'
        f'<div class="e-content">{t}</div></div><div class="p-checkin p-category h-card">{card}</div>'
        f'<p class="p-content">{t}</p><a class="p-author h-card" href="{a}"><img src="{a}" alt="{a}"></a>',
    )
    body = "".join(f'<div class="h-entry">{entry}</div>' for entry in entries)
    return (
        f'<!DOCTYPE html><title>{t}</title><link rel="icon hub me author" href="{a}"><body class="h-feed">'
        f'<p class="p-name">{t}</p><img class="u-photo" src="{a}">{body}'
    ).encode("utf-8", "replace")
