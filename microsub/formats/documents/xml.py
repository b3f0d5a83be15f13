"""RSS 2.0 and Atom.

Specs: https://www.rssboard.org/rss-specification with its Best Practices Profile, RFC 4287, RFC 5005 (paged, archived
and complete feeds), https://www.rssboard.org/media-rss, Dublin Core, RFC 4685 (threading), WebSub links.

Constructs that confuse readers are avoided: RSS's `<author>` requires an e-mail address, so names are in `dc:creator`;
a second `<enclosure>` of an item is written as Media RSS; a guid is never marked as an address; the root element is on
one line. Of Podcasting 2.0 (https://podcasting2.org/docs/podcast-namespace) both formats have what the post has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from microsub.formats.documents.values import (
    FeedDocument,
    allowed,
    files,
    is_playable,
    link,
    media_type,
    printable,
    shown,
    title,
    uri,
)
from microsub.formats.documents.words import Words, words
from microsub.formats.wire import timestamp
from microsub.model.jf2 import Card, Enclosure, Entry, Podcast

_GENERATOR = "microsub-server"
_NAMESPACES = {
    "atom": "http://www.w3.org/2005/Atom",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "fh": "http://purl.org/syndication/history/1.0",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "podcast": "https://podcastindex.org/namespace/1.0",
    "psc": "http://podlove.org/simple-chapters",
    "thr": "http://purl.org/syndication/thread/1.0",
}
_MARKUP = re.compile(r"<|&#?\w+;")
_WHOLE = re.compile(r"[1-9]\d*", re.A)
_ENDS = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}


def rss(document: FeedDocument) -> bytes:
    """The document in RSS 2.0."""
    parts = [
        _root("rss", ("atom", "content", "dc", "fh", "itunes", "media", "podcast", "psc", "thr"), version="2.0"),
        "<channel>",
        _element("title", _as_html(document.title)),
        _element("link", uri(document.addresses["html"])),
        _element("description", _as_html(document.description or document.title)),
        *_rss_head(document),
        _element("generator", _GENERATOR),
        _element("lastBuildDate", _rfc_822(document.updated)),
        *_relations(document, "rss", "atom:link"),
    ]
    for entry in map(printable, document.entries):
        parts += _rss_item(entry, words(document.language))
    return _written([*parts, "</channel>", "</rss>"])


def atom(document: FeedDocument) -> bytes:
    """The document in Atom."""
    parts = [
        _root(
            "feed",
            ("fh", "itunes", "media", "podcast", "psc", "thr"),
            xmlns=_NAMESPACES["atom"],
            **({"xml:lang": document.language} if document.language else {}),
        ),
        _element("title", document.title),
        _element("id", document.id),
        _element("updated", timestamp(document.updated)),
        _element("generator", _GENERATOR),
        *([_element("subtitle", document.description)] if document.description else []),
        *([_element("logo", uri(document.image))] if document.image else []),
        *(_person(document.author) if _writer(document.author) else []),
        _empty("link", rel="alternate", type="text/html", href=uri(document.addresses["html"])),
        *_relations(document, "atom", "link"),
    ]
    for entry in map(printable, document.entries):
        parts += _atom_entry(entry, document)
    return _written([*parts, "</feed>"])


def _rss_head(document: FeedDocument) -> Iterator[str]:
    """Language, author and picture, for readers and for podcast apps."""
    if document.language:
        yield _element("language", document.language)
    if writer := _writer(document.author):
        yield _element("dc:creator", writer)
        yield _element("itunes:author", writer)
    if document.image:
        yield "<image>"
        yield _element("url", uri(document.image))
        yield _element("title", _as_html(document.title))
        yield _element("link", uri(document.addresses["html"]))
        yield "</image>"
        yield _empty("itunes:image", href=uri(document.image))


def _relations(document: FeedDocument, form: str, tag: str) -> Iterator[str]:
    """The addresses of the document and its neighbours, and its kind of set (RFC 5005)."""
    kind = f"application/{form}+xml"
    yield _empty(tag, rel="self", type=kind, href=uri(document.addresses[form]))
    for hub in document.hubs:
        yield _empty(tag, rel="hub", href=uri(hub))
    if form in document.previous:
        # Some readers support pages but not archives.
        for rel in ("prev-archive", "next"):
            yield _empty(tag, rel=rel, type=kind, href=uri(document.previous[form]))
    if form in document.current:
        yield _empty(tag, rel="current", type=kind, href=uri(document.current[form]))
    if document.archive:
        yield "<fh:archive/>"
    if document.complete:
        yield "<fh:complete/>"


def _rss_item(entry: Entry, said: Words) -> Iterator[str]:
    content = shown(entry, said)
    # Readers take the longer one as the content, so a longer summary is left out.
    summary = escape(entry.summary or "", quote=False)
    summary = summary if not content or len(summary) < len(content) else ""
    yield "<item>"
    yield _element("title", _as_html(title(entry, said)))
    if address := link(entry):
        yield _element("link", uri(address))
    yield _element("guid", entry.guid or "", isPermaLink="false")
    if entry.published:
        yield _element("pubDate", _rfc_822(entry.published))
    if entry.updated:
        yield _element("atom:updated", timestamp(entry.updated))
    if writer := _writer(entry.author):
        yield _element("dc:creator", writer)
    for category in entry.category:
        yield _element("category", category)
    if summary or content:
        yield _element("description", summary or content)
    if summary and content:
        yield _element("content:encoded", content)
    found = list(files(entry))
    # Readers use only the first enclosure, so it is one that a podcast app can play.
    first = next(filter(is_playable, found), found[0] if found else None)
    if first is not None:
        # The length is required; publishers who don't know it write 0.
        length = str(first.length or 0)
        yield _empty("enclosure", url=uri(first.url), length=length, type=media_type(first))
    yield from _media(entry, found, [one for one in found if one is not first])
    yield "</item>"


def _atom_entry(entry: Entry, document: FeedDocument) -> Iterator[str]:
    said = words(document.language)
    content, address = shown(entry, said), link(entry)
    yield "<entry>"
    yield _element("title", title(entry, said))
    yield _element("id", entry.guid or "")
    yield _element("updated", timestamp(entry.updated or entry.published or document.updated))
    if entry.published:
        yield _element("published", timestamp(entry.published))
    yield from _person(entry.author, document.title)
    # One of the two is required (4.1.2).
    if address or not content:
        yield _empty("link", rel="alternate", type="text/html", href=uri(address or document.addresses["html"]))
    for category in entry.category:
        yield _empty("category", term=category)
    if entry.summary:
        yield _element("summary", entry.summary)
    if content:
        yield _element("content", content, type="html")
    found = list(files(entry))
    for one in found:
        named = {"title": one.title} if one.title else {}
        length = {"length": str(one.length)} if one.length else {}
        yield _empty("link", rel="enclosure", type=media_type(one), href=uri(one.url), **length, **named)
    yield from _media(entry, found, [])
    yield "</entry>"


def _media(entry: Entry, found: list[Enclosure], others: list[Enclosure]) -> Iterator[str]:
    """Elements of other namespaces for both formats: durations, more files, the picture, reply targets."""
    played = [one for one in found if is_playable(one) and one not in others]
    if len(played) == 1 and played[0].duration:
        yield _element("itunes:duration", str(played[0].duration))
    for one in others:
        known = {"fileSize": one.length, "duration": one.duration}
        more = {name: str(value) for name, value in known.items() if value}
        yield _empty("media:content", url=uri(one.url), type=media_type(one), **more)
    if entry.featured:
        yield _empty("media:thumbnail", url=uri(entry.featured))
        if played:
            yield _empty("itunes:image", href=uri(entry.featured))
    for target in entry.in_reply_to:
        yield _empty("thr:in-reply-to", ref=uri(target), href=uri(target))
    if played and entry.location is not None:
        yield from _location(entry.location)
    if entry.podcast is not None:
        yield from _episode(entry.podcast)


def _location(place: Card) -> Iterator[str]:
    """The place that an episode is about, by its name or else its coordinates: the element can't be blank."""
    point = f"{place.latitude},{place.longitude}" if place.latitude and place.longitude else None
    if name := place.name or point:
        yield _element("podcast:location", name, **_stated(geo=point and f"geo:{point}"))


