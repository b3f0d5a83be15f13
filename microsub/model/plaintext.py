"""Text of others, as one line of a terminal or of a list may show it."""

from __future__ import annotations

import re

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Ends of lines; controls, which could set colours, titles and more; and marks that turn what follows round."""


def escaped(text: str) -> str:
    r"""`text` with every such character as Python writes it, such as `\n`; a line stays a line."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def on_one_line(text: str) -> str:
    """`text` with blanks for such characters, and one blank where there were several."""
    return " ".join(CONTROLS.sub(" ", text).split())
