"""Outgoing HTTP, guarded and limited, because other people choose the addresses."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
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
else:
    __getattr__ = lazy_exports(__name__, __file__)
