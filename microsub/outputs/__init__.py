"""Output feeds: items that users pick or collect, published as RSS, Atom, JSON Feed and a page.

OutputFeeds     the feeds in Redis, their items and impressions     OutputContents  a feed's content, as a document
api.documents   /feeds, where they are served                       api.actions     the user's actions over HTTP
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.outputs.api.actions import OutputActions, output_settings
    from microsub.outputs.api.documents import OutputEndpoint
    from microsub.outputs.contents import Edited, FillTimelines, ItemSearch, MostItems, OutputContents
    from microsub.outputs.store import OutputFeeds
else:
    __getattr__ = lazy_exports(__name__, __file__)
