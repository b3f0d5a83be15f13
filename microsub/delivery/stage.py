"""The stages after ingest: each takes messages from a stream, and acknowledges them last.

Any number of processes run the same stage. A handler may get a message twice, or while a slow consumer that was
presumed dead still works on it; it must be idempotent. A message that fails repeatedly becomes a dead letter, which an
admin can inspect, and the others continue.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.base.errors import StoreError
from microsub.base.metrics import STAGE_BACKLOG, STAGE_MESSAGES, STAGE_SECONDS
from microsub.delivery.dead_letters import DeadLetter, DeadLetters, StorePosts
from microsub.delivery.look_ups import Populate
from microsub.posts.values import EntriesFound
from microsub.redis import keys
from microsub.redis.streams import Bounds, Stream

if TYPE_CHECKING:
    from microsub.delivery.delivery import Delivery
    from microsub.delivery.look_ups import Completing
    from microsub.feeds.events import Events
    from microsub.feeds.record import Feeds
    from microsub.posts.items import Items
    from microsub.redis.protocol import Redis
    from microsub.redis.streams import Message, Stream
    from microsub.redis.tracking import Tracker

log = structlog.get_logger(__name__)

STAGES = ("stored", "incomplete", "pushed")
"""Streams with stages: ids for timelines, ids to be completed, and deliveries of hubs."""

Handler = Callable[["Message"], Awaitable[None]]
"""Handles one message. Raises StoreError to retry later; any other error is a failure of the message."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The timing and retries of a stage, in seconds.

    A message whose owner is silent for `idle` is taken over; owners send a heartbeat every third of that. After
    `deliveries` attempts it becomes a dead letter. `look_around` is how often an idle stage looks for abandoned
    messages, and `tick` how often for new ones, if Redis doesn't report them or the next stream is full.
    """

    idle: float = 45.0
    deliveries: int = 5
    tick: float = 0.2
    look_around: float = 10.0
    trouble: float = 2.0


async def _always() -> bool:
    return True


class Stage:
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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = stream.name
        self._stream = stream
        self._handle = handle
        self._dead = dead
        self._consumer = consumer
        self._most = at_once
        self._has_room = has_room
        self._patience = patience or Patience()
        self._clock = clock
        self._wake = asyncio.Event()
        self._stopping = False
        self._is_watched = False
        self._in_progress: dict[asyncio.Task[bool], Message] = {}
        self._looked = float("-inf")

    def wake(self) -> None:
        """Look for work at once instead of at the next tick."""
        self._wake.set()

    def watched(self, *, by_redis: bool) -> None:
        """Note whether `wake` is called for every new message of the stream from now on."""
        self._is_watched = by_redis
        self._wake.set()

    def stop(self) -> None:
        """Take no more messages; `run` returns soon."""
        self._stopping = True
        self._wake.set()

    async def run(self, grace: float) -> None:
        """Handle messages until `stop`; then give those in progress `grace` seconds, and release the others."""
        keeper = asyncio.create_task(self._keep(), name=f"{self.name} keeper")
        try:
            while not self._stopping:
                self._wake.clear()
                try:
                    pause = await self._fill()
                except StoreError as error:
                    log.warning("worker paused: Redis is unavailable", stage=self.name, error=str(error))
                    pause = self._patience.trouble
                except Exception:
                    # A bug, or a key of a wrong type: the other stages continue, and this one does once it is repaired.
                    log.exception("a stage failed and will be retried", stage=self.name)
                    pause = self._patience.trouble
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
        finally:
            await self._drain(grace)
            keeper.cancel()

    async def run_once(self) -> int:
        """Handle waiting messages, and those they lead to, until none is left; returns how many succeeded.

        Raises StoreError.
        """
        handled = 0
        left = await self._stream.take_over(self._consumer, self._patience.idle, self._most)
        tasks = [task for message in left if (task := await self._take_over(message)) is not None]
        while True:
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            handled += sum(end is True for end in ends)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
            messages = await self._stream.take(self._consumer, self._most)
            if not messages:
                return handled
            tasks = [self._start(message) for message in messages]

    async def _fill(self) -> float:
        """Start as many messages as there is room for: first abandoned ones, then new ones.

        Returns the seconds after which to look for more, unless the stage is woken.
        """
        now = time.monotonic()
        if now - self._looked >= self._patience.look_around:
            self._looked = now
            backlog = await self._stream.backlog()
            STAGE_BACKLOG.labels(self.name).set(backlog.messages)
            for message in await self._stream.take_over(self._consumer, self._patience.idle, self._free):
                await self._take_over(message)
        while self._free > 0 and not self._stopping:
            if not await self._has_room():
                return self._patience.tick
            wanted = self._free
            messages = await self._stream.take(self._consumer, wanted)
            for message in messages:
                self._start(message)
            if len(messages) < wanted:
                break
        return self._patience.look_around if self._is_watched else self._patience.tick

    @property
    def _free(self) -> int:
        return self._most - len(self._in_progress)

    async def _take_over(self, message: Message) -> asyncio.Task[bool] | None:
        if any(mine.id == message.id for mine in self._in_progress.values()):
            return None  # our own heartbeat was late
        if message.deliveries > self._patience.deliveries:
            await self._give_up(
                message, f"no attempt finished: the process died, or took longer than {self._patience.idle} s"
            )
            return None
        return self._start(message)

    def _start(self, message: Message) -> asyncio.Task[bool]:
        task = asyncio.create_task(self._one(message), name=f"{self.name} {message.id}")
        self._in_progress[task] = message
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[bool]) -> None:
        self._in_progress.pop(task, None)
        self._wake.set()
        if not task.cancelled():
            task.exception()

    async def _one(self, message: Message) -> bool:
        """Handle one message; returns whether it succeeded. Raises only StoreError."""
        began = time.perf_counter()
        try:
            await self._handle(message)
            await self._stream.done([message])
        except StoreError as error:
            if not error.passing:
                return await self._failed(message, error)
            STAGE_MESSAGES.labels(self.name, "store").inc()
            log.warning("store error in a stage", stage=self.name, message=message.id, error=str(error))
            with suppress(StoreError):
                await asyncio.sleep(0 if self._stopping else self._patience.tick)
                await self._stream.hand_back(self._consumer, [message])
            raise
        except Exception as error:
            return await self._failed(message, error)
        STAGE_MESSAGES.labels(self.name, "done").inc()
        STAGE_SECONDS.labels(self.name).observe(time.perf_counter() - began)
        return True

    async def _failed(self, message: Message, error: Exception) -> bool:
        STAGE_MESSAGES.labels(self.name, "failed").inc()
        log.error("a message failed", stage=self.name, message=message.id, attempt=message.deliveries, exc_info=error)
        if message.deliveries >= self._patience.deliveries:
            await self._give_up(message, f"{type(error).__name__}: {error}")
        return False

    async def _give_up(self, message: Message, why: str) -> None:
        """Write the dead letter, then end the message: a crash in between leaves both, never neither."""
        log.error("a message was moved to the dead letters", stage=self.name, message=message.id, why=why)
        await self._dead.add(self.name, message, why, self._clock())
        await self._stream.done([message])
        STAGE_MESSAGES.labels(self.name, "dead").inc()

    async def _keep(self) -> None:
        """Send heartbeats for messages in progress; cancel those that another consumer has taken over."""
        while True:
            await asyncio.sleep(self._patience.idle / 3)
            mine = dict(self._in_progress)
            try:
                kept = await self._stream.keep(self._consumer, [message.id for message in mine.values()])
            except StoreError:
                continue
            except Exception:
                log.exception("a stage can't send heartbeats", stage=self.name)
                continue
            for task, message in mine.items():
                if message.id not in kept and not task.done():
                    log.warning("a message was taken over", stage=self.name, message=message.id)
                    task.cancel()

    async def _drain(self, grace: float) -> None:
        in_progress = dict(self._in_progress)
        if not in_progress:
            return
        _, late = await asyncio.wait(in_progress, timeout=grace)
        left: Sequence[Message] = [in_progress[task] for task in late]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=1.0)
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stream.hand_back(self._consumer, left)


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
        self._stage = functools.partial(Stage, dead=dead, consumer=consumer, patience=patience, clock=clock)
        self._stages = [self._stage(self.stored, delivery.handle)]
        if completing is not None:
            populate = Populate(feeds, items, completing, self.stored, events, clock=clock, notify=self.wake)
            self._stages.append(self._stage(Stream(redis, "incomplete"), populate, at_once=LOOK_UPS_AT_ONCE))

    def serve(self, name: str, handle: Handler) -> None:
        """Handle another stream too, if there is room for delivery's backlog."""
        self._stages.append(self._stage(Stream(self._redis, name), handle, at_once=4, has_room=self.has_room))

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


