"""Storages for the feed cache, with access to their bytes; a publisher that is a function; a clock."""

from __future__ import annotations

import asyncio
import dbm.dumb
import itertools
import os
import shelve
import signal
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import redis as redis_py

from microsub.cache import BlockingFeedCache, DirectoryMapping, FeedCache, Fetcher, FetchError, FetchSettings
from microsub.cache.redis_storage import FeedCopies, RedisMapping
from microsub.cache.shared_copies import SharedCopies
from microsub.cache.storage import UrlLock
from microsub.fetch import Fetched, FetchFailed, FetchRequest, FetchResult, NotModified
from microsub.redis.multiplexer import Multiplexed
from tests.support.polling import dated, rss

URL = "https://blog.example/feed"
NOON = 1_700_000_000.0

STORAGES = ("dict", "shelve", "directory", "redis", "redis mapping")
SHARED = ("directory", "redis", "redis mapping")
"""Storages that several processes may use at the same time."""


@dataclass
class Clock:
    """Unix time that a test sets."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


def document(count: int = 2, title: str = "Harbour") -> bytes:
    return rss(dated(count), title=title)


@dataclass
class Site:
    """A fetcher with a given answer; `asked` is the log. With `gate`, each answer waits for it."""

    answer: Callable[[FetchRequest], FetchResult]
    asked: list[FetchRequest] = field(default_factory=list)
    askers: list[asyncio.Task[object] | None] = field(default_factory=list)
    gate: asyncio.Event | None = None
    threads_gate: threading.Event | None = None

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.asked.append(request)
        self.askers.append(asyncio.current_task())
        if self.gate is not None:
            await self.gate.wait()
        if self.threads_gate is not None:
            await asyncio.to_thread(self.threads_gate.wait, 20)
        return self.answer(request)

    def serve(self, body: bytes, *, etag: str | None = '"1"', last_modified: str | None = None, **headers: Any) -> None:
        """Serve a document with validators, and 304 if they are sent back."""
        fields = {name.replace("_", "-"): value for name, value in headers.items() if isinstance(value, str)}
        max_age = headers.get("max_age")

        def answer(request: FetchRequest) -> FetchResult:
            if (request.etag or request.last_modified) and (request.etag, request.last_modified) == (
                etag,
                last_modified,
            ):
                return NotModified(request.url, etag, last_modified, max_age)
            kind = "application/rss+xml"
            return Fetched(request.url, request.url, 200, fields, body, kind, etag, last_modified, max_age)

        self.answer = answer

    def fail(self, reason: str = "connect", *, status: int | None = None, retry_after: float | None = None) -> None:
        def answer(request: FetchRequest) -> FetchResult:
            return FetchFailed(request.url, reason, f"it failed: {reason}", status, retry_after)

        self.answer = answer


def site(body: bytes | None = None, **more: Any) -> Site:
    made = Site(lambda request: FetchFailed(request.url, "connect", "nothing there"))
    made.serve(document() if body is None else body, **more)
    return made


@dataclass
class Place:
    """One storage. Each `handle()` is another handle to the same data, as another process would have it."""

    kind: str
    folder: Path
    redis_url: str = ""
    closing: list[Callable[[], object]] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)

    def handle(self) -> Any:
        match self.kind:
            case "dict":
                return self.kept
            case "shelve":
                # one handle only: a shelf belongs to one process
                if not self.closing:
                    self.shelf = shelve.Shelf(dbm.dumb.open(str(self.folder / "shelf")))  # noqa: SIM115
                    self.closing.append(self.shelf.close)
                return self.shelf
            case "directory":
                return DirectoryMapping(self.folder / "copies")
            case "redis":
                return FeedCopies(Multiplexed(self.redis_url))
            case "redis mapping":
                client = redis_py.Redis.from_url(self.redis_url)
                self.closing.append(client.close)
                return RedisMapping(client)
        raise AssertionError(self.kind)

    def raw(self) -> MutableMapping[str, bytes]:
        """The stored bytes, without the cache."""
        if self.kind != "redis":
            return self.handle()
        return Place("redis mapping", self.folder, self.redis_url, self.closing).handle()

    def close(self) -> None:
        for close in self.closing:
            close()

    @contextmanager
    def blocking(self, **options: Any) -> Iterator[BlockingFeedCache]:
        """The synchronous interface with its own handle."""
        handle = self.handle()
        with BlockingFeedCache(handle, **options) as cache:
            yield cache
            if isinstance(handle, FeedCopies):
                cache._run(handle._redis.aclose())

    def cache(self, **options: Any) -> FeedCache:
        return FeedCache(self.handle(), **options)


def work(kind: str, folder: str, redis_url: str, task: str, *urls: str) -> None:
    """Use the cache in a separate process, `python -m tests.support.feed_cache KIND FOLDER REDIS_URL TASK URL…`.

    It prints `ready`, waits for a line on standard input, works, and prints the results. Tasks: `fetch` prints the
    source of each URL, preceded by `waits` if another process has the lock; `write` stores two documents alternately
    until it is killed; `die` is killed when the new file is written but hasn't replaced the old one.
    """
    place = Place(kind, Path(folder), redis_url)
    print("ready", flush=True)
    sys.stdin.readline()
    if task == "fetch":
        _tell_of_waits()
        settings = FetchSettings("tests/1", "", allow_private_networks=(ip_network("127.0.0.0/8"),))
        with place.blocking(fetcher=Fetcher(settings)) as cache:
            print("asking", flush=True)
            for url in urls:
                try:
                    print(cache.fetch(url).source, flush=True)
                except FetchError as error:
                    print(error.reason, flush=True)
    elif task == "write":
        web = site()
        with place.blocking(fetcher=web) as cache:
            for number in itertools.count():
                web.serve(two_documents()[number % 2], etag=f'"{number}"')
                cache.fetch(urls[0], force=True)
                print(number, flush=True)
    elif task == "die":
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        web = site()
        web.serve(two_documents()[1], etag='"2"')
        with place.blocking(fetcher=web) as cache:
            cache.fetch(urls[0], force=True)


def _tell_of_waits() -> None:
    acquire = SharedCopies._acquire

    async def told(copies: SharedCopies, lock: UrlLock, key: str) -> bool:
        print("waits", flush=True)
        return await acquire(copies, lock, key)

    SharedCopies._acquire = told  # type: ignore[method-assign]


def two_documents() -> tuple[bytes, bytes]:
    """Two feeds that differ in every part, large enough to be written in several pieces."""
    noise = "".join(f"{n * 2654435761 % 2**32:08x}" for n in range(40_000)).encode()
    return tuple(  # type: ignore[return-value]
        document(count).replace(b"</channel>", b"<!--" + noise[count:] + b"--></channel>") for count in (2, 3)
    )


if __name__ == "__main__":
    work(*sys.argv[1:])
