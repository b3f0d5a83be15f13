"""Stored copies by URL, and one request on behalf of all who ask at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal

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
from microsub.errors import ParseError
from microsub.fetch import Fetched, FetchFailed, Fetching, FetchRequest, FetchResult, NotModified
from microsub.kit.digests import sha256_hex
from microsub.kit.urls import canonical_feed_url, mask_credentials
from microsub.logs import LibraryLogger
from microsub.metrics import FEED_CACHE_ANSWERS

log = LibraryLogger(__name__)

Source = Literal["network", "not_modified", "cache"]
Answer = Literal["fresh", "paused", "coalesced", "revalidated", "fetched", "stale", "failed", "offline"]
"""How an answer came about, as `metrics.FEED_CACHE_ANSWERS` counts it."""

LOCK_PATIENCE = 60.0
"""Seconds to wait for another process's request; then it counts as hung, and a request of our own is made."""

_FIRST_LOOK, _LONGEST_LOOK = 0.01, 0.2

LARGEST = 2 * 1024 * 1024
"""Bytes of a compressed document beyond which it isn't kept: feeds of 10 MiB are smaller; what is larger is no text."""

INLINE_BYTES = 64 * 1024
"""What is larger is compressed and decompressed off the event loop."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `ttl` is the asker's time to live in seconds; `force` skips it.

    A poller gives `since`: only a copy that was checked after that Unix time is news to it; and its own validators,
    which are sent in place of the copy's, because a 304 must refer to what *it* has worked through.
    """

    url: str
    ttl: float = DEFAULT_TTL
    force: bool = False
    offline: bool = False
    since: float | None = None
    etag: str | None = None
    last_modified: str | None = None
    subscribers: int = 0

    @property
    def has_validators(self) -> bool:
        """Whether the asker knows the document already."""
        return bool(self.etag or self.last_modified)


@dataclass(frozen=True, slots=True)
class CacheAnswer:
    """The answer: the document that there is, and what went wrong last, if it did.

    `reply` is what the publisher said, where this very asker's request was made.
    """

    document: CachedDocument | None
    failure: Failure | None
    source: Source
    answer: Answer
    reply: FetchResult | None = None


Judge = Callable[[Fetched, CachedDocument | None], Awaitable[bytes | None]]
"""Looks at a changed document before it replaces the stored one; returns the packed feed, if it has parsed it.

Raises ParseError where the document shall not replace anything.
"""


@dataclass(slots=True)
class _Held:
    """What is known when a request may be made.

    The `lock`, where there is one to be given back, the `copy` as it is under it, and the same copy as `others` where
    another process has asked meanwhile.
    """

    lock: UrlLock | None
    copy: CachedCopy | None
    others: CachedCopy | None = None


class _Flights:
    """The first request for a URL registers; later ones wait for its outcome.

    An outcome is the copy as it is afterwards, or None: the one who asked learnt nothing that helps others, or was
    cancelled, and the next one has to ask itself.
    """

    def __init__(self) -> None:
        self._flying: dict[str, Future[CachedCopy | None]] = {}
        self._process = os.getpid()

    def board(self, url: str) -> Future[CachedCopy | None] | None:
        """Begin a flight for `url` (None), to end with `land`; or the one to `wait` for."""
        if self._process != os.getpid():
            # After a fork, the flights of the parent never land here.
            self._process, self._flying = os.getpid(), {}
        mine: Future[CachedCopy | None] = Future()
        # Running, it can't be cancelled by one of those who wait.
        mine.set_running_or_notify_cancel()
        found = self._flying.setdefault(url, mine)  # one step for the interpreter: no lock that a fork could copy
        return None if found is mine else found

    def land(self, url: str, outcome: CachedCopy | None) -> None:
        """End the flight and tell those who wait."""
        flight = self._flying.pop(url, None)
        if flight is not None:
            flight.set_result(outcome)

    @staticmethod
    async def wait(flight: Future[CachedCopy | None]) -> CachedCopy | None:
        """The outcome of somebody else's flight."""
        return await asyncio.wrap_future(flight)


