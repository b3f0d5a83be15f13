"""How IndiePass on Android reads a page's links, which is not as they are meant.

It compares `rel` as a whole, so that a link with several values is none to it, and takes `Link` headers apart at every
comma and semicolon, those in the URL included: what follows the first semicolon has to be the relation. Who knows what
it finds can say which line to write differently.
"""

from __future__ import annotations

from collections.abc import Iterable

from microsub.identity.protocol.identifiers import endpoint
from microsub.identity.protocol.rels import Written


def found_on_android(name: str, links: Iterable[Written], link_header: str | None, url: str) -> str | None:
    """The address that it finds for a relation: the last in the headers, else the first in the page; None for none."""
    found = None
    for part in link_header.split(",") if link_header else []:
        target, *parameters = part.split(";")
        if not parameters:  # it stumbles, and reads no further
            return found
        if parameters[0].strip().replace("rel=", "").replace('"', "") == name:
            found = endpoint(target.strip(" <>"), url)
    if found is not None:
        return found
    return next((endpoint(one.target, one.base) for one in links if one.place == "page" and one.rel == name), None)
