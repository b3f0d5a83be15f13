"""Posts from this server to a user in the channel `notifications`: webmentions and feed problems."""

from microsub.notices.feed_trouble import FeedGone, FeedMoved, FeedTrouble, FeedUnreadable, Trouble
from microsub.notices.notifications import Notifications

__all__ = ["FeedGone", "FeedMoved", "FeedTrouble", "FeedUnreadable", "Notifications", "Trouble"]
