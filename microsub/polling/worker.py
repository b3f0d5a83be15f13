"""The worker: gives due hosts their turns. Any number of workers share one schedule.

A host belongs to one worker while its lease lasts, so it gets one request at a time and no feed is polled twice. In a
turn the worker polls the host's due feeds, and hands the host back.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from microsub.base.errors import StoreError
from microsub.base.metrics import HOSTS_IN_FLIGHT
from microsub.configuration.model import InstanceSettings, default_settings
from microsub.fetch import out_of_descriptors
from microsub.polling.plan import host_limits
from microsub.polling.poll import PollResult
from microsub.work import HAND_BACK_SECONDS, Claim, Loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from microsub.feeds import DueFeeds, Feeds, Schedule
    from microsub.polling.poll import Ending, Poller
    from microsub.redis.presence import Presence
    from microsub.redis.protocol import ScriptCall

log = structlog.get_logger(__name__)

LEASE_SECONDS = 90.0
_HAND_BACK_SLOWER, _HAND_BACK_RAREST = 0.5, 9.0
"""Seconds by which pauses between attempts to hand a host back grow, and the longest; in total a lease's length."""
_MOST_PER_TURN = 50
_PAUSE_AFTER_STORE_TROUBLE = 5.0
CORRUPT_SECONDS = 3600.0
"""Seconds until a feed with corrupt stored data is polled again."""

REST_SECONDS = 10.0
"""Seconds without polls after file descriptors ran out: requests in progress then free some."""


@dataclass(slots=True)
class _Left:
    """The writes left for the end of a turn, unless `is_over`: its last feed, and when it is due."""

    finished: tuple[str, float | None] | None = None
    is_over: bool = False


