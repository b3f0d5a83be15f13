"""The index of a machine: a folder with one generation in use, one writer, and any number of readers.

Files in the folder:

- `current`: the name of the generation in use. A new one is built next to it, and named here when it is complete;
- `posts-….sqlite`: generations, with SQLite's additional files. The writer removes those that aren't in use;
- `writer.lock`: held by the process that follows the posts (flock(2)); it is freed however that process ends;
- `rebuild`: a request to the writer for a new generation.

A reader that finds the generation corrupt removes its name, and the writer builds a new one.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import structlog

from microsub.base.errors import SearchUnavailable
from microsub.feeds import Events
from microsub.search.index import Generation, IndexUnusable, Match

T = TypeVar("T")

log = structlog.get_logger(__name__)

THREADS = 2
"""Queries of one process that SQLite runs at the same time, off the event loop."""
MOST_WAITING = 32
"""Queries that may wait for a thread; further ones are refused."""
SECONDS = 1.0
"""Time limit of one query to SQLite."""


class IndexFolder:
    """The index's files. Raises IndexUnusable and OSError if they can't be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._current = path / "current"
        self._wish = path / "rebuild"

    def current(self) -> Path | None:
        """The generation in use, or None."""
        try:
            name = self._current.read_text("utf-8").strip()
        except OSError:
            return None
        found = self.path / name
        return found if name and "/" not in name and found.is_file() else None

    def use(self, generation: Path) -> None:
        """Use this generation, and remove all others; open ones remain readable for their readers."""
        new = self._current.with_suffix(".new")
        with open(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(generation.name)
        new.replace(self._current)
        self.tidy()

    def condemn(self, generation: Path) -> None:
        """Stop using a generation, if it is still in use."""
        if self.current() == generation:
            self._current.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove generations that aren't in use, and incomplete ones of dead writers."""
        current = self.current()
        for path in self.path.glob("posts-*.sqlite*"):
            if current is None or not path.name.startswith(current.name):
                path.unlink(missing_ok=True)

    def fresh(self) -> Path:
        """A name for a new generation."""
        return self.path / f"posts-{secrets.token_hex(4)}.sqlite"

    def ask_for_rebuild(self) -> None:
        """Ask the writer for a new generation."""
        self._wish.touch(0o600)

    def has_wish(self) -> bool:
        """Whether a new generation was requested."""
        return self._wish.exists()

    def settle_wish(self) -> None:
        """Clear the request: the new generation is in use."""
        self._wish.unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[bool]:
        """Whether this process is the writer, for the block; creates the folder if necessary."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def has_writer(self) -> bool:
        """Whether a process is following the posts."""
        if not (self.path / "writer.lock").exists():
            return False
        with self.writing() as free:
            return not free

    def size(self) -> int:
        """Bytes on disk."""
        total = 0
        for path in self.path.glob("posts-*"):
            with suppress(OSError):
                total += path.stat().st_size
        return total


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """Statistics of an index; times are Unix seconds, `took` is the duration of its build.

    `cursor` is the event up to which it has all posts; `empty` counts rows left by edits and deletions.
    """

    posts: int = 0
    empty: int = 0
    bytes: int = 0
    cursor: str = "0"
    built: float | None = None
    took: float | None = None
    written: float | None = None
    usable: bool = False
    followed: bool = False

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class IndexReader:
    """Reads the generation in use, in its own threads. `close` ends them."""

    def __init__(self, folder: IndexFolder) -> None:
        self.folder = folder
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="search")
        self._own = threading.local()
        self._waiting = 0

    def close(self) -> None:
        """End the threads, after the queries under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def matches(
        self, expression: str, depth: int, *, above: int | None = None, below: int | None = None,
        among: Collection[int] | None = None, upward: bool = False, ranked: bool = False,
    ) -> tuple[list[Match], int | None]:  # fmt: skip
        """See `Generation.matches`. Raises SearchUnavailable and QueryTooSlow."""
        return await self._asked(
            lambda generation: generation.matches(
                expression, depth, above=above, below=below, among=among, upward=upward, ranked=ranked, seconds=SECONDS
            )
        )

    async def matching(
        self, expression: str, ids: Collection[int], above: int | None, below: int | None
    ) -> tuple[list[Match], list[int]]:
        """The items that match, and those it doesn't have. Raises SearchUnavailable and QueryTooSlow."""
        return await self._asked(
            lambda found: (found.matching(expression, ids, above, below, seconds=SECONDS), found.missing(ids))
        )

    async def figures(self) -> IndexFigures:
        """The statistics; never raises: an index that can't be used is not `usable`."""
        followed, size = await asyncio.to_thread(lambda: (self.folder.has_writer(), self.folder.size()))
        try:
            return await self._asked(lambda generation: figures_of(generation, size, followed=followed))
        except SearchUnavailable:
            return IndexFigures(bytes=size, followed=followed)

    async def behind(self, events: Events, now: float) -> float:
        """The age in seconds of the oldest change that the index lacks; 0 for none. Raises SearchUnavailable."""
        cursor = await self._asked(lambda generation: generation.facts().get("cursor", "0"))
        waiting = await events.since(cursor, 1)
        return max(0.0, now - waiting[0].at) if waiting else 0.0

    async def _asked(self, question: Callable[[Generation], T]) -> T:
        if self._waiting >= THREADS + MOST_WAITING:
            raise SearchUnavailable("too many searches are waiting")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)
        finally:
            self._waiting -= 1

    def _answer(self, question: Callable[[Generation], T]) -> T:
        generation = self._generation()
        try:
            return question(generation)
        except IndexUnusable as error:
            self._drop(generation, error)
            raise SearchUnavailable(str(error)) from error

    def _generation(self) -> Generation:
        """This thread's connection to the generation in use."""
        own: Generation | None = getattr(self._own, "generation", None)
        while own is None or own.path != self.folder.current():
            if own is not None:
                own.close()
            own = self._own.generation = self._opened()
        return own

    def _opened(self) -> Generation | None:
        """Open the generation in use; None if it was replaced meanwhile.

        Files are removed after another generation is named. So if the name is unchanged after the first read, all its
        files were opened; otherwise its journal, with the newest posts, may be missing.
        """
        path = self.folder.current()
        if path is None:
            raise SearchUnavailable("the index of posts isn't built yet")
        try:
            return Generation.open(path, read_only=True)
        except IndexUnusable as error:
            if self.folder.current() not in {None, path}:
                return None
            self._drop(None, error, path)
            raise SearchUnavailable(str(error)) from error

    def _drop(self, generation: Generation | None, error: IndexUnusable, path: Path | None = None) -> None:
        """Reopen the generation, or replace it if it is corrupt."""
        log.warning("the index of posts can't be read", error=str(error), corrupt=error.corrupt)
        if generation is not None:
            path = generation.path
            generation.close()
            self._own.generation = None
        if error.corrupt and path is not None:
            with suppress(OSError):
                self.folder.condemn(path)


def figures_of(generation: Generation, size: int, *, followed: bool) -> IndexFigures:
    """The statistics of an open generation. Raises IndexUnusable."""
    facts = generation.facts()
    posts, empty = generation.counts()
    times = {name: float(facts[name]) for name in ("built", "took", "written") if name in facts}
    cursor = facts.get("cursor", "0")
    return IndexFigures(posts, empty, size, cursor, **times, usable=True, followed=followed)
