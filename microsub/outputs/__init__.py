"""Output feeds: items that users pick or collect, published as RSS, Atom, JSON Feed and a page.

OutputFeeds     the feeds in Redis, their items and impressions     OutputContents  a feed's content, as a document
api.documents   /feeds, where they are served                       api.actions     the user's actions over HTTP
"""

from microsub.feeds import OutputFeed, OutputItem, PostVersion, require_name, seconds_of
from microsub.outputs.contents import Edited, FillTimelines, ItemSearch, MostItems, OutputContents
from microsub.outputs.store import OutputFeeds

__all__ = [
    "Edited",
    "FillTimelines",
    "ItemSearch",
    "MostItems",
    "OutputContents",
    "OutputFeed",
    "OutputFeeds",
    "OutputItem",
    "PostVersion",
    "require_name",
    "seconds_of",
]
