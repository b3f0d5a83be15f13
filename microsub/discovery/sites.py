"""The feeds of a page, going by what site or program it is of: `discovery.sitetable` put to use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import SplitResult, urlsplit

from selectolax.lexbor import LexborHTMLParser

from microsub.discovery.feedlinks import FeedLink, looks_like_feed
from microsub.discovery.sitetable import Mark, Site, sites
from microsub.kit.hosts import ascii_host
from microsub.kit.urls import safe_url

_MOST_ELEMENTS = 50
_LONGEST_ATTRIBUTE = 2000
_API = "https://api.w.org/"


def feeds_by_address(url: str) -> list[FeedLink]:
    """The feeds that follow from a page's address alone, for sites that don't show everybody their pages.

    Empty for the address of a feed: another one isn't what is wanted there.
    """
    return [] if looks_like_feed(url) else [link for _, link in matching(url)]


def feeds_of_site(url: str, text: str, tree: LexborHTMLParser) -> list[FeedLink]:
    """The feeds of the page at `url`, given as source and parsed, by what site or program it is of; best first."""
    return [link for _, link in matching(url, text, tree)]


def wordpress_feed(target: str, rel: str, base: str) -> FeedLink | None:
    """The feed of the WordPress site whose API a link of that `rel` names (its HTTP header does, on every page)."""
    url = safe_url(target, base)
    if url is None or _API not in rel.split():
        return None
    root, found, _ = url.partition("/wp-json/")
    if not found:
        root, found, _ = url.partition("/?rest_route=")
        return FeedLink(f"{root}/?feed=rss2", "rss") if found else None
    return FeedLink(f"{root.removesuffix('/index.php')}/feed/", "rss")


def matching(url: str, text: str = "", tree: LexborHTMLParser | None = None) -> Iterator[tuple[Site, FeedLink]]:
    """The feeds with the rows that they come from; without a page, of the rows that need none."""
    parts = _split(url)
    if parts is None:
        return
    host, place = ascii_host(parts.hostname or ""), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    for site in sites():
        at_host, at_path = site.host.fullmatch(host), site.path.fullmatch(place)
        if at_host is None or at_path is None:
            continue
        values = {"origin": f"{parts.scheme}://{parts.netloc}", **at_host.groupdict(""), **at_path.groupdict("")}
        if site.page:
            on_page = next((found for mark in site.page if (found := _look(mark, text, tree))), None)
            if on_page is None:
                continue
            values |= {name: _plain(value) for name, value in on_page.groupdict("").items()}
        for feed in site.feeds:
            if address := safe_url(feed.url.format_map(values)):
                yield site, FeedLink(address, feed.format, feed.title.format_map(values) if feed.title else None)


def _look(mark: Mark, text: str, tree: LexborHTMLParser | None) -> re.Match[str] | None:
    if not mark.selector:
        return mark.pattern.search(text)
    nodes = tree.css(mark.selector)[:_MOST_ELEMENTS] if tree is not None else []
    values = ((node.attributes.get(mark.attribute) or "")[:_LONGEST_ATTRIBUTE] for node in nodes)
    return next((match for value in values if (match := mark.pattern.search(value))), None)


def _plain(text: str) -> str:
    """`text` without the escapes of HTML and JSON."""
    text = unescape(text).replace("\\/", "/")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return parts if parts.scheme in {"http", "https"} and host else None
