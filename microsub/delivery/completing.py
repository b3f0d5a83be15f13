"""Look-ups: an entry completed by its author's page and by what it replies to, likes, reposts or bookmarks.

What is looked up and what comes of it is decided in `formats.lookups` and `formats.mf2.references`; here it is done,
within limits. Nothing is stored but copies of pages, and answers in the memory of the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

import structlog

from microsub.errors import ParseError, ParserUnavailable
from microsub.fetch import Fetched, FetchRequest, FetchResult
from microsub.formats.entry_id import host_of, mask_credentials
from microsub.formats.lookups import AuthorPage, LookUp, completed, lacking
from microsub.model.jf2 import Card, Entry
from microsub.parsing.pool import ParsePool

AT_ONCE = 8
"""Look-ups under way together in one process."""

SECONDS = 30.0
"""How long the look-ups of one call may take; what isn't there by then is left out."""

MOST = 200
"""Look-ups of one call, whatever the entries lack."""

REMEMBERED = 6 * 3600.0
FAILURES_REMEMBERED = 600.0
"""Seconds for which an author's card, or that there was none, is remembered: all posts of a blog have the same."""

MOST_REMEMBERED = 5000

log = structlog.get_logger(__name__)

Answer = Card | Entry | None


class Fetching(Protocol):
    """What is needed: `cache.CachingFetcher`, with `fetch.SpacedFetcher` behind it where many entries are completed."""

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document; failures are values."""
        ...


class Completing:
    """Completes entries. Pages are read by `parser`, microformats in small ones only (`formats.mf2.references`).

    The same pages give the same entries, in whatever order they come, and what is complete stays as it is: calling
    twice does no harm. A look-up that fails leaves its gap. Belongs to one event loop.
    """

    def __init__(
        self,
        fetcher: Fetching,
        parser: ParsePool,
        *,
        at_once: int = AT_ONCE,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._parser = parser
        self._turn = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._clock = clock
        self._hosts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._authors: dict[LookUp, tuple[float, Answer]] = {}

    async def complete(self, entry: Entry, source: str | None = None) -> Entry:
        """`entry` with what its look-ups found, or the same object where that is nothing.

        `source` is the address of the document that it comes from, where that is known: it isn't looked up.
        """
        return (await self.complete_all([entry], source))[0]

    async def complete_all(self, entries: Sequence[Entry], source: str | None = None) -> list[Entry]:
        """All of `entries` in their order; each page that several of them need is looked up once."""
        wanted = list(dict.fromkeys(look_up for entry in entries for look_up in lacking(entry, source)))[:MOST]
        found = await self._find(wanted)
        return [completed(entry, found) for entry in entries] if found else list(entries)

    async def _find(self, wanted: Sequence[LookUp]) -> dict[LookUp, Card | Entry]:
        tasks = {look_up: asyncio.create_task(self._one(look_up)) for look_up in wanted}
        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=self._seconds)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        answers = {look_up: task.result() for look_up, task in tasks.items() if not task.cancelled()}
        if len(answers) < len(tasks):
            log.info("look-ups took too long", missing=len(tasks) - len(answers), seconds=self._seconds)
        return {look_up: said for look_up, said in answers.items() if said is not None}

    async def _one(self, look_up: LookUp) -> Answer:
        # Those who queue for a busy host don't take the places of others; and those that wait hold no documents.
        async with self._hosts.setdefault(host_of(look_up.url), asyncio.Lock()), self._turn:
            known = self._authors.get(look_up)
            if known is not None and self._clock() < known[0]:
                return known[1]
            try:
                said = await self._ask(look_up)
            except ParserUnavailable:
                return None  # which is our fault, and not remembered
        log.debug("looked up", url=mask_credentials(look_up.url), kind=type(look_up).__name__, found=said is not None)
        if isinstance(look_up, AuthorPage):
            self._remember(look_up, said)
        return said

    async def _ask(self, look_up: LookUp) -> Answer:
        document = await self._fetcher.fetch(FetchRequest(look_up.url.partition("#")[0]))
        if not isinstance(document, Fetched):
            return None
        try:
            return await self._parser.answer(look_up, document)
        except ParseError:
            return None

    def _remember(self, look_up: LookUp, said: Answer) -> None:
        self._authors.pop(look_up, None)
        while len(self._authors) >= MOST_REMEMBERED:
            del self._authors[next(iter(self._authors))]
        self._authors[look_up] = self._clock() + (FAILURES_REMEMBERED if said is None else REMEMBERED), said
