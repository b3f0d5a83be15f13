"""Depth is that of the parsed tree, not of the markup."""

from __future__ import annotations

import random

import pytest
from selectolax.lexbor import LexborHTMLParser

from microsub.formats.html.sanitise import clean_html
from microsub.formats.html.trees import LIMIT, most_levels, too_deep, upper_bounds

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
    """The maximum depth of elements below the body."""
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
def test_deep_nesting_is_found(before: str, tags: str) -> None:
    """This holds wherever the nesting begins, and whatever end tags seem to close it."""
    assert too_deep(before + tags * (LIMIT + 1))
    assert not too_deep(before + tags * 20)


@pytest.mark.parametrize("tags", FLAT.values(), ids=FLAT)
def test_unclosed_siblings_are_not_deep(tags: str) -> None:
    """Thousands of tags that parsers make siblings."""
    assert not too_deep(tags * 2000)


@pytest.mark.parametrize("option", ["<option>x", "<OPTION>x</OPTION>", "<p>x</p><option>x</option>"])
def test_a_list_of_too_many_options_is_not_parsed(option: str) -> None:
    """The parser's time grows with the square of their number."""
    assert too_deep("<select>" + option * 5001)
    assert not too_deep("<select>" + option * 500)


PIECES = [
    *(
        "<div>",
        "</div>",
        "<p>",
        "</p>",
        "<b id=1>",
        "<b>",
        "</b>",
        "<a href=x>",
        "</a>",
        "<nobr>",
        "<li>",
        "<dd>",
        "text",
    ),
    *("<table>", "</table>", "<tr>", "<td>", "</td>", "<th>", "<col>", "<caption>", "<tbody>", "<select>", "<option>"),
    *("<svg>", "</svg>", "<desc>", "<math>", "<mtext>", "<br>", "<br/>", "<hr>", "<img src=x>", "<br-x>", "<img\x0b>"),
    *(
        "<input>",
        "<link>",
        "<source/>",
        "</br>",
        "<body>",
        "<frameset>",
        "<button>",
        "<form>",
        "<ruby>",
        "<rt>",
        "<IMG>",
    ),
]


@pytest.mark.parametrize("seed", range(40))
def test_the_count_of_tags_bounds_the_depth(seed: int) -> None:
    """The count that replaces parsing is never below the parser's result."""
    chance = random.Random(seed)
    for _ in range(25):
        pieces = chance.sample(PIECES, 5) if chance.random() < 0.5 else PIECES
        markup = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 250)))
        assert levels(markup) + 2 <= most_levels(markup), markup


TAGS = """a b div dl dd h1 li ol p pre ruby span table tbody td tr ul mark header mi svg math desc form button select
    option template object nobr iframe textarea xmp"""
BROKEN = [*PIECES, "<!--", "-->", '<a title="', '"', "'", '<a b=c" d=\'">', "<x ", ">", "\x01", "<di<i></i>v></div>"]


def nested(chance: random.Random, levels_left: int) -> str:
    """Markup that is mostly closed as it should be."""
    parts = []
    for _ in range(chance.randrange(4)):
        name, attributes = chance.choice(TAGS.split()), chance.choice(["", "", ' a="b"', ' title="<b>"', " x=y"])
        inside = nested(chance, levels_left - 1) if levels_left else "text"
        broken = chance.choice(BROKEN) if chance.random() < 0.1 else ""
        parts.append(f"{broken}<{name}{attributes}>{inside}</{name}>")
    return "".join(parts)


@pytest.mark.parametrize("seed", range(20))
def test_closed_markup_stays_within_the_bounds(seed: int) -> None:
    """The counts that replace parsing of long posts are never below the parser's result."""
    chance = random.Random(seed)
    for _ in range(25):
        markup = nested(chance, chance.randrange(1, 6)) * chance.choice([1, 3, 10])
        assert all(levels(markup) + 2 <= most for most in upper_bounds(markup)), markup


def test_forms_that_no_end_tag_closes_are_too_deep() -> None:
    """Every tag has its end tag, but the inner one unsets what the outer one would close."""
    assert too_deep("<form><table><form></form></table></form>" * LIMIT)


@pytest.mark.parametrize("tags", [DEEP[name] for name in ("list items", "options", "cells", "foreign elements")])
def test_readers_get_no_more_than_the_promised_levels(tags: str) -> None:
    """The text isn't lost."""
    cleaned = clean_html(f"{tags}words " * 8000, "https://a.example/")
    assert levels(cleaned) <= LIMIT
    assert "words" in cleaned


def test_very_many_flat_elements_are_too_many() -> None:
    """Its tree would take tens of megabytes."""
    assert too_deep("<p>" * 100_001)
