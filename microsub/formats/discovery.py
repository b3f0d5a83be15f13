"""Which feeds a document names, or is (https://indieweb.org/feed_discovery, https://blog.whatwg.org/feed-autodiscovery).

Sources, best first: HTTP `Link` (RFC 8288), `rel=alternate` of every feed type, `rel=feed`, an h-feed on the page
itself. Feeds of comments come last, whoever names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from microsub.errors import ParseError
from microsub.formats import html
from microsub.formats.encoding import decode
from microsub.formats.parse import parse, sniff
from microsub.formats.urls import canonical_feed_url, normalise_url, safe_url
from microsub.model.jf2 import Feed

MAX_LINKS = 50

_TYPES = {
    "application/rss+xml": "rss",
    "application/atom+xml": "atom",
    "application/rdf+xml": "rdf",
    "application/feed+json": "jsonfeed",
    "text/mf2+html": "h-feed",
}
# Types that say little: only with a name that says more. WordPress offers its whole API as application/json.
_VAGUE = {"application/json": "jsonfeed", "application/xml": "rss", "text/xml": "rss"}
_FEEDLIKE = re.compile(r"(?i)feed|\brss|atom")
_COMMENTS = re.compile(
    r"(?i)comment|kommentar|comentario|comentário|commenti\b|reacties|комментари|コメント|评论|評論|التعليقات|yorum"
)
_COMMENTS_PATH = re.compile(r"(?i)/(?:comments?|replies)(?:[/.]|\Z)|[?&](?:feed=comments|withcomments)")
_LINK = re.compile(r"""<([^>]*)>((?:\s*;\s*[\w!#$&+.^`|~*-]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)""")
_PARAMETER = re.compile(r""";\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""")
_PATHS = ("feed", "feed/", "feed.xml", "rss", "rss.xml", "atom.xml", "index.xml", "feed.atom", "feed.json", "feed.rss")


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed that one could follow. `format` is as in `jf2.Feed`, by declaration where the feed wasn't read."""

    url: str
    format: str
    title: str | None = None
    photo: str | None = None
    description: str | None = None


def discover(body: bytes, url: str, content_type: str | None, link_header: str | None) -> list[FeedLink]:
    """The feeds that a document at `url` is, holds or names, best first; empty where there are none. Never raises.

    `link_header` is the joined value of the HTTP `Link` header. What isn't on the page (`common_paths`) is left to the
    caller, who can fetch.
    """
    try:
        text = decode(body, content_type)
        kind = sniff(text, content_type)
        if kind in {"json", "syndication"}:
            return [_itself(parse(body, url, content_type))]
        return _from_page(text if kind == "html" else "", url, link_header)
    except ParseError:
        return _distinct(_from_header(link_header, url))


def common_paths(url: str) -> list[str]:
    """Addresses at which blog engines usually have a feed: beside the page, then at the root of its site."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    directory = parts.path.rpartition("/")[0] + "/"
    found = []
    for folder in dict.fromkeys((parts.path.rstrip("/") + "/", directory, "/")):
        found += [urljoin(url, folder + path) for path in _PATHS]
    return list(dict.fromkeys(u for u in found if safe_url(u)))[:30]


def _itself(feed: Feed) -> FeedLink:
    return FeedLink(feed.url, feed.format, feed.name, feed.photo, feed.description)


def _from_page(text: str, url: str, link_header: str | None) -> list[FeedLink]:
    tree = LexborHTMLParser(text)
    base = url
    if (tag := tree.css_first("base[href]")) is not None:
        base = safe_url(tag.attributes.get("href"), url) or url
    title = _text(tree, "title")
    photo = _icon(tree, base)
    about = _attribute(tree, 'meta[name="description"]', "content")
    found = [*_from_header(link_header, url), *_declared(tree, base), *_itself_as_page(text, url)]
    return _distinct(
        [FeedLink(f.url, f.format, f.title or title, f.photo or photo, f.description or about) for f in found]
    )


def _from_header(header: str | None, url: str) -> list[FeedLink]:
    found = []
    for target, parameters in _LINK.findall(header or ""):
        values: dict[str, str] = {}
        for name, quoted, token in _PARAMETER.findall(parameters):
            values.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or token)
        if link := _link(target, values.get("rel", ""), values.get("type", ""), values.get("title"), url):
            found.append(link)
    return found


def _declared(tree: LexborHTMLParser, base: str) -> Iterator[FeedLink]:
    """`rel=alternate` in document order, then `rel=feed`."""
    later = []
    for node in tree.css("link[rel][href], a[rel][href]"):
        attributes = node.attributes
        rel = attributes.get("rel") or ""
        link = _link(attributes.get("href") or "", rel, attributes.get("type") or "", attributes.get("title"), base)
        if link and "feed" in rel.lower().split():
            later.append(link)
        elif link:
            yield link
    yield from later


def _link(target: str, rel: str, kind: str, title: str | None, base: str) -> FeedLink | None:
    """A link as a feed, or None where it is none."""
    rels = rel.lower().split()
    url = safe_url(target, base)
    kind = kind.partition(";")[0].strip().lower()
    if url is None or "stylesheet" in rels or not {"alternate", "feed"} & set(rels):
        return None
    title = " ".join(title.split()) if title else None
    if kind in _TYPES:
        return FeedLink(url, _TYPES[kind], title)
    if "feed" in rels:
        return FeedLink(url, _VAGUE.get(kind, "h-feed"), title)
    if kind in _VAGUE and "oembed" not in target and _FEEDLIKE.search(f"{target} {title or ''}"):
        return FeedLink(url, _VAGUE[kind], title)
    return None


def _itself_as_page(text: str, url: str) -> list[FeedLink]:
    """The page as an h-feed, unless it is the permalink of one post."""
    try:
        raw = html.to_jf2(text, url)
    except (ParseError, RecursionError, ValueError, AttributeError, TypeError, KeyError):
        return []
    if len(raw.entries) == 1 and normalise_url(raw.entries[0].entry.url or "") == normalise_url(url):
        return []
    return [_itself(raw.feed)]


def _distinct(links: list[FeedLink]) -> list[FeedLink]:
    """Each feed once, those of comments last."""
    found: dict[str, FeedLink] = {}
    for link in links:
        found.setdefault(canonical_feed_url(link.url), link)
    return sorted(found.values(), key=_is_comments)[:MAX_LINKS]


def _is_comments(link: FeedLink) -> bool:
    return bool(_COMMENTS_PATH.search(link.url) or _COMMENTS.search(link.title or ""))


def _icon(tree: LexborHTMLParser, base: str) -> str | None:
    for rel in ("apple-touch-icon", "icon", "shortcut icon"):
        if url := safe_url(_attribute(tree, f'link[rel="{rel}"]', "href"), base):
            return url
    return None


def _attribute(tree: LexborHTMLParser, selector: str, name: str) -> str | None:
    node = tree.css_first(selector)
    value = node.attributes.get(name) if node is not None else None
    return " ".join(value.split()) or None if value else None


def _text(tree: LexborHTMLParser, selector: str) -> str | None:
    node = tree.css_first(selector)
    return " ".join(node.text().split()) or None if node is not None else None
