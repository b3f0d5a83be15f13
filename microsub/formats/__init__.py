"""Parses documents to jf2 and writes them. Everything here is pure: no network, no clock, no Redis.

    parse      any feed document -> jf2.Feed          identity   which post is which
    write      jf2.Feed -> RSS, Atom, JSON Feed
    wire       jf2.Entry -> the JSON that clients read   discovery  which feeds a page names

One module per format (`syndication`, `jsonfeed`, `hfeed`) passes raw values to `normalise`, which cleans them all in
the same way.
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.formats.detection import best_encoding
    from microsub.formats.soup import microformats_in, soup_of
else:
    __getattr__ = lazy_exports(__name__, __file__)
