"""Links to feeds: in HTTP, in `<link>`, in `<a>`, and from the pages of podcasts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

import orjson

from microsub.base.urls import MAX_URL, safe_url
from microsub.formats.html.text import in_one_line

# The correct types, and those that sites use instead.
_TYPE = re.compile(
    r"(?:application|text)/(?:x[.-])?(?:(rss)|(atom)|(rdf)|(feed[+]json|json[+]feed|feed-json))(?:[+.-]?xml|[+.-]feed)?"
)
_FORMATS = ("rss", "atom", "rdf", "jsonfeed")
_PAGE_TYPE = "text/mf2+html"
# Vague types: they count only with a name that suggests a feed. WordPress declares its whole API as application/json.
_VAGUE = {
    "application/json": "jsonfeed", "text/json": "jsonfeed",
    "application/xml": "rss", "text/xml": "rss", "application/x-xml": "rss", "text/plain": "rss", "text/html": "rss",
    "": "rss",
}  # fmt: skip
_FEEDLIKE = re.compile(r"(?i)feed|\brss|atom(?:\b|\.xml)")
_NO_FEED = re.compile(r"(?i)oembed|sitemap|opensearch|feedback|wp-json|activity[+]json|/wiki/(?:rss|atom)\b")
_FEED_RELS = frozenset({"alternate", "feed"})
# Misspellings, predecessors of `alternate` (`service.feed`), and feeds that are marked `self` on the page.
_ODD_RELS = frozenset(
    {"alternative", "alternates", "alternat", "service.feed", "rss", "atom", "self", "home", "syndication"}
)
_ADDRESS = re.compile(
    r"(?i)(?:/(?:feeds?|rss|atom|rdf)/?|[./](?:rss|atom|rdf)|/[\w-]*(?:feed|rss|atom)[\w-]*\.(?:xml|rdf|json|rss|atom|php)"
    r"|/index\.(?:xml|rdf|json|rss|atom)|[?&](?:feed|format|type|alt)=(?:rss2?|atom|json))\Z"
)
# Link texts for feeds, alone or with a few other words, and addresses of pages and pictures.
_CALLED_FEED = re.compile(
    r"(?i)\W*(?:(?:[^\W\d]+\W+){0,3}(?:rss|atom)(?:\W*\d(?:\.\d)?)?(?:\W+feeds?)?(?:\W+[^\W\d]+){0,2}"
    r"|(?:xml|web|news|json|blog)?\W*feeds?)\W*"
)
# Link texts that may mean a feed, a newsletter or a shop.
_MAY_BE_FEED = re.compile(
    r"(?i)\W*(?:subscribe|syndicate|syndication)(?:\W+(?:here|now|to\W+(?:this|the|our)\W+\w+))?\W*"
)
_NO_DOCUMENT = re.compile(r"(?i)\.(?:html?|jpe?g|png|gif|svg|webp|pdf|zip|mp3|mp4|apk|exe)\Z|/(?:wiki|help|faq|about)/")
_LONGEST_NAME = 40
_ADDRESS_FORMATS = (
    (re.compile(r"(?i)atom"), "atom"),
    (re.compile(r"(?i)rdf"), "rdf"),
    (re.compile(r"(?i)json"), "jsonfeed"),
)

# Links of other readers, with the encoded address of the feed in path, query or fragment.
_READER = re.compile(
    r"(?i)\s*https?://(?:[\w-]+\.)*(?:feedly\.com|inoreader\.com|subtome\.com|theoldreader\.com|newsblur\.com|feedbin\.(?:com|me)"
    r"|bazqux\.com|netvibes\.com|add\.my\.yahoo\.com|feeder\.co|follow\.it|flipboard\.com|miniflux\.app|newsisfree\.com)"
    r"/\S{0,200}?(?:feed/|feeds?=|url=|subscribe=|/feed%2F|/subscribe/|/subscription/)(?P<feed>https?(?::|%3A)\S+)"
)
# Pages for one platform's apps that have the feed's address, without its scheme, as their path.
_SERVICE = re.compile(r"(?i)\s*https?://(?:www\.)?subscribeonandroid\.com/(?P<feed>[^/\s?#]+\.[^/\s?#]+/\S+)")


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed to follow. `format` is as in `jf2.Feed`, or the declared one if the feed wasn't read."""

    url: str
    format: str
    title: str | None = None
    photo: str | None = None
    description: str | None = None


def declared(target: str, rel: str, kind: str, title: str | None, base: str) -> FeedLink | None:
    """The feed that a link with that `rel` and type declares, or None.

    Misspelled types and relations are understood if the rest of the link confirms them.
    """
    rels = set(rel.lower().split())
    url = safe_url(target, base)
    if url is None or "stylesheet" in rels or not rels & (_FEED_RELS | _ODD_RELS):
        return None
    kind = kind.partition(";")[0].strip().lower()
    title = in_one_line(title) or None if title else None
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
    """Whether an address is typical of feeds and not of pages."""
    return bool(_ADDRESS.search(url.partition("#")[0]) or _ADDRESS.search(url.partition("#")[0].partition("?")[0]))


