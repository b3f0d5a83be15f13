"""The only door out: guarded, limited, conditional GETs. What lies behind it is chosen by the publisher, not by us."""

from microsub.fetch.fetcher import Fetcher
from microsub.fetch.network import Resolver
from microsub.fetch.spacing import SpacedFetcher
from microsub.fetch.targets import ascii_host, target_of
from microsub.fetch.values import (
    FEED_ACCEPT,
    PAGE_ACCEPT,
    REASONS,
    Fetched,
    FetchFailed,
    FetchLimits,
    FetchRequest,
    FetchResult,
    FetchSettings,
    HopError,
    NotModified,
    Reason,
)

__all__ = [
    "FEED_ACCEPT",
    "PAGE_ACCEPT",
    "REASONS",
    "FetchFailed",
    "FetchLimits",
    "FetchRequest",
    "FetchResult",
    "FetchSettings",
    "Fetched",
    "Fetcher",
    "HopError",
    "NotModified",
    "Reason",
    "Resolver",
    "SpacedFetcher",
    "ascii_host",
    "target_of",
]
