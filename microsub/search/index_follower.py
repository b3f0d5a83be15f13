"""The writer of a machine's index: it reads the stream of stored, edited and deleted posts, and builds generations.

Its position in the stream is stored in the generation, in the same transaction as the posts, so after a crash it
continues where the file ends. Some changes have no event (imports, deletions by the sweep), so assigned ids are
regularly compared with the index. If events were lost, because the stream was trimmed too early or Redis has other data
than before, the index is rebuilt; the old generation answers queries meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

import orjson
import structlog

from microsub.base.errors import StoreError
from microsub.feeds import Events
from microsub.posts import Items, Texts, newest_id, stored_ids
from microsub.redis.protocol import Redis
from microsub.search.index import Generation, IndexUnusable
from microsub.search.replica import IndexFolder
from microsub.search.words import IndexedPost, document

T = TypeVar("T")

log = structlog.get_logger(__name__)

_WRITTEN_AT_ONCE, _WRITTEN_BYTES = 4000, 16 * 1024 * 1024
"""Posts per write during a rebuild: with more posts, their words are sorted fewer times."""
_MANY = 500
_TOO_MANY = 4000
"""Above the first number of events, the next look comes later: large writes cost less. Above the second, at once."""
_COMPARED_AT_ONCE = 1000
_MOST_EMPTY = 0.25
_ALWAYS_EMPTY = 1000
"""Empty rows that are allowed, as a fraction of all posts, and in addition to that."""

_Stored = tuple[int, bytes | Texts, float]
"""Item id, wire JSON, score."""


class FollowTiming(NamedTuple):
    """Seconds between two looks at the stream, and under load (`busy`); between two comparisons; before the first
    attempt to become the writer, and between attempts; and after a failed write.
    """

    pause: float = 1.0
    busy: float = 3.0
    compare: float = 60.0
    first: float = 0.0
    attempt: float = 5.0
    failure: float = 30.0


STANDING_BY = FollowTiming(first=10.0, attempt=60.0)
"""For web processes: one becomes the writer if the machine has no worker."""


class IndexFollower:
    """Updates the index in `folder` from Redis, if no other process of the machine does.

    `instance` returns the random name of the data in Redis.
    """

    def __init__(
        self,
        redis: Redis,
        items: Items,
        events: Events,
        folder: IndexFolder,
        instance: Callable[[], Awaitable[str | None]],
        *,
        timing: FollowTiming | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis = redis
        self._items = items
        self._events = events
        self._folder = folder
        self._instance = instance
        self._timing = timing or FollowTiming()
        self._clock = clock
        self._given_out = 0
        """The highest id at the last comparison: by the next one, its item exists or never will."""
        self._looked_through = 0
        """The item up to which the index was compared with the store."""
        self._mostly_empty = False
        """Whether too many rows are empty."""

    async def run_forever(self) -> None:
        """Follow until cancelled; failures are retried."""
        await asyncio.sleep(self._timing.first)
        while True:
            pause = self._timing.attempt
            try:
                with self._folder.writing() as is_writer:
                    if is_writer:
                        await self._follow()
            except StoreError as error:
                log.info("the index of posts waits for Redis", error=str(error))
            except (IndexUnusable, OSError) as error:
                log.warning("the index of posts can't be written; will retry", error=str(error))
                pause = self._timing.failure
            except Exception:
                log.exception("updating the index of posts failed")
                pause = self._timing.failure
            await asyncio.sleep(pause)

    async def build(self) -> bool:
        """Build a new generation and use it; False if another process is the writer."""
        with self._folder.writing() as is_writer:
            if is_writer:
                with _Thread() as thread:
                    await self._build(thread)
            return is_writer

    # --- following ----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        self._folder.tidy()
        with _Thread() as thread:
            generation = await self._opened(thread)
            try:
                compared = time.monotonic()
                while True:
                    if await self._has_to_be_built(thread, generation):
                        await thread.run(generation.close)
                        generation = await self._build(thread)
                    count = await self._take_events(thread, generation)
                    if time.monotonic() - compared >= self._timing.compare:
                        await self._compare(thread, generation)
                        compared = time.monotonic()
                    if count < _TOO_MANY:
                        await asyncio.sleep(self._timing.busy if count >= _MANY else self._timing.pause)
            except IndexUnusable as error:
                if error.corrupt:
                    self._folder.condemn(generation.path)
                raise
            finally:
                await asyncio.shield(thread.run(generation.close))

    async def _opened(self, thread: _Thread) -> Generation:
        """The generation in use if it can be updated, otherwise a new one."""
        path = self._folder.current()
        if path is not None:
            with suppress(IndexUnusable):
                return await thread.run(lambda: Generation.open(path, read_only=False))
        return await self._build(thread)

    async def _has_to_be_built(self, thread: _Thread, generation: Generation) -> bool:
        if self._folder.has_wish():
            return True
        if self._folder.current() != generation.path:  # lost, or found corrupt by a reader
            return True
        facts = await thread.run(generation.facts)
        instance, before = await self._instance() or "", facts["instance"]
        if not before and instance:  # it was built before the server's first start was complete
            await thread.run(lambda: generation.note({"instance": instance}))
        why = ""
        if before and before != instance:
            why = "Redis has other data than before"
        elif not await self._events.reach(facts["cursor"]):
            why = "events were lost"
        elif self._mostly_empty:
            why = "edits and deletions have left many rows empty"
        if why:
            log.info("the index of posts is being rebuilt", why=why)
        return bool(why)

    async def _take_events(self, thread: _Thread, generation: Generation) -> int:
        """Apply the events since the last write; returns how many there were."""
        cursor = (await thread.run(generation.facts))["cursor"]
        posts, last, count = await self._events.posts_since(cursor, 2 * _TOO_MANY)
        if count:
            await self._write(thread, generation, posts, cursor=last)
        return count

    async def _compare(self, thread: _Thread, generation: Generation) -> None:
        """Add posts that had no event, and remove some that were deleted without one."""
        facts = await thread.run(generation.facts)
        checked, given_out = int(facts["checked"]), self._given_out
        self._given_out = await newest_id(self._redis)
        while checked < given_out:
            ids = range(checked + 1, min(checked + _COMPARED_AT_ONCE, given_out) + 1)
            missing = await thread.run(lambda ids=ids: generation.missing(ids))  # type: ignore[misc]
            checked = ids[-1]
            await self._write(thread, generation, missing, checked=str(checked))
        there = await thread.run(lambda: generation.items(self._looked_through, _COMPARED_AT_ONCE))
        self._looked_through = there[-1] if there else 0
        scores = await self._items.scores([str(item) for item in there])
        await self._write(
            thread, generation, [item for item, score in zip(there, scores, strict=True) if score is None]
        )
        posts, empty = await thread.run(generation.counts)
        self._mostly_empty = empty > _ALWAYS_EMPTY + _MOST_EMPTY * posts

    # --- building -----------------------------------------------------------------------------------------------------

    async def _build(self, thread: _Thread) -> Generation:
        began, clock = time.monotonic(), self._clock()
        facts = {"cursor": await self._events.last(), "checked": str(await newest_id(self._redis))}
        facts |= {"instance": await self._instance() or "", "began": str(clock)}
        path = self._folder.fresh()
        generation = await thread.run(lambda: Generation.create(path, facts))
        try:
            waiting: list[int] = []
            async for ids in stored_ids(self._redis):
                waiting += ids
                if len(waiting) >= _WRITTEN_AT_ONCE:
                    await self._write(thread, generation, waiting)
                    waiting = []
                    await self._take_events(thread, generation)
            took = time.monotonic() - began
            await self._write(thread, generation, waiting, built=str(self._clock()), took=f"{took:.3f}")
            await thread.run(generation.finish)
            self._folder.use(path)
            self._folder.settle_wish()
        except BaseException:
            await asyncio.shield(thread.run(generation.close))
            self._folder.tidy()
            raise
        posts, _ = await thread.run(generation.counts)
        say = log.info if posts else log.debug  # on a server's first start there is nothing to report
        say("the index of posts was built", posts=posts, seconds=round(took, 1))
        self._looked_through, self._mostly_empty = 0, False
        return generation

    # --- both ---------------------------------------------------------------------------------------------------------

    async def _write(self, thread: _Thread, generation: Generation, ids: Sequence[int], **facts: str) -> None:
        """Write the present state of these items; those that aren't stored any more are removed."""
        if not ids and not facts:
            return
        gone, last = set(ids), list[_Stored]()
        async for stored in self._stored(list(dict.fromkeys(ids))):
            gone.difference_update(item for item, _, _ in stored)
            if last:
                await thread.run(lambda last=last: generation.write(map(_document, last), (), {}))  # type: ignore[misc]
            last = stored
        noted = {"written": str(self._clock()), **facts}
        await thread.run(lambda: generation.write(map(_document, last), gone, noted))

    async def _stored(self, ids: Sequence[int]) -> AsyncIterator[list[_Stored]]:
        """Those of the items that are stored, in parts that fit into memory."""
        found, size = list[_Stored](), 0
        async for piece in self._items.text_pieces(list(map(str, ids))):
            scores = await self._items.scores(list(piece))
            for (item, data), score in zip(piece.items(), scores, strict=True):
                if score is not None:  # without a score, it is about to be deleted
                    found.append((int(item), data, float(score)))
                    size += len(data.own) + len(data.full) if isinstance(data, Texts) else len(data)
            if size >= _WRITTEN_BYTES:
                yield found
                found, size = [], 0
        yield found


def _document(stored: _Stored) -> IndexedPost:
    item, data, score = stored
    if isinstance(data, Texts):
        return document(item, score, orjson.loads(data.own), orjson.loads(data.full)["content"])
    return document(item, score, orjson.loads(data))


class _Thread:
    """A thread that reads and writes one generation."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="index")

    def __enter__(self) -> _Thread:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
