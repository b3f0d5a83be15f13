"""Stored copies by URL, and one request for all concurrent callers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from microsub.base.digests import sha256_hex
from microsub.base.errors import ParseError
from microsub.base.logs import LibraryLogger
from microsub.base.metrics import FEED_CACHE_ANSWERS
from microsub.base.urls import canonical_feed_url, mask_credentials
from microsub.cache.copy import (
    DEFAULT_TTL,
    GONE,
    CachedCopy,
    CachedDocument,
    DamagedCopy,
    Failure,
    broken,
    failed,
    from_bytes,
    is_fresh,
    is_paused,
    last_touched,
    refreshed,
    seconds_to_live,
    taken,
    to_bytes,
    usable,
)
from microsub.cache.storage import Storage, UrlLock
from microsub.fetch import Fetched, FetchFailed, Fetching, FetchRequest, FetchResult, NotModified

log = LibraryLogger("microsub.cache")

Source = Literal["network", "not_modified", "cache"]
Answer = Literal["fresh", "paused", "coalesced", "revalidated", "fetched", "stale", "failed", "offline"]
"""How a result was obtained, as counted in `metrics.FEED_CACHE_ANSWERS`."""

LOCK_PATIENCE = 60.0
"""Seconds to wait for another process's request; after that it counts as hung, and this process sends its own."""

_FIRST_LOOK, _LONGEST_LOOK = 0.01, 0.2

LARGEST = 2 * 1024 * 1024
"""Maximum bytes of a stored, compressed document: feeds of 10 MiB are smaller, and anything larger isn't text."""

INLINE_BYTES = 64 * 1024
"""Larger documents are compressed and decompressed off the event loop."""


class Ask(NamedTuple):
    """A call to the cache. `ttl` is the caller's time to live in seconds; `force` ignores it.

    A poller's request has `since`, so only a copy that was checked after that Unix time counts. It also has the
    poller's own validators, which are sent instead of the copy's, because a 304 must refer to what *it* has processed.
    """

    request: FetchRequest
    ttl: float = DEFAULT_TTL
    force: bool = False
    offline: bool = False


@dataclass(frozen=True, slots=True)
class CacheAnswer:
    """The result: the document, if there is one, and the last failure, if there was one.

    `reply` is the publisher's reply, if this call sent the request itself; `storage_error` is the first error of the
    storage during this call, which has no other effect than requests.
    """

    document: CachedDocument | None
    failure: Failure | None
    source: Source
    answer: Answer
    reply: FetchResult | None = None
    storage_error: Exception | None = None


_problems: ContextVar[list[Exception] | None] = ContextVar("storage_errors", default=None)
"""Errors of the storage during one call."""

Judge = Callable[[Fetched, CachedDocument | None], Awaitable[bytes | None]]
"""Examines a changed document before it replaces the stored one; returns the packed feed if it was parsed.

Raises ParseError if the document must not replace the stored one.
"""


@dataclass(slots=True)
class _Held:
    """The state before a request.

    The `lock`, if it has to be released, the `copy` as read under it, and the same copy as `others` if another process
    has sent a request meanwhile.
    """

    lock: UrlLock | None
    copy: CachedCopy | None
    others: CachedCopy | None = None


class _SharedRequests:
    """Coalesces requests: the first one for a URL registers, later ones wait for its outcome.

    An outcome is the new copy. It is None if the request was cancelled or its result is of no use to others; then the
    next caller sends a request itself.
    """

    def __init__(self) -> None:
        self._running: dict[str, Future[CachedCopy | None]] = {}
        self._process = os.getpid()

    def join(self, url: str) -> Future[CachedCopy | None] | None:
        """Start a request for `url` (None), to be ended with `finish`; or return the one to `wait` for."""
        if self._process != os.getpid():
            # After a fork, the parent's requests never finish in this process.
            self._process, self._running = os.getpid(), {}
        mine: Future[CachedCopy | None] = Future()
        # A running future can't be cancelled by a waiting caller.
        mine.set_running_or_notify_cancel()
        found = self._running.setdefault(url, mine)  # atomic, so it needs no lock that a fork could copy
        return None if found is mine else found

    def finish(self, url: str, outcome: CachedCopy | None) -> None:
        """End the request and pass the outcome to waiting callers."""
        request = self._running.pop(url, None)
        if request is not None:
            request.set_result(outcome)

    @staticmethod
    async def wait(request: Future[CachedCopy | None]) -> CachedCopy | None:
        """Wait for the outcome of another caller's request."""
        return await asyncio.wrap_future(request)


