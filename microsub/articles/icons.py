"""Finds the icon of a site, for feeds that name no picture of their own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from microsub import feeds  # it loads Redis, for which a parser process has no use
from microsub.base.clock import DAY
from microsub.base.errors import ParseError, ParserUnavailable
from microsub.base.urls import safe_url
from microsub.fetch import PAGE_ACCEPT, Fetched, FetchRequest
from microsub.formats.encoding import decode
from microsub.formats.html.trees import MAX_PAGE, base_of, tree_of
from microsub.formats.xml.media import picture_type
from microsub.model.moments import number
from microsub.parsing.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from microsub.feeds import FeedRecord
    from microsub.fetch import Fetching
    from microsub.parsing.pool import ParsePool

ASKED = "icon_asked"
"""The record's field with the Unix time at which the site was asked last."""

MONTH = 30 * DAY
_MOST = 3
"""Addresses that are tried: the page's own ones, then the usual one."""

_LARGEST = 256 * 1024
"""Bytes of an icon."""

_ACCEPT = "image/png, image/webp, image/gif, image/jpeg, image/x-icon;q=0.8, */*;q=0.1"


def icons_on(body: bytes, url: str, content_type: str | None) -> tuple[str, ...]:
    """The addresses of the icons that the head of a page names, the largest kinds first, without SVG."""
    tree = tree_of(decode(body[:MAX_PAGE], content_type))
    base, found = base_of(tree, url), list[tuple[int, str]]()
    for node in tree.css("link[rel][href]")[:200]:
        rels = (node.attributes.get("rel") or "").lower().split()
        kind, address = node.attributes.get("type") or "", safe_url(node.attributes.get("href"), base)
        if address and "svg" not in kind and not address.partition("?")[0].lower().endswith(".svg"):
            if "apple-touch-icon" in rels:
                found.append((0, address))
            elif "icon" in rels:
                found.append((1, address))
    return tuple(dict.fromkeys(address for _, address in sorted(found, key=lambda one: one[0])))[: _MOST - 1]


ICONS_ON = Task(icons_on, thorough=False)


class IconFinder:
    """Asks sites for their icons, each at most once in a `MONTH`."""

    def __init__(self, fetcher: Fetching, parser: ParsePool) -> None:
        self._fetcher = fetcher
        self._parser = parser

    async def look(self, feed: FeedRecord, now: float) -> Mapping[str, str | None]:
        """What to note in the feed's record; nothing if there is no need to ask."""
        if feed.photo or not feed.home or 0 <= now - (number(feed.extra.get(ASKED)) or 0.0) < MONTH:
            return {}
        return {feeds.ICON: await self._find(feed.home), ASKED: str(int(now))}

    async def _find(self, home: str) -> str | None:
        """An address that gives a picture, None if there is none."""
        for address in (*await self._named(home), urljoin(home, "/favicon.ico"))[:_MOST]:
            found = await self._fetcher.fetch(FetchRequest(address, accept=_ACCEPT))
            if isinstance(found, Fetched) and len(found.body) <= _LARGEST and picture_type(found.body) is not None:
                return address
        return None

    async def _named(self, home: str) -> tuple[str, ...]:
        page = await self._fetcher.fetch(FetchRequest(home, accept=PAGE_ACCEPT))
        if isinstance(page, Fetched):
            with suppress(ParseError, ParserUnavailable):
                about = page.final_url, page.content_type
                return await self._parser.run(ICONS_ON, page.url, page.body, *about, keys=("articles",))
        return ()
