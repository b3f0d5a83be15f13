"""The room for a user's own posts, in bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from microsub.accounts.quotas import MOST_COUNTED, resolved
from microsub.accounts.store import User, count_posts, set_posts
from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import MINUTE
from microsub.base.errors import FollowersFull, QuotaReached
from microsub.configuration.effective import AllSettings, EffectiveSettings
from microsub.redis.protocol import Redis

AT_ONCE = 20
"""Followers of a feed among whom the bytes of new posts are shared at once; those of more only upkeep counts."""
_KIND_KNOWN = 600.0
"""Seconds for which a user without a quota is assumed to have none, except for changed settings."""


@dataclass(slots=True)
class _Room:
    """What a process knows of a user's own posts: the bytes counted in Redis, and those it has yet to report."""

    read_at: float = float("-inf")
    is_registered: bool = False
    most: int = 0
    used: int = 0
    unreported: int = 0

    @property
    def taken(self) -> int:
        """The bytes of the user's own posts, as far as the process knows."""
        return self.used + self.unreported

    @property
    def is_left(self) -> bool:
        """Whether there is room for further posts."""
        return not self.most or self.taken < self.most


class PostRoom:
    """The room for a user's own posts: of feeds that few follow, of the user's sources, and picked ones.

    The bytes of a feed's posts are shared in equal parts among its followers. New ones are counted when they are
    stored, among up to `AT_ONCE` followers, and reported with the next reading. Everything else upkeep finds out once
    a day, and corrects the count: posts that were deleted, followers that came and left, feeds that many follow.
    """

    def __init__(self, redis: Redis, effective: EffectiveSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._effective = effective
        self._clock = clock
        self._reading = asyncio.Lock()
        self._rooms: BoundedCache[str, _Room] = BoundedCache(MOST_COUNTED)
        self._quotas: tuple[AllSettings, dict[tuple[str, bool], int]] = (AllSettings(), {})

    async def require(self, users: Collection[str]) -> None:
        """Raise QuotaReached if none of a feed's followers has room, so that nobody's quota ends others' posts.

        Reads Redis at most once a minute for each user, in one round trip for `AT_ONCE` of them. Of users whose master
        of a cluster is away, it goes by what it knows.
        """
        everywhere = await self._effective.everything()
        rest = iter(users)
        while some := list(islice(rest, AT_ONCE)):
            rooms = await self._read(some, everywhere)
            if any(room.is_left for room in rooms):
                return
            if len(users) == 1:
                raise QuotaReached("bytes of posts", rooms[0].taken, rooms[0].most)
        raise FollowersFull("bytes of posts")

    def count(self, users: Collection[str], size: int) -> None:
        """Count `size` more bytes of posts of a feed with these followers."""
        if len(users) <= AT_ONCE:
            for room in filter(None, map(self._rooms.get, users)):
                room.unreported += size // len(users) if room.most else 0

    async def most(self, user: User) -> int:
        """The user's quota in bytes; 0: no limit."""
        return self._most(await self._effective.everything(), user.name, registered=user.registered)

    async def correct(self, user: str, size: int) -> None:
        """Set the count to the user's share of the bytes that are stored."""
        await set_posts(self._redis, user, size)
        self._rooms.pop(user)

    def _most(self, everywhere: AllSettings, user: str, *, registered: bool) -> int:
        """The user's quota, remembered while the same settings are active."""
        settings, known = self._quotas
        if settings is not everywhere:
            known = {}
            self._quotas = (everywhere, known)
        if (user, registered) not in known:
            known[user, registered] = resolved(everywhere, user, registered=registered).posts or 0
        return known[user, registered]

    async def _read(self, users: Sequence[str], everywhere: AllSettings) -> list[_Room]:
        """The rooms of these users, read again if that was long ago."""
        rooms: dict[str, _Room] = {}
        for user in users:
            room = rooms[user] = self._rooms[user] = self._rooms.get(user) or _Room()
            room.most = self._most(everywhere, user, registered=room.is_registered)
        if self._old(rooms):
            async with self._reading:  # callers that need the same counts wait for them
                if old := self._old(rooms):
                    await self._report(old)
            for user, room in rooms.items():
                room.most = self._most(everywhere, user, registered=room.is_registered)
        return list(rooms.values())

    def _old(self, rooms: Mapping[str, _Room]) -> list[tuple[str, _Room]]:
        """Those that must be read again."""
        now = self._clock()
        return [one for one in rooms.items() if now - one[1].read_at >= (MINUTE if one[1].most else _KIND_KNOWN)]

    async def _report(self, read: Sequence[tuple[str, _Room]]) -> None:
        """Add what these rooms haven't reported to the counts in Redis, and read these."""
        added = [room.unreported for _, room in read]
        replies = await count_posts(self._redis, {user: room.unreported for user, room in read})
        for (_, room), size, reply in zip(read, added, replies, strict=True):
            if isinstance(reply, list):
                room.read_at = self._clock()
                room.unreported -= size
                room.is_registered, room.used = bool(reply[0]), int(reply[1])
