"""Outgoing HTTP, guarded and limited, because other people choose the addresses."""

from microsub.fetch.body import holding_for
from microsub.fetch.fetcher import Fetcher
from microsub.fetch.headers import retry_after
from microsub.fetch.network import IsOurs, Resolver, asking_for, out_of_descriptors, who_asks
from microsub.fetch.spacing import REST, HostPace, RestingServers, SpacedFetcher
from microsub.fetch.targets import target_of
from microsub.fetch.values import (
    FEED_ACCEPT,
    LARGEST_BODY,
    PAGE_ACCEPT,
    REASONS,
    TOTAL_SECONDS,
    Answered,
    Fetched,
    FetchFailed,
    Fetching,
    FetchRequest,
    FetchResult,
    FetchSettings,
    Hop,
    HopError,
    NotModified,
    Reason,
    RequestFailure,
    Sender,
    Sending,
    SendLimits,
)

__all__ = [
    "FEED_ACCEPT",
    "LARGEST_BODY",
    "PAGE_ACCEPT",
    "REASONS",
    "REST",
    "TOTAL_SECONDS",
    "Answered",
    "FetchFailed",
    "FetchRequest",
    "FetchResult",
    "FetchSettings",
    "Fetched",
    "Fetcher",
    "Fetching",
    "Hop",
    "HopError",
    "HostPace",
    "IsOurs",
    "NotModified",
    "Reason",
    "RequestFailure",
    "Resolver",
    "RestingServers",
    "SendLimits",
    "Sender",
    "Sending",
    "SpacedFetcher",
    "asking_for",
    "holding_for",
    "out_of_descriptors",
    "retry_after",
    "target_of",
    "who_asks",
]
