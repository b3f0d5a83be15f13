"""Posts from this server to a user in the channel `notifications`: webmentions and feed problems."""

from microsub.notices.feed_trouble import FeedTrouble
from microsub.notices.notifications import Notifications

__all__ = ["FeedTrouble", "Notifications"]
