"""The feed cache for programs without an event loop: its methods block their thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

from microsub.base.errors import FetchError, ParseError
from microsub.base.tasks import cancel_all
from microsub.cache.feeds import CachedFeed, FeedCache

T = TypeVar("T")


class BlockingFeedCache:
    """Takes the same arguments as `FeedCache`, or an existing one.

    Any number of threads may use it at once. All requests run on one event loop in its own thread, which starts with
    the first call and ends with `close`. After a fork, each process has its own.
    """

    def __init__(self, storage: Any = None, **options: Any) -> None:
        self.cache = storage if isinstance(storage, FeedCache) else FeedCache(storage, **options)
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def __enter__(self) -> BlockingFeedCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(
        self, url: str, force: bool = False, offline: bool = False, ttl: float | None = None, follow: bool = True
    ) -> CachedFeed:
        """See `FeedCache.fetch`."""
        return self._run(self.cache.fetch(url, force, offline, ttl, follow))

    def fetch_many(
        self,
        urls: Iterable[str],
        force: bool = False,
        offline: bool = False,
        ttl: float | None = None,
        at_once: int = 20,
        follow: bool = True,
    ) -> Iterator[tuple[str, CachedFeed | FetchError | ParseError]]:
        """See `FeedCache.fetch_many`; requests continue while the caller handles the results."""
        came: SimpleQueue[tuple[str, CachedFeed | FetchError | ParseError] | BaseException | None] = SimpleQueue()

        async def work() -> None:
            try:
                async for pair in self.cache.fetch_many(urls, force, offline, ttl, at_once, follow):
                    came.put(pair)
                came.put(None)
            except BaseException as error:
                came.put(error)
                raise

        task = asyncio.run_coroutine_threadsafe(work(), self._running_loop())
        try:
            while (item := came.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            task.cancel()

    def remove(self, url: str) -> None:
        """See `FeedCache.remove`."""
        self._run(self.cache.remove(url))

    def purge(self, older_than: float) -> int:
        """See `FeedCache.purge`."""
        return self._run(self.cache.purge(older_than))

    def close(self) -> None:
        """Cancel all work and close everything, until the next call."""
        with self._guard:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._process != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _end(self) -> None:
        await cancel_all(task for task in asyncio.all_tasks() if task is not asyncio.current_task())
        await self.cache.aclose()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits for the result any more
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._process != os.getpid():
            # Threads don't survive a fork, and the lock may have been copied while it was held.
            self._guard, self._loop, self._process = threading.Lock(), None, os.getpid()
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="feed-cache-loop", daemon=True)
                self._thread.start()
            return self._loop
