"""Where copies are kept: any mapping from text to bytes, or something that is asynchronous by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")

Mapping = MutableMapping[str, bytes]
Opener = Callable[[], Mapping]


class UrlLock(Protocol):
    """Exclusive leave to ask one publisher, among all processes that share a storage."""

    @property
    def lease(self) -> float | None:
        """Seconds after which it is lost unless it is renewed; None: it ends with its process."""
        ...

    async def acquire(self) -> bool:
        """Take it if it is free; don't wait."""
        ...

    async def begin(self) -> tuple[bool, bytes | None]:
        """`acquire`, and then `Storage.get`: whether the lock is ours, and the bytes."""
        ...

    async def end(self, value: bytes, seconds: float) -> None:
        """`Storage.put`, and then `release`."""
        ...

    async def renew(self) -> object:
        """Extend the lease, if it is still ours."""
        ...

    async def release(self) -> None:
        """Give it back, if it is still ours."""
        ...


class Storage(Protocol):
    """Bytes by URL. What it raises is logged and counts as an empty storage: a cache must not be in the way."""

    async def get(self, url: str) -> bytes | None:
        """The bytes last put there, or None."""
        ...

    async def put(self, url: str, value: bytes, seconds: float) -> None:
        """Keep `value` in one step: all of it or nothing. It is of no use any more after `seconds` (may be `inf`)."""
        ...

    async def remove(self, url: str) -> None:
        """Forget the URL; it need not be there."""
        ...

    async def urls(self) -> list[str]:
        """All URLs that something is kept for."""
        ...

    async def tidy(self) -> None:
        """Clear away what writers that died left behind."""
        ...

    def lock(self, url: str) -> UrlLock | None:
        """A lock for that URL, not taken yet; None where no other process can be there."""
        ...

    async def aclose(self) -> None:
        """Close threads and files."""
        ...


class KeyLock(Protocol):
    """What a mapping's own `lock(key)` returns: `UrlLock`, blocking."""

    @property
    def lease(self) -> float | None:
        """See `UrlLock.lease`."""
        ...

    def acquire(self) -> bool:
        """Take it if it is free; don't wait."""
        ...

    def renew(self) -> None:
        """Extend the lease, if it is still ours."""
        ...

    def release(self) -> None:
        """Give it back, if it is still ours."""
        ...


@runtime_checkable
class Lockable(Protocol):
    """A mapping that offers a lock per key, across processes. Such a mapping is safe for threads, too."""

    def lock(self, key: str) -> KeyLock:
        """A lock for that key, not taken yet."""
        ...


class MappingStorage:
    """Any `MutableMapping[str, bytes]` as a storage; or a function that opens one, for those that must be used in the
    thread which opened them (`shelve` on SQLite).

    A dict is used directly. A mapping with a `lock` method is used from several threads at once, any other from one
    thread alone, so that it need not be safe for threads.
    """

    def __init__(self, mapping: Mapping | Opener) -> None:
        self._open = None if isinstance(mapping, MutableMapping) else mapping
        self._mapping = mapping if isinstance(mapping, MutableMapping) else None
        self._plain: Mapping | None = mapping if isinstance(mapping, dict) else None
        self._lockable: Any = mapping if isinstance(mapping, Lockable) else None
        self._threads: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    async def get(self, url: str) -> bytes | None:
        """See `Storage.get`."""
        return await self._run(lambda mapping: mapping.get(url))

    async def put(self, url: str, value: bytes, seconds: float) -> None:
        """See `Storage.put`. A mapping forgets nothing by itself: `FeedCache.purge` does that."""
        await self._run(lambda mapping: mapping.__setitem__(url, value))

    async def remove(self, url: str) -> None:
        """See `Storage.remove`."""
        await self._run(lambda mapping: mapping.pop(url, None))

    async def urls(self) -> list[str]:
        """See `Storage.urls`."""
        return await self._run(list)

    async def tidy(self) -> None:
        """See `Storage.tidy`."""
        await self._run(_tidy)

    def lock(self, url: str) -> UrlLock | None:
        """See `Storage.lock`."""
        return None if self._lockable is None else _ThreadedLock(self._lockable.lock(url), self, url)

    async def aclose(self) -> None:
        """See `Storage.aclose`. A mapping that was given open stays open."""
        if self._open is not None and self._mapping is not None:
            await self._run(_close)
            self._mapping = None
        if self._threads is not None and self._process == os.getpid():
            self._threads.shutdown(wait=False)
        self._threads = None

    async def _run(self, work: Callable[[Mapping], T]) -> T:
        if self._plain is not None:
            return work(self._plain)
        if self._lockable is not None and self._mapping is not None:
            return await asyncio.to_thread(work, self._mapping)
        return await asyncio.get_running_loop().run_in_executor(self._thread(), self._work, work)

    def _work(self, work: Callable[[Mapping], T]) -> T:
        if self._mapping is None:
            assert self._open is not None
            self._mapping = self._open()
        return work(self._mapping)

    def _thread(self) -> ThreadPoolExecutor:
        if self._threads is None or self._process != os.getpid():  # threads don't survive a fork
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="feed-cache")
            self._process = os.getpid()
        return self._threads


class _ThreadedLock:
    """A mapping's lock, worked on off the event loop."""

    def __init__(self, lock: KeyLock, storage: MappingStorage, url: str) -> None:
        self._lock = lock
        self._storage = storage
        self._url = url
        self.lease = lock.lease

    async def acquire(self) -> bool:
        return await asyncio.to_thread(self._lock.acquire)

    async def begin(self) -> tuple[bool, bytes | None]:
        return await self.acquire(), await self._storage.get(self._url)

    async def end(self, value: bytes, seconds: float) -> None:
        try:
            await self._storage.put(self._url, value, seconds)
        finally:
            await self.release()

    async def renew(self) -> None:
        await asyncio.to_thread(self._lock.renew)

    async def release(self) -> None:
        await asyncio.to_thread(self._lock.release)


def _tidy(mapping: Any) -> None:
    with suppress(AttributeError):
        mapping.tidy()


def _close(mapping: Any) -> None:
    with suppress(AttributeError):
        mapping.close()
