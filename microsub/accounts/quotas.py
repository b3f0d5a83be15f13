"""Quotas and rate limits of each user, from backend.json."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from microsub.accounts.credentials import AttemptCounts
from microsub.accounts.store import Accounts, User
from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import MINUTE
from microsub.base.errors import (
    FollowersFull,
    QuotaReached,
    StoreError,
    StoreIncomplete,
    StoreUnavailable,
    TooManyRequests,
)
from microsub.base.texts import Sentence
from microsub.base.ttl_cache import TtlCache
from microsub.configuration.effective import AllSettings, EffectiveSettings
from microsub.configuration.model import OF_DECLARED, OF_REGISTERED, Quotas
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.scripts import load

REGISTERED = 60.0
"""How long it is cached whether a user registered themselves, which never changes."""

STEPS = 10
"""A process's reports of a user's requests before the limit is reached, if nothing else causes a report."""
REPORTED_AFTER = 1.0
"""Seconds after which it reports in any case, with the next request."""

CountedQuota = Literal["channels", "feeds", "media", "output_items", "outputs", "rules", "saved", "sources", "tokens"]
Most = Callable[["CountedQuota", str], Awaitable[int]]
"""A user\'s quota of some kind; 0: no limit."""
"""The limits in `Quotas`, except for requests, which `UserQuotas.count` counts."""
AT_ONCE = 20
"""Followers of a feed among whom the bytes of new posts are shared at once; those of more only upkeep counts."""
_MOST_COUNTED = 10_000
_KIND_KNOWN = 600.0
"""Seconds for which a user without a quota is assumed to have none, except for changed settings."""
_COUNT = load("posts_count")


@dataclass(slots=True)
class _Minute:
    """A process's counts for one user and minute: `known` in total, `unreported` of its own."""

    number: int
    known: int = 0
    unreported: int = 0
    reported_at: float = float("-inf")
    reporting: asyncio.Lock = field(default_factory=asyncio.Lock)


class RequestRate:
    """Counts requests. Times are Unix seconds."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts
        self._minutes: BoundedCache[str, _Minute] = BoundedCache(_MOST_COUNTED)

    def counted(self, user: str, now: float) -> int:
        """The number of known requests of the user in this minute, without counting one."""
        minute = self._minutes.get(user)
        return minute.known + minute.unreported if minute is not None and minute.number == int(now // MINUTE) else 0

    async def count(self, user: str, limit: int, now: float) -> None:
        """Admit a request. Raises TooManyRequests; StoreFull if too many are unreported."""
        minute = self._minute(user, int(now // MINUTE))
        step = step_of(limit)
        while True:
            if minute.known + minute.unreported >= limit:
                raise too_many_requests(limit, now)
            if minute.unreported < step:
                break
            try:
                await self._report(user, minute, now)
            except StoreUnavailable:  # until it is back, each process counts for itself
                break
        minute.unreported += 1
        if minute.unreported >= step or now - minute.reported_at >= REPORTED_AFTER:
            with suppress(StoreError):  # the request itself will get the same error from the store
                await self._report(user, minute, now)

    async def _report(self, user: str, minute: _Minute, now: float) -> None:
        async with minute.reporting:
            count = minute.unreported
            if count:
                minute.known = await self._counts.in_minute(f"requests {user}", minute.number * MINUTE, count)
                minute.unreported -= count
                minute.reported_at = now

    def _minute(self, user: str, number: int) -> _Minute:
        minute = self._minutes.get(user)
        if minute is None or minute.number < number:
            minute = _Minute(number)
        self._minutes[user] = minute
        return minute


@dataclass(slots=True)
class _Room:
    """What a process knows of a user's own posts: the bytes counted in Redis, and those it has yet to report."""

    read_at: float = float("-inf")
    is_registered: bool = False
    most: int = 0
    used: int = 0
    unreported: int = 0

    @property
    def is_left(self) -> bool:
        """Whether there is room for further posts."""
        return not self.most or self.used + self.unreported < self.most


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
        self._rooms: BoundedCache[str, _Room] = BoundedCache(_MOST_COUNTED)
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
                raise QuotaReached("bytes of posts", rooms[0].used, rooms[0].most)
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
        await self._redis.script(_COUNT, [keys.user(user)], ["set", size])
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
        now, rooms, old = self._clock(), [], []
        for user in users:
            room = self._rooms[user] = self._rooms.get(user) or _Room()
            room.most = self._most(everywhere, user, registered=room.is_registered)
            if now - room.read_at >= (MINUTE if room.most else _KIND_KNOWN):
                old.append((user, room))
            rooms.append(room)
        if old:
            await self._report(old, now)
        for user, room in old:
            room.most = self._most(everywhere, user, registered=room.is_registered)
        return rooms

    async def _report(self, read: Sequence[tuple[str, _Room]], now: float) -> None:
        """Add what these rooms haven't reported to the counts in Redis, and read these."""
        added = [room.unreported for _, room in read]
        calls: list[ScriptCall] = [
            (_COUNT, [keys.user(user)], ["add", size]) for (user, _), size in zip(read, added, strict=True)
        ]
        for _, room in read:
            room.read_at = now
        try:
            replies = await self._redis.scripts(calls)
        except StoreIncomplete as error:
            replies = error.replies
        for (_, room), size, reply in zip(read, added, replies, strict=True):
            if isinstance(reply, list):
                room.unreported -= size
                room.is_registered, room.used = bool(reply[0]), int(reply[1])


