"""A bounded cache with lifetimes and single flight: one search for all callers of the same key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import MicrosubError, ParserUnavailable

T = TypeVar("T")


_Outcome = tuple[float, T | MicrosubError]
"""When a search began, and its result."""


def _result(outcome: _Outcome[T]) -> T:
    _, found = outcome
    if isinstance(found, MicrosubError):
        raise found.with_traceback(None) from None
    return found


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
        self._known: BoundedCache[str, _Outcome[T]] = BoundedCache(most)
        self._searches: dict[str, asyncio.Task[_Outcome[T]]] = {}

    async def get(self, key: str, find: Callable[[], Awaitable[T]], *, max_age: float | None = None) -> T:
        """The result of `find`, at most `max_age` seconds old, or its exception.

        A caller that is cancelled doesn't stop the search for the others.
        """
        known = self._known.get(key)
        if known is not None and self._is_good(known, max_age):
            self._known.touch(key)
            return _result(known)
        search = self._searches.get(key)
        if search is None:
            search = self._searches[key] = asyncio.create_task(self._find(key, find))
            search.add_done_callback(lambda done: self._ended(key, done))
        return _result(await asyncio.shield(search))

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

    def _is_good(self, known: _Outcome[T], max_age: float | None) -> bool:
        at, found = known
        lifetime = self._failures if isinstance(found, MicrosubError) else self._lifetime
        return self._clock() - at < (lifetime if max_age is None else min(lifetime, max_age))

    async def _find(self, key: str, find: Callable[[], Awaitable[T]]) -> _Outcome[T]:
        async with self._turn:
            begun = self._clock()
            try:
                outcome: _Outcome[T] = begun, await find()
            except ParserUnavailable as error:
                return begun, error.with_traceback(None)
            except MicrosubError as error:
                outcome = begun, error.with_traceback(None)
                known = self._known.get(key)
                if known is not None and not isinstance(known[1], MicrosubError) and self._is_good(known, None):
                    return outcome  # callers that wanted a fresher one get the error; others keep the last success
        if self._searches.get(key) is not asyncio.current_task():
            return outcome
        self._known[key] = outcome
        return outcome

    def _ended(self, key: str, done: asyncio.Task[_Outcome[T]]) -> None:
        if self._searches.get(key) is done:
            del self._searches[key]
        if not done.cancelled():
            done.exception()  # retrieve it, even if all waiting callers are gone
