"""What a page links to, by relation: HTTP `Link` first, then `<link>` in the order of the document.

https://indieauth.spec.indieweb.org/#discovery-by-clients, https://www.rfc-editor.org/rfc/rfc8288
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from microsub.formats.encoding import decode
from microsub.formats.feedlinks import from_header
from microsub.formats.parse import sniff
from microsub.formats.trees import base_of, tree_of

Link = tuple[str, str, str]
"""A relation in lower case, the target as written, and the base that it is relative to."""

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_MOST_LINKS = 500
_MOST_RELS = 50


def links_of(
    body: bytes, url: str, content_type: str | None, link_header: str | None, *, elements: str = "link"
) -> Iterator[Link]:
    """Every relation of every link, best first. `elements` is a CSS selector: which elements count as links.

    Only what is served as HTML has links in it; a text that anybody could upload somewhere hasn't.
    """
    for link in from_header(_text(link_header)):
        if link.anchor is not None and urljoin(url, link.anchor).partition("#")[0] != url.partition("#")[0]:
            continue  # another document's link
        for rel in _rels(link.rel):
            yield rel, link.target, url
    tree = page_of(body, content_type)
    if tree is None:
        return
    base = base_of(tree, url)
    for node in tree.css(elements)[:_MOST_LINKS]:
        attributes = node.attributes
        target = attributes.get("href")
        # Without a value it is an empty one; without the attribute there is no link.
        if "href" in attributes:
            for rel in _rels(attributes.get("rel") or ""):
                yield rel, target or "", base


def page_of(body: bytes, content_type: str | None) -> LexborHTMLParser | None:
    """The elements of what is HTML by its type, or, where none is declared, by what stands there; else None."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if not body or (kind and kind not in _HTML):
        return None
    text = decode(body, content_type)
    return tree_of(text) if kind or sniff(text, None) == "html" else None


def _rels(value: str) -> Iterable[str]:
    """The relations in an attribute, each once: they are a set, whatever their number."""
    return dict.fromkeys(value.lower().split(None, _MOST_RELS)[:_MOST_RELS])


def _text(header: str | None) -> str | None:
    """Header values are latin-1 by the letter and UTF-8 by what servers send."""
    if header is not None:
        with suppress(UnicodeError):
            return header.encode("latin-1").decode("utf-8")
    return header
