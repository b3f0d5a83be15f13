"""CSS selectors that people write: what is wrong with one, and the XPath that finds the same elements. Pure."""

from __future__ import annotations

import re

import cssselect

_PLACE = re.compile(r" at (\d+)>?$")

LONGEST = 500
"""Maximum number of characters of a selector."""


class BadSelector(ValueError):
    """A text that can't be used; `at` is the position of the first character that isn't expected, None if unknown."""

    def __init__(self, at: int | None = None) -> None:
        super().__init__("the selector can't be used")
        self.at = at


def unfit_selector(text: str) -> str | None:
    """Why the text is no selector that can be used, in a few words, or None."""
    try:
        xpath_of(text)
    except BadSelector as error:
        return "" if error.at is None else f"with an error at character {error.at}"
    return None


def xpath_of(selector: str) -> str:
    """The XPath of a CSS selector. Raises BadSelector."""
    if not selector.strip() or len(selector) > LONGEST:
        raise BadSelector
    try:
        return cssselect.HTMLTranslator().css_to_xpath(selector)
    except (cssselect.SelectorError, RecursionError) as error:
        place = _PLACE.search(str(error))
        raise BadSelector(int(place[1]) + 1 if place else None) from None
