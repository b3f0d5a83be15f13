"""A user's view: channels, follows, pages, read state, mutes and blocks, retention.

Also answers other features' questions about saved items and the order of arrival.
"""

from microsub.timelines.saved import SavedPosts, count_saved, saved_among
from microsub.timelines.sync.arrivals import (
    Arrival,
    ArrivalQuery,
    Arrivals,
    Newcomers,
    last_position,
    read_arrivals,
    read_newcomers,
)

__all__ = [
    "Arrival",
    "ArrivalQuery",
    "Arrivals",
    "Newcomers",
    "SavedPosts",
    "count_saved",
    "last_position",
    "read_arrivals",
    "read_newcomers",
    "saved_among",
]
