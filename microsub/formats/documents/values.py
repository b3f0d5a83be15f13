"""A feed document to be written, and what all formats share. Pure."""

from __future__ import annotations

import html
import mimetypes
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import quote

from microsub.base.urls import ascii_host, parts_of
from microsub.formats.documents.context import context, told
from microsub.formats.documents.words import Words
from microsub.formats.html.sanitise import URL_ATTRIBUTES, candidates
from microsub.formats.xml.media import kind_of
from microsub.model.jf2 import Card, Content, Enclosure, Entry

_ABSOLUTE = re.compile(r"(?:https?://|urn:[a-z0-9][a-z0-9-]{0,31}:|tag:[^\s:/]+,\d{4}[^\s:]*:)[^\s<>\"{}|\\^`]+", re.I)
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
UNKNOWN_TYPE = "application/octet-stream"
_SAFE = "!$%&'()*+,/:;=?@~"
_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_PLAIN = r"[A-Za-z0-9!$'()*+,/:;=?@~._-]++|%[0-9A-Fa-f]{2}"
_URI = re.compile(rf"(?:[A-Za-z][A-Za-z0-9+.-]*:(?://(?:\[[0-9A-Fa-f:.]+\])?)?)?(?:{_PLAIN}|&)*+(?:#(?:{_PLAIN}|&)*+)?")
_TAG = re.compile(r"<[A-Za-z][^<>]*>")
_ATTRIBUTE = re.compile(r'\s([^\s<>="]+)="([^"]*)"')
_DOUBTS = [
    re.compile(rf'{name}="(?:{_PLAIN}|&amp;{chars})*+(?!")')
    for name, chars in (*((name, "|#") for name in sorted(URL_ATTRIBUTES)), ("srcset", r"|\s"))
]
"""Find values that may be no URIs, one for each attribute: a search that begins with fixed text is much faster."""
_TITLE = 80
"""Characters of an entry's text that replace a missing title in formats that need one."""


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """A feed with its entries, newest first, each with a guid; all addresses are absolute.

    `id` is an absolute IRI, permanent and the same for all formats. `addresses` are those of this document by format,
    and `html` that of the feed's page. `image` is the address of its picture, `language` a tag such as `de`.
    `complete`: entries that aren't listed are no longer part of the feed; `archive`: it never changes again (RFC 5005).
    `previous` has the addresses of the next older archive, `current` those of the feed's newest document, by format;
    `hubs` are WebSub hubs. `stylesheet` is for the page.
    """

    id: str
    title: str
    addresses: Mapping[str, str]
    updated: datetime
    entries: Sequence[Entry] = ()
    description: str = ""
    image: str = ""
    author: Card | None = None
    language: str = ""
    complete: bool = False
    archive: bool = False
    previous: Mapping[str, str] = field(default_factory=dict)
    current: Mapping[str, str] = field(default_factory=dict)
    hubs: Sequence[str] = ()
    stylesheet: str = ""


def is_iri(text: str) -> bool:
    """Whether a guid can be used as an Atom id: an absolute IRI (RFC 4287, 4.2.6)."""
    return _ABSOLUTE.fullmatch(text) is not None


def allowed(text: str) -> str:
    """`text` without the characters that XML 1.0 forbids (https://www.w3.org/TR/xml/#charsets)."""
    return _NO_XML.sub("", text)


def printable(entry: Entry) -> Entry:
    """The entry without blank texts: titles, summaries, names and tags with nothing to read."""
    author = entry.author and replace(entry.author, name=_text(entry.author.name))
    content = entry.content and Content(_text(entry.content.html), _text(entry.content.text))
    tags = tuple(filter(None, map(_text, entry.category)))
    name, summary = _text(entry.name), _text(entry.summary)
    return replace(entry, name=name, summary=summary, content=content, author=author, category=tags)


def _text(text: str | None) -> str | None:
    return allowed(text or "").strip() or None


