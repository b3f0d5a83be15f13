"""The feeds that a document is or names (https://indieweb.org/feed_discovery).

Sources, best first: HTTP `Link` (RFC 8288), `rel=alternate` of all feed types, `rel=feed`, rules for the site or for
the program that generated the page, and an h-feed on the page itself. If there are none of these, links in the text
that look like feeds. Comment feeds come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from microsub.base.errors import ParseError
from microsub.base.urls import host_of, normalise_profile, normalise_url, parts_of, safe_url, web_parts
from microsub.formats import hfeed
from microsub.formats.encoding import decode
from microsub.formats.feed_links.links import FeedLink, declared, looked_up, looks_like_feed, mentioned
from microsub.formats.feed_links.sites import feeds_by_address, feeds_of_site, wordpress_feed
from microsub.formats.html.text import in_one_line
from microsub.formats.html.trees import MAX_PAGE, base_of, too_deep, tree_of
from microsub.formats.parse import parse, sniff
from microsub.model.jf2 import Feed
from microsub.web.links import from_header

__all__ = ["FeedLink", "better_feeds", "common_paths", "discover", "feeds_by_address", "forwarded"]
from microsub.parsing.task import Task

MAX_LINKS = 50
_MOST_ELEMENTS = 2000
_MOST_METAS = 50
_LONGEST_FORWARD = 32 * 1024
# Redirects within ten seconds; slower ones are for people who have read the page.
_FORWARD = re.compile(
    r"""(?i)\s*+\d(?:\.\d*+)?\s*+[;,]\s*+(?:url\s*+=)?\s*+(?P<quote>["']?)(?P<url>[^"']++)(?P=quote)\s*+"""
)

_COMMENTS = re.compile(
    r"(?i)comment|kommentar|comentario|comentário|commenti\b|reacties|комментари|コメント|评论|評論|التعليقات|yorum"
)
_COMMENTS_PATH = re.compile(r"(?i)/(?:[\w-]+-)?(?:comments?|replies)(?:[/.]|\Z)|[?&](?:feed=comments|withcomments)")
_NO_NAME = re.compile(r"(?i)(?:rss|atom|rdf|xml|json|feeds?|subscribe|syndication|[\W\d]){1,20}")
# Without a trailing slash: servers that use one redirect.
_PATHS = ("feed", "index.xml", "feed.xml", "rss.xml", "atom.xml", "rss", "feed.json", "blog-feed.xml", "feed.atom")
_TRIED_FIRST = 6
_PERSONAL = re.compile(r"/~[^/]+/")
_DATES = re.compile(r"/(?:\d{1,4}/)+\Z")
_HAS_EXTENSION = re.compile(r"\.\w{1,5}\Z")
# Marks of one post's page: its own feed is that of its comments.
_POST = 'meta[property^="article:"], meta[property="og:type"][content="article"], link[rel=shortlink][href*="?p="]'


def discover(body: bytes, url: str, content_type: str | None, link_header: str | None) -> list[FeedLink]:
    """The feeds that a document at `url` is, contains or names, best first.

    May be empty. Never raises. `link_header` is the joined value of the HTTP `Link` header. Addresses that the page
    doesn't name (`common_paths`) are left to the caller, who can fetch them.
    """
    header = _from_header(link_header, url)
    try:
        text = decode(body, content_type)
        kind = sniff(text, content_type)
        if kind == "json" and (found := looked_up(text, url)):
            return [found]
        if kind in {"json", "syndication"}:
            return [_itself(parse(body, url, content_type))]
        return _from_page(text, url, header) if kind == "html" else _distinct([*header, *feeds_by_address(url)])
    except ParseError:
        return _distinct(header)


def better_feeds(body: bytes, url: str, content_type: str | None, link_header: str | None) -> list[FeedLink]:
    """The feeds to follow instead of a page, best first.

    Empty for a feed, and for a page that is better followed itself: one whose author marked up an h-feed with posts.
    Classic `hfeed` and `hentry` don't count, because themes use them on every page. Comment feeds are left out. Never
    raises.
    """
    text = decode(body, content_type)
    if sniff(text, content_type) != "html":
        return []
    found = _from_header(link_header, url)
    if not too_deep(text):
        tree = LexborHTMLParser(text[:MAX_PAGE])
        if tree.css_first(".h-feed .h-entry, .h-feed .h-event, .h-feed .h-cite, .h-feed .h-review, .h-feed .h-recipe"):
            return []
        found += _named_on(tree, text, url, near=True)
    here = normalise_profile(url)
    links = [link for link in _distinct(found) if not _is_comments(link) and normalise_profile(link.url) != here]
    if not links and (there := forwarded(body, url, content_type)):
        # No feed, but a page that may name one: following it follows the page that it redirects to.
        return [FeedLink(there, "h-feed")]
    return links


def forwarded(body: bytes, url: str, content_type: str | None) -> str | None:
    """The target of a page's immediate `<meta http-equiv="refresh">`; never raises."""
    if len(body) > _LONGEST_FORWARD or b"refresh" not in body.lower():
        return None
    text = decode(body, content_type)
    tree = tree_of(text)
    for node in tree.css("meta[http-equiv][content]")[:_MOST_METAS]:
        said = _FORWARD.fullmatch(node.attributes.get("content") or "")
        if said and (node.attributes.get("http-equiv") or "").strip().lower() == "refresh":
            there = safe_url(said["url"], base_of(tree, url))
            return there if there and normalise_profile(there) != normalise_profile(url) else None
    return None


def named_in_head(body: bytes, url: str, content_type: str | None, link_header: str | None) -> list[FeedLink]:
    """The feeds that a page declares by type in its head and its HTTP headers, without comment feeds. Never raises.

    Others may have written what is in the body.
    """
    text = decode(body, content_type)
    if sniff(text, content_type) != "html" or too_deep(text):
        return []
    tree = LexborHTMLParser(text[:MAX_PAGE])
    base = base_of(tree, url)
    found = _from_header(link_header, url)
    for node in tree.css("head link[rel][href]")[:_MOST_ELEMENTS]:
        its = node.attributes
        link = declared(its.get("href") or "", its.get("rel") or "", its.get("type") or "", its.get("title"), base)
        found += [link] if link else []
    return [link for link in _distinct(found) if link.format != "h-feed" and not _is_comments(link)]


DISCOVER = Task(discover)
BETTER_FEEDS = Task(better_feeds)
NAMED_IN_HEAD = Task(named_in_head)
FORWARDED = Task(forwarded)


def home_page(url: str) -> str | None:
    """The home page of the page at `url`: of the site, or of the person in whose folder (`/~ann/`) it is; None for a
    home page itself.
    """
    own = _PERSONAL.match(parts_of(url).path)
    home = safe_url(own[0] if own else "/", url)
    return home if home and normalise_profile(home) != normalise_profile(url) else None


def common_paths(url: str) -> list[str]:
    """Addresses where blog engines usually have a feed, most common names first.

    At the root of the site, then in the page's folder, or the one above those of years, months and days; for a page of
    a person (`/~ann/`), in the person's folder, then at the root. The least common names come last.
    """
    if (parts := web_parts(url)) is None:
        return []
    folder = parts.path.rpartition("/")[0] + "/"
    if folder == "/" and not _HAS_EXTENSION.search(parts.path):
        folder = parts.path.rstrip("/") + "/"
    own = _PERSONAL.match(folder)
    folders = (own[0], "/") if own else ("/", _DATES.sub("/", folder))
    found = [urljoin(url, place + path) for place in folders for path in _PATHS[:_TRIED_FIRST]]
    found += [urljoin(url, place + path) for path in _PATHS[_TRIED_FIRST:] for place in folders]
    return list(dict.fromkeys(u for u in found if safe_url(u)))


def _itself(feed: Feed) -> FeedLink:
    return FeedLink(feed.url, feed.format, feed.name, feed.photo, feed.description)


def _from_page(text: str, url: str, header: list[FeedLink]) -> list[FeedLink]:
    tree = tree_of(text)
    base = base_of(tree, url)
    title = _attribute(tree, 'meta[property="og:title"]', "content") or _text(tree, "title")
    photo = _photo(tree, base)
    about = _attribute(tree, 'meta[name="description"], meta[property="og:description"]', "content")
    found = _distinct([*header, *_named_on(tree, text, url), *_itself_as_page(text, url)])
    return [
        replace(f, title=_title(f.title, title), photo=f.photo or photo, description=f.description or about)
        for f in found
    ]


def _title(own: str | None, page: str | None) -> str | None:
    """A recognisable name of the feed: its own, unless that only says that it is a feed."""
    if not own or not page:
        return own or page
    return f"{page} ({own})" if _NO_NAME.fullmatch(own) else own


def _from_header(header: str | None, url: str) -> list[FeedLink]:
    links = from_header(header)
    found = [declared(link.target, link.rel, link.type, link.title, url) for link in links]
    found += [wordpress_feed(link.target, link.rel, url) for link in links]
    return [link for link in found if link]


def _named_on(tree: LexborHTMLParser, text: str, url: str, *, near: bool = False) -> list[FeedLink]:
    """The feeds that a page declares or its site's rules give, otherwise its links.

    `near`: without blogrolls, and without links that may lead to anything (`feedlinks.mentioned`).
    """
    base = base_of(tree, url)
    first, later = feeds_of_site(url, text[:MAX_PAGE], tree)
    if named := [*first, *_own_first(_declared(tree, base), url, tree), *later]:
        return named
    mentions = list(_mentioned(tree, base))
    ours = [link for link in mentions if _same_site(link.url, url)]
    if near:
        return [link for link in ours if link.format]
    return [*ours, *(link for link in mentions if link.format and link not in ours)]


def _own_first(links: Iterable[FeedLink], url: str, tree: LexborHTMLParser) -> list[FeedLink]:
    """A page's feeds, with those of the page itself before those of its site: of a category, for example.

    These have the page's path in their own: `/food/feed/`, `/food.rss`, `/rss/food/`, `/food?format=rss` for `/food/`.
    """
    found = list(links)
    path = parts_of(url).path.rstrip("/")
    if not path or len(found) < 2 or tree.css_first(_POST) is not None:
        return found

    def is_own(link: FeedLink) -> bool:
        its = parts_of(link.url).path
        return (its.endswith(path) or f"{path}/" in its or f"{path}." in its) and _same_site(link.url, url)

    return sorted(found, key=lambda link: not is_own(link))


def _declared(tree: LexborHTMLParser, base: str) -> Iterator[FeedLink]:
    """`rel=alternate` in document order, then `rel=feed`, then a WordPress site's API."""
    later = []
    for node in tree.css("link[rel][href], a[rel][href]")[:_MOST_ELEMENTS]:
        attributes = node.attributes
        target, rel = attributes.get("href") or "", attributes.get("rel") or ""
        link = declared(target, rel, attributes.get("type") or "", attributes.get("title"), base)
        if link and "feed" not in rel.lower().split():
            yield link
        elif link or (link := wordpress_feed(target, rel, base)):
            later.append(link)
    yield from later


def _mentioned(tree: LexborHTMLParser, base: str) -> Iterator[FeedLink]:
    """Links to feeds in a page's visible text."""
    found = (
        mentioned(node.attributes.get("href") or "", _called(node), base, node.attributes.get("type") or "")
        for node in tree.css("a[href]")[:_MOST_ELEMENTS]
    )
    # Links with the address of a feed come before links that only have the name of one.
    links = islice((link for link in found if link), MAX_LINKS)
    yield from sorted(links, key=lambda link: not looks_like_feed(link.url))


def _called(node: LexborNode) -> str:
    """The text of a link, or the label of a link with a picture."""
    if words := node.text().strip():
        return words
    picture = node.css_first("img[alt]")
    said = (node.attributes.get("title"), node.attributes.get("aria-label"), picture and picture.attributes.get("alt"))
    return next((text for text in said if text), "")


def _same_site(one: str, other: str) -> bool:
    """Whether two URLs have the same host, or one is a subdomain of the other's; `www.` is ignored."""
    a, b = (host_of(url).removeprefix("www.") for url in (one, other))
    return a == b or a.endswith(f".{b}") or b.endswith(f".{a}")


def _itself_as_page(text: str, url: str) -> list[FeedLink]:
    """The page as an h-feed, unless it is the permalink of one post."""
    try:
        feed, entries = hfeed.to_jf2(text, url)
    except (ParseError, RecursionError, ValueError, AttributeError, TypeError, KeyError):
        return []
    if len(entries) == 1:
        page = entries[0].entry.url
        if normalise_url(page or "") == normalise_url(url) or (page is None and parts_of(url).path.strip("/")):
            return []
    return [_itself(feed)]


def _distinct(links: Iterable[FeedLink]) -> list[FeedLink]:
    """Remove duplicates, and sort comment feeds last.

    Two links that differ only in scheme or trailing slash are merged at the first one's place: https wins, and each
    supplies what the other lacks.
    """
    found: dict[str, FeedLink] = {}
    for link in links:
        key = normalise_profile(link.url.partition("#")[0])
        first = found.setdefault(key, link)
        url = link.url if first.url.startswith("http:") and link.url.startswith("https:") else first.url
        found[key] = FeedLink(
            url,
            first.format,
            first.title or link.title,
            first.photo or link.photo,
            first.description or link.description,
        )
    return sorted(found.values(), key=_is_comments)[:MAX_LINKS]


def _is_comments(link: FeedLink) -> bool:
    return bool(_COMMENTS_PATH.search(link.url) or _COMMENTS.search(link.title or ""))


def _photo(tree: LexborHTMLParser, base: str) -> str | None:
    """The portrait of the page's owner, else the site's icon, else the page's picture."""
    picture = safe_url(_attribute(tree, 'meta[property="og:image"]', "content"), base)
    if picture and _attribute(tree, 'meta[property="og:type"]', "content") == "profile":
        return picture
    return _icon(tree, base) or picture


def _icon(tree: LexborHTMLParser, base: str) -> str | None:
    for rel in ("apple-touch-icon", "icon", "shortcut icon"):
        if url := safe_url(_attribute(tree, f'link[rel="{rel}"]', "href"), base):
            return url
    return None


def _attribute(tree: LexborHTMLParser, selector: str, name: str) -> str | None:
    node = tree.css_first(selector)
    value = node.attributes.get(name) if node is not None else None
    return _on_one_line(value)


def _text(tree: LexborHTMLParser, selector: str) -> str | None:
    node = tree.css_first(selector)
    return _on_one_line(node.text() if node is not None else None)


def _on_one_line(text: str | None) -> str | None:
    return in_one_line(text) or None if text else None
