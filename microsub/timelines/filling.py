"""What filling a timeline from the store needs to know: how much it takes, and how far back that goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from microsub.configuration.model import DeliverySettings
from microsub.model.settings import ChannelSettings

DAY = 86_400.0

MOST_ITEMS = 300
"""Newest posts of a feed that are brought in; the store keeps no more of those that nobody reads."""


SettingsOf = Callable[[str, str], Awaitable[ChannelSettings]]
"""User and channel uid to what holds there; nothing in it is None."""


def oldest(delivery: DeliverySettings, now: float) -> float:
    """The Unix time before which posts are too old to be brought in; minus infinity where none are."""
    return now - delivery.warm_up_days * DAY if delivery.warm_up_days else float("-inf")
