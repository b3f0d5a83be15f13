"""Who follows a feed, remembered: the lists of subscribers that fan-out needs for every new post.

A list is good for as long as its edition, which a change of the set replaces in the same step (lua/feed_followers.lua),
is the one that it was read with. So a change counts from the next question on, in every process; and a change
with redis-cli, after `REMEMBERED` seconds.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import text

REMEMBERED = 300.0
"""Seconds after which a list is read again in any case."""

MOST = 200_000
"""Subscribers in all the lists that a process remembers, about 200 bytes each."""

Places = tuple[tuple[str, str], ...]
"""User and channel uid of everyone who follows a feed, in a fixed order."""


@dataclass(frozen=True, slots=True)
class _Known:
    edition: bytes | None
    until: float
    places: Places


class Audience:
    """The subscribers of feeds. `clock` is monotonic, in seconds."""

    def __init__(self, redis: Redis, *, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._most = most
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._held = 0

    async def of(self, feed_id: str) -> Places:
        """The feed's subscribers at a moment after the call. One round trip, another one for a list that changed."""
        edition = await self._edition(feed_id) if feed_id in self._known else None
        return await self.at(feed_id, edition)

    async def at(self, feed_id: str, edition: bytes | None) -> Places:
        """The same for who has just read the edition: no round trip, or one for a list that changed."""
        known = self._known.get(feed_id)
        if known is not None and known.until > self._clock() and known.edition == edition:
            self._known.move_to_end(feed_id)
            return known.places
        # The edition first: a change between the two makes the list count as old next time, never as new.
        edition, members = await self._redis.pipeline(
            [("GET", keys.feed_edition(feed_id)), ("SMEMBERS", keys.feed_subscribers(feed_id))]
        )
        places = as_places(members)
        self._keep(feed_id, _Known(edition, self._clock() + REMEMBERED, places))
        return places

    def asking(self, feed_id: str) -> Command:
        """The command whose reply `at` takes, to be sent with others."""
        return "GET", keys.feed_edition(feed_id)

    async def _edition(self, feed_id: str) -> bytes | None:
        edition: bytes | None = await self._redis.command(*self.asking(feed_id))
        return edition

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
