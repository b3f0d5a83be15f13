"""Finds feeds, from a page or a search word: links, well-known sites, search."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.discovery.directory import MAX_RESULTS, WRITTEN, Directory
    from microsub.discovery.entered import HIDDEN, EnteredAddresses
    from microsub.discovery.picked import PickedPosts
    from microsub.discovery.search import PARSE_PATIENCE, PARSE_SECONDS, CopyShares, Search, SearchAnswer, preview_items
else:
    __getattr__ = lazy_exports(__name__, __file__)
