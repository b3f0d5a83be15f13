"""What a reader sees: channels, follows, pages, read state, mutes and blocks, retention.

What other features ask about saved items, and about the order in which items came to a user.
"""

from microsub.timelines.saved import count_saved, save, save_posts, saved_among, unsave
from microsub.timelines.sync.arrivals import (
    Arrival,
    ArrivalQuery,
    Arrivals,
    Newcomers,
    last_place,
    read_arrivals,
    read_newcomers,
)

__all__ = [
    "Arrival",
    "ArrivalQuery",
    "Arrivals",
    "Newcomers",
    "count_saved",
    "last_place",
    "read_arrivals",
    "read_newcomers",
    "save",
    "save_posts",
    "saved_among",
    "unsave",
]