def uri(address: str) -> str:
    """An address as a URI (RFC 3986, 2; RFC 3987, 3.1): what it can't have is escaped."""
    if _URI.fullmatch(address):
        return address
    try:
        parts = parts_of(address)
        host, port = ascii_host(parts.hostname or ""), f":{parts.port}" if parts.port else ""
    except ValueError:
        return quote(address, safe=f"{_SAFE}#")
    if ":" in host:
        host = f"[{host}]"
    escaped = {
        name: quote(_PERCENT.sub("%25", getattr(parts, name)), safe=_SAFE) for name in ("path", "query", "fragment")
    }
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(**escaped, netloc=quote(user, safe=_SAFE) + at + quote(host, safe="[:]") + port).geturl()


def with_uris(markup: str) -> str:
    """HTML whose addresses are URIs; everything else has the same bytes. Each `<` in it begins a tag."""
    if not any(doubt.search(markup) for doubt in _DOUBTS):
        return markup  # most bodies
    # All attributes in their order, so that a value which looks like an attribute isn't taken for one.
    return _TAG.sub(lambda tag: _ATTRIBUTE.sub(_with_uri, tag[0]), markup)


def _with_uri(found: re.Match[str]) -> str:
    name, said = found[1], html.unescape(found[2])
    addresses = candidates(said) if name == "srcset" else [(said, "")] if name in URL_ATTRIBUTES else []
    if all(_URI.fullmatch(address) for address, _ in addresses):
        return found[0]
    written = ", ".join(f"{uri(address)} {size}".strip() for address, size in addresses)
    return f'{found[0][0]}{name}="{html.escape(written)}"'


def permanent_id(guid: str, feed: str) -> str:
    """An absolute IRI derived from a guid and the address of its feed."""
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{feed} {guid}')}"


def shown(entry: Entry, said: Words = str) -> str:
    """The HTML of a post, with URIs: what it is about, and its content; its pictures if there is neither."""
    return with_uris("\n".join(filter(None, (context(entry, said), body(entry)))) or "\n".join(_pictures(entry)))


def _pictures(entry: Entry) -> Iterator[str]:
    """The pictures of a post, which many readers don't show if they are only enclosed."""
    for one in files(entry):
        if kind_of(one) == "photo":
            yield f'<p><img class="u-photo" src="{html.escape(one.url)}" alt="{html.escape(one.title or "")}"></p>'


def body(entry: Entry) -> str:
    """The content as HTML, empty if there is none."""
    if entry.content is None:
        return ""
    return entry.content.html or html.escape(entry.content.text or "", quote=False).replace("\n", "<br>\n")


def title(entry: Entry, said: Words = str) -> str:
    """The title, else the beginning of the text, else what it is about or shows, else the address, else "Untitled"."""
    if entry.name:
        return entry.name
    text = " ".join(((entry.content and entry.content.text) or entry.summary or "").split()) or told(entry, said)
    text = text or next((one.title for one in entry.enclosure if one.title), "")
    if len(text) > _TITLE:
        text = text[:_TITLE].rsplit(" ", 1)[0] + "…"
    return text or link(entry) or said("Untitled")


def link(entry: Entry) -> str:
    """The address that a reader opens; empty if there is none."""
    return entry.url or entry.fallback_url or ""


def files(entry: Entry) -> Iterator[Enclosure]:
    """All files of the entry without duplicates: its enclosures, then media that aren't in its content."""
    seen = {enclosure.url for enclosure in entry.enclosure}
    yield from entry.enclosure
    content = body(entry)
    for url in dict.fromkeys((*entry.audio, *entry.video, *entry.photo)):
        if url not in seen and url not in content and html.escape(url) not in content:
            yield Enclosure(url)


def media_type(enclosure: Enclosure) -> str:
    """The type from the publisher, else from the file's name."""
    if enclosure.type:
        return enclosure.type
    found, _ = mimetypes.guess_type(parts_of(enclosure.url).path)
    return found or UNKNOWN_TYPE


def is_playable(enclosure: Enclosure) -> bool:
    """Whether it is sound or video."""
    return kind_of(enclosure) in {"audio", "video"}
