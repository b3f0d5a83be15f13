"""Parses pages to trees, and limits the markup that parsers get: its nesting, its size and its attributes.

HTML parsers take time quadratic in the depth, and recursive code that uses the tree overflows. People nest tens of
levels; documents that nest tens of thousands are attacks. Whether a tag nests depends on everything before it, so a
parser is used, piece by piece: it never gets much that nests beyond the limit.

HTML parsers compare each attribute with all earlier ones in its tag, which takes time quadratic in their number: a
quarter of a megabyte in one tag keeps html5lib busy for half a minute, and Lexbor for seconds. People write ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from operator import itemgetter

from selectolax.lexbor import LexborHTMLParser

from microsub.base.urls import safe_url

MAX_PAGE = 2 * 1024 * 1024
"""Characters of a page that are parsed. Heads and profiles come before that."""

_CROWDED = 5000
"""Attributes of one tag: if all tags have that many, Lexbor takes a second or two."""


def tree_of(text: str) -> LexborHTMLParser:
    """The elements of a page; none if it is too deep or too crowded to be parsed."""
    return LexborHTMLParser("" if too_deep(text) or is_crowded(text[:MAX_PAGE], _CROWDED) else text[:MAX_PAGE])


def base_of(tree: LexborHTMLParser, url: str) -> str:
    """The base of the page's relative addresses: its `<base>`, else its own address."""
    node = tree.css_first("base[href]")
    return safe_url((node.attributes.get("href") or "") if node is not None else None, url) or url


LIMIT = 400
MOST_TAGS = 100_000
"""Tags in one document. In a parsed tree each takes two hundred bytes, in Beautiful Soup's a thousand."""

_OPENS = re.compile(r"<(?!(?:br|hr|img)[\t\n\f\r />])[a-z]", re.I | re.A)
"""Possible start tags. The three exceptions are always empty elements; other empty elements can nest in SVG."""

_CELL = re.compile(r"<t[dhr]", re.I | re.A)
_IMPLIED_BY_CELLS = 2
_IMPLIED = 4
"""Implied elements: `tbody` and `tr` around a cell; `html` and `body`, and those at the start of a table."""

_FIRST = 2000
_MOST_MORE = 8000
"""Tags in the first part of a long document, and the maximum by which each part exceeds the last: never so many nest
beyond the limit that parsing them would take long."""

_USUAL = 60
"""Levels that hardly any document exceeds. Whether one does is found without visiting each of its elements in Python.
Its tags can make at most this many times as many elements, because formatting is repeated at each level."""

_DEEPER_THAN_USUAL = " > ".join("*" * (_USUAL + 1))
_TEMPLATE = re.compile(r"(?i)<template")
_OPTION = re.compile(r"(?i)<option")
_MOST_OPTIONS = 5000
"""Lexbor looks at all options of a list again for each further one: 5,000 take 0.1 s, 50,000 more than ten seconds."""

_PLAIN_ATTRIBUTES = r"""(?:\s++[a-z][a-z:-]*+="[^"<>\x01]*+")*+\s*+"""
_INNERMOST = re.compile(
    r"<(?!app|body|br\b|button|form|frame|head\b|hr\b|html|img|marq|math|no|object|opt|plain|script|select|style|svg"
    r"|template|text|title|xmp)"
    rf"([a-z][a-z0-9]*+){_PLAIN_ATTRIBUTES}>[^<]*+(?:<(?:br|hr|img){_PLAIN_ATTRIBUTES}/?>[^<]*+)*+</\1>",
    re.A,
)
"""An element with only text, pictures and breaks in it, in tags that all tokenizers read alike.

Its end tag closes it wherever it is. Those of the names that are left out may close something else, or nothing.
"""

_MOST_ROUNDS = 12


