"""How a feed is asked for: what its only follower, or the admin, chose, beside what backend.json says.

It belongs to the feed and holds for all its followers, since a feed is polled once for all of them. What the only
follower chose ends when another user follows (lua/feed_followers.lua).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from microsub.feeds.record import FeedRecord
from microsub.model.moments import number
from microsub.model.settings import UserAgent

_AGENT, _INTERVAL, _CHOOSER = "user_agent", "chosen_interval", "chosen_by"
"""The fields of a feed's record."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The User-Agent of requests for a feed, and the seconds between two polls; None for the usual."""

    user_agent: UserAgent | None = None
    interval: float | None = None

    @classmethod
    def of(cls, feed: FeedRecord) -> RequestSettings:
        """What was chosen for a feed."""
        agent = next((one for one in get_args(UserAgent) if one == feed.extra.get(_AGENT)), None)
        return cls(agent, number(feed.extra.get(_INTERVAL)))

    def fields(self, chooser: str | None = None) -> Mapping[str, str | None]:
        """The fields of the record, for `Feeds.update`; `chooser` is the feed's only follower, None for an admin."""
        interval = None if self.interval is None else f"{self.interval:.0f}"
        return {_AGENT: self.user_agent, _INTERVAL: interval, _CHOOSER: chooser}


NO_REQUEST_SETTINGS = RequestSettings()
