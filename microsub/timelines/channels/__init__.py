"""A user's channels: their order, settings and follows."""

from microsub.timelines.channels.follows import in_turns, is_there, read_subscription
from microsub.timelines.channels.store import (
    FIELDS,
    LONGEST_NAME,
    MOST_OF_NAME,
    ChannelNames,
    Channels,
    read_settings,
    slug,
)

__all__ = [
    "FIELDS",
    "LONGEST_NAME",
    "MOST_OF_NAME",
    "ChannelNames",
    "Channels",
    "in_turns",
    "is_there",
    "read_settings",
    "read_subscription",
    "slug",
]
