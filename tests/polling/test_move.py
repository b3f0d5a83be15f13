"""The cases in which another feed is followed than the requested one, as a table."""

from __future__ import annotations

import pytest

from microsub.feeds.record import FeedRecord
from microsub.fetch import FetchFailed
from microsub.formats.feed_links import FeedLink
from microsub.polling.move import instead_of_failure, instead_of_page

LINK = FeedLink("https://blog.example/atom", "atom", None, None, None)
PAGE = "https://blog.example/"


@pytest.mark.parametrize(
    ("feed", "left"),
    [
        (FeedRecord("1", PAGE), True),
        (FeedRecord("1", PAGE, last_success=5.0), False),
        (FeedRecord("1", PAGE, kept=True), False),
        (FeedRecord("1", "https://blog.example/feed.xml"), False),
        (FeedRecord("1", "https://blog.example/feed.xml", failures=2), True),
    ],
)
def test_when_a_page_is_left_for_its_feed(feed: FeedRecord, left: bool) -> None:
    """At once, except for URLs that have worked, that programs save into, or (for a while) that look like a feed's."""
    assert instead_of_page(feed, [LINK]) == ([LINK.url] if left else [])
    assert instead_of_page(feed, []) == []


@pytest.mark.parametrize(
    ("reason", "status", "failures", "left"),
    [("timeout", None, 0, False), ("timeout", None, 2, True), ("http", 404, 0, True), (None, None, 0, True)],
)
def test_when_a_failing_feed_is_left_for_the_next(
    reason: str | None, status: int | None, failures: int, left: bool
) -> None:
    """At once for permanent errors, after a few polls for temporary ones; never if it has worked."""
    failure = None if reason is None else FetchFailed(PAGE, reason, "", status)
    named = FeedRecord("1", PAGE, failures=failures, extra={"others": "https://blog.example/rss"})
    assert instead_of_failure(named, failure) == (["https://blog.example/rss"] if left else [])
    worked = FeedRecord("1", PAGE, failures=9, last_success=5.0, extra={"others": "https://blog.example/rss"})
    assert instead_of_failure(worked, failure) == []
