"""Parsing off the event loop: foreign bytes may take their time, but not everybody's, and not for ever.

Ordinary documents, small and with a moderate number of tags, are parsed in a few threads: nothing that can stand in
them costs more than a second or two. All others go to processes, which can be ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from microsub.errors import ParsingStopped
from microsub.fetch import Fetched
from microsub.formats.crowding import is_crowded
from microsub.formats.feedlinks import FeedLink
from microsub.formats.identity import mask_credentials
from microsub.formats.parse import parse
from microsub.formats.rereading import Reading
from microsub.logs import LibraryLogger
from microsub.metrics import PARSE_SECONDS
from microsub.model.jf2 import Feed
from microsub.parsing.process import MEMORY, TASKS, ParserProcess, ProcessEnded

log = LibraryLogger(__name__)

Parse = Callable[[bytes, str, str | None], Feed]
Then = Callable[[Any], Any]
T = TypeVar("T")

LARGE = 256 * 1024
MANY_TAGS = 4000
SECONDS = 20.0
IDLE_SECONDS = 60.0
RETIRE = 88 * 1024 * 1024
"""A process that holds more bytes than this after a document is ended: it began with some fifty megabytes."""


def _as_it_is(result: Any) -> Any:
    return result


def _one_after_the_other(then: Then, work: Callable[..., Any], *arguments: Any) -> Any:
    return then(work(*arguments))


def is_heavy(body: bytes) -> bool:
    """Whether parsing `body` might take long or much memory: by its size, or by how many tags or objects it may hold,
    or attributes in one tag.

    UTF-16 and UTF-32 have the same bytes among their zeros.
    """
    if len(body) > LARGE or body.count(b"<") + body.count(b"{") + body.count(b"&lt;") > MANY_TAGS:
        return True
    return is_crowded(body)


class ParsePool:
    """`threads` documents are read at a time, and `processes` heavy ones beside them; the others wait.

    A second thread reads no more in the same time, since Python runs one at a time; it lets a document pass another one
    that takes a second or two, and costs a quarter of the processor time for that.

    `seconds` and `memory` (bytes) bound the work on one document. Documents are taken to be from their final address.
    """

    def __init__(
        self,
        threads: int = 2,
        *,
        processes: int = 2,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        parse: Parse = parse,
    ) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="parse")
        self._heavy = ThreadPoolExecutor(processes, thread_name_prefix="parser")
        self._turn = asyncio.Semaphore(threads)
        self._heavy_turn = asyncio.Semaphore(processes)
        self._seconds = seconds
        self._memory = memory
        self._tasks: dict[str, Callable[..., Any]] = {**TASKS, "parse": parse}
        self._idle: list[ParserProcess] = []
        self._busy: set[ParserProcess] = set()
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._closed = False

    @property
    def processes(self) -> set[int]:
        """The numbers of the processes that wait for a heavy document."""
        return {process.pid for process in self._idle}

    async def parse(self, document: Fetched) -> Feed:
        """The feed in a document. Raises ParseError, and ParsingStopped when it takes too much time or memory."""
        feed: Feed = await self._run("parse", document, document.content_type)
        return feed

    async def reread(
        self, document: Fetched, source: str, marks: bytes | None, then: Callable[[Reading], T] = _as_it_is
    ) -> T:
        """A document that is read now and again (`formats.rereading`), and what `then` makes of it, in the same thread.

        Raises as `parse` does.
        """
        result: T = await self._run("reread", document, document.content_type, source, marks, then=then)
        return result

    async def discover(self, document: Fetched) -> list[FeedLink]:
        """The feeds that a document is, holds or names (`formats.discovery`). Raises ParsingStopped."""
        return await self._links("discover", document)

    async def better_feeds(self, document: Fetched) -> list[FeedLink]:
        """The feeds to follow instead of a page (`formats.discovery`). Raises ParsingStopped."""
        return await self._links("better_feeds", document)

    async def _links(self, task: str, document: Fetched) -> list[FeedLink]:
        links: list[FeedLink] = await self._run(task, document, document.content_type, document.headers.get("link"))
        return links

    async def _run(self, task: str, document: Fetched, *others: str | bytes | None, then: Then = _as_it_is) -> Any:
        start = time.perf_counter()
        heavy = is_heavy(document.body)
        work = self._in_process if heavy else self._in_thread
        try:
            async with self._heavy_turn if heavy else self._turn:
                return await work(then, task, document, *others)
        except TimeoutError:
            where = mask_credentials(document.url)
            raise ParsingStopped(where, f"the document could not be parsed in {self._seconds:g} s") from None
        finally:
            PARSE_SECONDS.observe(time.perf_counter() - start)

    def close(self) -> None:
        """Let the threads and processes end; what has not begun never does."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._heavy.shutdown(wait=False, cancel_futures=True)
        for timer in self._timers.values():
            timer.cancel()
        for process in self._busy:
            process.kill()
        while self._idle:
            self._idle.pop().close()

    async def _in_thread(self, then: Then, task: str, document: Fetched, *others: str | bytes | None) -> Any:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(
            self._executor, _one_after_the_other, then, self._tasks[task], document.body, document.final_url, *others
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        finally:
            del work  # its error knows this frame, and would keep the document until the next garbage collection

    async def _in_process(self, then: Then, task: str, document: Fetched, *others: str | bytes | None) -> Any:
        for process in [*self._idle[-1:], None]:
            if process is not None:
                self._idle.remove(process)
            with suppress(ProcessEnded):
                return await self._ask(process, then, task, document, *others)
            # One that was idle may have died before, by other hands. A fresh one tells whether the document ends it.
        log.warning("a document ended its parser", url=mask_credentials(document.url), bytes=len(document.body))
        raise ParsingStopped(mask_credentials(document.url), "reading it takes too much time or memory")

    async def _ask(
        self, process: ParserProcess | None, then: Then, task: str, document: Fetched, *others: str | bytes | None
    ) -> Any:
        loop = asyncio.get_running_loop()
        if process is None:
            process = await loop.run_in_executor(self._heavy, ParserProcess, self._memory)
        if (timer := self._timers.pop(process.pid, None)) is not None:
            timer.cancel()
        self._busy.add(process)
        work = loop.run_in_executor(
            self._heavy, _one_after_the_other, then, process.run, task, document.body, document.final_url, *others
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.shield(work)
        except (TimeoutError, asyncio.CancelledError):
            process.kill()  # which ends the call in the thread
            await asyncio.wait([work])
            work.cancelled() or work.exception()
            raise
        finally:
            self._busy.discard(process)
            self._lay_by(process)
            del work  # as above

    def _lay_by(self, process: ParserProcess) -> None:
        """Keep a process for the next heavy document, for a while."""
        if self._closed or not process.answered or process.resident > RETIRE:
            process.close()
            return
        self._idle.append(process)
        loop = asyncio.get_running_loop()
        self._timers[process.pid] = loop.call_later(IDLE_SECONDS, self._retire, process)

    def _retire(self, process: ParserProcess) -> None:
        self._timers.pop(process.pid, None)
        if process in self._idle:
            self._idle.remove(process)
            process.close()
