"""Where well-known sites and programs keep the feeds of a page that doesn't name them: `sites.toml`, read and checked.

`discovery.sites` puts the table to use.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any

_FORMATS = frozenset({"rss", "atom", "rdf", "jsonfeed", "h-feed"})
_KEYS = {
    "site": frozenset({"name", "host", "path", "feeds", "page"}),
    "feed": frozenset({"url", "format", "title"}),
    "mark": frozenset({"pattern", "selector", "attribute", "generator"}),
}
_WORD = re.compile(r"%([A-Z_]+)%")


@dataclass(frozen=True, slots=True)
class Feed:
    """An address with the named groups of the row's patterns in braces, and `{origin}`; `title` alike."""

    url: str
    format: str = "rss"
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A pattern in an attribute of the elements that `selector` finds, or, without them, anywhere in the page's source.

    Elements rather than one pattern over tags: that would take time with the square of a hostile page's length.
    """

    pattern: re.Pattern[str]
    selector: str = ""
    attribute: str = "content"


@dataclass(frozen=True, slots=True)
class Site:
    """Pages whose host, and whose path with query, match from beginning to end.

    With `page`, one of these marks must be found on the page, the first of them that is; without, the page needn't be
    read at all.
    """

    name: str
    host: re.Pattern[str]
    path: re.Pattern[str]
    feeds: tuple[Feed, ...]
    page: tuple[Mark, ...] = ()


def sites_of(text: str) -> tuple[Site, ...]:
    """The rows of a table in TOML. Raises ValueError, which names the row and what was expected of it."""
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
            raise ValueError(f"site {name!r}: another row has that name")
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
    )
    if not site.feeds:
        raise ValueError("'feeds' is empty, expected one address or more")
    groups = {"origin", *site.host.groupindex, *site.path.groupindex}
    for known in [groups | set(mark.pattern.groupindex) for mark in site.page] or [groups]:
        for feed in site.feeds:
            if missing := _names(feed.url + (feed.title or "")) - known:
                raise ValueError(f"{feed.url} has names that no pattern finds: {sorted(missing)}")
    return site


def _check_keys(row: Mapping[str, Any], kind: str, wanted: tuple[str, ...]) -> None:
    if missing := [name for name in wanted if name not in row]:
        raise ValueError(f"'{missing[0]}' of the {kind} is missing")
    if unknown := row.keys() - _KEYS[kind]:
        raise ValueError(f"'{min(unknown)}' is unknown, expected one of {', '.join(sorted(_KEYS[kind]))}")


def _feed(row: Mapping[str, Any]) -> Feed:
    _check_keys(row, "feed", ("url",))
    feed = Feed(**row)
    if feed.format not in _FORMATS:
        raise ValueError(f"format '{feed.format}' is unknown, expected one of {', '.join(sorted(_FORMATS))}")
    return feed


def _mark(row: Mapping[str, Any], words: Mapping[str, str]) -> Mark:
    _check_keys(row, "mark", () if "generator" in row else ("pattern",))
    if "generator" in row:
        return Mark(_pattern(rf"(?i)\A{row['generator']}\b", words), "meta[name=generator]")
    return Mark(_pattern(row["pattern"], words), row.get("selector", ""), row.get("attribute", "content"))


def _pattern(text: str, words: Mapping[str, str]) -> re.Pattern[str]:
    try:
        return re.compile(_WORD.sub(lambda match: words[match[1]], text))
    except re.error as error:
        raise ValueError(f"the pattern {text!r} can't be read: {error}") from error


def _names(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@cache
def sites() -> tuple[Site, ...]:
    """Best first; of the rows that fit all are used, so the special stand before the general.

    Read when it is first asked for: its patterns take a twentieth of a second to compile.
    """
    return sites_of((files("microsub.discovery") / "sites.toml").read_text("utf-8"))
