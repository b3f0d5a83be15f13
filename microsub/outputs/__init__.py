"""Output feeds: what users gather, published again as RSS, Atom, JSON Feed and a page.

OutputFeeds     the feeds in Redis, their items and impressions     OutputContents  what stands in a feed, as a document
api.documents   /feeds, where anybody reads them                   api.actions     what their user does by HTTP
"""

from microsub.outputs.contents import Edited, FillTimelines, ItemSearch, MostItems, OutputContents
from microsub.outputs.store import OutputFeeds
from microsub.outputs.values import HUB, OutputFeed, OutputItem, require_name, seconds_of

__all__ = [
    "HUB",
    "Edited",
    "FillTimelines",
    "ItemSearch",
    "MostItems",
    "OutputContents",
    "OutputFeed",
    "OutputFeeds",
    "OutputItem",
    "require_name",
    "seconds_of",
]
