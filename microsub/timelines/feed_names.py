"""The names of feeds for a user: the user's own, or the feed's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain

import orjson

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import StoreError, StoreUnavailable
from microsub.base.urls import mask_credentials
from microsub.feeds import FeedRecord, Feeds
from microsub.model.reader import Subscription
from microsub.timelines.channels.follows import NEVER_NAMED, in_turns
from microsub.timelines.channels.store import Channels

TITLES_KEPT, UNPOLLED_KEPT = 300.0, 3.0
"""Seconds for which titles are remembered: of all feeds, and while one that the user has named hasn't been polled."""
_MOST_KNOWN = 10_000


def feed_name(subscription: Subscription | None, record: FeedRecord | None) -> str:
    """A feed's name for a user: the user's own, the feed's, or its address."""
    own = subscription.name if subscription else None
    url = subscription.url if subscription else record.url if record else ""
    return own or (record.title if record else None) or mask_credentials(url)


class FeedNames:
    """A user's own names for feeds, by feed; false if there are none."""

    def __init__(self, own: Mapping[str, str], titles: Mapping[str, str | None]) -> None:
        """`titles` are the feeds' own titles."""
        self.own = own
        self._cards = {
            feed.encode(): (_card(titles[feed] or ""), _card(name)) for feed, name in own.items() if feed in titles
        }

    def __bool__(self) -> bool:
        return bool(self.own)

    def put_into(self, item: bytes) -> bytes:
        """The item's JSON with the user's name for its feed, if the feed replaces a missing author.

        That is so if the author is called as the feed is, or has no name. Nothing is decoded.
        """
        found = self._cards.get(item[item.rfind(b'"', 0, -2) + 1 : -2])
        if found is None:
            return item
        title, own = found
        nameless = item.rfind(_NAMELESS, -_BEFORE_IDS)
        if nameless >= 0 and item.startswith(b'_id":', nameless + len(_NAMELESS) + 2):
            return item[:nameless] + own + item[nameless + len(_NAMELESS) - 1 :]
        return item if title == own else item.replace(title, own, 1)


_NAMELESS = b'"author":{"type":"card"}'
"""The author in an item without one: its last member before the ids."""
_BEFORE_IDS = 200
"""Bytes of an item's end in which such an author begins; both ids have at most 20 digits."""


def _card(name: str) -> bytes:
    return _NAMELESS[:-1] + b',"name":' + orjson.dumps(name)


NO_NAMES = FeedNames({}, {})


class OwnNames:
    """The names that users gave their feeds.

    Pages have the number by which a change of the names is seen, so names are read again only then; and after
    `TITLES_KEPT`, because feeds change their titles, or sooner while a feed waits for its first poll.
    """

    def __init__(self, channels: Channels, feeds: Feeds) -> None:
        self._channels = channels
        self._feeds = feeds
        self._known: BoundedCache[str, tuple[bytes, float, FeedNames]] = BoundedCache(_MOST_KNOWN)

    async def of(self, user: str, number: bytes | None = None) -> FeedNames:
        """The user's names; `number` is as in `PageRows.own_names`, None if it must be read."""
        if number is None:
            number = await self._channels.number_of_names(user)
        if number == NEVER_NAMED:
            return NO_NAMES
        known = self._known.get(user)
        if known is not None and known[0] == number and time.monotonic() < known[1]:
            return known[2]
        names, kept = await self._read(user)
        if not number and not names:
            with suppress(StoreError):  # a Redis that takes no changes hides no page
                await self._channels.note_without_names(user)
        self._known[user] = number, time.monotonic() + kept, names
        return names

    def last(self, user: str) -> FeedNames:
        """The names as last read, for pages that were read with them."""
        known = self._known.get(user)
        return NO_NAMES if known is None else known[2]

    async def _read(self, user: str) -> tuple[FeedNames, float]:
        """The names, and the seconds for which they hold."""
        followed = await self._channels.all_subscriptions(user)
        own = {one.feed: one.name async for one in in_turns(chain(*followed.values())) if one.name}
        records: Mapping[str, FeedRecord] = {}
        with suppress(StoreUnavailable):  # one master of a cluster is away, with the titles of its feeds
            records = await self._feeds.get_many(own) if own else {}
        is_waiting = any(record.title is None and record.last_poll is None for record in records.values())
        names = FeedNames(own, {feed: record.title for feed, record in records.items()})
        return names, UNPOLLED_KEPT if is_waiting else TITLES_KEPT
