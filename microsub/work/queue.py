"""The worker of a queue: takes messages from a stream, and acknowledges them last.

Any number of processes work on the same queue. A handler may get a message twice, or while a slow consumer that was
presumed dead still works on it; it must be idempotent. A message that fails repeatedly becomes a dead letter, which an
admin can inspect, and the others continue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog

from microsub.base.errors import StoreError
from microsub.work.dead_letters import DeadLetters
from microsub.work.loop import Loop
from microsub.work.stream import Message, Stream

log = structlog.get_logger(__name__)

Handler = Callable[[Message], Awaitable[None]]
"""Handles one message. Raises StoreError to retry later; any other error is a failure of the message."""


class Patience(NamedTuple):
    """The timing and retries of a stage, in seconds.

    A message whose owner is silent for `idle` is taken over. After `deliveries` attempts it becomes a dead letter.
    `look_around` is how often an idle stage looks for abandoned messages, and `tick` how often for new ones, if Redis
    doesn't report them or the next stream is full.
    """

    idle: float = 45.0
    deliveries: int = 5
    tick: float = 0.2
    look_around: float = 10.0
    trouble: float = 2.0


Counting = Callable[[str, str, float], object]
"""Counts what happens to a queue's messages: its name, what, and a number.

What: `backlog`, with how many wait; `done`, with the seconds that it took; `failed`, `store` (Redis failed) or `dead`.
"""

LONG_GONE = 3600.0
"""Seconds without a heartbeat after which a consumer without messages is forgotten: each worker takes a new name."""


async def _always() -> bool:
    return True


def _uncounted(_queue: str, _what: str, _number: float) -> None:
    pass


class Stage(Loop[Message]):
    """Runs `handle` over a stream, `at_once` messages at a time.

    While `has_room` is False, because the handler's own output waits, no message is taken: the backlog stays here.
    """

    def __init__(
        self,
        stream: Stream,
        handle: Handler,
        dead: DeadLetters,
        *,
        consumer: str,
        at_once: int = 8,
        has_room: Callable[[], Awaitable[bool]] = _always,
        patience: Patience | None = None,
        count: Counting = _uncounted,
        clock: Callable[[], float] = time.time,
    ) -> None:
        timing = patience or Patience()
        super().__init__(stream.name, at_once=at_once, lease=timing.idle, trouble=timing.trouble)
        self._stream = stream
        self._handle = handle
        self._dead = dead
        self._consumer = consumer
        self._has_room = has_room
        self._patience = timing
        self._count = count
        self._clock = clock
        self._is_watched = self._is_full = False
        self._looked = float("-inf")
        self._looks_around = False

    def watched(self, *, by_redis: bool) -> None:
        """Note whether `wake` is called for every new message of the stream from now on."""
        self._is_watched = by_redis
        self.wake()

    async def run_once(self) -> int:
        """Handle waiting messages, and those they lead to, until none is left; returns how many succeeded.

        Raises StoreError.
        """
        self._looks_around = True
        return await self.run_until_idle()

    def pause(self) -> float:
        """Seconds until the next look for messages."""
        is_idle = self._is_watched and not self._is_full
        return self._patience.look_around if is_idle else self._patience.tick

    async def ready(self) -> bool:
        """Whether the handler's output has room. Also notes when to look for abandoned messages."""
        now = time.monotonic()
        if now - self._looked >= self._patience.look_around:
            if self._looked == float("-inf"):
                await self._stream.forget_consumers(LONG_GONE)
            self._looked, self._looks_around = now, True
            self._count(self.name, "backlog", (await self._stream.backlog()).messages)
        self._is_full = not await self._has_room()
        return not self._is_full

    async def take(self, room: int) -> list[Message]:
        """Abandoned messages first, then new ones."""
        found: list[Message] = []
        if self._looks_around:
            self._looks_around = False
            left = await self._stream.take_over(self._consumer, self._patience.idle, room)
            mine = {message.id for message in self.claims}  # if our own heartbeat was late
            found = [message for message in left if message.id not in mine]
        if len(found) < room:
            found += await self._stream.take(self._consumer, room - len(found))
        return found

    async def keep(self, messages: Sequence[Message]) -> list[bool]:
        """Send a heartbeat for messages."""
        kept = await self._stream.keep(self._consumer, [message.id for message in messages])
        return [message.id in kept for message in messages]

    async def hand_back(self, messages: Sequence[Message]) -> None:
        """Release messages, without counting the attempt."""
        await self._stream.hand_back(self._consumer, messages)

    async def do(self, message: Message) -> int:
        """Handle one message; returns 1 if it succeeded. Raises only StoreError."""
        if message.deliveries > self._patience.deliveries:
            why = f"no attempt finished: the process died, or took longer than {self._patience.idle} s"
            return await self._give_up(message, why)
        began = time.perf_counter()
        try:
            await self._handle(message)
            await self._stream.done([message])
        except Exception as error:
            if not (isinstance(error, StoreError) and error.passing):
                return await self._failed(message, error)
            self._count(self.name, "store", 0)
            with suppress(StoreError):
                await asyncio.sleep(0 if self.stopping else self._patience.tick)
                await self.hand_back([message])
            raise
        self._count(self.name, "done", time.perf_counter() - began)
        return 1

    async def _failed(self, message: Message, error: Exception) -> int:
        self._count(self.name, "failed", 0)
        log.error("a message failed", stage=self.name, message=message.id, attempt=message.deliveries, exc_info=error)
        if message.deliveries >= self._patience.deliveries:
            await self._give_up(message, f"{type(error).__name__}: {error}")
        return 0

    async def _give_up(self, message: Message, why: str) -> int:
        """Write the dead letter, then end the message: a crash in between leaves both, never neither."""
        log.error("a message was moved to the dead letters", stage=self.name, message=message.id, why=why)
        await self._dead.add(self.name, message, why, self._clock())
        await self._stream.done([message])
        self._count(self.name, "dead", 0)
        return 0
