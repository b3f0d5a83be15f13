"""Posts from this server to a user in the channel `notifications`: webmentions and feed problems."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.notices.feed_trouble import notify_followers
    from microsub.notices.notifications import Notifications
else:
    __getattr__ = lazy_exports(__name__, __file__)
