"""How many requests a user may make in a minute, whichever of several processes they reach.

Each process counts what it lets through, and tells the others in steps (`identity.store.rates`): at the first request
of a minute, after every tenth of the limit, and at the next request when a second has passed. So a user is never
refused below the limit, as all that counts was let through; and gets over it only where several processes haven't told
each other yet, by a tenth of the limit for each process. One process alone is exact.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from microsub.errors import StoreError, TooManyRequests

STEPS = 10
"""Times that a process tells of a user's requests on the way to the limit, if nothing else makes it tell."""
TOLD_AFTER = 1.0
"""Seconds after which it tells of them in any case, at the next request."""
MINUTE = 60
_MOST_USERS = 10_000


class RatesPort(Protocol):
    """What is needed of `identity.store.rates.Rates`."""

    async def add(self, user: str, minute: int, count: int) -> int:
        """See there."""
        ...


@dataclass(slots=True)
class _Minute:
    """What a process knows of one user and minute: `known` of all processes, `untold` its own beside that."""

    number: int
    known: int = 0
    untold: int = 0
    told_at: float = float("-inf")
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)


class Limiting:
    """Counts requests. Times are Unix seconds."""

    def __init__(self, rates: RatesPort) -> None:
        self._rates = rates
        self._minutes: OrderedDict[str, _Minute] = OrderedDict()

    def exhausted(self, user: str, limit: int, now: float) -> bool:
        """Whether this process knows that the user may ask nothing more in this minute. Counts nothing."""
        minute = self._minutes.get(user)
        return minute is not None and minute.number == int(now // MINUTE) and minute.known + minute.untold >= limit

    async def count(self, user: str, limit: int, now: float) -> None:
        """Let one more request through. Raises TooManyRequests, and StoreError where too many weren't told yet."""
        minute = self._minute(user, int(now // MINUTE))
        step = step_of(limit)
        while True:
            if minute.known + minute.untold >= limit:
                raise refused(limit, now)
            if minute.untold < step:
                break
            await self._tell(user, minute, now)
        minute.untold += 1
        if minute.untold >= step or now - minute.told_at >= TOLD_AFTER:
            with suppress(StoreError):  # the request meets the same store, and will say so itself
                await self._tell(user, minute, now)

    async def _tell(self, user: str, minute: _Minute, now: float) -> None:
        async with minute.telling:
            count = minute.untold
            if count:
                minute.known = await self._rates.add(user, minute.number, count)
                minute.untold -= count
                minute.told_at = now

    def _minute(self, user: str, number: int) -> _Minute:
        minute = self._minutes.pop(user, None)
        if minute is None or minute.number < number:
            minute = _Minute(number)
        self._minutes[user] = minute
        while len(self._minutes) > _MOST_USERS:
            self._minutes.popitem(last=False)
        return minute


def step_of(limit: int) -> int:
    """How many requests a process lets through without telling."""
    return max(1, limit // STEPS)


def refused(limit: int, now: float) -> TooManyRequests:
    """The error for a user who has made `limit` requests in this minute."""
    return TooManyRequests(
        f"the limit for requests is reached: this server allows you {limit} in a minute; "
        "try again when the next minute begins",
        math.ceil(MINUTE - now % MINUTE),
    )