def too_deep(markup: str) -> bool:
    """Whether `markup` nests deeper than `LIMIT`, or has more than `MOST_TAGS` tags or `_MOST_OPTIONS` options.

    Content of templates, which the parser doesn't show, counts as nested if there is much of it.
    """
    tags = markup.count("<")
    if _IMPLIED + (1 + _IMPLIED_BY_CELLS) * (tags - markup.count("</")) <= LIMIT >= tags:
        return False  # nearly all
    if tags > MOST_TAGS:
        return True
    if tags <= LIMIT and (_most_levels_at_once(markup, tags) <= LIMIT or most_levels(markup) <= LIMIT):
        return False
    if len(_TEMPLATE.findall(markup)) * (1 + _IMPLIED_BY_CELLS) > LIMIT or len(_OPTION.findall(markup)) > _MOST_OPTIONS:
        return True
    # Formatting may be repeated for each tag at each level.
    if any(most <= LIMIT and tags * most <= 2 * MOST_TAGS for most in upper_bounds(markup)):
        return False
    return any(_nests(LexborHTMLParser(part), upto) for part, upto in _parts(markup, tags))


def most_levels(markup: str) -> int:
    """The maximum depth of the elements, however a parser interprets the tags."""
    return _IMPLIED + len(_OPENS.findall(markup)) + _IMPLIED_BY_CELLS * len(_CELL.findall(markup))


def _most_levels_at_once(markup: str, tags: int) -> int:
    """An upper bound of `most_levels`, found faster."""
    return _IMPLIED + tags - markup.count("</") + _IMPLIED_BY_CELLS * (markup.count("<t") + markup.count("<T"))


def upper_bounds(markup: str) -> Iterator[int]:
    """Upper bounds of the depth of the elements, each lower than the one before: what a long post without mistakes has.

    The innermost elements are taken away, again and again. Each time makes a level, and those implied by cells, and so
    may each tag that is left. The mark in their place keeps what is around them apart.
    """
    for taken in range(1, _MOST_ROUNDS):
        rest = _INNERMOST.sub("\x01", markup)
        if len(rest) == len(markup):
            return
        yield (1 + _IMPLIED_BY_CELLS) * taken + _most_levels_at_once(rest, rest.count("<"))
        markup = rest


def _parts(markup: str, tags: int) -> Iterator[tuple[str, int]]:
    """Increasing prefixes of `markup`, up to the whole, with the number of their tags."""
    upto = _FIRST
    if upto < tags:
        for number, match in enumerate(re.finditer("<", markup)):
            if number == upto:
                yield markup[: match.start()], upto
                upto += min(upto, _MOST_MORE)
    yield markup, tags


def _nests(tree: LexborHTMLParser, tags: int) -> bool:
    """Whether an element is too many levels below the root, or there are too many elements."""
    if tags * _USUAL <= 2 * MOST_TAGS and tree.css_first(_DEEPER_THAN_USUAL) is None:
        return False
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
"""Attributes of one tag. A page with that many in every tag takes a second or two."""

# An attribute as tokenizers see it (https://html.spec.whatwg.org/#before-attribute-name-state). Everything is
# possessive, so nothing is scanned twice.
_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""


def is_crowded(markup: str | bytes, most: int = MOST_ATTRIBUTES) -> bool:
    """Whether a tag in `markup`, escaped or not, has more than `most` attributes.

    Scripts count as markup too, but nobody writes that many words without a `>`.
    """
    if isinstance(markup, bytes):
        return any(map(itemgetter(1), _bytes(most, b"&lt;" in markup).finditer(markup)))
    return any(map(itemgetter(1), _text(most, "&lt;" in markup).finditer(markup)))


@cache
def _text(most: int, escaped: bool) -> re.Pattern[str]:
    return re.compile(_pattern(most, escaped))


@cache
def _bytes(most: int, escaped: bool) -> re.Pattern[bytes]:
    return re.compile(_pattern(most, escaped).encode())


def _pattern(most: int, escaped: bool) -> str:
    begin = "(?:<|&lt;)" if escaped else "<"  # a single beginning is found twice as fast
    return f"{begin}[a-zA-Z][^\\s/>]*+(?:{_ATTRIBUTE}){{0,{most}}}+({_ATTRIBUTE})?"
