"""A polite cache of feeds, usable alone (docs/reference/feed-cache.md).

async with FeedCache(DirectoryMapping("feeds"), user_agent="planet/1.0 (+https://planet.example/)") as cache:
    found = await cache.fetch("https://alice.example/feed")
"""

from microsub.base.errors import FetchError, ParseError
from microsub.cache.blocking import BlockingFeedCache
from microsub.cache.feeds import CachedFeed, CachingFetcher, FeedCache
from microsub.cache.storage import DirectoryMapping, Lockable, MappingStorage, Storage, UrlLock
from microsub.fetch import Fetcher, FetchSettings

__all__ = [
    "BlockingFeedCache",
    "CachedFeed",
    "CachingFetcher",
    "DirectoryMapping",
    "FeedCache",
    "FetchError",
    "FetchSettings",
    "Fetcher",
    "Lockable",
    "MappingStorage",
    "ParseError",
    "Storage",
    "UrlLock",
]