LONG_GONE = 3600.0
"""Seconds without a heartbeat after which a name without messages is forgotten."""


async def forget_workers(redis: Redis, _now: float) -> None:
    """Forget names of ended workers in the streams' groups: each worker takes a new one.

    Names with messages are kept.
    """
    if forgotten := sum([await Stream(redis, name).forget_consumers(LONG_GONE) for name in STAGES]):
        log.info("workers that stopped long ago were removed", names=forgotten)


async def retry(dead: DeadLetters, letters: Sequence[DeadLetter], store: StorePosts) -> list[str]:
    """Put messages of dead letters back into their streams, as new ones, and `store` posts; returns failures as text.

    A message is added before its letter is deleted: a crash in between leaves both, which is harmless. Letters that
    fail again are kept, as are those with an unknown stage. Raises StoreError if Redis is unavailable.
    """
    failed = []
    for letter in letters:
        try:
            if letter.stage == "entries":
                await store(EntriesFound.of(letter.fields))
            elif letter.stage in STAGES:
                await dead.put_back(letter)
            else:
                failed.append(_unknown(letter))
                continue
        except Exception as error:
            if isinstance(error, StoreError) and error.passing:
                raise
            failed.append(f"letter {letter.id} failed again: {type(error).__name__}: {error}")
        else:
            await dead.drop([letter])
    return failed


def _unknown(letter: DeadLetter) -> str:
    stage = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in letter.stage[:80])
    return (
        f"letter {letter.id} can't be retried: it names the stage '{stage}', expected one of "
        f"{', '.join(('entries', *STAGES))}; show it with 'deadletter show' or remove it with 'deadletter drop'"
    )
