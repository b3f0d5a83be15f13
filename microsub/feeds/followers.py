"""The followers of feeds, from memory.

The lists of followers that delivery needs for every new post are cached. A list is valid while its edition is the
current one; a change of the set replaces the edition in the same step (lua/feed_followers.lua). So a change takes
effect at the next look-up, in every process.
"""

from __future__ import annotations

from microsub.base.bounded_cache import BoundedCache
from microsub.model.reader import ChannelKey
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.structures import Members, Request, Value, together

MOST = 200_000
"""Followers in all lists that a process remembers, about 200 bytes each."""

Places = tuple[ChannelKey, ...]
"""The channels of all followers of a feed, in a fixed order."""


class Audience:
    """The cached lists of followers of feeds."""

    def __init__(self, redis: Redis, *, most: int = MOST) -> None:
        self._redis = redis
        # However long, the latest list is kept.
        self._known: BoundedCache[str, tuple[bytes | None, Places]] = BoundedCache(
            most, lambda one: min(len(one[1]), most)
        )
        """Edition and followers of each list."""

    async def of(self, feed_id: str) -> Places:
        """The feed's followers. One round trip, and another for a changed list."""
        return await self.at(feed_id, await self.asking(feed_id))

    async def at(self, feed_id: str, edition: bytes | None) -> Places:
        """The feed's followers, for a caller that has just read their edition.

        From memory, or for a changed list with one round trip.
        """
        known = self._known.get(feed_id)
        if known is not None and known[0] == edition:
            self._known.touch(feed_id)
            return known[1]
        # The edition first: after a change between the two, the list counts as old next time, never as new.
        followers = Members(self._redis, keys.feed_subscribers(feed_id)).all()
        edition, members = await together(self.asking(feed_id), followers)
        places = as_places(members)
        self._known[feed_id] = edition, places
        return places

    def asking(self, feed_id: str) -> Request[bytes | None]:
        """The request for the edition that `at` expects, to be sent with others."""
        return Value(self._redis, keys.feed_edition(feed_id)).get()


def as_places(members: list[bytes]) -> Places:
    """The members of a feed's set of subscribers."""
    pairs = (text(member).partition("/") for member in members)
    return tuple(sorted((user, uid) for user, _, uid in pairs))
