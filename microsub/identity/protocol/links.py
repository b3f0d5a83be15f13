"""The links by which a page names its people, apps and servers.

https://indieauth.spec.indieweb.org/#discovery-by-clients, https://www.rfc-editor.org/rfc/rfc8288. HTTP `Link`
comes first, then `<link>` in the page's head, in document order. Links in the body are ignored: on many sites others
may write there, and a `<link>` in a comment would name their server as the owner's. The boundary of head and body is
that of the tree that browsers build: a `<div>` among the metadata ends the head, whatever follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from selectolax.lexbor import LexborHTMLParser

from microsub.base.errors import InvalidRequest
from microsub.base.identifiers import canonical_me, endpoint
from microsub.base.urls import safe_url
from microsub.formats.encoding import decode
from microsub.formats.feed_links import discover
from microsub.formats.html import HTML_TYPES
from microsub.formats.html.trees import base_of, tree_of
from microsub.formats.parse import sniff
from microsub.parsing.task import Task
from microsub.web.links import links_of

_MOST_LINKS = 500
_MOST_RELS = 50
_LARGEST_FOR_FEEDS = 256 * 1024
_MOST_FEEDS = 5


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """A link as written: `rel` and `target` are unchanged, `base` resolves a relative target."""

    place: Literal["header", "page"]
    rel: str
    target: str
    base: str

    @property
    def rels(self) -> tuple[str, ...]:
        """The relations in `rel`, in lower case, each once: they are a set."""
        return tuple(dict.fromkeys(self.rel.lower().split(None, _MOST_RELS)[:_MOST_RELS]))


def written_links(body: bytes, url: str, content_type: str | None, link_header: str | None) -> Iterator[WrittenLink]:
    """Every link, best first, as written.

    Only a document served as HTML has links; a plain text, which anybody could upload somewhere, hasn't.
    """
    for link in links_of(link_header, url):
        yield WrittenLink("header", link.rel, link.target, url)
    tree = page_of(body, content_type)
    if tree is None:
        return
    base = base_of(tree, url)
    for node in tree.css("html > head > link[rel][href]")[:_MOST_LINKS]:
        yield WrittenLink("page", node.attributes.get("rel") or "", node.attributes.get("href") or "", base)


def rels_in_body(body: bytes, content_type: str | None) -> frozenset[str]:
    """The relations of `<link>`s in the page's body, in lower case, which are ignored."""
    tree = page_of(body, content_type)
    nodes = tree.css("body link[rel][href]")[:_MOST_LINKS] if tree is not None else []
    return frozenset(rel for node in nodes for rel in (node.attributes.get("rel") or "").lower().split()[:_MOST_RELS])


@dataclass(frozen=True, slots=True)
class ExaminedPage:
    """The facts to check on a page.

    Its links as written, the relations of those in its body, whether it is served as HTML, and the first of the feeds
    that it is or names; None for a page too long to look for them.
    """

    links: tuple[WrittenLink, ...]
    in_body: frozenset[str]
    is_html: bool
    feeds: tuple[str, ...] | None


def examined(body: bytes, url: str, content_type: str | None, link_header: str | None) -> ExaminedPage:
    """The facts of a page that is checked for its owner."""
    links = tuple(written_links(body, url, content_type, link_header))
    feeds = None
    if len(body) <= _LARGEST_FOR_FEEDS:
        feeds = tuple(feed.url for feed in discover(body, url, content_type, link_header)[:_MOST_FEEDS])
    return ExaminedPage(links, rels_in_body(body, content_type), page_of(body, content_type) is not None, feeds)


EXAMINED = Task(examined, thorough=False)


def page_of(body: bytes, content_type: str | None) -> LexborHTMLParser | None:
    """The elements of an HTML page, recognised by its type or, if none is declared, by its content; otherwise None."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if not body or (kind and kind not in HTML_TYPES):
        return None
    text = decode(body, content_type)
    return tree_of(text) if kind or sniff(text, None) == "html" else None


SERVERS = ("indieauth-metadata", "authorization_endpoint", "token_endpoint")
"""The relations by which a page names the server of its person: the newer kind, and both of the older one."""
_MOST_ME = 20
_LONGEST_ME = 300


def profile_links(
    body: bytes, url: str, content_type: str | None, link_header: str | None, private: bool = False
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The endpoints that a page names, by relation, and profiles of the same person.

    `link_header` joins the values of `Link` headers. Never raises. For each relation, the first usable link counts:
    HTTP `Link`, then `<link>` in the head, since people who can write in a body could name their own server. The
    profiles (`rel=me`) are canonical, each once, in the page's order, from the same places.
    """
    links = list(written_links(body, url, content_type, link_header))
    return usable(links, (*SERVERS, "micropub")), _me_links(links, private)


PROFILE_LINKS = Task(profile_links, thorough=False)


def usable(links: Iterable[WrittenLink], rels: Collection[str]) -> dict[str, str]:
    """The first address of each of these relations that is safe for requests."""
    found: dict[str, str] = {}
    for link in links:
        for rel in link.rels:
            if rel in rels and rel not in found and (address := endpoint(link.target, link.base)) is not None:
                found[rel] = address
    return found


def _me_links(links: Iterable[WrittenLink], private: bool) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for link in links:
        if "me" not in link.rels or len(found) >= _MOST_ME or len(link.target) > _LONGEST_ME:
            continue
        with suppress(InvalidRequest):
            found.setdefault(canonical_me(safe_url(link.target, link.base) or "", private=private))
    return tuple(found)
