"""How reader apps find endpoints on a profile page: HTTP Link headers, and links in HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx


def found_rels(reply: httpx.Response) -> dict[str, str]:
    """The first URL of each rel, HTTP headers before the page."""
    found = header_rels(reply)
    for rel, url in tags(reply, exact=False):
        found.setdefault(rel, url)
    return found


def header_rels(reply: httpx.Response) -> dict[str, str]:
    """What the Link headers of a reply name."""
    found: dict[str, str] = {}
    for url, parameters in re.findall(r"<([^>]*)>((?:\s*;[^,]*)*)", ", ".join(reply.headers.get_list("link"))):
        named = re.search(r';\s*rel="?([^";]*)"?', parameters)
        for rel in named[1].split() if named else []:
            found.setdefault(rel, urljoin(str(reply.url), url))
    return found


def tags(reply: httpx.Response, *, exact: bool) -> list[tuple[str, str]]:
    """Pairs of rel and URL in document order; `exact` takes a rel of several values as one."""
    if reply.request.method == "HEAD":
        return []
    parser = _Links(str(reply.url), exact)
    parser.feed(reply.text)
    return parser.found


class _Links(HTMLParser):
    def __init__(self, base: str, exact: bool) -> None:
        super().__init__()
        self._base, self._exact = base, exact
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in {"link", "a"} or values.get("href") is None:
            return
        rel = values.get("rel") or ""
        for name in [rel] if self._exact else rel.split():
            self.found.append((name, urljoin(self._base, values["href"] or "")))
