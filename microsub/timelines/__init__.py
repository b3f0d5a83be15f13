"""A user's view: channels, follows, pages, read state, mutes and blocks, retention.

Also answers other features' questions about saved items and the order of arrival.
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.timelines.add import Adder, Incoming, TimelineTarget, filtering_channels
    from microsub.timelines.backlog import MOST_ITEMS, CatchUp, oldest
    from microsub.timelines.channels.follows import (
        NEVER_NAMED,
        in_turns,
        read_subscription,
        subscriptions,
        unread_ids,
        write_subscription,
    )
    from microsub.timelines.channels.store import LONGEST_NAME, MOST_OF_NAME, ChannelNames, Channels, slug
    from microsub.timelines.displays import LAST_CHOICE, ChannelDisplay, ChannelDisplays
    from microsub.timelines.erase import OtherReferences, erase_posts, withdraw
    from microsub.timelines.feed_names import OwnNames, feed_name
    from microsub.timelines.follow import UNDER_WAY, Followed, Following, new_in_a_day, unsubscribe
    from microsub.timelines.full_text import ShownText, choice_of, shown_text, strongest
    from microsub.timelines.gone import Absence, absences, ids_in, known_in
    from microsub.timelines.item_cache import ItemCache
    from microsub.timelines.own_view import OwnView
    from microsub.timelines.pages import item_ids, references, shown, shown_among, states
    from microsub.timelines.read_state import READ_EVERYWHERE, ReadState
    from microsub.timelines.remove import SAVED_POSTS, Leaving, move_items, take_out
    from microsub.timelines.repacking import GoneRepacking, TimelineRepacking
    from microsub.timelines.restore import (
        Left,
        States,
        left_of,
        put_unread,
        repair_items,
        restore_items,
        restore_lost,
    )
    from microsub.timelines.retention import RESTORABLE, Retention
    from microsub.timelines.rules import Rules, settle, settle_in
    from microsub.timelines.saved import SavedPosts, count_saved, saved_among, saved_of
    from microsub.timelines.sign_in import SignedFeeds
    from microsub.timelines.sync.arrivals import (
        Arrival,
        ArrivalQuery,
        Arrivals,
        ArrivedItems,
        arrivals_in,
        bare_arrivals,
        count_since,
        disagreeing_arrivals,
        in_channels,
        keep_order,
        last_position,
        places_of,
        read_arrivals,
        read_newcomers,
        repair_all_arrivals,
        repair_arrivals,
        stateless,
        unread_after,
        unread_by_channel,
    )
    from microsub.timelines.sync.live_events import (
        EVENTS_AT_ONCE,
        EVENTS_IN_ALL,
        EVENTS_OF_NETWORK,
        EVENTS_OF_TOKEN,
        EVENTS_OF_USER,
        ITEMS,
        KEPT_SECONDS,
        EventPosition,
        Listeners,
        LiveEvent,
        open_events,
        read_events,
    )
    from microsub.timelines.timelinekeys import (
        distinct,
        rule_keys,
        set_keys,
        shown_keys,
        urls,
    )
    from microsub.timelines.views import ReaderViews, SourceCount, StyleOf
else:
    __getattr__ = lazy_exports(__name__, __file__)
