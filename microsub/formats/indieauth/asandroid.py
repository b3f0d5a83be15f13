"""How IndiePass on Android reads a page's links, which is not as they are meant.

It compares `rel` as a whole, so that a link with several values is none to it, and takes a `Link` header apart at every
comma and semicolon, those in the URL included. Who knows what it finds can say which line to write differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from microsub.formats.indieauth.identifiers import endpoint
from microsub.formats.indieauth.rels import Written


def found_on_android(name: str, links: Iterable[Written], link_header: str | None, url: str) -> str | None:
    """The address that it finds for a relation: the page's own links first; None where it finds none."""
    for link in links:
        if link.place == "page" and link.rel == name:
            return endpoint(link.target, link.base)
    target = ""
    for part in re.split("[,;]", link_header or ""):
        text = part.strip()
        if text.startswith("<"):
            target = text.strip("<>")
        elif text in {f"rel={name}", f'rel="{name}"'}:
            return endpoint(target, url)
    return None
