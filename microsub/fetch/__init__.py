"""The only door out: guarded and limited. What lies behind it is chosen by others, not by us."""

from microsub.fetch.fetcher import Fetcher
from microsub.fetch.network import Resolver, asking_for, out_of_descriptors, who_asks
from microsub.fetch.sending import Answered, Hop, Sender, Sending, SendLimits
from microsub.fetch.spacing import HostPace, SpacedFetcher
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
    "Answered",
    "FetchFailed",
    "FetchLimits",
    "FetchRequest",
    "FetchResult",
    "FetchSettings",
    "Fetched",
    "Fetcher",
    "Hop",
    "HopError",
    "HostPace",
    "NotModified",
    "Reason",
    "Resolver",
    "SendLimits",
    "Sender",
    "Sending",
    "SpacedFetcher",
    "ascii_host",
    "asking_for",
    "out_of_descriptors",
    "target_of",
    "who_asks",
]
