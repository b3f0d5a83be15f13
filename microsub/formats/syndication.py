"""RSS 0.9x to 2.0, RDF and Atom to jf2.

Specs: https://www.rssboard.org/rss-specification, https://web.resource.org/rss/1.0/spec, RFC 4287 (Atom), RFC 4685
(threading), https://www.rssboard.org/media-rss, https://help.apple.com/itc/podcasts_connect/ (iTunes), Dublin Core.

feedparser reads the XML. Its sanitiser and URL resolver stay off (`sanitise` does both, for every format, in a
fraction of the time), and it never sees a name or a URL that it could open by itself.
"""

from __future__ import annotations

import io
import re
from html.entities import html5
from typing import Any

import feedparser

from microsub.errors import ParseError
from microsub.formats import media
from microsub.formats.dates import from_struct
from microsub.formats.raw import RawEntry, RawFeed
from microsub.formats.text import title_text
from microsub.formats.urls import safe_url
from microsub.model.jf2 import Card, Entry, Feed

_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_DOCTYPE = re.compile(r"<!DOCTYPE\b[^\[>]*(?:\[.*?\]\s*)?>", re.S | re.I)
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_BAD_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?\]\]>|&(?!(?:amp|lt|gt|quot|apos);|#(?:[1-9]\d{1,6}|x[0-9a-fA-F]{2,6});)(?:(\w{1,32});)?", re.S
)
_NEEDS_REPAIR = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);|#(?:[1-9]\d{1,6}|x[0-9a-fA-F]{2,6});)")

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_READABLE = _HTML | {"text/plain"}
_PERIODS = {"hourly": 3600, "daily": 86400, "weekly": 604800, "monthly": 2592000, "yearly": 31536000}

Node = dict[str, Any]


def to_jf2(text: str, url: str) -> RawFeed:
    """Read a feed document. `url` is its address, the base of relative links.

    Raises ParseError when there is neither a feed nor an entry in it.
    """
    result = feedparser.parse(
        io.BytesIO(_repaired(text).encode("utf-8", "replace")),
        response_headers={"content-type": "application/xml; charset=utf-8", "content-location": url},
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    version = result["version"] or ""
    channel: Node = dict(result["feed"])
    if not version and not result["entries"] and not channel:
        raise ParseError(url, "this looks like XML, but not like RSS, RDF or Atom")
    feed = _feed(channel, version, url)
    return RawFeed(feed, [_entry(dict(entry), version, url) for entry in result["entries"]])


def _repaired(text: str) -> str:
    """The document with what a strict XML parser would refuse set right, and nothing in it that could be expanded.

    Entity declarations go with the DOCTYPE; names that HTML knows become their characters, all others stay text.
    """
    text = _DECLARATION.sub("", text.lstrip("\ufeff \t\r\n"), count=1)
    if "<!DOCTYPE" in text[:4096] or "<!doctype" in text[:4096]:
        text = _DOCTYPE.sub("", text, count=1)
    text = _INVALID.sub("", text)
    if _NEEDS_REPAIR.search(text):
        text = _BAD_REFERENCE.sub(_reference, text)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}"


