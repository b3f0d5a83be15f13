"""What filling a timeline from the store needs to know: how much it takes, and how far back that goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from microsub.configuration.model import Delivery

DAY = 86_400.0

MOST_ITEMS = 300
"""Newest posts of a feed that are brought in; the store keeps no more of those that nobody reads."""


class FillLimits(Protocol):
    """How much a timeline takes: `items` in all (0: no limit), `fresh` of a new feed as unread."""

    @property
    def items(self) -> int:
        """How many items the timeline holds."""
        ...

    @property
    def fresh(self) -> int:
        """How many items of a newly followed feed come in as unread."""
        ...


LimitsOf = Callable[[str, str], Awaitable[FillLimits]]
"""User and channel uid to what holds there."""


def oldest(delivery: Delivery, now: float) -> float:
    """The Unix time before which posts are too old to be brought in; minus infinity where none are."""
    return now - delivery.warm_up_days * DAY if delivery.warm_up_days else float("-inf")
