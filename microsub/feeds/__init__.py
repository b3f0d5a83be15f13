"""Feeds: records, addresses, health and followers, and when each is due."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.feeds.advice import ADVICE_IN_SETTINGS
    from microsub.feeds.condition import (
        FAILURE_FIELDS,
        LONGEST_HOLD,
        FeedCondition,
        answered,
        fails,
        held_until,
        state_of,
    )
    from microsub.feeds.events import Event, Events, Listener, announce, describe, is_event_id
    from microsub.feeds.followers import as_places
    from microsub.feeds.hosts import DueFeeds, Schedule
    from microsub.feeds.internal import NOTICES, InternalAddress
    from microsub.feeds.outputs import (
        MOST_ITEMS,
        OutputAddress,
        OutputFeed,
        OutputItem,
        OutputRow,
        OutputStore,
        PostVersion,
        State,
        require_name,
        seconds_of,
    )
    from microsub.feeds.public import is_public
    from microsub.feeds.push_state import PushHealth, PushState, push_health, topic_of
    from microsub.feeds.record import (
        COPIED,
        ICON,
        KEEP_UNFOLLOWED,
        MERGED,
        MOVED_FROM,
        NEVER_POLLED,
        OTHERS,
        PAGES,
        UNANNOUNCED,
        FeedRecord,
        Feeds,
        FeedToRead,
        FollowerChange,
        is_settled,
        pages_of,
        reading_text,
        set_or_deleted,
    )
    from microsub.feeds.requests import choosing, chosen_policy
    from microsub.feeds.sign_ins import SignIns
    from microsub.feeds.sources import KIND, Source, SourceStore
    from microsub.feeds.trouble import Trouble
    from microsub.feeds.url_index import all_addresses, forget_gone_addresses
else:
    __getattr__ = lazy_exports(__name__, __file__)
