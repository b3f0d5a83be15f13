"""Posts that hubs deliver (WebSub, https://www.w3.org/TR/websub/): subscriptions, callbacks, deliveries."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.websub.callbacks import Callbacks, WebSubEndpoint
    from microsub.websub.deliveries import Deliveries
    from microsub.websub.hubs import Hubs
    from microsub.websub.store import SubscriptionStore, push_state, status_of
    from microsub.websub.subscriber import Subscriber
else:
    __getattr__ = lazy_exports(__name__, __file__)
