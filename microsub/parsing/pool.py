"""Parser processes for all foreign documents, shared fairly among requesters.

Every document first gets a short time in the quick lane, which always has a process. Slower documents start again in
the slow lane with the full time, where fewer are parsed at once. In both lanes, requesters take turns by the processor
time they have used (`Turns`). Limits are of processor time, so a busy machine makes no document fail.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from microsub.base.errors import ParserUnavailable, ParsingStopped
from microsub.base.logs import LibraryLogger
from microsub.base.metrics import PARSE_SECONDS
from microsub.base.urls import host_of, mask_credentials
from microsub.fetch import Fetched, who_asks
from microsub.formats.lookups import AuthorPage
from microsub.parsing.process import MEMORY, Done, OutOfTime, ParserProcess, ProcessEnded, dumps

if TYPE_CHECKING:  # the parsers are for the processes that read documents
    from microsub.discovery.feedlinks import FeedLink
    from microsub.fetch import Answered
    from microsub.formats.lookups import LookUp
    from microsub.identity.protocol.clients import ClientInfo
    from microsub.identity.protocol.links import ExaminedPage, ProfileLinks
    from microsub.model.jf2 import Card, Entry, Feed
    from microsub.posts.entries import PostsRead
    from microsub.transfer.ekster import OldPost
    from microsub.transfer.foreign_posts import ReaderPost
    from microsub.transfer.outlines import FeedList

log = LibraryLogger(__name__)

QUICK = 2.0
SECONDS = 20.0
"""Seconds of processor time for one document in the quick lane, and in total."""

IDLE_SECONDS = 60.0
RETIRE = 88 * 1024 * 1024
"""A process that uses more bytes than this after a document is ended: it started with about forty megabytes."""

_EXPECTED = 0.05
_CLOSING = "the program is stopping"
_BUSY = "the server is busy"
_AGAIN = 1.0
_REST = 10.0
"""Minimum seconds between two log messages that no parser can be started."""
_MOST_SLOW_KNOWN = 1000


# --- turns --------------------------------------------------------------------------------------------------------

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")

_MOST_KEYS = 1000
"""Minimum number of idle keys to remember: those that have used most."""


class Turns(Generic[T]):
    """Waiting jobs: the key that has used least is next (start-time fair queueing). Pure.

    Jobs of one key are first come, first served. Each job counts as `expected` seconds until `used` reports the real
    time, so that a key with several running jobs doesn't count as unused.
    """

    def __init__(self, expected: float) -> None:
        self._expected = expected
        self._waiting: dict[str, deque[T]] = {}
        self._used: dict[str, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, job: T, keys: Sequence[str]) -> str:
        """Queue a job for the least used of `keys`, and return that key.

        A key that was idle starts where the others are: idleness doesn't accumulate credit.
        """
        key = min(keys, key=self._standing)
        if key not in self._waiting:
            self._used[key] = self._standing(key)
            self._waiting[key] = deque()
        self._waiting[key].append(job)
        return key

    def next(self) -> T | None:
        """Take the next job."""
        if not self._waiting:
            return None
        key = min(self._waiting, key=self._used.__getitem__)
        self._now = max(self._now, self._used[key])
        self._used[key] += self._expected
        job = self._waiting[key].popleft()
        if not self._waiting[key]:
            del self._waiting[key]
        if len(self._used) > 2 * _MOST_KEYS + len(self._waiting):
            most = sorted(self._used, key=self._used.__getitem__)[-_MOST_KEYS:]
            self._used = {name: self._used[name] for name in {*most, *self._waiting}}
        return job

    def used(self, key: str, seconds: float) -> None:
        """Charge a key for a finished job, with its processor time."""
        if key in self._used:
            self._used[key] += seconds - self._expected

    def remove(self, job: T) -> bool:
        """Remove a job that nobody waits for any more; False if it isn't queued here."""
        for key, jobs in self._waiting.items():
            if job in jobs:
                jobs.remove(job)
                if not jobs:
                    del self._waiting[key]
                return True
        return False

    def clear(self) -> list[T]:
        """Remove and return all jobs."""
        jobs = [job for waiting in self._waiting.values() for job in waiting]
        self._waiting.clear()
        return jobs

    def _standing(self, key: str) -> float:
        return max(self._used.get(key, 0.0), self._now)


