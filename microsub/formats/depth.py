"""How deep markup nests, and how much there is of it, before a parser that minds is asked.

HTML parsers take time with the square of the depth, and recursive code behind them overflows. People nest tens of
levels; documents that nest tens of thousands were made to stop readers.
"""

from __future__ import annotations

import re

LIMIT = 400
MOST = 100_000
"""Tags in one document. A parsed tree takes two hundred bytes for each, Beautiful Soup's a thousand."""

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
# Elements without content, and those that the next of their kind closes.
_EMPTY = "area base br col embed hr img input link meta param source track wbr"
_SELF_CLOSING = "body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr"
_FLAT = frozenset(f"{_EMPTY} {_SELF_CLOSING}".split())


def too_deep(markup: str) -> bool:
    """Whether `markup` opens more than `LIMIT` elements inside each other, or has more than `MOST` tags at all."""
    tags = markup.count("<")
    if not LIMIT < tags <= MOST:
        return tags > MOST
    depth = 0
    for match in _TAG.finditer(markup):
        if match[2].lower() in _FLAT:
            continue
        if match[1]:
            depth = max(0, depth - 1)
        else:
            depth += 1
            if depth > LIMIT:
                return True
    return False
