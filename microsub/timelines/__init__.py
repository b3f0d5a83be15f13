"""What a reader sees: channels, follows, pages, read state, mutes and blocks, retention.

What other features ask about saved items, and about the order in which items came to a user.
"""

from microsub.timelines.arrivals import Arrival, ArrivalQuery, Arrivals, read_arrivals
from microsub.timelines.saved import count_saved, save, save_posts, saved_among, unsave

__all__ = [
    "Arrival",
    "ArrivalQuery",
    "Arrivals",
    "count_saved",
    "read_arrivals",
    "save",
    "save_posts",
    "saved_among",
    "unsave",
]