class SharedCopies:
    """Copies in a storage, and the requests that refresh them.

    `keep` is how many seconds after its last check a document may still be shown with an error; `clock` returns Unix
    seconds.
    """

    def __init__(
        self,
        storage: Storage,
        fetcher: Fetching,
        *,
        keep: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._fetcher = fetcher
        self._keep = keep
        self._clock = clock
        self._requests = _SharedRequests()

    async def find(self, ask: Ask, judge: Judge) -> CacheAnswer:
        """The document at `ask.request.url`, requested if no copy is usable. A publisher can't make it raise."""
        problems: list[Exception] = []
        token = _problems.set(problems)
        try:
            found = await self._find(ask, judge)
        finally:
            _problems.reset(token)
        FEED_CACHE_ANSWERS.labels(found.answer).inc()
        return replace(found, storage_error=problems[0]) if problems else found

    async def _find(self, ask: Ask, judge: Judge) -> CacheAnswer:
        key = canonical_feed_url(ask.request.url)
        # A poll is almost never answered from a copy, so its first read is the one that takes the lock.
        looked = ask.request.since is None
        copy = await self._read(key) if looked else None
        if ask.offline:
            return CacheAnswer(self._usable(copy, ask), None, "cache", "offline")
        while (found := self._at_hand(copy, ask)) is None:
            request = self._requests.join(key)
            if request is None:
                return await self._lead(key, looked, copy, ask, judge)
            outcome = await self._requests.wait(request)
            if outcome is not None:
                return self._shared(outcome, ask)
            looked, copy = True, await self._read(key)
        return found

    async def improve(self, url: str, document: CachedDocument, feed: bytes) -> None:
        """Store the parsed form of a document, if that is still the stored one."""
        key = canonical_feed_url(url)
        copy = await self._read(key)
        if copy is not None and copy.document is not None and copy.document.digest == document.digest:
            await self._write(replace(copy, document=replace(copy.document, packed_feed=feed)), document.max_age or 0.0)

    async def remove(self, url: str) -> None:
        """Forget the copy of `url`."""
        await self._storage.remove(canonical_feed_url(url))

    async def purge(self, older_than: float) -> int:
        """Forget copies without a reply for that many seconds, and corrupt ones; returns how many."""
        removed = 0
        for url in await self._storage.urls():
            copy = await self._read(url)
            if copy is None or self._clock() - last_touched(copy) > older_than:
                await self._storage.remove(url)
                removed += 1
        await self._storage.tidy()
        return removed

    # --- without a request

    def _usable(self, copy: CachedCopy | None, ask: Ask) -> CachedDocument | None:
        return usable(copy, ask.ttl, self._keep, self._clock())

    def _shared(self, copy: CachedCopy, ask: Ask) -> CacheAnswer:
        """The result of another caller's request."""
        return CacheAnswer(self._usable(copy, ask), copy.failure, "cache", "coalesced")

    def _at_hand(self, copy: CachedCopy | None, ask: Ask) -> CacheAnswer | None:
        """The result without a request, if there is one."""
        if copy is None:
            return None
        now = self._clock()
        document, failure = self._usable(copy, ask), copy.failure
        news = document is not None and (ask.request.since is None or document.checked_at > ask.request.since)
        if document is not None and news and not ask.force and is_fresh(document, ask.ttl, now):
            return CacheAnswer(document, None, "cache", "fresh")
        if failure is not None and is_paused(failure, now):
            return CacheAnswer(document, failure, "cache", "paused")
        if failure is not None and failure.reason == GONE and not ask.force:
            return CacheAnswer(document, failure, "cache", "paused")
        return None

    # --- with a request

    async def _lead(self, key: str, looked: bool, seen: CachedCopy | None, ask: Ask, judge: Judge) -> CacheAnswer:
        """Send the request, unless another process does, and pass the outcome to waiting callers.

        `seen` is the copy that was read, if the caller has `looked`.
        """
        outcome: CachedCopy | None = None
        try:
            async with self._locked(key, looked, seen) as held:
                if held.others is not None:
                    outcome = held.others
                    return self._shared(outcome, ask)
                if (at_hand := self._at_hand(held.copy, ask)) is not None:
                    outcome = held.copy
                    return at_hand
                found, outcome = await self._request(key, held, ask, judge)
                return found
        finally:
            self._requests.finish(key, outcome)

    async def _request(self, key: str, held: _Held, ask: Ask, judge: Judge) -> tuple[CacheAnswer, CachedCopy | None]:
        copy = held.copy
        document = self._usable(copy, ask)
        known = (document.etag, document.last_modified) if document else (None, None)
        asked = ask.request
        sent = (asked.etag, asked.last_modified) if asked.etag or asked.last_modified else known
        url = key if asked.url[:5].lower() == "feed:" else asked.url
        reply = await self._fetcher.fetch(
            FetchRequest(url, *sent, subscribers=asked.subscribers, user_agent=asked.user_agent)
        )
        now = self._clock()
        match reply:
            case FetchFailed(ours=True):
                # It isn't about the address, so other callers don't get it.
                pause = None if reply.retry_after is None else now + reply.retry_after
                failure = Failure(reply.reason, reply.detail, None, now, pause)
                return CacheAnswer(document, failure, "cache", "stale" if document else "failed", reply), None
            case FetchFailed():
                new = failed(key, document, reply, now)
            case NotModified() if document is not None and sent == known:
                new = refreshed(key, document, reply, now)
            case NotModified():
                # It refers to the caller's version; the copy is another one, or there is none.
                return CacheAnswer(None, None, "not_modified", "revalidated", reply), None
            case Fetched():
                new = await self._judged(key, document, reply, judge, now)
        await self._write(new, ask.ttl, held)
        source: Source = "not_modified" if isinstance(reply, NotModified) else "network"
        answer: Answer = "revalidated" if isinstance(reply, NotModified) else "fetched"
        if new.failure is not None:
            source = "cache" if document else "network"
            # A poller gets only the failure.
            answer = "stale" if document and ask.request.since is None else "failed"
        return CacheAnswer(new.document, new.failure, source, answer, reply), new

    async def _judged(
        self, key: str, old: CachedDocument | None, reply: Fetched, judge: Judge, now: float
    ) -> CachedCopy:
        try:
            if old is not None and old.digest == sha256_hex(reply.body):
                feed = old.packed_feed
            else:
                feed = await judge(reply, old)
        except ParseError as error:
            return broken(key, old, error.detail, now)
        if len(reply.body) < INLINE_BYTES:
            return taken(key, old, reply, feed, now)
        return await asyncio.to_thread(taken, key, old, reply, feed, now)

    # --- the storage

    async def _read(self, key: str) -> CachedCopy | None:
        """The stored copy, or None if it can't be read."""
        try:
            return _decoded(await self._storage.get(key), key)
        except Exception as error:  # anything that a foreign mapping raises
            _note("a stored copy can't be read", key, error)
        return None

    async def _write(self, copy: CachedCopy, ttl: float, held: _Held | None = None) -> None:
        """Store `copy`, and release the lock that is `held`.

        If that fails, the caller still gets its result, and the next one sends a request again.
        """
        try:
            if copy.document is not None and len(copy.document.packed_body) > LARGEST:
                log.info("a document is too large for the cache", url=mask_credentials(copy.url))
                await self._storage.remove(copy.url)
                return
            seconds = seconds_to_live(copy, ttl, self._keep, self._clock())
            data = to_bytes(copy)
            if held is None or held.lock is None:
                await self._storage.put(copy.url, data, seconds)
            else:
                lock, held.lock = held.lock, None
                await lock.end(data, seconds)
        except Exception as error:  # anything that a foreign mapping raises
            _note("a copy can't be stored", copy.url, error)

    @contextlib.asynccontextmanager
    async def _locked(self, key: str, looked: bool, seen: CachedCopy | None) -> AsyncIterator[_Held]:
        """Hold that URL's lock among processes, if the storage has locks.

        It is held during the block, or until `_write` releases it.
        """
        held = await self._held(key, looked, seen)
        lock = held.lock
        keeper = None if lock is None or lock.lease is None else asyncio.create_task(_renew(lock, lock.lease / 3))
        try:
            yield held
        finally:
            if keeper is not None:
                keeper.cancel()
            if held.lock is not None:
                try:
                    await held.lock.release()
                except Exception as error:  # it expires by itself
                    _note("a lock can't be released", key, error)

    async def _held(self, key: str, looked: bool, seen: CachedCopy | None) -> _Held:
        try:
            if (lock := self._storage.lock(key)) is not None:
                is_ours, data = await lock.begin()
                copy = _decoded(data, key)
                if not looked:
                    seen = copy
                if not is_ours:
                    is_ours = await self._acquire(lock, key)
                    copy = await self._read(key)
                return _Held(lock if is_ours else None, copy, _other(copy, seen))
        except Exception as error:  # without a lock there may be one request too many, but there is a result
            _note("a lock can't be taken", key, error)
        copy = await self._read(key)
        return _Held(None, copy, _other(copy, seen) if looked else None)

    async def _acquire(self, lock: UrlLock, key: str) -> bool:
        deadline, pause = time.monotonic() + LOCK_PATIENCE, _FIRST_LOOK
        while not await lock.acquire():
            if time.monotonic() > deadline:
                log.warning("another process seems to hang in a request", url=mask_credentials(key))
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK)
        return True


def _other(copy: CachedCopy | None, seen: CachedCopy | None) -> CachedCopy | None:
    """`copy`, if it differs from the one that was seen: by revision, whatever the clocks."""
    return copy if copy is not None and (seen is None or copy.revision != seen.revision) else None


def _decoded(data: bytes | None, key: str) -> CachedCopy | None:
    """The decoded copy; None if it is corrupt."""
    try:
        return None if data is None else from_bytes(data, key)
    except DamagedCopy as error:
        log.warning("a stored copy is corrupt", url=mask_credentials(key), problem=str(error))
        return None


async def body_of(document: CachedDocument) -> bytes:
    """The bytes as served."""
    if len(document.packed_body) < INLINE_BYTES:
        return document.body
    return await asyncio.to_thread(lambda: document.body)


async def _renew(lock: UrlLock, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        with contextlib.suppress(Exception):
            await lock.renew()


def _note(event: str, url: str, error: Exception) -> None:
    """Log an error of the storage, and keep it for the caller."""
    log.warning(event, url=mask_credentials(url), problem=f"{type(error).__name__}: {error}")
    if (problems := _problems.get()) is not None:
        problems.append(error)
