"""Pages as trees, and the bounds of markup that is given to a parser.

How deep it nests, how much of it there is.

HTML parsers take time with the square of the depth, and recursive code behind them overflows. People nest tens of
levels; documents that nest tens of thousands were made to stop readers. Which tags nest depends on all that stands
before them, so a parser is asked, piece by piece: it never gets much that nests beyond the limit.

HTML parsers compare each attribute with all before it in its tag, so that they take time with the square of the number:
a quarter of a megabyte in one tag keeps html5lib busy for half a minute, and Lexbor for seconds. People write ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from selectolax.lexbor import LexborHTMLParser

from microsub.kit.urls import safe_url

MAX_PAGE = 2 * 1024 * 1024
"""Characters of a page that are read. What is beyond them is in no head, and in no profile."""

_CROWDED = 5000
"""Attributes of one tag: Lexbor takes a second or two where all have that many."""


def tree_of(text: str) -> LexborHTMLParser:
    """The elements of a page; none of one that is too deep or too crowded to be read."""
    return LexborHTMLParser("" if too_deep(text) or is_crowded(text[:MAX_PAGE], _CROWDED) else text[:MAX_PAGE])


def base_of(tree: LexborHTMLParser, url: str) -> str:
    """What addresses on the page are relative to: its `<base>`, else its own address."""
    node = tree.css_first("base[href]")
    return safe_url((node.attributes.get("href") or "") if node is not None else None, url) or url


LIMIT = 400
MOST_TAGS = 100_000
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
    """Whether `markup` nests deeper than `LIMIT`, or has more than `MOST_TAGS` tags.

    What stands in templates, which the parser doesn't show, counts as nested when there is much of it.
    """
    tags = markup.count("<")
    if tags > MOST_TAGS:
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
    """Beginnings of `markup`, each with a quarter more tags than the last, up to all of it."""
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
        if depth > LIMIT or count > 2 * MOST_TAGS:
            return True
        below = node.child
        if below is not None:
            node, depth = below, depth + 1
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = None if node is None else node.next
    return False


MOST_ATTRIBUTES = 1000
"""Attributes of one tag. With that many in every tag, a page takes a second or two."""

# An attribute as tokenizers see it (https://html.spec.whatwg.org/#before-attribute-name-state). Everything is
# possessive: nothing is looked at twice.
_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""


def is_crowded(markup: str | bytes, most: int = MOST_ATTRIBUTES) -> bool:
    """Whether a tag in `markup`, escaped or not, has more than `most` attributes.

    Scripts aren't told from markup, but nobody writes that many words without a `>`.
    """
    if isinstance(markup, bytes):
        return any(tag[1] is not None for tag in _bytes(most).finditer(markup))
    return any(tag[1] is not None for tag in _text(most).finditer(markup))


@cache
def _text(most: int) -> re.Pattern[str]:
    return re.compile(_pattern(most))


@cache
def _bytes(most: int) -> re.Pattern[bytes]:
    return re.compile(_pattern(most).encode())


def _pattern(most: int) -> str:
    return f"(?:<|&lt;)[a-zA-Z][^\\s/>]*+(?:{_ATTRIBUTE}){{0,{most}}}+({_ATTRIBUTE})?"
