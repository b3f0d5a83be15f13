"""Finds the article in a page. Loading the library takes a fifth of a second, so only processes that need it do."""

from __future__ import annotations

import logging

import lxml.etree
import lxml.html
import readability

from microsub import model

# It writes a traceback for each page that it can't read; the caller says why.
logging.getLogger("readability").disabled = True
logging.getLogger("readability.readability").disabled = True


def main_part(html: str, url: str) -> str:
    """The HTML of the article in a page found at `url`, which may be anything. Raises ValueError if there is none."""
    part: str = readability.Document(html, url=url).summary(html_partial=True, keep_all_images=True)
    return part


def chosen_part(html: str, article: str, without: str) -> str:
    """The HTML of the elements that the CSS selector `article` finds in a page, or of all; none that `without` finds.

    Elements inside others that were found are part of those. Empty if nothing is found. Raises ValueError for a
    selector that can't be used, and for a page that can't be parsed.
    """
    parser = lxml.html.HTMLParser(encoding="utf-8")
    try:
        tree = lxml.html.document_fromstring(html.encode("utf-8", "replace"), parser=parser)
        for node in _found(tree, without):
            if node.getparent() is not None:
                node.drop_tree()
        chosen = _found(tree, article) if article else [tree]
    except lxml.etree.LxmlError as error:
        raise ValueError(str(error)) from None
    known = {*chosen}
    outer = [node for node in chosen if known.isdisjoint(node.iterancestors())]
    return "\n".join(lxml.html.tostring(node, encoding="unicode", with_tail=False) for node in outer)


def _found(tree: lxml.html.HtmlElement, selector: str) -> list[lxml.html.HtmlElement]:
    return list(tree.xpath(model.xpath_of(selector))) if selector else []
