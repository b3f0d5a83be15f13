"""Posts of this server to one user, in the channel `notifications`: webmentions, and trouble of their feeds."""

from microsub.notices.feed_trouble import FeedGone, FeedMoved, FeedTrouble, FeedUnreadable, Trouble
from microsub.notices.notifications import Notifications

__all__ = ["FeedGone", "FeedMoved", "FeedTrouble", "FeedUnreadable", "Notifications", "Trouble"]
