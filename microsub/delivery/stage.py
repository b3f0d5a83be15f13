"""The stages after ingest: the queues between a stored post and all timelines."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from microsub.base.errors import StoreError
from microsub.base.metrics import STAGE_BACKLOG, STAGE_MESSAGES, STAGE_SECONDS
from microsub.delivery.look_ups import LookUpStage
from microsub.posts import EntriesFound
from microsub.redis import keys
from microsub.work import Bounds, DeadLetter, DeadLetters, Handler, Patience, Stage, Stream

if TYPE_CHECKING:
    from microsub.delivery.delivery import Delivery
    from microsub.delivery.look_ups import Completing
    from microsub.feeds import Events, Feeds
    from microsub.posts import Items
    from microsub.redis.protocol import Redis
    from microsub.redis.tracking import Tracker

StorePosts = Callable[[EntriesFound], Awaitable[object]]
"""Stores posts that could not be stored before (`Ingest.add_found`)."""

LOOK_UPS_AT_ONCE = 16
"""Number of items that are completed together; most of that time is spent waiting for other servers."""

_ROOM_HOLDS = 1.0
"""Seconds for which a stream that had room is assumed to still have room."""


class _Room:
    """Whether a stream takes more messages, checked at most once a second."""

    def __init__(self, stream: Stream, bounds: Bounds) -> None:
        self._stream = stream
        self._bounds = bounds
        self._until = float("-inf")

    async def __call__(self) -> bool:
        if time.monotonic() < self._until:
            return True
        room = self._bounds.leave_room(await self._stream.backlog())
        self._until = time.monotonic() + _ROOM_HOLDS if room else float("-inf")
        return room


def _count(stage: str, what: str, number: float) -> None:
    """Publish what happens to messages in the metrics."""
    if what == "backlog":
        STAGE_BACKLOG.labels(stage).set(number)
        return
    STAGE_MESSAGES.labels(stage, what).inc()
    if what == "done":
        STAGE_SECONDS.labels(stage).observe(number)


class Stages:
    """Builds the stages on one Redis and runs them together. `consumer` is the worker's name.

    `completing` is None if nothing may be looked up; incomplete items then wait for a worker that does. With a
    `tracker` of `keys.STREAM_PREFIX` Redis reports new messages, so the streams aren't polled.
    """

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        delivery: Delivery,
        events: Events,
        completing: Completing | None,
        *,
        consumer: str,
        bounds: Bounds | None = None,
        patience: Patience | None = None,
        tracker: Tracker | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        dead = DeadLetters(redis)
        self.stored = Stream(redis, "stored")
        self.has_room = _Room(self.stored, bounds or Bounds())
        """Whether polling may continue."""
        self._redis = redis
        self._tracker = tracker
        self._stage = functools.partial(
            Stage, dead=dead, consumer=consumer, patience=patience, count=_count, clock=clock
        )
        self._stages = [self._stage(self.stored, delivery.handle)]
        if completing is not None:
            look_up = LookUpStage(feeds, items, completing, self.stored, events, clock=clock, notify=self.wake)
            self._stages.append(self._stage(Stream(redis, "incomplete"), look_up, at_once=LOOK_UPS_AT_ONCE))

    def serve(self, name: str, handle: Handler, at_once: int = 4) -> None:
        """Handle another stream too, so many messages at once, if there is room for delivery's backlog."""
        self._stages.append(self._stage(Stream(self._redis, name), handle, at_once=at_once, has_room=self.has_room))

    async def run(self, grace: float) -> None:
        """Run until `stop`; then finish messages in progress within `grace` seconds, and release the others."""
        if self._tracker is not None:
            self._tracker.start(self)
        try:
            await asyncio.gather(*(stage.run(grace) for stage in self._stages))
        finally:
            if self._tracker is not None:
                await self._tracker.aclose()

    async def run_once(self) -> int:
        """Handle all waiting messages, and those they lead to; returns their number. Raises StoreError."""
        handled = 0
        while now := sum([await stage.run_once() for stage in self._stages]):
            handled += now
        return handled

    async def delivered(self, look_again: float = 0.05) -> None:
        """Return when all posts that now wait for delivery are in the timelines, whichever worker delivers them.

        Doesn't wait for look-ups. Raises StoreError.
        """
        newest = await self.stored.newest()
        while newest is not None and not await self.stored.done_until(newest):  # noqa: ASYNC110 - by other processes
            await asyncio.sleep(look_again)

    def stop(self) -> None:
        """Take no more messages; `run` returns soon."""
        for stage in self._stages:
            stage.stop()

    def wake(self) -> None:
        """Look for deliveries and look-ups at once."""
        for stage in self._stages:
            stage.wake()

    def tracked(self) -> None:
        """See `redis.tracking.Listener`."""
        for stage in self._stages:
            stage.watched(by_redis=True)

    def untracked(self) -> None:
        """See `redis.tracking.Listener`."""
        for stage in self._stages:
            stage.watched(by_redis=False)

    def changed(self, names: list[str] | None) -> None:
        """See `redis.tracking.Listener`."""
        for stage in self._stages:
            if names is None or keys.stream(stage.name) in names:
                stage.wake()


async def retry(
    dead: DeadLetters, letters: Sequence[DeadLetter], store: StorePosts, stages: Sequence[str]
) -> list[str]:
    """Put messages of dead letters back into their streams, as new ones, and `store` posts; returns failures as text.

    A message is added before its letter is deleted: a crash in between leaves both, which is harmless. Letters that
    fail again are kept, as are those of none of the `stages`. Raises StoreError if Redis is unavailable.
    """
    failed = []
    for letter in letters:
        try:
            if letter.stage == "entries":
                await store(EntriesFound.of(letter.fields))
            elif letter.stage in stages:
                await dead.put_back(letter)
            else:
                failed.append(_unknown(letter, stages))
                continue
        except Exception as error:
            if isinstance(error, StoreError) and error.passing:
                raise
            failed.append(f"letter {letter.id} failed again: {type(error).__name__}: {error}")
        else:
            await dead.drop([letter])
    return failed


def _unknown(letter: DeadLetter, stages: Sequence[str]) -> str:
    stage = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in letter.stage[:80])
    return (
        f"letter {letter.id} can't be retried: it names the stage '{stage}', expected one of "
        f"{', '.join(('entries', *stages))}; show it with 'deadletter show' or remove it with 'deadletter drop'"
    )
