"""Converts RSS 0.9x to 2.0, RDF and Atom to jf2.

Specs: https://www.rssboard.org/rss-specification, https://web.resource.org/rss/1.0/spec, RFC 4287 (Atom), RFC 4685
(threading), https://www.rssboard.org/media-rss, https://help.apple.com/itc/podcasts_connect/ (iTunes), Dublin Core.

`xmlfeed` reads the XML; this module interprets its values.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from microsub.base.errors import ParseError
from microsub.base.urls import host_of, safe_url
from microsub.formats.dates import from_text
from microsub.formats.entry_id import is_teaser
from microsub.formats.html import HTML_TYPES, players
from microsub.formats.html.sanitise import text_to_html
from microsub.formats.html.text import MAX_TITLE, title_text
from microsub.formats.normalise import RawEntry
from microsub.formats.podcast import place_of, podcast_of
from microsub.formats.xml import media, xmlfeed
from microsub.model.jf2 import Card, Entry, Feed

_READABLE = HTML_TYPES | {"text/plain"}
_ADDRESS = re.compile(r"[<(\[]?(?:mailto:)?[^\s<>()@]+@[^\s<>()@]+\.[^\s<>()@]+[>)\]]?")
_ADDRESS_ON_THE_WEB = re.compile(r"(?i)\s*https?://\S+\s*\Z")
_NO_SCHEME = re.compile(r"(?i)www\.[\w-]+\.\w")
_MARKUP = re.compile(r"(?i)</[a-z]|<[a-z][a-z0-9]*\s[^>]*=|<(?:br|hr|img|wbr)\b|&#?\w+;|<!--")
_EMBEDDED = re.compile(r"(?i)<(?:img|picture|video|audio|iframe|object|embed)\b")
_SECTION = re.compile(r"\s*<!\[CDATA\[")
_PERIODS = {"hourly": 3600, "daily": 86400, "weekly": 604800, "monthly": 2592000, "yearly": 31536000}

_DESCRIPTIONS = ("subtitle", "summary", "itunes_subtitle")
"""Names of a feed's description, best first: the format's own, `itunes:summary`, `itunes:subtitle`."""

Node = dict[str, Any]


def to_jf2(pieces: Callable[[], Iterable[str]], url: str) -> tuple[Feed, list[RawEntry]]:
    """Read a feed document, whose text `pieces` returns.

    `url` is its address, the base of relative links. Raises ParseError if it contains neither a feed nor an entry.
    """
    try:
        entries, channel, version = xmlfeed.read(pieces, _published)
    except xmlfeed.TooMuch as error:
        raise ParseError(url, str(error)) from None
    if not version and not entries and not channel:
        raise ParseError(url, "this looks like XML, but not like RSS, RDF or Atom")
    feed = _feed(channel, version, url)
    base = _site(channel, url, atom=feed.format == "atom")
    return feed, [_entry(entry, channel, version, base) for entry in entries]


def _feed(channel: Node, version: str, url: str) -> Feed:
    atom = version.startswith("atom")
    links = channel.get("links") or []
    home = _page(channel, url)
    base = _site(channel, url, atom=atom)
    image: Node = channel.get("image") or {}
    pictures = (channel.get("itunes_image"), image.get("href"), channel.get("logo"), channel.get("icon"))
    photo = next((u for picture in pictures if (u := safe_url(picture, base))), None)
    photo = photo or media.channel_picture(channel, base)
    return Feed(
        url=url,
        format="atom" if atom else "rdf" if version in {"rss090", "rss10"} else "rss",
        name=_title(channel, atom) or None,
        home=home if home != url else None,
        photo=photo,
        description=next((text for name in _DESCRIPTIONS if (text := title_text(channel.get(name) or ""))), None),
        author=_author(channel, base, of_feed=True),
        ttl=_ttl(channel),
        hub=_rel(links, "hub", base),
        self_url=_rel(links, "self", base),
    )


def _site(channel: Node, url: str, *, atom: bool) -> str:
    """The base of relative links without an `xml:base`.

    In RSS they are rare and relative to the site, because many feeds are served from another host. In Atom they are
    relative to the document, and a copy on another host still names the original.
    """
    home = _page(channel, url)
    if not atom:
        return home or url
    original = _rel(channel.get("links") or [], "self", url)
    moved = home and original and host_of(home) == host_of(original) != host_of(url)
    return original if moved and original else url


def _rel(links: list[Node], rel: str, base: str) -> str | None:
    return next((u for link in links if link.get("rel") == rel and (u := safe_url(link.get("href"), base))), None)


def _ttl(channel: Node) -> int | None:
    """The longer of RSS `ttl` and the syndication module's period by frequency, in seconds."""
    wishes = []
    if (minutes := media.number(channel.get("ttl"))) is not None:
        wishes.append(minutes * 60)
    if period := _PERIODS.get(str(channel.get("sy_updateperiod") or "").strip().lower()):
        wishes.append(period // max(1, media.number(channel.get("sy_updatefrequency")) or 1))
    return max(wishes, default=0) or None


def _title(node: Node, atom: bool) -> str:
    """The title as text. Atom declares markup; in RSS, titles often contain markup without declaring it."""
    detail: Node = node.get("title_detail") or {}
    value = _without_section(str(node.get("title") or ""))
    if detail.get("type", "text/html") in HTML_TYPES or (not atom and _MARKUP.search(value)):
        return title_text(value)
    return " ".join(value.split())


def _author(node: Node, base: str, *, of_feed: bool = False) -> Card | None:
    """The author by Dublin Core, else by the format itself, else by iTunes.

    Several names become one line. E-mail addresses aren't shown to readers. If there is nothing else, a post's author
    gets the address's local part as name; a feed has a better name.
    """
    people: list[Node] = node.get("authors") or []
    for by in ("dc", "", "itunes"):
        cards = [card for person in people if person.get("by", "") == by and (card := _card(person, base))]
        if names := list(dict.fromkeys(card.name for card in cards if card.name)):
            return Card(name=", ".join(names), url=next((card.url for card in cards if card.url), None))
        if cards:
            return cards[0]
    if of_feed:
        return None
    addresses = (str(person.get("email") or person.get("text") or "") for person in people)
    return next((Card(name=name) for text in addresses if (name := text.strip().partition("@")[0])), None)


def _card(person: Node, base: str) -> Card | None:
    text = str(person.get("name") or person.get("text") or "")
    profile = safe_url(str(person.get("href") or ""), base)
    if not profile and _ADDRESS_ON_THE_WEB.match(text):
        text, profile = "", safe_url(text)
    name = _person(text)
    return Card(name=name or None, url=profile) if name or profile else None


def _byline(node: Node, base: str) -> Card | None:
    """The author of an entry, with a picture if the entry has one of people."""
    author = _author(node, base)
    return author and replace(author, photo=media.portrait(node, base))


def _is_nameless(node: Node) -> bool:
    """Whether an author has only a `uri`: the feed's author says more."""
    return any(person.get("href") for person in node.get("authors") or ())


def _source(node: Node, base: str) -> Card | None:
    """The feed that a planet took the entry from: by its author in Atom (4.2.11), by its title in RSS."""
    source = node.get("source")
    if not source:
        return None
    name = title_text(str(source.get("title") or ""))
    page = safe_url(source.get("link"), base)
    return _author(source, base) or (Card(name=name or None, url=page) if name or page else None)


def _person(text: str) -> str:
    """A name without RSS's e-mail address: `a@b.example (Ann)`, `Ann <a@b.example>`."""
    return _ADDRESS.sub(" ", title_text(text)).strip(" ()<>[],;") if "@" in text else title_text(text)


def _entry(node: Node, channel: Node, version: str, feed_base: str) -> RawEntry:
    own_base = _base(node, feed_base)
    base = own_base or feed_base
    atom = version.startswith("atom")
    kind, body, teaser = _body(node, atom)
    links = node.get("links") or []
    guid = str(node.get("id") or node.get("dc_identifier") or "").strip() or None
    published, updated = _dates(node)
    replies = (safe_url(reply.get("href"), base) or safe_url(reply.get("ref")) for reply in node.get("replies") or ())
    byline = _byline(node, base)
    if byline and not byline.name and _is_nameless(node) and (writer := _author(channel, base)) and writer.name:
        byline = None
    entry = Entry(
        guid=guid,
        url=_link(node, links, guid, base),
        fallback_url=_rel(links, "self", base),
        name=_title(node, atom) or None,
        published=published or updated,
        updated=updated if published and updated != published else None,
        author=byline or _source(node, base),
        category=tuple(
            entities.unescape(str(tag.get("label") or tag.get("term") or "")) for tag in node.get("tags") or []
        ),
        featured=media.featured(node, base),
        enclosure=media.enclosures(node, links, base),
        in_reply_to=tuple(target for target in replies if target),
        location=_location(node) or place_of(node),
        podcast=podcast_of(node, channel, base),
    )
    # Short messages have no titles, and their line breaks count.
    plain = kind == "text/plain" or not (atom or entry.name or "<" in body or _MARKUP.search(body))
    film = media.player(node, base)
    if film is not None and not any(media.kind_of(file) == "video" for file in entry.enclosure):
        entry = replace(entry, post_type="video", enclosure=(*entry.enclosure, film))
        # Apps show the player where the body begins; a host that may not be framed gets a link.
        shown = players.frame(film.url, base, still=entry.featured or "")
        body = f"<p>{shown}</p>" + (text_to_html(body) if plain else body)
        plain = False
    return RawEntry(
        entry,
        own_base or _at_home(guid, entry.url, feed_base) or entry.url or feed_base,
        html=None if plain else body,
        text=body if plain else None,
        summary_html=teaser,
        collected=byline is None and bool(node.get("source")),
    )


def _dates(node: Node) -> tuple[datetime | None, datetime | None]:
    """The times when the entry was published and updated."""
    # As a plain dictionary: feedparser's own one replaces a missing date by the other one, with a warning.
    names = ("published", "created", "updated", "dc_date")
    published, created, updated, dated = (from_text(dict.get(node, name)) for name in names)
    if updated is None:
        return published or created, dated
    return published or created or dated, updated


def _published(node: Node) -> datetime | None:
    published, updated = _dates(node)
    return published or updated


def _base(node: Node, feed_base: str) -> str | None:
    """The entry's `xml:base`, which feedparser stores with its texts; None if it has none."""
    for detail in (*(node.get("content") or ()), node.get("summary_detail"), node.get("title_detail")):
        if detail and (base := detail.get("base")):
            return safe_url(base, feed_base)
    return None


def _at_home(guid: str | None, link: str | None, site: str) -> str | None:
    """The entry's page on its own site, by its guid, if its link leads to another one, about which it is."""
    if not link or not guid or guid == link or _host(link) == _host(site):
        return None  # nearly all
    own = safe_url(guid)
    return own if own and _host(own) == _host(site) else None


def _host(url: str) -> str:
    return host_of(url).removeprefix("www.")


def _page(node: Node, base: str) -> str | None:
    """The first web page among the alternates (others are translations), else feedparser's link."""
    pages = (link for link in node.get("links") or [] if link.get("type") in HTML_TYPES)
    return _rel(list(pages), "alternate", base) or safe_url(node.get("link"), base)


def _link(node: Node, links: list[Node], guid: str | None, base: str) -> str | None:
    """The entry's page: its link, an alternate of another type, its content's address, or its guid.

    An address that is declared not to be a permalink is better than none.
    """
    if original := safe_url(node.get("feedburner_origlink")):
        return original  # the link itself is only a click counter
    link = node.get("link")
    if link and _NO_SCHEME.match(link):
        return safe_url(f"https://{link}")
    # feedparser uses a guid as the link unless it is marked otherwise; "17" isn't a link.
    if link and (link != guid or ":" in link or link.startswith("/")) and (url := _page(node, base)):
        return url
    pages = [other for other in links if other.get("type") != "application/json"]
    elsewhere = (content.get("src") for content in node.get("content") or () if content.get("type") in HTML_TYPES)
    page = _rel(pages, "alternate", base) or safe_url(next(elsewhere, None), base) or safe_url(guid)
    return page or safe_url(node.get("media_player_url"), base)


def _body(node: Node, atom: bool) -> tuple[str, str, str | None]:
    """Type and text of the body, and the summary if it differs.

    Atom distinguishes them. In RSS, `description` may be a teaser or the body, and podcasts add a third text, so the
    longest one is the body.
    """
    bodies = [content for content in node.get("content") or () if _readable(content)]
    summary = node.get("summary_detail")
    if not _readable(summary):
        summary = None
    if atom:
        chosen = next((c for c in bodies if c["type"] in HTML_TYPES), bodies[0] if bodies else summary)
    else:
        chosen = max([*bodies, *([summary] if summary else [])], key=lambda c: len(c["value"]), default=None)
        if bodies and chosen is summary and summary:
            # A short post is shorter than its teaser with the links that plug-ins write below it.
            longest = max(bodies, key=lambda c: len(c["value"]))
            chosen = longest if _adds_nothing(str(summary["value"]), str(longest["value"])) else summary
    if not chosen:
        # Only Media RSS or iTunes has a text.
        kind = "text/html" if node.get("media_description_type") == "html" else "text/plain"
        return (
            kind,
            str(node.get("media_description") or node.get("itunes_subtitle") or node.get("subtitle") or ""),
            None,
        )
    kind, value = str(chosen["type"]), _without_section(str(chosen["value"]))
    if kind == "application/xhtml+xml":
        # XML's <br/> arrives as <br></br>, and HTML parsers read </br> as another break.
        value = value.replace("</br>", "")
    if kind == "text/plain" and not atom and "<" in value:
        kind = "text/html"
    teaser = None
    if summary and chosen is not summary:
        plain = atom and summary["type"] == "text/plain"
        said = _without_section(str(summary["value"]))
        teaser = entities.escape(said, quote=False) if plain else said
    return kind, value, teaser


def _adds_nothing(description: str, body: str) -> bool:
    """Whether an item's description is only a teaser of its body: without pictures and players, and no long text."""
    if len(description) > MAX_TITLE or _EMBEDDED.search(description):
        return False
    return is_teaser(title_text(description), title_text(body))


def _without_section(text: str) -> str:
    """`text` without the marks of a CDATA section that were escaped, so that they are part of it."""
    found = _SECTION.match(text)
    return text[found.end() :].rstrip().removesuffix("]]>") if found else text


def _readable(content: Node | None) -> bool:
    return bool(content and content.get("type") in _READABLE and str(content.get("value") or "").strip())


def _location(node: Node) -> Card | None:
    """A point of GeoRSS or W3C geo, and its name; 0° 0°, a place in the sea, means no point."""
    where: Node = node.get("where") or {}
    point = where.get("coordinates") if where.get("type") == "Point" else None
    longitude, latitude = point[:2] if point and len(point) > 1 else (node.get("geo_long"), node.get("geo_lat"))
    name = title_text(str(node.get("georss_featurename") or "")) or None
    try:
        east, north = float(longitude or 0), float(latitude or 0)
    except ValueError:
        east = north = 0
    if not (east and north and abs(east) <= 180 and abs(north) <= 90):
        return Card(name=name) if name else None
    return Card(type="card" if name else "geo", name=name, latitude=f"{north:.7g}", longitude=f"{east:.7g}")
