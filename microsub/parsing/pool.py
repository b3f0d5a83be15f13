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
from collections.abc import Collection, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import ParserUnavailable, ParsingStopped
from microsub.base.logs import LibraryLogger
from microsub.base.metrics import PARSE_SECONDS
from microsub.base.urls import mask_credentials
from microsub.fetch import who_asks
from microsub.parsing.process import MEMORY, Done, OutOfTime, ParserProcess, ProcessEnded
from microsub.parsing.task import AnyTask, Arguments, R, Task

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

    task: AnyTask
    where: str
    body: bytes
    arguments: tuple[Any, ...]
    keys: Sequence[str]
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
    """Carries out `tasks` for at most `processes` documents at a time; of several processes, one is for the quick lane.

    A process starts when it is needed, loads the functions of all tasks, and ends after `idle` seconds without work.
    Safe for threads and event loops. A document may use `quick` seconds of processor time in the quick lane, `seconds`
    in the slow one, and `memory` bytes. Work counts for the requester (`fetch.asking_for`), unless `keys` name others:
    then for the one of them that has used least.

    All methods that parse raise ParsingStopped if a document takes too much time or memory, and ParserUnavailable if
    no process can be started, the pool is closed, or a document still waits for its turn after `patience` seconds of
    real time.
    """

    def __init__(
        self,
        tasks: Collection[AnyTask],
        processes: int = 2,
        *,
        quick: float = QUICK,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        idle: float = IDLE_SECONDS,
        patience: float | None = None,
    ) -> None:
        self._tasks = tasks
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
        self._known_slow: BoundedCache[str, None] = BoundedCache(_MOST_SLOW_KNOWN)
        self._parsers = _ParserThreads()

    @property
    def processes(self) -> set[int]:
        """The process ids."""
        with self._change:
            return {process.pid for process in self._parsers.processes}

    async def run(
        self, task: Task[R, *Arguments], where: str, body: bytes, *arguments: *Arguments, keys: Sequence[str] = ()
    ) -> R:
        """The result of a task for the document found at `where`. Raises ParseError."""
        return (await self.measured(task, where, body, *arguments, keys=keys))[0]

    async def measured(
        self, task: Task[R, *Arguments], where: str, body: bytes, *arguments: *Arguments, keys: Sequence[str] = ()
    ) -> tuple[R, float]:
        """The result of a task, and the processor seconds that it took. Raises ParseError."""
        start = time.perf_counter()
        job = self._submit(_Job(task, where, body, arguments, keys or (who_asks(),)))
        done, left = asyncio.wrap_future(job.result), self._patience
        try:
            while left is not None and not (await asyncio.wait((done,), timeout=left))[0]:
                if self._withdraw(job):
                    raise ParserUnavailable(_BUSY)
                left = _AGAIN  # it is being parsed, and may still have to wait for the slow lane
            ended = await done
        except asyncio.CancelledError:
            done.cancel()
            self._abandon(job)
            raise
        finally:
            PARSE_SECONDS.observe(time.perf_counter() - start)
        return ended.value, ended.seconds

    def run_blocking(self, task: Task[R, *Arguments], where: str, body: bytes, *arguments: *Arguments) -> R:
        """`run` for threads, which wait for the result. Raises ParseError."""
        result: R = self._submit(_Job(task, where, body, arguments, (who_asks(),))).result.result().value
        return result

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
        if job.task not in self._tasks:
            raise LookupError(f"{job.task.name}: expected one of the pool's tasks")
        if self._stopped:
            raise ParserUnavailable(_CLOSING)
        if self._owner != os.getpid():
            self._begin()  # after a fork: threads and processes are the parent's, and its lock may be held
        with self._change:
            job.slow = job.task.thorough and job.where in self._known_slow
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
            with suppress(Exception):  # the next document gets the error, whatever it is
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
            process, again = None, job.task.thorough and not job.slow and seconds < self._seconds
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
            self._known_slow.pop(job.where)
        elif job.task.thorough:
            self._known_slow[job.where] = None

    def _new_process(self, parsers: _ParserThreads) -> ParserProcess:
        try:
            process = ParserProcess(self._tasks, self._memory)
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