class Turn:
    """Gives hosts their turns. One instance serves all hosts of a worker at once.

    The `pause` of the host's limits is between the end of a turn and the start of the next; the schedule enforces it,
    so it applies to all workers, and other hosts get their turns meanwhile.
    """

    def __init__(
        self,
        schedule: Schedule,
        feeds: Feeds,
        poller: Poller,
        *,
        settings: Callable[[], Awaitable[InstanceSettings]] = default_settings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._schedule = schedule
        self._feeds = feeds
        self._poller = poller
        self._settings = settings
        self._clock = clock
        self._stopping = False
        self._rests_until = 0.0
        self._handing_back: set[asyncio.Task[None]] = set()

    @property
    def rests(self) -> bool:
        """Whether no turn may begin now: this process had no file descriptor or parser left."""
        return self._clock() < self._rests_until

    def stop(self) -> None:
        """Stop beginning further feeds of a host."""
        self._stopping = True

    async def of(self, lease: Claim) -> int:
        """Poll the host's due feeds; returns their number.

        A store error ends the turn and is logged, not raised: the feeds are still due.
        """
        pause, left = _PAUSE_AFTER_STORE_TROUBLE, _Left()
        try:
            pause, at_once = host_limits(await self._settings(), lease.member)
            return await self._poll_due(lease, pause, at_once, left)
        except StoreError as error:
            pause = max(pause, _PAUSE_AFTER_STORE_TROUBLE)
            log.warning("store error during a poll", host=lease.member, error=str(error))
            return 0
        finally:
            if not left.is_over:
                await self._hand_back(lease, pause, left)

    async def _poll_due(self, lease: Claim, interval: float, at_once: int, left: _Left) -> int:
        polled = 0
        while polled < _MOST_PER_TURN and not self._stopping and not self.rests:
            due = await self._schedule.due_feeds(lease, self._clock(), at_once)
            if not due.ids:
                break
            ending = None
            if interval > 0 and len(due.ids) == 1:
                ending = functools.partial(self._ending, lease, interval, due)
            ends = await asyncio.gather(
                *(self._feed(lease, feed_id, left, ending) for feed_id in due.ids), return_exceptions=True
            )
            for end in ends:
                if end is not None:
                    raise end
            polled += len(due.ids)
            if interval > 0:
                break
        return polled

    def _ending(self, lease: Claim, interval: float, due: DueFeeds, next_poll: float) -> Sequence[ScriptCall]:
        """The calls that hand the host back with the end of its only poll."""
        (feed_id,) = due.ids
        return self._schedule.ending(lease, self._clock(), interval, (feed_id, next_poll), due)

    async def _feed(self, lease: Claim, feed_id: str, left: _Left, ending: Ending | None) -> None:
        """Poll one feed; with `ending` it is the last one of the turn."""
        try:
            result = await self._poller.poll(feed_id, ending)
        except Exception as error:
            if isinstance(error, StoreError):
                if error.passing:
                    raise
                log.exception("a feed's data is corrupt; it will be polled again later", feed=feed_id)
                result = PollResult(feed_id, "internal", self._clock() + CORRUPT_SECONDS, "", detail=str(error))
            elif isinstance(error, OSError) and out_of_descriptors(error):
                result = self._poller.put_off(feed_id, str(error))
            else:
                log.exception("a poll failed with an unexpected error", feed=feed_id, host=lease.member)
                result = await self._poller.give_up(feed_id, "internal", f"{type(error).__name__} while polling")
        if result.outcome == "local":
            self._rest(result.detail)
        if result.ended is not None:
            left.is_over = True
            if not await self._schedule.ended(lease, result.ended):
                log.warning("a lease was lost during a poll", host=lease.member, feed=feed_id)
            return
        await self._finish(lease, feed_id, result, None if ending is None else left)

    def _rest(self, detail: str) -> None:
        if not self.rests:
            log.error(
                "this server lacks what a poll needs, polling pauses for a while", seconds=REST_SECONDS, detail=detail
            )
        self._rests_until = self._clock() + REST_SECONDS

    async def _finish(self, lease: Claim, feed_id: str, result: PollResult, left: _Left | None) -> None:
        """Plan the feed's next poll, or leave that to the end of the turn, which follows at once."""
        now = self._clock()
        if result.hold_until is not None:
            await self._schedule.hold(lease.member, feed_id, result.hold_until, now)
        if result.next_poll is not None and result.host and result.host != lease.member:
            # The feed has moved: it joins the other host's queue, then leaves this one, so it is never in neither.
            await self._schedule.add(feed_id, result.host, result.next_poll)
            await self._schedule.finish(lease, feed_id, None)
            return
        if left is not None and result.next_poll is not None:
            left.finished = (feed_id, result.next_poll)
            return
        if not await self._schedule.finish(lease, feed_id, result.next_poll):
            log.warning("a lease was lost during a poll", host=lease.member, feed=feed_id)
        if result.next_poll is not None or result.outcome in {"gone", "written"}:
            return
        if await self._feeds.subscriber_count(feed_id):
            # It got a follower after the followers were counted, or had left for another feed.
            await self._schedule.add(feed_id, lease.member, now)

    async def _hand_back(self, lease: Claim, pause: float, left: _Left, after: float = 0.0) -> None:
        """Release the host, so that it can be polled again; in the background while the store fails."""
        await asyncio.sleep(after)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(HAND_BACK_SECONDS):
                await self._schedule.release(lease, self._clock(), pause, left.finished)
                return
        if not self._stopping and after < _HAND_BACK_RAREST:
            # Without the finished feed: it may have been made due since.
            task = asyncio.create_task(self._hand_back(lease, pause, _Left(), after + _HAND_BACK_SLOWER))
            self._handing_back.add(task)
            task.add_done_callback(self._handing_back.discard)


TICK_SECONDS = 0.5
BEAT_SECONDS = 10.0
GRACE_SECONDS = 6.0
"""Seconds for polls in flight. A worker stops within ten seconds."""

STAGES_GRACE_SECONDS = 1.0
"""Seconds for the stages after the last poll; other workers take their remaining work."""

AT_A_TIME = 16
"""Hosts that are begun together. If hundreds began at once, each step of their polls would fall into the same turn of
the loop, and delay users' requests in the same process.
"""

STAGES_END_SECONDS = 2.0
"""Seconds after which the stages aren't waited for, if Redis doesn't respond: others take over automatically."""

_TROUBLE_SECONDS = 5.0


def worker_name() -> str:
    """A unique name that also shows people where this worker runs."""
    return f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(3)}"


