"""Parsing off the event loop, in a few threads: foreign bytes may take their time, but not everybody's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from microsub.errors import ParseError
from microsub.fetch import Fetched
from microsub.formats.identity import mask_credentials
from microsub.formats.parse import parse
from microsub.metrics import PARSE_SECONDS
from microsub.model.jf2 import Feed

Parse = Callable[[bytes, str, str | None], Feed]


class ParsePool:
    """`threads` documents are parsed at a time; the others wait."""

    def __init__(self, threads: int = 2, *, seconds: float = 60.0, parse: Parse = parse) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="parse")
        self._turn = asyncio.Semaphore(threads)
        self._seconds = seconds
        self._parse = parse

    async def parse(self, document: Fetched) -> Feed:
        """Parse a document as the feed at its final address. Raises ParseError, also when it takes too long."""
        start = time.perf_counter()
        async with self._turn:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(
                self._executor, self._parse, document.body, document.final_url, document.content_type
            )
            try:
                async with asyncio.timeout(self._seconds):
                    return await work
            except TimeoutError:
                where = mask_credentials(document.url)
                raise ParseError(where, f"the document could not be parsed in {self._seconds:g} s") from None
            finally:
                PARSE_SECONDS.observe(time.perf_counter() - start)

    def close(self) -> None:
        """Let the threads end; what has not begun never does."""
        self._executor.shutdown(wait=False, cancel_futures=True)
