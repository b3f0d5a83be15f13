"""The stages behind polling, as one worker runs them: store, fan-out, populate, and what may wait between them."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from microsub.delivery.dead_letters import DeadLetters
from microsub.delivery.look_ups import Populate
from microsub.delivery.stage import Patience, Stage
from microsub.posts.store_stage import StoreEntries
from microsub.redis.streams import Bounds, Stream

if TYPE_CHECKING:
    from microsub.delivery.completing import Completing
    from microsub.delivery.fan_out import FanOut
    from microsub.feeds.announcing import Announcing
    from microsub.feeds.store.record import Feeds
    from microsub.posts.store.items import Items
    from microsub.redis.protocol import Redis

LOOK_UPS_AT_ONCE = 16
"""Items that are completed together; most of that time is waiting for other people's servers."""

_ROOM_HOLDS = 1.0
"""Seconds for which a stream that had room is taken to have it still; it is filled by whole documents anyway."""


class _Room:
    """Whether a stream takes more, asked for once a second at most."""

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


class Stages:
    """Builds the stages on one Redis and runs them together. `consumer` is the worker's name.

    `completing` is None where nothing is to be looked up; what is incomplete then waits for a worker that does.
    """

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        fan_out: FanOut,
        announcing: Announcing,
        completing: Completing | None,
        *,
        consumer: str,
        bounds: Bounds | None = None,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        limits = bounds or Bounds()
        dead = DeadLetters(redis)
        self.entries, self.stored = Stream(redis, "entries"), Stream(redis, "stored")
        incomplete = Stream(redis, "incomplete")
        self.has_room = _Room(self.entries, limits)
        """Whether polling may go on."""
        handle = StoreEntries(
            redis, feeds, items, self.stored, incomplete, announcing, clock=clock, told=self._wake_next
        )
        stage = functools.partial(Stage, dead=dead, consumer=consumer, patience=patience, clock=clock)
        self._stages = [
            stage(self.entries, handle, has_room=_Room(self.stored, limits)),
            stage(self.stored, fan_out.handle),
        ]
        if completing is not None:
            populate = Populate(feeds, items, completing, self.stored, announcing, clock=clock, told=self._wake_next)
            self._stages.append(stage(incomplete, populate, at_once=LOOK_UPS_AT_ONCE))

    async def run(self, grace: float) -> None:
        """Run until `stop`; then finish what is in hand within `grace` seconds, and hand back the rest."""
        await asyncio.gather(*(stage.run(grace) for stage in self._stages))

    async def run_once(self) -> int:
        """Handle everything that waits, and what comes of it; how many messages. Raises StoreError."""
        handled = 0
        while now := sum([await stage.run_once() for stage in self._stages]):
            handled += now
        return handled

    async def delivered(self, look_again: float = 0.05) -> None:
        """Return when the news that are in the streams now stand in the timelines, delivered by any worker.

        Look-ups aren't waited for. Raises StoreError.
        """
        for stream in (self.entries, self.stored):
            newest = await stream.newest()
            while newest is not None and not await stream.done_until(newest):  # noqa: ASYNC110 - by other processes
                await asyncio.sleep(look_again)

    def stop(self) -> None:
        """Take nothing new; `run` returns soon."""
        for stage in self._stages:
            stage.stop()

    def wake(self) -> None:
        """There are news of a document: look at once."""
        self._stages[0].wake()

    def _wake_next(self) -> None:
        """There is something for the stages behind the first one."""
        for stage in self._stages[1:]:
            stage.wake()
