"""The followers of feeds, from memory.

The lists of followers that delivery needs for every new post are cached. A list is valid while its edition is the
current one; a change of the set replaces the edition in the same step (lua/feed_followers.lua). So a change takes
effect at the next look-up, in every process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from microsub.model.reader import ChannelKey
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import text

MOST = 200_000
"""Followers in all lists that a process remembers, about 200 bytes each."""

Places = tuple[ChannelKey, ...]
"""The channels of all followers of a feed, in a fixed order."""


@dataclass(frozen=True, slots=True)
class _Known:
    edition: bytes | None
    places: Places


class Audience:
    """The cached lists of followers of feeds."""

    def __init__(self, redis: Redis, *, most: int = MOST) -> None:
        self._redis = redis
        self._most = most
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._held = 0

    async def at(self, feed_id: str, edition: bytes | None) -> Places:
        """The feed's followers, for a caller that has just read their edition.

        From memory, or for a changed list with one round trip.
        """
        known = self._known.get(feed_id)
        if known is not None and known.edition == edition:
            self._known.move_to_end(feed_id)
            return known.places
        # The edition first: after a change between the two, the list counts as old next time, never as new.
        edition, members = await self._redis.pipeline(
            [("GET", keys.feed_edition(feed_id)), ("SMEMBERS", keys.feed_subscribers(feed_id))]
        )
        places = as_places(members)
        self._keep(feed_id, _Known(edition, places))
        return places

    def asking(self, feed_id: str) -> Command:
        """The command whose reply `at` expects, to be sent with others."""
        return "GET", keys.feed_edition(feed_id)

    def _keep(self, feed_id: str, known: _Known) -> None:
        if old := self._known.pop(feed_id, None):
            self._held -= len(old.places)
        self._known[feed_id] = known
        self._held += len(known.places)
        while self._held > self._most and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            self._held -= len(dropped.places)


def as_places(members: list[bytes]) -> Places:
    """The members of a feed's set of subscribers."""
    pairs = (text(member).partition("/") for member in members)
    return tuple(sorted((user, uid) for user, _, uid in pairs))