class StagesOfWork(Protocol):
    """The stages after a poll: delivery, look-ups, and what hubs delivered."""

    async def run(self, grace: float) -> None:
        """Run until `stop`; then finish messages in progress within `grace` seconds, and release the others."""

    async def run_once(self) -> int:
        """Handle all waiting messages, and those they lead to; returns their number. Raises StoreError."""

    async def delivered(self) -> None:
        """Return when all posts stored until now are in the timelines. Raises StoreError."""

    async def has_room(self) -> bool:
        """Whether the stages take further posts. Raises StoreError."""

    def stop(self) -> None:
        """Take no more messages; `run` returns soon."""


class Worker(Loop[Claim]):
    """Polls due feeds, `hosts_at_once` hosts at a time, and runs the stages after it."""

    def __init__(
        self,
        schedule: Schedule,
        turn: Turn,
        presence: Presence,
        stages: StagesOfWork,
        *,
        name: str | None = None,
        hosts_at_once: int = 200,
        lease_seconds: float = LEASE_SECONDS,
        tick: float = TICK_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        timing = {"lease": lease_seconds, "trouble": _TROUBLE_SECONDS}
        super().__init__(name or worker_name(), at_once=hosts_at_once, batch=AT_A_TIME, **timing)
        self._stages = stages
        self._schedule = schedule
        self._turn = turn
        self._presence = presence
        self._tick = tick
        self._clock = clock
        self._idle = asyncio.Event()

    async def run(self, grace: float = GRACE_SECONDS) -> None:
        """Poll until `stop`; then give polls in flight `grace` seconds, and hand back the rest."""
        beat = asyncio.create_task(self._beat())
        stages = asyncio.create_task(self._stages.run(STAGES_GRACE_SECONDS), name="stages")
        stages.add_done_callback(lambda _: self.stop())
        log.debug("worker started", worker=self.name)
        try:
            await super().run(grace)
        finally:
            beat.cancel()
            self._stages.stop()
            _, late = await asyncio.wait([stages], timeout=STAGES_END_SECONDS)
            if late:
                stages.cancel()
            else:
                stages.result()
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(HAND_BACK_SECONDS / 3):
                    await self._presence.leave(self.name)
            log.debug("worker stopped", worker=self.name)

    def stop(self) -> None:
        """Begin nothing new; `run` returns soon."""
        super().stop()
        self._turn.stop()

    async def first_polls(self) -> None:
        """Return when all feeds that were due at the start have been polled."""
        await self._idle.wait()

    async def run_once(self, among: Sequence[str] | None = None) -> int:
        """Give every due host, or those of `among`, one turn; let the stages handle waiting messages.

        Returns the number of polled feeds. Raises StoreError.
        """
        now = self._clock()

        async def due(room: int) -> list[Claim]:
            return await self._schedule.take(now, room, self.lease, among)

        polled = await self.run_round(due)
        await self._stages.run_once()
        return polled or 0

    async def delivered(self) -> None:
        """Return when all posts polled until now are in the timelines. Raises StoreError."""
        await self._stages.delivered()

    def pause(self) -> float:
        """Seconds until the next look for due hosts."""
        return self._tick

    async def ready(self) -> bool:
        """Whether the process has what polls need, and the next stages have room."""
        return not self._turn.rests and await self._stages.has_room()

    async def take(self, room: int) -> list[Claim]:
        """Lease hosts that are due."""
        leases = await self._schedule.take(self._clock(), room, self.lease)
        if not leases and not self.in_flight:
            self._idle.set()
        return leases

    async def keep(self, leases: Sequence[Claim]) -> list[bool]:
        """Renew leases."""
        return await self._schedule.renew(leases, self._clock(), self.lease)

    async def do(self, lease: Claim) -> int:
        """Give a host its turn; returns the number of polled feeds."""
        with HOSTS_IN_FLIGHT.track_inprogress():
            return await self._turn.of(lease)

    async def hand_back(self, leases: Sequence[Claim]) -> None:
        """Do nothing: a turn that is cancelled hands its host back itself."""

    async def _beat(self) -> None:
        while True:
            try:
                await self._presence.beat(self.name, self._clock())
            except StoreError:
                pass  # other parts log it
            except Exception:
                log.exception("a worker can't send its heartbeat")
            await asyncio.sleep(BEAT_SECONDS)