def _episode(podcast: Podcast) -> Iterator[str]:
    for name in ("season", "episode"):
        if _WHOLE.fullmatch(number := getattr(podcast, name) or ""):
            yield _element(f"itunes:{name}", number)
    if podcast.season:
        yield _element("podcast:season", podcast.season, **_stated(name=podcast.season_name))
    if podcast.episode:
        yield _element("podcast:episode", podcast.episode)
    if podcast.episode_type:
        yield _element("itunes:episodeType", podcast.episode_type)
    if podcast.explicit:
        yield _element("itunes:explicit", "true")
    for one in podcast.transcript:
        kind = one.type or media_type(Enclosure(one.url))
        yield _empty("podcast:transcript", url=uri(one.url), type=kind, **_stated(language=one.language))
    if podcast.chapters:
        yield _empty("podcast:chapters", url=uri(podcast.chapters), type="application/json+chapters")
    if podcast.chapter:
        yield _opening("psc:chapters", version="1.2")
        for part in podcast.chapter:
            about = _stated(href=part.url and uri(part.url), image=part.photo and uri(part.photo))
            yield _empty("psc:chapter", start=_clock(part.start), title=part.title or "", **about)
        yield "</psc:chapters>"
    for person in podcast.person:
        about = _stated(role=person.role, href=person.url and uri(person.url), img=person.photo and uri(person.photo))
        yield _element("podcast:person", person.name, **about)
    for file in podcast.alternate:
        length = str(file.length) if file.length else None
        yield _opening("podcast:alternateEnclosure", type=media_type(file), **_stated(length=length, title=file.title))
        yield _empty("podcast:source", uri=uri(file.url))
        yield "</podcast:alternateEnclosure>"
    for page in podcast.funding:
        yield _element("podcast:funding", page.title or "", url=uri(page.url))


