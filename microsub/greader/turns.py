"""The turns of a user's requests, so that one with many delays only themselves."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import StoreError, TooManyRequests
from microsub.base.locks import KeyedLocks
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter
from microsub.greader.api import NativeCall, NativeRoute
from microsub.web.responses import RETRY_SECONDS, HttpReply

WAITING = RateLimit("requests of a kind that wait for their turn", "user", 100, AT_ONCE)
"""NetNewsWire asks for the contents of 10,000 posts in 67 requests at once, if a proxy lets it."""
_MOST_FAILED = 1000


class UserTurns:
    """Carries out one request of a user and a kind at a time, and refuses further ones if too many wait.

    A hundred replies with contents took six gigabytes at once, and eight with 200,000 ids five seconds in which nobody
    else got any. A request doesn't wait for those of another kind, which can be a hundred times as large.
    """

    def __init__(self) -> None:
        self._turns = KeyedLocks()
        self._limiter = RateLimiter()
        self._failed: BoundedCache[str, tuple[float, StoreError]] = BoundedCache(_MOST_FAILED)

    def route(self, kind: str, run: Callable[[NativeCall], Awaitable[HttpReply]]) -> NativeRoute:
        """The route of that function, of GET and POST."""

        async def answer(call: NativeCall) -> HttpReply:
            key, begun = f"{kind} {call.user}", time.monotonic()
            why = "too many requests wait for an answer: try again in a few seconds"
            try:
                with self._limiter.holding((WAITING, key), refusal=TooManyRequests(why, RETRY_SECONDS)):
                    async with self._turns.of(key):
                        return await self._first_of(key, begun, run, call)
            finally:
                if not self._turns.of(key).locked():
                    self._failed.pop(key)  # it would keep what its request had in memory

        return NativeRoute(answer)

    async def _first_of(
        self, key: str, begun: float, run: Callable[[NativeCall], Awaitable[HttpReply]], call: NativeCall
    ) -> HttpReply:
        """The reply. While Redis is silent, those that wait fail with the first instead of one after the other."""
        at, error = self._failed.get(key) or (-math.inf, None)
        if error is not None and at >= begun:
            raise error
        try:
            return await run(call)
        except StoreError as failure:
            self._failed[key] = time.monotonic(), failure
            raise
