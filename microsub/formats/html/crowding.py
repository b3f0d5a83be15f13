"""How many attributes stand in one tag, before a parser that minds is asked.

HTML parsers compare each attribute with all before it in its tag, so that they take time with the square of the number:
a quarter of a megabyte in one tag keeps html5lib busy for half a minute, and Lexbor for seconds. People write ten.
"""

from __future__ import annotations

import re
from functools import cache

MOST = 1000
"""Attributes of one tag. With that many in every tag, a page takes a second or two."""

# An attribute as tokenizers see it (https://html.spec.whatwg.org/#before-attribute-name-state). Everything is
# possessive: nothing is looked at twice.
_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""


def is_crowded(markup: str | bytes, most: int = MOST) -> bool:
    """Whether a tag in `markup`, or in markup that is escaped in it, has more than `most` attributes.

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
