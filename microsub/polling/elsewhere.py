"""Whether something else should be followed: instead of a page its feed, instead of a feed the page's next one. Pure.

Only what has never worked is left. A feed that has worked may show a page for an hour of maintenance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from microsub.discovery.feedlinks import looks_like_feed
from microsub.kit.urls import with_credentials_of
from microsub.polling.moving import others_of

if TYPE_CHECKING:
    from microsub.discovery.links import FeedLink
    from microsub.feeds.store.record import FeedRecord
    from microsub.fetch import FetchFailed

_PATIENCE = 2
"""Failures after which an address that feeds have may turn out to be a page's, and trouble that may pass counts."""


def instead_of_page(feed: FeedRecord, links: Sequence[FeedLink]) -> list[str]:
    """The addresses to follow instead of `feed`, which showed a page with these links; empty when it stays.

    What has the address of a feed stays until it has shown pages for a while.
    """
    if _is_settled(feed) or (looks_like_feed(feed.url) and feed.failures < _PATIENCE):
        return []
    return [with_credentials_of(feed.url, link.url) for link in links]


def instead_of_failure(feed: FeedRecord, failure: FetchFailed | None) -> list[str]:
    """The other addresses that the page of `feed` named, now that this one fails; empty when it stays.

    `failure` None is a document that is no feed. What may be an hour's trouble gets a few more polls.
    """
    passing = failure is not None and not failure.lasting and feed.failures < _PATIENCE
    return [] if _is_settled(feed) or passing else others_of(feed)


def _is_settled(feed: FeedRecord) -> bool:
    """It has worked once, or programs save posts into it."""
    return feed.last_success is not None or feed.kept
