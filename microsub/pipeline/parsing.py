"""Parsing off the event loop: foreign bytes may take their time, but not everybody's, and not for ever.

Ordinary documents, small and with a moderate number of tags, are parsed in a few threads: nothing that can stand in
them costs more than a second or two. All others go to processes, which can be ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from microsub.errors import ParseError
from microsub.fetch import Fetched
from microsub.formats.identity import mask_credentials
from microsub.formats.parse import parse
from microsub.metrics import PARSE_SECONDS
from microsub.model.jf2 import Feed
from microsub.pipeline.parser_process import MEMORY, ParserProcess, ProcessEnded

log = structlog.get_logger(__name__)

Parse = Callable[[bytes, str, str | None], Feed]

LARGE = 256 * 1024
MANY_TAGS = 4000
SECONDS = 20.0
_IDLE_SECONDS = 60.0
_RETIRE = 160 * 1024 * 1024


def is_heavy(body: bytes) -> bool:
    """Whether parsing `body` might take long or much memory: by its size, or by how many tags or objects it may hold.

    UTF-16 and UTF-32 have the same bytes among their zeros.
    """
    return len(body) > LARGE or body.count(b"<") + body.count(b"{") + body.count(b"&lt;") > MANY_TAGS


class ParsePool:
    """`threads` documents are parsed at a time, and as many heavy ones beside them; the others wait.

    `seconds` and `memory` (bytes) bound the work on one document.
    """

    def __init__(
        self, threads: int = 2, *, seconds: float = SECONDS, memory: int = MEMORY, parse: Parse = parse
    ) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="parse")
        self._turn = asyncio.Semaphore(threads)
        self._heavy_turn = asyncio.Semaphore(threads)
        self._seconds = seconds
        self._memory = memory
        self._parse = parse
        self._idle: list[ParserProcess] = []
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._closed = False

    async def parse(self, document: Fetched) -> Feed:
        """Parse a document as the feed at its final address. Raises ParseError, also when it takes too long."""
        start = time.perf_counter()
        heavy = is_heavy(document.body)
        try:
            async with self._heavy_turn if heavy else self._turn:
                return await (self._in_process(document) if heavy else self._in_thread(document))
        except TimeoutError:
            where = mask_credentials(document.url)
            raise ParseError(where, f"the document could not be parsed in {self._seconds:g} s") from None
        finally:
            PARSE_SECONDS.observe(time.perf_counter() - start)

    def close(self) -> None:
        """Let the threads and processes end; what has not begun never does."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            self._end(self._idle.pop())

    async def _in_thread(self, document: Fetched) -> Feed:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(
            self._executor, self._parse, document.body, document.final_url, document.content_type
        )
        async with asyncio.timeout(self._seconds):
            return await work

    async def _in_process(self, document: Fetched) -> Feed:
        process = self._idle.pop() if self._idle else await ParserProcess.start(self._memory)
        timer = self._timers.pop(process.pid, None)
        if timer is not None:
            timer.cancel()
        keep = False
        try:
            async with asyncio.timeout(self._seconds):
                feed = await process.parse(document.body, document.final_url, document.content_type)
            keep = process.resident < _RETIRE
        except ParseError:
            keep = process.resident < _RETIRE
            raise
        except ProcessEnded:
            log.warning("a document ended its parser", url=mask_credentials(document.url), bytes=len(document.body))
            raise ParseError(mask_credentials(document.url), "reading it takes too much time or memory") from None
        finally:
            self._lay_by(process, keep)
        return feed

    def _lay_by(self, process: ParserProcess, keep: bool) -> None:
        """Keep a process for the next heavy document, for a while."""
        if not keep or self._closed:
            self._end(process)
            return
        self._idle.append(process)
        loop = asyncio.get_running_loop()
        self._timers[process.pid] = loop.call_later(_IDLE_SECONDS, self._retire, process)

    def _retire(self, process: ParserProcess) -> None:
        if process in self._idle:
            self._idle.remove(process)
            self._end(process)

    def _end(self, process: ParserProcess) -> None:
        timer = self._timers.pop(process.pid, None)
        if timer is not None:
            timer.cancel()
        process.kill()
