"""How deep markup nests, by what a parser makes of it, and how much of it there is.

HTML parsers take time with the square of the depth, and recursive code behind them overflows. People nest tens of
levels; documents that nest tens of thousands were made to stop readers. Which tags nest depends on all that stands
before them, so a parser is asked, piece by piece: it never gets much that nests beyond the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser

LIMIT = 400
MOST = 100_000
"""Tags in one document. A parsed tree takes two hundred bytes for each, Beautiful Soup's a thousand."""

_OPENS = re.compile(r"<(?!(?:br|hr|img)[\t\n\f\r />])[a-z]", re.I | re.A)
"""What may be a tag that opens an element. Those three are empty wherever they stand, other empty ones nest in SVG."""

_CELL = re.compile(r"<t[dhr]", re.I | re.A)
_IMPLIED_BY_CELLS = 2
_IMPLIED = 4
"""Elements that come unasked: `tbody` and `tr` around a cell; `html` and `body`, and what a table begins with."""

_FIRST = 2000
_GROWTH = 1.25
_TEMPLATE = re.compile(r"(?i)<template")


def too_deep(markup: str) -> bool:
    """Whether `markup` nests elements more than `LIMIT` levels deep, or has more than `MOST` tags, or elements, at all.

    What stands in templates, which the parser doesn't show, counts as nested when there is much of it.
    """
    tags = markup.count("<")
    if tags > MOST:
        return True
    if tags <= LIMIT and most_levels(markup) <= LIMIT:
        return False
    if len(_TEMPLATE.findall(markup)) * (1 + _IMPLIED_BY_CELLS) > LIMIT:
        return True
    return any(_nests(LexborHTMLParser(part)) for part in _parts(markup, tags))


def most_levels(markup: str) -> int:
    """How deep elements could nest at most, whatever a parser makes of the tags."""
    return _IMPLIED + len(_OPENS.findall(markup)) + _IMPLIED_BY_CELLS * len(_CELL.findall(markup))


def _parts(markup: str, tags: int) -> Iterator[str]:
    """Beginnings of `markup`, each with a quarter more tags than the one before, up to all of it."""
    upto = _FIRST
    if upto < tags:
        for number, match in enumerate(re.finditer("<", markup)):
            if number == upto:
                yield markup[: match.start()]
                upto = int(upto * _GROWTH)
    yield markup


def _nests(tree: LexborHTMLParser) -> bool:
    """Whether an element is too many levels below the root, or there are too many."""
    node, depth, count = tree.root, 1, 0
    while node is not None:
        count += 1
        if depth > LIMIT or count > 2 * MOST:
            return True
        below = node.child
        if below is not None:
            node, depth = below, depth + 1
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = None if node is None else node.next
    return False
