"""Parsing with an end, for programs whose threads and event loops are their own affair.

`ParsePool` belongs to one event loop; this is a plain function of a document, safe for threads and after forks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from microsub.errors import ParsingStopped
from microsub.formats.discovery import FeedLink
from microsub.formats.identity import mask_credentials
from microsub.model.jf2 import Feed
from microsub.parsing.pool import IDLE_SECONDS, RETIRE, SECONDS, is_heavy
from microsub.parsing.process import MEMORY, TASKS, ParserProcess, ProcessEnded


class BoundedParser:
    """Called like `formats.parse.parse`, and blocks: what is heavy is read in a process, `at_once` of them at a time.

    `seconds` and `memory` (bytes) bound the work on one heavy document.
    """

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY, at_once: int = 2) -> None:
        self._seconds = seconds
        self._memory = memory
        self._at_once = at_once
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._guard = threading.Lock()
        self._turn = threading.BoundedSemaphore(self._at_once)
        self._idle: list[ParserProcess] = []
        self._busy: set[ParserProcess] = set()
        self._closings = 0

    def __call__(self, body: bytes, url: str, content_type: str | None) -> Feed:
        """The feed in a document. Raises ParseError, and ParsingStopped when it takes too much time or memory."""
        feed: Feed = self._run("parse", body, url, content_type)
        return feed

    def better_feeds(self, body: bytes, url: str, content_type: str | None) -> list[FeedLink]:
        """The feeds to follow instead of a page (`formats.discovery`). Raises ParsingStopped."""
        links: list[FeedLink] = self._run("better_feeds", body, url, content_type, None)
        return links

    def _run(self, task: str, body: bytes, url: str, *others: str | None) -> Any:
        if not is_heavy(body):
            return TASKS[task](body, url, *others)
        if self._owner != os.getpid():
            self._begin()  # after a fork: the processes are the parent's, and so may be who holds the lock
        closings = self._closings
        with self._turn:
            return self._in_process(closings, task, body, url, *others)

    def close(self) -> None:
        """End the processes, and with them the documents that are being read. Later calls begin anew."""
        if self._owner != os.getpid():
            return
        with self._guard:
            self._closings += 1
            idle = self._idle.copy()
            self._idle.clear()
            for process in self._busy:
                process.kill()
        for process in idle:
            process.close()

    def _in_process(self, closings: int, task: str, body: bytes, url: str, *others: str | None) -> Any:
        late = threading.Event()
        while self._closings == closings:
            with self._guard:
                known = self._idle.pop() if self._idle else None
            try:
                process = known if known is not None else ParserProcess(self._memory)
                with self._held(process, closings, late):
                    return process.run(task, body, url, *others)
            except ProcessEnded:
                # An idle one may have died before, by other hands. A fresh one tells whether the document ends it.
                if known is None or late.is_set():
                    break
        where = mask_credentials(url)
        if late.is_set():
            raise ParsingStopped(where, f"the document could not be parsed in {self._seconds:g} s")
        raise ParsingStopped(where, "reading it takes too much time or memory")

    @contextmanager
    def _held(self, process: ParserProcess, closings: int, late: threading.Event) -> Iterator[None]:
        """A process at work: ended when it is `late` or all are closed, and kept for others afterwards."""

        def end() -> None:
            late.set()
            process.kill()

        timer = _timer(self._seconds, end)
        with self._guard:
            self._busy.add(process)
            if self._closings != closings:
                process.kill()
        try:
            yield
        finally:
            timer.cancel()
            with self._guard:
                self._busy.discard(process)
                good = process.answered and process.resident <= RETIRE and not late.is_set()
                stays = good and self._closings == closings
                if stays:
                    self._idle.append(process)
            if stays:
                _timer(IDLE_SECONDS, lambda: self._retire(process))
            else:
                process.close()

    def _retire(self, process: ParserProcess) -> None:
        with self._guard:
            if process not in self._idle:
                return  # at work, or ended; in the first case it will be idle again, with another timer
            self._idle.remove(process)
        process.close()


def _timer(seconds: float, work: Callable[[], None]) -> threading.Timer:
    """Begin to wait, in a thread that doesn't hold up the end of the program."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()
    return timer