def mentioned(target: str, text: str, base: str, kind: str = "") -> FeedLink | None:
    """The feed that an ordinary link leads to; None for other links.

    Recognised by its type, scheme (`feed:`, `itpc:` …), address, subscription service, or text. A text that may mean
    something else (*Subscribe*) gives a link without a format, which must be read to know.
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
    if _NO_FEED.search(url):
        return None
    if looks_like_feed(url) or _is_called(_CALLED_FEED, name or "", url):
        return FeedLink(url, _by_address(url), name)
    return FeedLink(url, "", name) if _is_called(_MAY_BE_FEED, name or "", url) else None


def _is_called(what: re.Pattern[str], name: str, url: str) -> bool:
    """Whether a link's text says that it is a feed, and its address isn't that of a page."""
    path = url.partition("#")[0].partition("?")[0]
    return len(name) <= _LONGEST_NAME and bool(what.fullmatch(name)) and not _NO_DOCUMENT.search(path)


def _format_of(match: re.Match[str]) -> str:
    return next(name for name, group in zip(_FORMATS, match.groups(), strict=True) if group)


def _says_feed(target: str, kind: str, title: str | None) -> bool:
    """Whether a link with a vague type is a feed by its title or address."""
    if _NO_FEED.search(target) or (title and _NO_FEED.search(title)):
        return False
    if kind in {"", "text/html", "text/plain"}:
        return looks_like_feed(target)
    return bool(_FEEDLIKE.search(f"{target} {title or ''}"))


def _by_address(url: str) -> str:
    path = url.partition("://")[2].partition("/")[2]
    return next((name for pattern, name in _ADDRESS_FORMATS if pattern.search(path)), "rss")


# Pages of podcasts that don't name the feed, and the public interfaces that do.
_PODCASTS = (
    (
        re.compile(r"(?i)https?://(?:podcasts|itunes)\.apple\.com/(?:\S*/)?id(?P<id>\d{3,15})\b\S*"),
        "https://itunes.apple.com/lookup?entity=podcast&id={id}",
    ),
    (
        re.compile(r"(?i)https?://overcast\.fm/itunes(?P<id>\d{3,15})\b\S*"),
        "https://itunes.apple.com/lookup?entity=podcast&id={id}",
    ),
    (
        re.compile(r"(?i)https?://(?:www\.)?podcastindex\.org/podcast/(?P<id>\d{1,15})\b\S*"),
        "https://podcastindex.org/api/podcasts/byfeedid?id={id}",
    ),
)

# Schemes for subscribing, registered by iTunes and old readers. The address after them may have its own scheme.
_SUBSCRIBE = re.compile(r"(?i)\s*(?:feed|rss|itpcs?|pcast|podcasts?):(?://)?(?=[^/\s])")


def podcast_interface(url: str) -> str | None:
    """The address of the public interface that knows the feed of a podcast's page; None for other pages."""
    asked = ((pattern.fullmatch(url), there) for pattern, there in _PODCASTS)
    return next((there.format(id=match["id"]) for match, there in asked if match), None)


def from_subscribe_scheme(url: str) -> str:
    """The web address in a `feed:` URL or similar, or in a link of another reader; any other text unchanged."""
    if len(url) <= MAX_URL and (reader := _READER.match(url)):
        encoded = reader["feed"]
        # A whole encoded address ends where the next parameter of the reader begins.
        return unquote(re.split(r"[&#]", encoded)[0]) if "%3a" in encoded[:9].lower() else encoded
    match = _SUBSCRIBE.match(url)
    if match is None:
        return url
    rest = url[match.end() :]
    return rest if re.match(r"(?i)https?://", rest) else f"http://{rest}"


def looked_up(text: str, url: str) -> FeedLink | None:
    """The feed of a podcast in the reply of an interface (`podcast_interface`); None for other documents."""
    if not any(url.startswith(there.partition("?")[0]) for _, there in _PODCASTS):
        return None
    try:
        said = orjson.loads(text)
        shows = [*(said.get("results") or ()), said.get("feed") or {}]
        pairs = (
            (show.get("feedUrl") or show.get("url"), show.get("collectionName") or show.get("title")) for show in shows
        )
        found = next((feed, title) for feed, title in pairs if feed)
    except (ValueError, TypeError, AttributeError, StopIteration):
        return None
    address = safe_url(_text(found[0]))
    return FeedLink(address, "rss", _text(found[1])) if address else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
