"""How a feed is asked for: what its only follower, or the admin, chose, beside what backend.json says.

It belongs to the feed and holds for all its followers, since a feed is polled once for all of them. What the only
follower chose ends when another user follows (lua/feed_followers.lua).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from microsub.configuration.model import FeedPolicy
from microsub.feeds.record import FeedRecord
from microsub.model.moments import number
from microsub.model.settings import UserAgent

_AGENT, _INTERVAL, _CHOOSER = "user_agent", "chosen_interval", "chosen_by"
"""The fields of a feed's record."""


def chosen_policy(feed: FeedRecord) -> FeedPolicy:
    """What was chosen for a feed: the User-Agent of requests, and the seconds between two polls."""
    agent = next((one for one in get_args(UserAgent) if one == feed.extra.get(_AGENT)), None)
    return FeedPolicy(interval=number(feed.extra.get(_INTERVAL)), user_agent=agent)


def choosing(policy: FeedPolicy, chooser: str | None = None) -> Mapping[str, str | None]:
    """The fields of the record, for `Feeds.update`; `chooser` is the feed's only follower, None for an admin."""
    interval = None if policy.interval is None else f"{policy.interval:.0f}"
    return {_AGENT: policy.user_agent, _INTERVAL: interval, _CHOOSER: chooser}
