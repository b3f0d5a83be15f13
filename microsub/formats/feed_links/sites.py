"""Feeds of well-known sites and programs whose pages don't name them (`sites.toml`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from html import unescape
from importlib.resources import files
from string import Formatter
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from microsub.base.urls import host_of, safe_url, web_parts
from microsub.formats.feed_links.links import FeedLink, looks_like_feed

_FORMATS = frozenset({"rss", "atom", "rdf", "jsonfeed", "h-feed"})
_KEYS = {
    "site": frozenset({"name", "host", "path", "feeds", "page", "first"}),
    "feed": frozenset({"url", "format", "title"}),
    "mark": frozenset({"pattern", "selector", "attribute", "generator"}),
}
_WORD = re.compile(r"%([A-Z_]+)%")


Mark = tuple[re.Pattern[str], str, str]
"""A pattern in an attribute (the last) of the elements of a selector, or anywhere in the source without a selector.

Elements instead of one pattern over tags, because that would take quadratic time on a hostile page.
"""


@dataclass(frozen=True, slots=True)
class Site:
    """Pages whose host, and whose path with query, match completely.

    The addresses and titles of `feeds` have placeholders: `{origin}` and the row's named groups.
    With `page`, one of these marks must be on the page; the first one that matches counts. Without it, the page isn't
    read. `first`: the feeds are the page's own, those that it declares are the site's.
    """

    name: str
    host: re.Pattern[str]
    path: re.Pattern[str]
    feeds: tuple[FeedLink, ...]
    page: tuple[Mark, ...] = ()
    first: bool = False


def sites_of(text: str) -> tuple[Site, ...]:
    """Read a table in TOML. Raises ValueError with the row and what was expected."""
    document = tomllib.loads(text)
    words: dict[str, str] = document.get("words", {})
    found: dict[str, Site] = {}
    for number, row in enumerate(document.get("site", []), 1):
        name = row.get("name") or f"number {number}"
        try:
            site = _site(row, words)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"site {name!r}: {error}") from error
        if site.name in found:
            raise ValueError(f"site {name!r}: another row has the same name")
        found[site.name] = site
    return tuple(found.values())


def _site(row: Mapping[str, Any], words: Mapping[str, str]) -> Site:
    _check_keys(row, "site", ("name", "host", "path", "feeds"))
    site = Site(
        row["name"],
        _pattern(row["host"], words),
        _pattern(row["path"], words),
        tuple(_feed(feed) for feed in row["feeds"]),
        tuple(_mark(mark, words) for mark in row.get("page", ())),
        bool(row.get("first", False)),
    )
    if not site.feeds:
        raise ValueError("'feeds' is empty: expected at least one address")
    groups = {"origin", *site.host.groupindex, *site.path.groupindex}
    for known in [groups | set(pattern.groupindex) for pattern, *_ in site.page] or [groups]:
        for feed in site.feeds:
            if missing := _names(feed.url + (feed.title or "")) - known:
                raise ValueError(f"{feed.url} has placeholders that no pattern fills: {sorted(missing)}")
    return site


def _check_keys(row: Mapping[str, Any], kind: str, wanted: tuple[str, ...]) -> None:
    if missing := [name for name in wanted if name not in row]:
        raise ValueError(f"'{missing[0]}' of the {kind} is missing")
    if unknown := row.keys() - _KEYS[kind]:
        raise ValueError(f"'{min(unknown)}' is unknown: expected one of {', '.join(sorted(_KEYS[kind]))}")


def _feed(row: Mapping[str, Any]) -> FeedLink:
    _check_keys(row, "feed", ("url",))
    feed = FeedLink(**{"format": "rss", **row})
    if feed.format not in _FORMATS:
        raise ValueError(f"format '{feed.format}' is unknown: expected one of {', '.join(sorted(_FORMATS))}")
    return feed


def _mark(row: Mapping[str, Any], words: Mapping[str, str]) -> Mark:
    _check_keys(row, "mark", () if "generator" in row else ("pattern",))
    if "generator" in row:
        return _pattern(rf"(?i)\A{row['generator']}\b", words), "meta[name=generator]", "content"
    return _pattern(row["pattern"], words), row.get("selector", ""), row.get("attribute", "content")


def _pattern(text: str, words: Mapping[str, str]) -> re.Pattern[str]:
    try:
        return re.compile(_WORD.sub(lambda match: words[match[1]], text))
    except re.error as error:
        raise ValueError(f"the pattern {text!r} is invalid: {error}") from error


def _names(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@cache
def sites() -> tuple[Site, ...]:
    """All rows, best first: since all matching rows are used, special ones come before general ones.

    Read at the first call, because its patterns take a twentieth of a second to compile.
    """
    return sites_of((files("microsub.formats.feed_links") / "sites.toml").read_text("utf-8"))


_MOST_ELEMENTS = 50
_LONGEST_ATTRIBUTE = 2000
_API = "https://api.w.org/"


def feeds_by_address(url: str) -> list[FeedLink]:
    """The feeds that can be derived from a page's address alone, for sites that refuse to serve their pages.

    Empty for the address of a feed, which doesn't need another one.
    """
    return [] if looks_like_feed(url) else [link for _, link in matching(url)]


def feeds_of_site(url: str, text: str, tree: LexborHTMLParser) -> tuple[list[FeedLink], list[FeedLink]]:
    """The feeds of the page at `url` by the rules for its site or program, best first.

    First those that come before the feeds that the page declares, then those after them.
    """
    found = list(matching(url, text, tree))
    return [link for site, link in found if site.first], [link for site, link in found if not site.first]


def wordpress_feed(target: str, rel: str, base: str) -> FeedLink | None:
    """The feed of a WordPress site, from the link to its API that each of its pages has."""
    url = safe_url(target, base)
    if url is None or _API not in rel.split():
        return None
    root, found, _ = url.partition("/wp-json/")
    if not found:
        root, found, _ = url.partition("/?rest_route=")
        return FeedLink(f"{root}/?feed=rss2", "rss") if found else None
    return FeedLink(f"{root.removesuffix('/index.php')}/feed/", "rss")


def matching(url: str, text: str = "", tree: LexborHTMLParser | None = None) -> Iterator[tuple[Site, FeedLink]]:
    """The feeds with the rows they come from; without a page, only rows that need none."""
    parts = web_parts(url)
    if parts is None:
        return
    host, place = host_of(url), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
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
            if address := safe_url(feed.url.format_map(values), url):
                yield site, replace(feed, url=address, title=feed.title.format_map(values) if feed.title else None)


def _look(mark: Mark, text: str, tree: LexborHTMLParser | None) -> re.Match[str] | None:
    pattern, selector, attribute = mark
    if not selector:
        return pattern.search(text)
    nodes = tree.css(selector)[:_MOST_ELEMENTS] if tree is not None else []
    values = ((node.attributes.get(attribute) or "")[:_LONGEST_ATTRIBUTE] for node in nodes)
    return next((match for value in values if (match := pattern.search(value))), None)


def _plain(text: str) -> str:
    """`text` without HTML and JSON escapes."""
    text = unescape(text).replace("\\/", "/")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
