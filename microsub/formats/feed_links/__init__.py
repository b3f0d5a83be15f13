"""The feeds that documents are or name."""

from microsub.formats.feed_links.document import (
    BETTER_FEEDS,
    DISCOVER,
    FORWARDED,
    MAX_LINKS,
    NAMED_IN_HEAD,
    better_feeds,
    common_paths,
    discover,
    forwarded,
    home_page,
    named_in_head,
)
from microsub.formats.feed_links.links import FeedLink, from_subscribe_scheme, looks_like_feed, podcast_interface
from microsub.formats.feed_links.sites import feeds_by_address

__all__ = [
    "BETTER_FEEDS",
    "DISCOVER",
    "FORWARDED",
    "MAX_LINKS",
    "NAMED_IN_HEAD",
    "FeedLink",
    "better_feeds",
    "common_paths",
    "discover",
    "feeds_by_address",
    "forwarded",
    "from_subscribe_scheme",
    "home_page",
    "looks_like_feed",
    "named_in_head",
    "podcast_interface",
]
