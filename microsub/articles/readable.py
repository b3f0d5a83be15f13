"""Finds the article in a page. Loading the library takes a fifth of a second, so only processes that need it do."""

from __future__ import annotations

import logging

import readability

# It writes a traceback for each page that it can't read; the caller says why.
logging.getLogger("readability").disabled = True
logging.getLogger("readability.readability").disabled = True


def main_part(html: str, url: str) -> str:
    """The HTML of the article in a page found at `url`, which may be anything. Raises ValueError if there is none."""
    part: str = readability.Document(html, url=url).summary(html_partial=True, keep_all_images=True)
    return part
