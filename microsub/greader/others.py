"""Items whose feed their user doesn't follow: saved ones, and those that were read before the feed was unfollowed."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.base.bounded_cache import BoundedCache
from microsub.greader.streams import Streams
from microsub.redis.protocol import Redis
from microsub.timelines import ArrivalQuery, ReaderViews, places_of

_STEP = 1000
_MOST_USERS = 10_000


class OtherItems:
    """Tells whether users have such items: apps tie every item to a feed, so these get a feed of their own.

    A process examines a user's whole order of arrival once; then only later arrivals, and the items of feeds that were
    unfollowed meanwhile.
    """

    def __init__(self, redis: Redis, reading: ReaderViews, streams: Streams) -> None:
        self._redis = redis
        self._reading = reading
        self._streams = streams
        self._known: BoundedCache[str, tuple[frozenset[str], int, str]] = BoundedCache(_MOST_USERS)
        """The followed feeds that were seen, the last position, and one of the items, if there was any."""

    async def exist(self, user: str, uids: Sequence[str], followed: frozenset[str], now: float) -> bool:
        """Whether the user's channels `uids` show an item of another feed; `followed` includes replaced ones."""
        earlier, position, known = self._known.get(user) or (followed, 0, "")
        if known:
            is_there = bool(await places_of(self._redis, user, [known]))
            if is_there and await self._first_of([known], followed):
                return True
            earlier, position = followed, 0
        left = sorted(earlier - followed)
        places = await self._streams.places_in(user, uids, left) if left else {}
        item = next(iter(places), "")
        more: int | None = position
        while not item and more is not None:
            asked = ArrivalQuery(_STEP, oldest_first=True, after=str(more) if more else "")
            rows, more = await self._streams.piece(user, asked, now, states=False)
            item = await self._first_of([row.id for row in rows], followed)
            position = rows[-1].position if rows else position
        self._known[user] = followed, position, item
        return bool(item)

    async def _first_of(self, ids: Sequence[str], followed: frozenset[str]) -> str:
        feeds = await self._reading.feeds_of(ids)
        return next((item for item, feed in zip(ids, feeds, strict=True) if feed and feed not in followed), "")
