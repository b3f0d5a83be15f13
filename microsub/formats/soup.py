"""Pages as Beautiful Soup, and their microformats as mf2py reads them."""

from __future__ import annotations

from typing import Any

import bs4
import mf2py


def soup_of(text: str) -> bs4.BeautifulSoup:
    """A page as browsers read it."""
    return bs4.BeautifulSoup(text, "html5lib")


def microformats_in(soup: bs4.BeautifulSoup, url: str) -> dict[str, Any]:
    """The microformats of the page at that URL (https://microformats.org/wiki/microformats2-parsing)."""
    found: dict[str, Any] = mf2py.parse(doc=soup, url=url, filter_roots=True)
    return found
