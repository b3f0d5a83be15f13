"""Pages as trees, as far as links and metadata need them, with an end for pages made to stop their readers."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from microsub.formats.html.crowding import is_crowded
from microsub.formats.html.depth import too_deep
from microsub.kit.urls import safe_url

MAX_PAGE = 2 * 1024 * 1024
"""Characters of a page that are read. What is beyond them is in no head, and in no profile."""

_CROWDED = 5000
"""Attributes of one tag: Lexbor takes a second or two where all have that many."""


def tree_of(text: str) -> LexborHTMLParser:
    """The elements of a page; none of one that nests too deeply, or has too many tags or attributes to be read."""
    return LexborHTMLParser("" if too_deep(text) or is_crowded(text[:MAX_PAGE], _CROWDED) else text[:MAX_PAGE])


def base_of(tree: LexborHTMLParser, url: str) -> str:
    """What addresses on the page are relative to: its `<base>`, else its own address."""
    node = tree.css_first("base[href]")
    return safe_url((node.attributes.get("href") or "") if node is not None else None, url) or url