def _stated(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _clock(seconds: float) -> str:
    """A place in a recording: hours, minutes, seconds and milliseconds."""
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}.{whole % 1000:03}"


def _person(author: Card | None, otherwise: str = "") -> Iterator[str]:
    """An author of Atom."""
    yield "<author>"
    yield _element("name", _writer(author) or otherwise)
    if author and author.name and author.url:
        yield _element("uri", uri(author.url))
    yield "</author>"


def _writer(author: Card | None) -> str:
    return (author and (author.name or author.url)) or ""


def _as_html(text: str) -> str:
    """Plain text for RSS: escaped if readers would take it for HTML."""
    return escape(text, quote=False) if _MARKUP.search(text) else text


def _rfc_822(moment: datetime) -> str:
    """A date with names of day and month, and `GMT` instead of a zone that readers might not know."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return format_datetime(aware.astimezone(UTC).replace(microsecond=0), usegmt=True)


def _root(tag: str, prefixes: tuple[str, ...], **attributes: str) -> str:
    declared = {f"xmlns:{prefix}": _NAMESPACES[prefix] for prefix in prefixes}
    return _opening(tag, **attributes, **declared)


def _opening(tag: str, **attributes: str) -> str:
    return f"<{tag}{_attributes(attributes)}>"


def _element(tag: str, text: str, **attributes: str) -> str:
    # A literal carriage return would be read as the end of a line.
    inner = escape(allowed(text), quote=False).replace("\r", "&#13;")
    return f"<{tag}{_attributes(attributes)}>{inner}</{tag}>"


def _empty(tag: str, **attributes: str) -> str:
    return f"<{tag}{_attributes(attributes)}/>"


def _attributes(values: dict[str, str]) -> str:
    return "".join(f' {name}="{_quoted(value)}"' for name, value in values.items())


def _quoted(value: str) -> str:
    return "".join(_ENDS.get(char, char) for char in escape(allowed(value)))


def _written(parts: list[str]) -> bytes:
    return ('<?xml version="1.0" encoding="utf-8"?>\n' + "\n".join(parts) + "\n").encode()
