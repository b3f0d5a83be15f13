"""One link as a feed: in HTTP (RFC 8288), in `<link>`, and in `<a>`, as sites really write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from microsub.discovery.queries import from_subscribe_scheme
from microsub.kit.urls import safe_url

# The types that are meant, and those that sites write instead.
_TYPE = re.compile(
    r"(?:application|text)/(?:x[.-])?(?:(rss)|(atom)|(rdf)|(feed[+]json|json[+]feed|feed-json))(?:[+.-]?xml|[+.-]feed)?"
)
_FORMATS = ("rss", "atom", "rdf", "jsonfeed")
_PAGE_TYPE = "text/mf2+html"
# Types that say little: only with a name that says more. WordPress offers its whole API as application/json.
_VAGUE = {
    "application/json": "jsonfeed", "text/json": "jsonfeed",
    "application/xml": "rss", "text/xml": "rss", "application/x-xml": "rss", "text/plain": "rss", "text/html": "rss",
    "": "rss",
}  # fmt: skip
_FEEDLIKE = re.compile(r"(?i)feed|\brss|atom(?:\b|\.xml)")
_NO_FEED = re.compile(r"(?i)oembed|sitemap|opensearch|feedback|wp-json|activity[+]json|/wiki/(?:rss|atom)\b")
_FEED_RELS = frozenset({"alternate", "feed"})
# Misspellings, what came before `alternate` (`service.feed`), and feeds that say `self` on the page.
_ODD_RELS = frozenset(
    {"alternative", "alternates", "alternat", "service.feed", "rss", "atom", "self", "home", "syndication"}
)
_ADDRESS = re.compile(
    r"(?i)(?:/(?:feeds?|rss|atom|rdf)/?|[./](?:rss|atom|rdf)|/[\w-]*(?:feed|rss|atom)[\w-]*\.(?:xml|rdf|json|rss|atom|php)"
    r"|/index\.(?:xml|rdf|json|rss|atom)|[?&](?:feed|format|type|alt)=(?:rss2?|atom|json))\Z"
)
# What a link to a feed is called, alone or with a few words more, and addresses that belong to pages and pictures.
_CALLED_FEED = re.compile(
    r"(?i)\W*(?:(?:[^\W\d]+\W+){0,3}(?:rss|atom)(?:\W*\d(?:\.\d)?)?(?:\W+feeds?)?(?:\W+[^\W\d]+){0,2}"
    r"|(?:xml|web|news|json|blog)?\W*feeds?)\W*"
)
_NO_DOCUMENT = re.compile(r"(?i)\.(?:html?|jpe?g|png|gif|svg|webp|pdf|zip|mp3|mp4|apk|exe)\Z|/(?:wiki|help|faq|about)/")
_LONGEST_NAME = 40
_ADDRESS_FORMATS = (
    (re.compile(r"(?i)atom"), "atom"),
    (re.compile(r"(?i)rdf"), "rdf"),
    (re.compile(r"(?i)json"), "jsonfeed"),
)

# Pages for the apps of one system that have the feed's address, without its scheme, as their path.
_SERVICE = re.compile(r"(?i)\s*https?://(?:www\.)?subscribeonandroid\.com/(?P<feed>[^/\s?#]+\.[^/\s?#]+/\S+)")

_LINK = re.compile(r"""<([^<>]*)>((?:\s*;\s*[\w!#$&+.^`|~*-]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)""")
_PARAMETER = re.compile(r""";\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""")


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed that one could follow. `format` is as in `jf2.Feed`, by declaration where the feed wasn't read."""

    url: str
    format: str
    title: str | None = None
    photo: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class HttpLink:
    """One member of an HTTP `Link` header; `target` may be relative, and so may `anchor`: the document that the link is
    one of, where it isn't the one that was asked for.
    """

    target: str
    rel: str
    type: str = ""
    title: str | None = None
    anchor: str | None = None


def from_header(header: str | None) -> list[HttpLink]:
    """The members of a joined `Link` header; of repeated parameters the first counts (RFC 8288, 3.3)."""
    found = []
    for target, parameters in _LINK.findall(header or ""):
        values: dict[str, str] = {}
        for name, quoted, token in _PARAMETER.findall(parameters):
            values.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or token)
        found.append(
            HttpLink(target, values.get("rel", ""), values.get("type", ""), _titled(values), values.get("anchor"))
        )
    return found


def _titled(parameters: Mapping[str, str]) -> str | None:
    """The title, in its international form (RFC 8187) where there is one."""
    charset, _, rest = parameters.get("title*", "").partition("'")
    written = rest.partition("'")[2]
    if written and charset.lower() in {"utf-8", "iso-8859-1"}:
        return unquote(written, charset)
    return parameters.get("title")


def declared(target: str, rel: str, kind: str, title: str | None, base: str) -> FeedLink | None:
    """The feed that a link with that `rel` and type declares, or None where it declares none.

    Types and relations that are written wrongly count as what they mean, as long as the other half of the link makes
    sense of them.
    """
    rels = set(rel.lower().split())
    url = safe_url(target, base)
    if url is None or "stylesheet" in rels or not rels & (_FEED_RELS | _ODD_RELS):
        return None
    kind = kind.partition(";")[0].strip().lower()
    title = " ".join(title.split()) or None if title else None
    if match := _TYPE.fullmatch(kind):
        return FeedLink(url, _format_of(match), title)
    if kind == _PAGE_TYPE:
        return FeedLink(url, "h-feed", title)
    if "feed" in rels:
        return FeedLink(url, "h-feed" if kind in {"", "text/html"} else _VAGUE.get(kind, "h-feed"), title)
    if "alternate" in rels and kind in _VAGUE and _says_feed(target, kind, title):
        return FeedLink(url, _VAGUE[kind] if "json" in kind else _by_address(url), title)
    return None


def looks_like_feed(url: str) -> bool:
    """Whether an address is one that feeds have, and pages have not."""
    return bool(_ADDRESS.search(url.partition("#")[0]) or _ADDRESS.search(url.partition("#")[0].partition("?")[0]))


def mentioned(target: str, text: str, base: str, kind: str = "") -> FeedLink | None:
    """The feed that an ordinary link leads to, going by its type, its scheme (`feed:`, `itpc:` …), its address, that of
    a subscribing service which has the feed's in it, or by what the link is called; None for all other links.
    """
    name = " ".join(text.split())[:200] or None
    address = from_subscribe_scheme(target)
    service = _SERVICE.match(target)
    url = safe_url(f"https://{service['feed']}" if service else address, base)
    if url is None:
        return None
    if match := _TYPE.fullmatch(kind.partition(";")[0].strip().lower()):
        return FeedLink(url, _format_of(match), name)
    if address != target or service:
        return FeedLink(url, _by_address(url), name)
    if _NO_FEED.search(url) or not (looks_like_feed(url) or _is_called_feed(name or "", url)):
        return None
    return FeedLink(url, _by_address(url), name)


def _is_called_feed(name: str, url: str) -> bool:
    """Whether a link on a page says that it leads to a feed, and its address doesn't say that it leads to a page."""
    path = url.partition("#")[0].partition("?")[0]
    return len(name) <= _LONGEST_NAME and bool(_CALLED_FEED.fullmatch(name)) and not _NO_DOCUMENT.search(path)


def _format_of(match: re.Match[str]) -> str:
    return next(name for name, group in zip(_FORMATS, match.groups(), strict=True) if group)


def _says_feed(target: str, kind: str, title: str | None) -> bool:
    """Whether a link of a type that says little is a feed by its name, or, without a useful type, by its address."""
    if _NO_FEED.search(target) or (title and _NO_FEED.search(title)):
        return False
    if kind in {"", "text/html", "text/plain"}:
        return looks_like_feed(target)
    return bool(_FEEDLIKE.search(f"{target} {title or ''}"))


def _by_address(url: str) -> str:
    path = url.partition("://")[2].partition("/")[2]
    return next((name for pattern, name in _ADDRESS_FORMATS if pattern.search(path)), "rss")
