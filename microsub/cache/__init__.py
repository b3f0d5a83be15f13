"""A polite cache of feeds, usable without the rest of the server (reference: docs/reference/feed-cache.md).

async with FeedCache(DirectoryMapping("feeds"), user_agent="planet/1.0 (+https://planet.example/)") as cache:
    found = await cache.fetch("https://alice.example/feed")
"""

from microsub.cache.blocking import BlockingFeedCache
from microsub.cache.directory import DirectoryMapping
from microsub.cache.door import CachingFetcher
from microsub.cache.feeds import CachedFeed, FeedCache
from microsub.cache.storage import Lockable, MappingStorage, Storage, UrlLock
from microsub.errors import FetchError, ParseError
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
