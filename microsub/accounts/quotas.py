"""Quotas and rate limits of each user, from backend.json."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from microsub.accounts.store import Accounts
from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import MINUTE
from microsub.base.errors import StoreError, StoreUnavailable, TooManyRequests
from microsub.base.texts import Sentence
from microsub.base.ttl_cache import TtlCache
from microsub.configuration.effective import AllSettings, EffectiveSettings
from microsub.configuration.model import OF_DECLARED, OF_REGISTERED, Quotas
from microsub.redis.attempts import AttemptCounts

REGISTERED = 60.0
"""How long it is cached whether a user registered themselves, which never changes."""

STEPS = 10
"""A process's reports of a user's requests before the limit is reached, if nothing else causes a report."""
REPORTED_AFTER = 1.0
"""Seconds after which it reports in any case, with the next request."""

CountedQuota = Literal["channels", "feeds", "media", "output_items", "outputs", "rules", "saved", "sources", "tokens"]
"""The limits in `Quotas`, except for requests, which `UserQuotas.count` counts."""
Most = Callable[[CountedQuota, str], Awaitable[int]]
"""A user's quota of some kind; 0: no limit."""
MOST_COUNTED = 10_000
"""Maximum number of users whose counts a process remembers."""


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
        self._minutes: BoundedCache[str, _Minute] = BoundedCache(MOST_COUNTED)

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
            lifetime=REGISTERED, failures=0.0, most=MOST_COUNTED, at_once=MOST_COUNTED, clock=clock
        )
        self._requests_of: tuple[AllSettings, dict[str, int]] = (AllSettings(), {})

    async def of(self, user: str) -> Quotas:
        """The limits of the user, 0 for no limit."""
        everywhere = await self._effective.everything()
        return resolved(everywhere, user, registered=await self._is_registered(user))

    async def levels(self, user: str) -> QuotaLevels:
        """Where the limits of the user come from."""
        return levels(await self._effective.everything(), user, registered=await self._is_registered(user))

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


_NONE_CHOSEN = Quotas()


class QuotaLevels(NamedTuple):
    """A user's quotas in backend.json, those chosen by an admin on a page, and the usual ones of such users."""

    declared: Quotas
    chosen: Quotas
    usual: Quotas


def levels(everywhere: AllSettings, user: str, *, registered: bool) -> QuotaLevels:
    """The levels of a user's quotas, the strongest first. Pure."""
    instance = everywhere.instance
    of_kind = instance.registration.quotas if registered else instance.quotas
    usual = of_kind.over(OF_REGISTERED if registered else OF_DECLARED)
    return QuotaLevels(everywhere.of_user(user).quotas, everywhere.quotas.get(user, _NONE_CHOSEN), usual)


def resolved(everywhere: AllSettings, user: str, *, registered: bool) -> Quotas:
    """A user's limits. Pure."""
    found = levels(everywhere, user, registered=registered)
    return found.declared.over(found.chosen).over(found.usual)