# --- the pool -----------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Job:
    """A document that is waiting or being parsed."""

    task: str
    where: str
    body: bytes
    arguments: tuple[Any, ...]
    keys: Sequence[str]
    thorough: bool
    result: Future[Done] = field(default_factory=Future)
    slow: bool = False
    key: str = ""
    process: ParserProcess | None = None
    abandoned: bool = False


@dataclass(eq=False, slots=True)
class _ParserThreads:
    """The threads that parse, each with its own process; `free` ones wait for work."""

    threads: int = 0
    free: int = 0
    running: set[_Job] = field(default_factory=set)
    processes: set[ParserProcess] = field(default_factory=set)


class ParsePool:
    """Parses at most `processes` documents at a time; with several processes, one is for the quick lane.

    A process starts when it is needed, and ends after `idle` seconds without work. Safe for threads and event loops. A
    document may use `quick` seconds of processor time in the quick lane, `seconds` in the slow one, and `memory` bytes.
    A document's base is its final address. Work counts for the requester (`fetch.asking_for`), unless `keys` name
    others.

    All methods that parse raise ParsingStopped if a document takes too much time or memory, and ParserUnavailable if
    no process can be started, the pool is closed, or a document still waits for its turn after `patience` seconds of
    real time.
    """

    def __init__(
        self,
        processes: int = 2,
        *,
        quick: float = QUICK,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        idle: float = IDLE_SECONDS,
        patience: float | None = None,
    ) -> None:
        self._most = processes
        self._most_slow = max(1, processes - 1)
        self._quick_seconds = min(quick, seconds)
        self._seconds = seconds
        self._memory = memory
        self._idle_seconds = idle
        self._patience = patience
        self._stopped = False
        self._complained = -math.inf
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._change = threading.Condition()
        self._quick: Turns[_Job] = Turns(_EXPECTED)
        self._slow: Turns[_Job] = Turns(self._quick_seconds)
        self._known_slow: dict[str, None] = {}
        self._parsers = _ParserThreads()

    @property
    def processes(self) -> set[int]:
        """The process ids."""
        with self._change:
            return {process.pid for process in self._parsers.processes}

    async def parse(self, document: Fetched) -> Feed:
        """The feed in a document. Raises ParseError."""
        return await self._run("parse", document, document.content_type)

    async def posts_in(
        self, document: Fetched, source: str, fingerprints: bytes | None, discovered: float, keys: Sequence[str] = ()
    ) -> tuple[PostsRead, float]:
        """The posts of a polled document (`posts.entries`), and the processor seconds that it took.

        It counts as work for one of `keys`. Raises ParseError.
        """
        said = document.content_type, source, fingerprints, discovered, document.headers.get("link")
        done = await self._call("posts_in", document.url, document.body, document.final_url, *said, keys=keys)
        return done.value, done.seconds

    async def discover(self, document: Fetched) -> list[FeedLink]:
        """The feeds that a document is, contains or names (`discovery.links`)."""
        return await self._links("discover", document)

    async def better_feeds(self, document: Fetched, keys: Sequence[str] = ()) -> list[FeedLink]:
        """The feeds to follow instead of a page (`discovery.links`)."""
        return await self._links("better_feeds", document, keys)

    async def _links(self, task: str, document: Fetched, keys: Sequence[str] = ()) -> list[FeedLink]:
        return await self._run(task, document, document.content_type, document.headers.get("link"), keys=keys)

    async def forwarded(self, document: Fetched) -> str | None:
        """The target of a page's immediate redirect (`discovery.links`)."""
        return await self._run("forwarded", document, document.content_type)

    async def profile_in(self, document: Fetched, url: str) -> str | None:
        """The profile page named by the WebFinger document from `url` (`discovery.feedlinks`)."""
        return await self._run("profile_in", document, url=url)

    async def answer(self, look_up: LookUp, document: Fetched) -> Card | Entry | None:
        """A page's answer to a look-up (`formats.references`)."""
        task = "author_on" if isinstance(look_up, AuthorPage) else "target_on"
        return await self._run(task, document, document.content_type, look_up.url, keys=("look-ups",))

    async def profile_links(self, page: Answered, *, private: bool) -> ProfileLinks:
        """The servers and addresses that a person's page names (`identity.protocol.links`)."""
        return await self._run(
            "profile_links", page, page.content_type, page.headers.get("link"), private, thorough=False
        )

    async def client(self, client_id: str, page: Answered) -> ClientInfo:
        """An app's own description (`identity.protocol.clients`). Raises ParseError."""
        return await self._run(
            "read_client",
            page,
            page.final_url,
            page.content_type,
            page.headers.get("link"),
            url=client_id,
            thorough=False,
        )

    async def examined(self, page: Answered) -> ExaminedPage:
        """The facts for checking a page (`identity.protocol.links`)."""
        return await self._run("examined", page, page.content_type, page.headers.get("link"), thorough=False)

    async def mention(self, page: Answered, source: str, target: str) -> Entry | None:
        """A page's mention of a target (`webmention.source`), None if it has no link to it. Raises ParseError.

        All webmentions from one host share one turn.
        """
        return await self._run(
            "mention_in",
            page,
            page.content_type,
            source,
            target,
            keys=(f"webmentions of {host_of(source)}",),
            thorough=False,
        )

    async def old_post(self, item_id: str, data: bytes, published: str) -> OldPost:
        """A post of the older server (`ekster`). Raises ParseError."""
        return await self._value("old_post", item_id, data, item_id, published)

    async def feed_list(self, body: bytes) -> FeedList:
        """The feeds of a list (`transfer.outlines`). Raises ParseError."""
        return await self._value("read_list", "the list", body)

    async def exported_posts(self, posts: Sequence[Mapping[str, Any]]) -> list[Entry | None]:
        """Posts of an export, sanitised (`transfer.foreign_posts`), None for unusable ones. Raises ParseError."""
        return await self._value("exported_posts", "the export", dumps(posts))

    async def posted_entry(self, item: bytes, url: str, keys: Sequence[str]) -> Entry:
        """A post of a source, as `formats.hfeed` reads it; counts for `keys`. Raises ParseError."""
        return await self._value("posted_entry", url, item, url, keys=keys)

    async def posts_of_reader(self, posts: Sequence[Any]) -> list[ReaderPost | None]:
        """Posts of another reader (`transfer.foreign_posts`), None for unusable ones. Raises ParseError."""
        return await self._value("posts_of_reader", "the file", dumps(posts))

    async def _run(
        self,
        task: str,
        document: Fetched | Answered,
        *arguments: str | bytes | bool | None,
        url: str | None = None,
        keys: Sequence[str] = (),
        thorough: bool = True,
    ) -> R:
        """The result of a task whose first argument is an address: `url`, or the final one."""
        where = document.url if isinstance(document, Fetched) else document.final_url
        first = document.final_url if url is None else url
        return await self._value(task, where, document.body, first, *arguments, keys=keys, thorough=thorough)

    async def _value(self, task: str, where: str, body: bytes, *arguments: Any, **how: Any) -> R:
        """The result of a task; its type is that of the task's function (`process.tasks`)."""
        value: R = (await self._call(task, where, body, *arguments, **how)).value
        return value

    async def _call(
        self,
        task: str,
        where: str,
        body: bytes,
        *arguments: Any,
        keys: Sequence[str] = (),
        thorough: bool = True,
    ) -> Done:
        start = time.perf_counter()
        job = self._submit(_Job(task, where, body, arguments, keys or (who_asks(),), thorough))
        done, left = asyncio.wrap_future(job.result), self._patience
        try:
            while left is not None and not (await asyncio.wait((done,), timeout=left))[0]:
                if self._withdraw(job):
                    raise ParserUnavailable(_BUSY)
                left = _AGAIN  # it is being parsed, and may still have to wait for the slow lane
            return await done
        except asyncio.CancelledError:
            done.cancel()
            self._abandon(job)
            raise
        finally:
            PARSE_SECONDS.observe(time.perf_counter() - start)

    def run(self, task: str, where: str, body: bytes, *arguments: Any) -> Any:
        """Run one of `process.tasks` and wait, for threads. Raises ParseError."""
        job = _Job(task, where, body, arguments, (who_asks(),), True)
        return self._submit(job).result.result().value

    def warm(self) -> None:
        """Start a process if there is none, because a document is on its way."""
        with self._change:
            if not self._parsers.threads and not self._stopped:
                self._start_thread()

    def stop(self) -> None:
        """Close the pool, and refuse all later documents."""
        self._stopped = True
        self.close()

    def close(self) -> None:
        """End the processes at once, with all running and waiting documents."""
        if self._owner != os.getpid():
            return  # after a fork: they belong to the parent
        with self._change:
            parsers, self._parsers = self._parsers, _ParserThreads()
            waiting = [*self._quick.clear(), *self._slow.clear()]
            for job in parsers.running:
                job.abandoned = True
            for process in parsers.processes:
                process.kill()
            self._change.notify_all()
        for job in waiting:
            _set_error(job, ParserUnavailable(_CLOSING))

    def _submit(self, job: _Job) -> _Job:
        if self._stopped:
            raise ParserUnavailable(_CLOSING)
        if self._owner != os.getpid():
            self._begin()  # after a fork: threads and processes are the parent's, and its lock may be held
        with self._change:
            job.slow = job.thorough and job.where in self._known_slow
            self._enqueue(job)
        return job

    def _enqueue(self, job: _Job) -> None:
        job.key = self._lane(job).add(job, job.keys)
        if self._parsers.free < len(self._quick) + len(self._slow) and self._parsers.threads < self._most:
            self._start_thread()
        self._change.notify_all()

    def _limit(self, job: _Job) -> float:
        return self._seconds if job.slow else self._quick_seconds

    def _lane(self, job: _Job) -> Turns[_Job]:
        return self._slow if job.slow else self._quick

    def _start_thread(self) -> None:
        self._parsers.threads += 1
        threading.Thread(target=self._work, args=(self._parsers,), name="parser", daemon=True).start()

    def _withdraw(self, job: _Job) -> bool:
        """Remove a waiting document; False if it isn't waiting."""
        with self._change:
            return self._quick.remove(job) or self._slow.remove(job)

    def _abandon(self, job: _Job) -> None:
        """Drop a job that nobody waits for any more."""
        with self._change:
            if not self._withdraw(job):
                job.abandoned = True
                if job.process is not None:
                    job.process.kill()

    def _work(self, parsers: _ParserThreads) -> None:
        """Run a thread: parse one document after another, in its own process."""
        process: ParserProcess | None = None
        try:
            with suppress(ParserUnavailable):  # the next document reports it
                process = self._new_process(parsers)
            while (job := self._next(parsers)) is not None:
                process = self._serve(job, process, parsers)
        finally:
            if process is not None:
                self._drop(process, parsers)

    def _next(self, parsers: _ParserThreads) -> _Job | None:
        """The next document; None if this thread should end."""
        end = time.monotonic() + self._idle_seconds
        with self._change:
            while parsers is self._parsers:
                if (job := self._take()) is not None:
                    parsers.running.add(job)
                    return job
                left = end - time.monotonic()
                if left <= 0:
                    break
                parsers.free += 1
                self._change.wait(left)
                parsers.free -= 1
            parsers.threads -= 1
            return None

    def _take(self) -> _Job | None:
        """The next job: slow ones first if there are several processes, since quick ones have another one."""
        may_be_slow = sum(job.slow for job in self._parsers.running) < self._most_slow
        if self._most == 1:
            return self._quick.next() or self._slow.next()
        return (self._slow.next() if may_be_slow else None) or self._quick.next()

    def _serve(self, job: _Job, process: ParserProcess | None, parsers: _ParserThreads) -> ParserProcess | None:
        """Parse one document, and return the process for the next one if it is still usable."""
        seconds = self._limit(job)
        start, used, again = time.monotonic(), None, False
        try:
            process, done = self._read(job, process, parsers, seconds)
            used = done.seconds
            if process.resident > RETIRE:
                self._drop(process, parsers)
                process = None
            if done.failure is not None:
                _set_error(job, done.failure)
            elif job.result.set_running_or_notify_cancel():
                job.result.set_result(done)
        except OutOfTime:
            process, again = None, job.thorough and not job.slow and seconds < self._seconds
            if not again:
                log.warning("a document takes too long to parse", url=mask_credentials(job.where), seconds=seconds)
                _fail(job, f"the document could not be parsed in {seconds:g} s of processor time", seconds)
        except ProcessEnded as ended:
            process = None
            if job.abandoned:
                _set_error(job, ParserUnavailable(_CLOSING))
            else:
                log.warning("a document crashed its parser", url=mask_credentials(job.where), bytes=len(job.body))
                _fail(job, str(ended) or "parsing it takes too much time or memory")
        except BaseException as error:
            _set_error(job, error)
        if used is None:
            used = min(seconds, time.monotonic() - start)
        with self._change:
            job.process = None
            parsers.running.discard(job)
            self._lane(job).used(job.key, used)
            self._remember(job, used > self._quick_seconds or again)
            if again and not job.abandoned and parsers is self._parsers:
                job.slow = True
                self._enqueue(job)
            else:
                job.body = b""  # an error may refer to this frame, and would keep the document in memory
                if again:
                    _set_error(job, ParserUnavailable(_CLOSING))
            self._change.notify_all()
        return process

    def _read(
        self, job: _Job, process: ParserProcess | None, parsers: _ParserThreads, seconds: float
    ) -> tuple[ParserProcess, Done]:
        """The result and its process. Raises ProcessEnded and ParserUnavailable."""
        fresh = process is None
        while True:
            process = process or self._new_process(parsers)
            with self._change:
                if job.abandoned:
                    self._drop(process, parsers)
                    raise ProcessEnded
                job.process = process
            try:
                return process, process.run(job.task, job.body, job.arguments, seconds=seconds, where=job.where)
            except ProcessEnded as error:
                self._drop(process, parsers)
                if fresh or job.abandoned or isinstance(error, OutOfTime):
                    raise
                # It may have died earlier, for another reason. A fresh one shows whether the document is the cause.
                process, fresh = None, True

    def _remember(self, job: _Job, slow: bool) -> None:
        """Remember documents that should skip the quick lane next time."""
        if not slow:
            self._known_slow.pop(job.where, None)
        elif job.thorough:
            self._known_slow[job.where] = None
            if len(self._known_slow) > _MOST_SLOW_KNOWN:
                del self._known_slow[next(iter(self._known_slow))]

    def _new_process(self, parsers: _ParserThreads) -> ParserProcess:
        try:
            process = ParserProcess(self._memory)
        except OSError as error:
            self._complain(error)
            raise ParserUnavailable(f"no parser can be started ({error.strerror or error})") from None
        with self._change:
            if parsers is self._parsers:
                parsers.processes.add(process)
                return process
        process.close()
        raise ParserUnavailable(_CLOSING)

    def _complain(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._complained > _REST:
            self._complained = now
            log.error("no parser can be started, which isn't caused by a document", error=str(error))

    def _drop(self, process: ParserProcess, parsers: _ParserThreads) -> None:
        with self._change:
            parsers.processes.discard(process)
        process.close()


def _fail(job: _Job, detail: str, seconds: float = 0.0) -> None:
    _set_error(job, ParsingStopped(mask_credentials(job.where), detail, seconds))


def _set_error(job: _Job, error: BaseException) -> None:
    if job.result.set_running_or_notify_cancel():
        job.result.set_exception(error)


class BoundedParser:
    """`formats.parse.parse` in processes, at most `at_once` at a time; blocks.

    Safe for threads and after forks.
    Raises ParserUnavailable if no process can be started, or if it is closed during a call.
    """

    def __init__(self, *, at_once: int = 2) -> None:
        self._pool = ParsePool(at_once, quick=QUICK)

    def __call__(self, body: bytes, url: str, content_type: str | None) -> Feed:
        """The feed in a document. Raises ParseError; ParsingStopped over time or memory limits."""
        feed: Feed = self._pool.run("parse", url, body, url, content_type)
        return feed

    def better_feeds(self, body: bytes, url: str, content_type: str | None) -> list[FeedLink]:
        """The feeds to follow instead of a page (`discovery.links`). Raises ParsingStopped."""
        links: list[FeedLink] = self._pool.run("better_feeds", url, body, url, content_type, None)
        return links

    def close(self) -> None:
        """End the processes, with the documents being parsed, until the next call."""
        self._pool.close()
