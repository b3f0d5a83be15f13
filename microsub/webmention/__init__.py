"""Webmentions of users' pages (https://www.w3.org/TR/webmention/): received, verified, shown in `notifications`."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.webmention.mention import Mention
    from microsub.webmention.receiver import MentionReceiver, WebmentionEndpoint
    from microsub.webmention.store import MentionStore, Order
    from microsub.webmention.verification import MentionVerifier
else:
    __getattr__ = lazy_exports(__name__, __file__)
