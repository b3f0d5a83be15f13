"""Depth is what a parser makes of markup."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from microsub.formats.depth import LIMIT, too_deep
from microsub.formats.sanitise import clean_html

DEEP = {
    "list items": "<li><dd>",
    "options": "<option><optgroup>",
    "cells": "<table><td>",
    "closed in comments and values only": "<li title='</li>'><!--</li>--><dd title='</dd>'>",
    "foreign elements": "<svg><g>",
    "templates": "<template>",
    "divs": "<div>",
}
FLAT = {
    "paragraphs that nobody closes": "<p>text",
    "list items that nobody closes": "<li>text",
    "spans that nobody closes": "<div><span>x</div>",
    "cells": "<table><tr><td>1<td>2<tr><td>3</table>",
    "end tags that close nothing": "x</div></p>",
    "text in scripts": "<script>'<div><div><div>'</script>",
}


def levels(html: str) -> int:
    """How deep elements lie below the body."""
    node, deepest, depth = LexborHTMLParser(html).body, 0, 0
    root = node
    while node is not None:
        deepest = max(deepest, depth)
        if node.child is not None:
            node, depth = node.child, depth + 1
            continue
        while node is not None and node is not root and node.next is None:
            node, depth = node.parent, depth - 1
            if depth == 0:
                return deepest
        node = node.next if node is not None else None
    return deepest


@pytest.mark.parametrize("tags", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("before", ["", "<p>text " * 3000], ids=["alone", "after much that is flat"])
def test_what_nests_is_too_deep(before: str, tags: str) -> None:
    """Wherever it begins, and whatever pretends to close it."""
    assert too_deep(before + tags * (LIMIT + 1))
    assert not too_deep(before + tags * 20)


@pytest.mark.parametrize("tags", FLAT.values(), ids=FLAT)
def test_what_is_only_badly_written_is_not(tags: str) -> None:
    """Thousands of tags that parsers put beside each other."""
    assert not too_deep(tags * 2000)


@pytest.mark.parametrize("tags", [DEEP[name] for name in ("list items", "options", "cells", "foreign elements")])
def test_readers_get_no_more_than_the_promised_levels(tags: str) -> None:
    """The text stays."""
    cleaned = clean_html(f"{tags}words " * 8000, "https://a.example/")
    assert levels(cleaned) <= LIMIT
    assert "words" in cleaned


def test_much_of_what_is_flat_is_too_much() -> None:
    """A tree of it would take tens of megabytes."""
    assert too_deep("<p>" * 100_001)
