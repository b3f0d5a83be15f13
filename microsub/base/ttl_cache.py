"""A bounded cache with lifetimes and single flight: one search for all callers of the same key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import MicrosubError, ParserUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CachedOutcome(Generic[T]):
    at: float
    value: T | None = None
    error: MicrosubError | None = None

    def result(self) -> T:
        if self.error is not None:
            raise self.error.with_traceback(None) from None
        return self.value  # type: ignore[return-value]  # one of the two is set


class TtlCache(Generic[T]):
    """Outcomes by key, at most `most`, the least recently used dropped first. Belongs to one event loop.

    Successes are kept for `lifetime` seconds, the project's own errors for `failures` seconds. Other exceptions are
    bugs and aren't kept, nor is the lack of a parser. At most `at_once` searches run at a time; the others wait for
    their turn.
    """

    def __init__(
        self,
        *,
        lifetime: float,
        failures: float,
        most: int,
        at_once: int = 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lifetime = lifetime
        self._failures = failures
        self._turn = asyncio.Semaphore(at_once)
        self._clock = clock
        self._known: BoundedCache[str, _CachedOutcome[T]] = BoundedCache(most)
        self._searches: dict[str, asyncio.Task[_CachedOutcome[T]]] = {}

    async def get(self, key: str, find: Callable[[], Awaitable[T]], *, max_age: float | None = None) -> T:
        """The result of `find`, at most `max_age` seconds old, or its exception.

        A caller that is cancelled doesn't stop the search for the others.
        """
        known = self._known.get(key)
        if known is not None and self._is_good(known, max_age):
            self._known.touch(key)
            return known.result()
        search = self._searches.get(key)
        if search is None:
            search = self._searches[key] = asyncio.create_task(self._find(key, find))
            search.add_done_callback(lambda done: self._ended(key, done))
        return (await asyncio.shield(search)).result()

    def has(self, key: str) -> bool:
        """Whether there is a fresh outcome."""
        known = self._known.get(key)
        return known is not None and self._is_good(known, None)

    def is_sought(self, key: str) -> bool:
        """Whether a search is running, so that one more caller costs nothing."""
        return key in self._searches

    def forget(self, key: str | None = None) -> None:
        """Delete one outcome, or all. The result of a running search goes only to callers that wait already."""
        if key is None:
            self._known.clear()
            self._searches.clear()
        else:
            self._known.pop(key)
            self._searches.pop(key, None)

    def _is_good(self, known: _CachedOutcome[T], max_age: float | None) -> bool:
        lifetime = self._lifetime if known.error is None else self._failures
        return self._clock() - known.at < (lifetime if max_age is None else min(lifetime, max_age))

    async def _find(self, key: str, find: Callable[[], Awaitable[T]]) -> _CachedOutcome[T]:
        async with self._turn:
            begun = self._clock()
            try:
                outcome = _CachedOutcome(begun, value=await find())
            except ParserUnavailable as error:
                return _CachedOutcome(begun, error=error.with_traceback(None))
            except MicrosubError as error:
                outcome = _CachedOutcome(begun, error=error.with_traceback(None))
                known = self._known.get(key)
                if known is not None and known.error is None and self._is_good(known, None):
                    return outcome  # callers that wanted a fresher one get the error; others keep the last success
        if self._searches.get(key) is not asyncio.current_task():
            return outcome
        self._known[key] = outcome
        return outcome

    def _ended(self, key: str, done: asyncio.Task[_CachedOutcome[T]]) -> None:
        if self._searches.get(key) is done:
            del self._searches[key]
        if not done.cancelled():
            done.exception()  # retrieve it, even if all waiting callers are gone
