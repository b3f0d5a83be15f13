"""Reads the article on a page, within bounds. Pure; runs in parser processes."""

from __future__ import annotations

import re

from microsub import articles
from microsub.base.errors import ParseError
from microsub.formats.encoding import decode
from microsub.formats.entry_id import fold
from microsub.formats.html.sanitise import clean_html
from microsub.formats.html.shapes import plain_shapes, unscripted
from microsub.formats.html.text import html_to_text
from microsub.formats.html.trees import MAX_PAGE, base_of, is_crowded, too_deep, tree_of
from microsub.formats.normalise import MAX_BODY, content_of, cut
from microsub.formats.parse import sniff
from microsub.model.jf2 import Content
from microsub.parsing.task import Task

MOST_TAGS = 50_000
"""Tags of a page. Wikipedia's longest articles have forty thousand."""

_CROWDED = 5000
"""Attributes of one tag; scripts count as tags too, so pages seem to have many."""

NONE = "no article was found on the page"

UNMATCHED = "the selector of the article finds nothing on the page"

_FREE = 2000
"""Characters of an article that is shown although its page says that it must be paid for: this page shows it all."""

_PAID = re.compile(r'"isAccessibleForFree"\s*:\s*"?false\b', re.IGNORECASE)
"""What a page with a paywall tells search engines: https://schema.org/isAccessibleForFree."""

_FIRST_HEADING = re.compile(
    r"\A\s*((?:<(?:div|section|header|article)[^<>]*>\s*)*)<(h[1-3])(?:\s[^<>]*)?>(.{1,2000}?)</\2>", re.DOTALL
)


def article_in(body: bytes, url: str, content_type: str | None, title: str, article: str, without: str) -> Content:
    """The article on the page found at `url`, sanitised, without a heading that repeats `title`.

    CSS selectors find the elements that hold it ('': those that look like it), and those left out ('': none).
    Raises ParseError, whose detail says why the page has none.
    """
    if len(body) > 2 * MAX_PAGE:
        raise ParseError(url, f"the page has more than {2 * MAX_PAGE // 1_048_576} MB")
    html = decode(body, content_type)
    if sniff(html, content_type) != "html":
        raise ParseError(url, "its address doesn't lead to a web page")
    if len(html) > MAX_PAGE or html.count("<") > 2 * MOST_TAGS or is_crowded(html, _CROWDED):
        raise ParseError(url, f"the page has more than {MOST_TAGS} elements")
    base = base_of(tree_of(html), url)
    try:
        part = articles.chosen_part(html, article, without) if article or without else html
        # The library's parser ignores levels beyond its limit.
        part = part if too_deep(part) else plain_shapes(unscripted(part), base)
        part = part if article else articles.main_part(part, base)
    except ValueError:
        raise ParseError(url, NONE) from None
    if article and not part:
        raise ParseError(url, UNMATCHED)
    content = content_of(cut(_without_title(part, title), MAX_BODY), None, base, url)
    if content is None or not content.text:
        raise ParseError(url, NONE)
    if len(content.text) < _FREE and _PAID.search(html):
        raise ParseError(url, "the page shows the article only to subscribers")
    return content


def _without_title(part: str, title: str) -> str:
    """The part without its first heading, if that is the post's title."""
    found = _FIRST_HEADING.match(part)
    if found is None or fold(html_to_text(clean_html(found[3], ""))) != fold(title):
        return part
    return found[1] + part[found.end() :]


ARTICLE_IN = Task(article_in, thorough=False)
