"""How a feed's posts arrive: pushed by its hub or found by polls, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from microsub.base.urls import has_credentials, redacted, without_secrets
from microsub.feeds.record import FeedRecord
from microsub.model.moments import number

NO_HUB = "the feed names no hub"
NOT_YET = "not subscribed yet"
LAPSED = "the lease has expired"
PRIVATE = "the feed's address has a secret, which hubs don't get, and the feed names no other"

PushState = Literal["ok", "late", "silent"]
"""How the deliveries of all hubs arrive."""


@dataclass(frozen=True, slots=True)
class PushHealth:
    """The state of a feed's WebSub subscription. Unix times; None: not known, or no subscription.

    A feed is `pushed` once its hub has delivered something, until the lease ends or a poll finds posts first;
    otherwise it is polled, and `why` is the reason. `posts_pushed` and `posts_polled` count new posts by the way they
    arrived since there is a subscription.
    """

    pushed: bool
    why: str
    lease_until: float | None = None
    last_delivery: float | None = None
    posts_pushed: int = 0
    posts_polled: int = 0

    @property
    def subscribed(self) -> bool:
        """Whether a lease is in force."""
        return self.lease_until is not None


def topic_of(feed: FeedRecord) -> str | None:
    """The feed's topic at its hub: its own `rel=self`, otherwise its address, unless these contain a secret.

    Some publishers repeat the requested address, key included. A path that looks random is accepted as the feed's name.
    """
    named = feed.self_url
    if named and not has_credentials(named) and without_secrets(named) == named:
        return named
    return feed.url if redacted(feed.url) == feed.url else None


def push_health(feed: FeedRecord, now: float) -> PushHealth:
    """The health of a feed's subscription at a Unix time, by its record."""
    said = feed.extra
    until = number(said.get("push_until"))
    effective = until is not None and now < until
    pushed = effective and said.get("push") == "1"
    why = said.get("push_why") or (NO_HUB if not feed.hub else PRIVATE if topic_of(feed) is None else NOT_YET)
    if until is not None and not effective:
        why = LAPSED
    return PushHealth(
        pushed,
        "its hub delivers" if pushed else why,
        until if effective else None,
        number(said.get("push_at")),
        int(number(said.get("push_posts")) or 0),
        int(number(said.get("poll_posts")) or 0),
    )
