"""The WebSub hub: subscribers of a topic of this server get its document when it changes.

Spec: https://www.w3.org/TR/websub/. `topics` are output feeds, channels and stored feeds. `store` has subscriptions and
planned work. `worker` does the work: verifies, delivers, denies. `api` is `/hub`, `/topics` for the documents of
channels and stored feeds, and the users' action that gives a channel's topic an address.
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.hub.api import HubEndpoint, TopicEndpoint, topic_actions
    from microsub.hub.store import CallbackHealth, ChannelTopics, TopicChanges, hub_status
    from microsub.hub.topics import Topics
    from microsub.hub.worker import HubWorker
else:
    __getattr__ = lazy_exports(__name__, __file__)