def _reference(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == "<":
        return found
    if name := match[1]:
        return html5.get(f"{name};", f"&amp;{name};")
    return "&amp;"


def _feed(channel: Node, version: str, url: str) -> Feed:
    base = url
    links = channel.get("links") or []
    home = safe_url(channel.get("link"), base)
    image: Node = channel.get("image") or {}
    photo = next(
        (u for u in (safe_url(v, base) for v in (image.get("href"), channel.get("logo"), channel.get("icon"))) if u),
        None,
    )
    return Feed(
        url=url,
        format="atom" if version.startswith("atom") else "rdf" if version in {"rss090", "rss10"} else "rss",
        name=_title(channel) or None,
        home=home if home != url else None,
        photo=photo,
        description=title_text(channel.get("subtitle") or "") or None,
        author=_author(channel, base),
        ttl=_ttl(channel),
        hub=_rel(links, "hub", base),
        self_url=_rel(links, "self", base),
    )


def _rel(links: list[Node], rel: str, base: str) -> str | None:
    return next((u for link in links if link.get("rel") == rel and (u := safe_url(link.get("href"), base))), None)


def _ttl(channel: Node) -> int | None:
    """The longer of RSS `ttl` (minutes) and the syndication module's period divided by its frequency, in seconds."""
    wishes = []
    if (minutes := media.number(channel.get("ttl"))) is not None:
        wishes.append(minutes * 60)
    if period := _PERIODS.get(str(channel.get("sy_updateperiod") or "").strip().lower()):
        wishes.append(period // max(1, media.number(channel.get("sy_updatefrequency")) or 1))
    return max(wishes, default=0) or None


def _title(node: Node) -> str:
    detail: Node = node.get("title_detail") or {}
    value = str(node.get("title") or "")
    if detail.get("type", "text/html") in _HTML or ("&" in value and ";" in value):
        return title_text(value)
    return " ".join(value.split())


def _author(node: Node, base: str) -> Card | None:
    """The first author that has a name or an address on the web; e-mail addresses aren't shown to readers."""
    authors = [dict(author) for author in node.get("authors") or [] if author]
    detail = node.get("author_detail")
    for found in authors or ([dict(detail)] if detail else []):
        name = title_text(str(found.get("name") or "")) or None
        profile = safe_url(found.get("href"), base)
        if name and "@" in name and " " not in name:
            name = name.partition("@")[0]
        if not name and (email := found.get("email")):
            name = str(email).partition("@")[0]
        if name or profile:
            return Card(name=name, url=profile)
    plain = node.get("author")
    return Card(name=title_text(plain)) if isinstance(plain, str) and plain.strip() else None


def _entry(node: Node, version: str, url: str) -> RawEntry:
    atom = version.startswith("atom")
    kind, body, base, summary = _body(node, atom, url)
    links = node.get("links") or []
    guid = str(node.get("id") or "").strip() or None
    link = _link(node, links, base) or (safe_url(guid) if guid else None)
    published = from_struct(node.get("published_parsed")) or from_struct(node.get("created_parsed"))
    updated = from_struct(node.get("updated_parsed"))
    categories = [str(tag.get("label") or tag.get("term") or "") for tag in node.get("tags") or []]
    reply = node.get("thr_in-reply-to")
    target = safe_url(reply.get("href") or reply.get("ref"), base) if isinstance(reply, dict) else None
    entry = Entry(
        guid=guid,
        url=link,
        name=_title(node) or None,
        published=published or updated,
        updated=updated if published and updated != published else None,
        author=_author(node, base),
        category=tuple(categories),
        featured=media.featured(node, base),
        enclosure=media.enclosures(node, links, base),
        in_reply_to=(target,) if target else (),
        location=_location(node),
    )
    raw = RawEntry(entry, base, summary_html=summary)
    if kind == "text/plain":
        raw.text = body
    else:
        raw.html = body
    return raw


def _link(node: Node, links: list[Node], base: str) -> str | None:
    """The page of the entry; an alternate of any type before a link that only refers elsewhere."""
    if url := safe_url(node.get("link"), base):
        return url
    return _rel([link for link in links if link.get("type") != "application/json"], "alternate", base)


def _body(node: Node, atom: bool, url: str) -> tuple[str, str, str, str | None]:
    """Type, text and base of the body, and the summary where it is something else.

    Atom says which is which. In RSS `description` may be teaser or body, and podcasts add a third text, so the longest
    one is the body.
    """
    bodies = [
        dict(content)
        for content in node.get("content") or []
        if content.get("type") in _READABLE and str(content.get("value") or "").strip()
    ]
    summary: Node = dict(node.get("summary_detail") or {})
    if not str(summary.get("value") or "").strip() or summary.get("type") not in _READABLE:
        summary = {}
    if atom:
        chosen = next((c for c in bodies if c["type"] in _HTML), bodies[0] if bodies else summary)
    else:
        candidates = [*bodies, summary] if summary else bodies
        chosen = max(candidates, key=lambda c: len(c["value"]), default={})
    if not chosen:
        return "text/html", "", url, None
    kind, value = str(chosen["type"]), str(chosen["value"])
    if kind == "application/xhtml+xml":
        # XML's <br/> arrives as <br></br>, and HTML parsers read </br> as a second break.
        value = value.replace("</br>", "")
    if kind == "text/plain" and not atom and "<" in value:
        kind = "text/html"
    teaser = summary.get("value") if summary and chosen is not summary else None
    return kind, value, str(chosen.get("base") or url), teaser


def _location(node: Node) -> Card | None:
    where: Node = node.get("where") or {}
    point = where.get("coordinates")
    if where.get("type") != "Point" or not point or len(point) < 2:
        return None
    return Card(type="geo", latitude=f"{point[1]:.7g}", longitude=f"{point[0]:.7g}")