class Desk:
    """Copies in a storage, and the requests that renew them.

    `keep` is how many seconds after its last check a document is still shown beside an error; `clock` gives Unix
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
        self._flights = _Flights()

    async def find(self, ask: Ask, judge: Judge) -> CacheAnswer:
        """The document at `ask.url`, requested where no copy will do. No publisher makes it raise."""
        found = await self._find(ask, judge)
        FEED_CACHE_ANSWERS.labels(found.answer).inc()
        return found

    async def _find(self, ask: Ask, judge: Judge) -> CacheAnswer:
        key = canonical_feed_url(ask.url)
        # A poll hardly ever finds an answer at hand: its first look is the one that takes the lock.
        looked = ask.since is None
        copy = await self._read(key) if looked else None
        if ask.offline:
            return CacheAnswer(self._usable(copy, ask), None, "cache", "offline")
        while (found := self._at_hand(copy, ask)) is None:
            flight = self._flights.board(key)
            if flight is None:
                return await self._lead(key, looked, copy, ask, judge)
            outcome = await self._flights.wait(flight)
            if outcome is not None:
                return self._shared(outcome, ask)
            looked, copy = True, await self._read(key)
        return found

    async def improve(self, url: str, document: CachedDocument, feed: bytes) -> None:
        """Keep the parsed form of a stored document, if it still is the stored one."""
        key = canonical_feed_url(url)
        copy = await self._read(key)
        if copy is not None and copy.document is not None and copy.document.digest == document.digest:
            await self._write(replace(copy, document=replace(copy.document, packed_feed=feed)), document.max_age or 0.0)

    async def remove(self, url: str) -> None:
        """Forget the copy of `url`."""
        await self._storage.remove(canonical_feed_url(url))

    async def purge(self, older_than: float) -> int:
        """Forget copies not heard of for that many seconds, and damaged ones; how many."""
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
        """What a request on behalf of somebody else came to."""
        return CacheAnswer(self._usable(copy, ask), copy.failure, "cache", "coalesced")

    def _at_hand(self, copy: CachedCopy | None, ask: Ask) -> CacheAnswer | None:
        """The answer that needs no request, if there is one."""
        if copy is None:
            return None
        now = self._clock()
        document, failure = self._usable(copy, ask), copy.failure
        news = document is not None and (ask.since is None or document.checked_at > ask.since)
        if document is not None and news and not ask.force and is_fresh(document, ask.ttl, now):
            return CacheAnswer(document, None, "cache", "fresh")
        if failure is not None and is_paused(failure, now):
            return CacheAnswer(document, failure, "cache", "paused")
        if failure is not None and failure.reason == GONE and not ask.force:
            return CacheAnswer(document, failure, "cache", "paused")
        return None

    # --- with a request

    async def _lead(self, key: str, looked: bool, seen: CachedCopy | None, ask: Ask, judge: Judge) -> CacheAnswer:
        """Make the request, unless another process makes it, and tell those who wait for it.

        `seen` is the copy that there was, where the asker has `looked`.
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
            self._flights.land(key, outcome)

    async def _request(self, key: str, held: _Held, ask: Ask, judge: Judge) -> tuple[CacheAnswer, CachedCopy | None]:
        copy = held.copy
        document = self._usable(copy, ask)
        known = (document.etag, document.last_modified) if document else (None, None)
        sent = (ask.etag, ask.last_modified) if ask.has_validators else known
        url = key if ask.url[:5].lower() == "feed:" else ask.url
        reply = await self._fetcher.fetch(FetchRequest(url, *sent, subscribers=ask.subscribers))
        now = self._clock()
        match reply:
            case FetchFailed(ours=True):
                # It says nothing of the address, so nobody else is told it.
                pause = None if reply.retry_after is None else now + reply.retry_after
                failure = Failure(reply.reason, reply.detail, None, now, pause)
                return CacheAnswer(document, failure, "cache", "stale" if document else "failed", reply), None
            case FetchFailed():
                new = failed(key, document, reply, now)
            case NotModified() if document is not None and sent == known:
                new = refreshed(key, document, reply, now)
            case NotModified():
                # It refers to what the asker has, and the copy is another one, or there is none.
                return CacheAnswer(None, None, "not_modified", "revalidated", reply), None
            case Fetched():
                new = await self._judged(key, document, reply, judge, now)
        await self._write(new, ask.ttl, held)
        source: Source = "not_modified" if isinstance(reply, NotModified) else "network"
        answer: Answer = "revalidated" if isinstance(reply, NotModified) else "fetched"
        if new.failure is not None:
            source = "cache" if document else "network"
            # A poller gets the failure alone.
            answer = "stale" if document and ask.since is None else "failed"
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
        """The stored copy. What can't be had or read counts as absent."""
        try:
            return _decoded(await self._storage.get(key), key)
        except Exception as error:  # whatever a foreign mapping raises
            log.warning("a stored copy could not be read", url=mask_credentials(key), problem=_text(error))
        return None

    async def _write(self, copy: CachedCopy, ttl: float, held: _Held | None = None) -> None:
        """Store `copy`, and give back the lock that is `held`.

        Where that fails the answer is as good, and the next asker has to ask again.
        """
        try:
            if copy.document is not None and len(copy.document.packed_body) > LARGEST:
                log.info("a document is too large to be kept", url=mask_credentials(copy.url))
                await self._storage.remove(copy.url)
                return
            seconds = seconds_to_live(copy, ttl, self._keep, self._clock())
            data = to_bytes(copy)
            if held is None or held.lock is None:
                await self._storage.put(copy.url, data, seconds)
            else:
                lock, held.lock = held.lock, None
                await lock.end(data, seconds)
        except Exception as error:  # whatever a foreign mapping raises
            log.warning("a copy could not be stored", url=mask_credentials(copy.url), problem=_text(error))

    @contextlib.asynccontextmanager
    async def _locked(self, key: str, looked: bool, seen: CachedCopy | None) -> AsyncIterator[_Held]:
        """Hold the lock of that URL among processes, where the storage offers one.

        It is kept while the block runs, or until `_write` gives it back.
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
                except Exception as error:  # it ends by itself
                    log.warning("a lock could not be released", url=mask_credentials(key), problem=_text(error))

    async def _held(self, key: str, looked: bool, seen: CachedCopy | None) -> _Held:
        lock = self._storage.lock(key)
        if lock is not None:
            try:
                is_ours, data = await lock.begin()
                copy = _decoded(data, key)
                if not looked:
                    seen = copy
                if not is_ours:
                    is_ours = await self._acquire(lock, key)
                    copy = await self._read(key)
                return _Held(lock if is_ours else None, copy, _other(copy, seen))
            except Exception as error:  # without a lock there may be a request too many, but there is an answer
                log.warning("a lock could not be taken", url=mask_credentials(key), problem=_text(error))
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
    """`copy`, where it is another one than was seen: by the revision, whatever clocks say."""
    return copy if copy is not None and (seen is None or copy.revision != seen.revision) else None


def _decoded(data: bytes | None, key: str) -> CachedCopy | None:
    """The copy that `data` is; None as well where it is damaged."""
    try:
        return None if data is None else from_bytes(data, key)
    except DamagedCopy as error:
        log.warning("a stored copy is damaged", url=mask_credentials(key), problem=str(error))
        return None


async def body_of(document: CachedDocument) -> bytes:
    """The bytes as they were served."""
    if len(document.packed_body) < INLINE_BYTES:
        return document.body
    return await asyncio.to_thread(lambda: document.body)


async def _renew(lock: UrlLock, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        with contextlib.suppress(Exception):
            await lock.renew()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