def step_of(limit: int) -> int:
    """The number of requests that a process admits without a report."""
    return max(1, limit // STEPS)


def too_many_requests(limit: int, now: float) -> TooManyRequests:
    """The error for a user who has made `limit` requests in this minute."""
    return TooManyRequests(
        Sentence(
            "the limit for requests is reached: this server allows you {limit} in a minute; try "
            "again when the next minute begins",
            limit=limit,
        ),
        math.ceil(MINUTE - now % MINUTE),
    )


class UserQuotas:
    """The active quotas, and the count of requests.

    For users without limits, it costs only memory, and one look-up a minute.
    """

    def __init__(
        self,
        effective: EffectiveSettings,
        accounts: Accounts,
        limiting: RequestRate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._effective = effective
        self._accounts = accounts
        self._limiting = limiting
        self._registered: TtlCache[bool] = TtlCache(
            lifetime=REGISTERED, failures=0.0, most=_MOST_COUNTED, at_once=_MOST_COUNTED, clock=clock
        )
        self._requests_of: tuple[AllSettings, dict[str, int]] = (AllSettings(), {})

    async def of(self, user: str) -> Quotas:
        """The limits of the user: None for unset ones, 0 for no limit."""
        everywhere = await self._effective.everything()
        return resolved(everywhere, user, registered=await self._is_registered(user))

    async def most(self, what: CountedQuota, user: str) -> int:
        """The user's quota of that kind; 0: no limit."""
        found: int | None = getattr(await self.of(user), what)
        return found or 0

    async def count(self, user: str, now: float) -> None:
        """Count and admit one more request of the user. Raises TooManyRequests."""
        limit = await self._requests(user)
        if limit:
            await self._limiting.count(user, limit, now)

    async def refuse_exhausted(self, user: str, now: float) -> None:
        """Raise TooManyRequests if the user is known to have no requests left in this minute."""
        counted = self._limiting.counted(user, now)
        if counted and counted >= (limit := await self._requests(user)) > 0:
            raise too_many_requests(limit, now)

    async def _requests(self, user: str) -> int:
        """The user's limit of requests per minute; 0: no limit.

        It is needed for every request, so it is cached while the same settings are active, which are read again every
        second.
        """
        everywhere = await self._effective.everything()
        settings, limits = self._requests_of
        if settings is not everywhere:
            limits = {}
            self._requests_of = (everywhere, limits)
        limit = limits.get(user)
        if limit is None:
            registered = await self._is_registered(user)
            limit = limits[user] = resolved(everywhere, user, registered=registered).requests or 0
        return limit

    async def _is_registered(self, user: str) -> bool:
        return await self._registered.get(user, lambda: self._accounts.is_registered(user))


def resolved(everywhere: AllSettings, user: str, *, registered: bool) -> Quotas:
    """A user's own quotas, then those of their kind, then the defaults. Pure."""
    instance = everywhere.instance
    of_kind = instance.registration.quotas if registered else instance.quotas
    default = OF_REGISTERED if registered else OF_DECLARED
    own = everywhere.users.get(user)
    return (own.quotas.over(of_kind) if own else of_kind).over(default)
