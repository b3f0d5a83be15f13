"""The worker: gives due hosts their turns. Any number of workers share one schedule.

A host belongs to one worker while its lease lasts, so it gets one request at a time and no feed is polled twice. A dead
worker's leases run out; a worker that stops hands its hosts back at once. In a turn the worker polls the host's due
feeds, renews the lease meanwhile, and hands the host back.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.base.errors import StoreError
from microsub.base.metrics import HOSTS_IN_FLIGHT
from microsub.configuration.model import InstanceSettings
from microsub.fetch import out_of_descriptors
from microsub.polling.plan import HostLimits, host_limits
from microsub.polling.poll import PollResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from microsub.delivery.stage import Stages
    from microsub.feeds.queue import DueFeeds, HostLease, Schedule
    from microsub.feeds.record import Feeds
    from microsub.polling.poll import Ending, Poller
    from microsub.redis.presence import Presence
    from microsub.redis.protocol import ScriptCall

log = structlog.get_logger(__name__)

LEASE_SECONDS = 90.0
HAND_BACK_SECONDS = 1.5
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
        settings: Callable[[], InstanceSettings] = InstanceSettings,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._schedule = schedule
        self._feeds = feeds
        self._poller = poller
        self._settings = settings
        self._lease_seconds = lease_seconds
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

    async def of(self, lease: HostLease) -> int:
        """Poll the host's due feeds; returns their number. Ends early, as if cancelled, when the lease is lost.

        A store error ends the turn and is logged, not raised: the feeds are still due.
        """
        limits = host_limits(self._settings(), lease.host)
        pause = limits.interval
        keeper = asyncio.create_task(self._keep(lease, asyncio.current_task()))
        left = _Left()
        try:
            return await self._poll_due(lease, limits, left)
        except StoreError as error:
            pause = max(pause, _PAUSE_AFTER_STORE_TROUBLE)
            log.warning("store error during a poll", host=lease.host, error=str(error))
            return 0
        finally:
            keeper.cancel()
            if not left.is_over:
                await self._hand_back(lease, pause, left)

    async def _poll_due(self, lease: HostLease, limits: HostLimits, left: _Left) -> int:
        polled = 0
        while polled < _MOST_PER_TURN and not self._stopping and not self.rests:
            due = await self._schedule.due_feeds(lease, self._clock(), limits.concurrency)
            if not due.ids:
                break
            ending = None
            if limits.interval > 0 and len(due.ids) == 1:
                ending = functools.partial(self._ending, lease, limits.interval, due)
            ends = await asyncio.gather(
                *(self._feed(lease, feed_id, left, ending) for feed_id in due.ids), return_exceptions=True
            )
            for end in ends:
                if end is not None:
                    raise end
            polled += len(due.ids)
            if limits.interval > 0:
                break
        return polled

    def _ending(self, lease: HostLease, interval: float, due: DueFeeds, next_poll: float) -> Sequence[ScriptCall]:
        """The calls that hand the host back with the end of its only poll."""
        (feed_id,) = due.ids
        return self._schedule.ending(lease, self._clock(), interval, (feed_id, next_poll), due)

    async def _feed(self, lease: HostLease, feed_id: str, left: _Left, ending: Ending | None) -> None:
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
                log.exception("a poll failed with an unexpected error", feed=feed_id, host=lease.host)
                result = await self._poller.give_up(feed_id, "internal", f"{type(error).__name__} while polling")
        if result.outcome == "local":
            self._rest(result.detail)
        if result.ended is not None:
            left.is_over = True
            if not await self._schedule.ended(lease, result.ended):
                log.warning("a lease was lost during a poll", host=lease.host, feed=feed_id)
            return
        await self._finish(lease, feed_id, result, None if ending is None else left)

    def _rest(self, detail: str) -> None:
        if not self.rests:
            log.error(
                "out of file descriptors or processes, polling pauses for a while", seconds=REST_SECONDS, detail=detail
            )
        self._rests_until = self._clock() + REST_SECONDS

    async def _finish(self, lease: HostLease, feed_id: str, result: PollResult, left: _Left | None) -> None:
        """Plan the feed's next poll, or leave that to the end of the turn, which follows at once."""
        now = self._clock()
        if result.hold_until is not None:
            await self._schedule.hold(lease.host, feed_id, result.hold_until, now)
        if result.next_poll is not None and result.host and result.host != lease.host:
            # The feed has moved: it joins the other host's queue, then leaves this one, so it is never in neither.
            await self._schedule.add(feed_id, result.host, result.next_poll)
            await self._schedule.finish(lease, feed_id, None)
            return
        if left is not None and result.next_poll is not None:
            left.finished = (feed_id, result.next_poll)
            return
        if not await self._schedule.finish(lease, feed_id, result.next_poll):
            log.warning("a lease was lost during a poll", host=lease.host, feed=feed_id)
        if result.next_poll is not None or result.outcome in {"gone", "written"}:
            return
        if await self._feeds.subscriber_count(feed_id):
            # It got a follower after the followers were counted, or had left for another feed.
            await self._schedule.add(feed_id, lease.host, now)

    async def _keep(self, lease: HostLease, work: asyncio.Task[object] | None) -> None:
        """Renew the lease during the work; cancel the work when the lease is lost."""
        good_until = time.monotonic() + self._lease_seconds
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            begun = time.monotonic()
            try:
                kept = await self._schedule.renew(lease, self._clock(), self._lease_seconds)
            except StoreError:
                kept = begun < good_until - self._lease_seconds / 3
            else:
                good_until = begun + self._lease_seconds
            if not kept:
                log.warning("a lease was lost; its poll is cancelled", host=lease.host)
                if work is not None:
                    work.cancel()
                return

    async def _hand_back(self, lease: HostLease, pause: float, left: _Left, after: float = 0.0) -> None:
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


class Worker:
    """Polls due feeds, `hosts_at_once` hosts at a time, and runs the stages after it."""

    def __init__(
        self,
        schedule: Schedule,
        turn: Turn,
        presence: Presence,
        stages: Stages,
        *,
        name: str | None = None,
        hosts_at_once: int = 200,
        lease_seconds: float = LEASE_SECONDS,
        tick: float = TICK_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name or worker_name()
        self._stages = stages
        self._schedule = schedule
        self._turn = turn
        self._presence = presence
        self._most = hosts_at_once
        self._lease_seconds = lease_seconds
        self._tick = tick
        self._clock = clock
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._hosts: set[asyncio.Task[int]] = set()

    async def run(self, grace: float = GRACE_SECONDS) -> None:
        """Poll until `stop`; then give polls in flight `grace` seconds, and hand back the rest."""
        beat = asyncio.create_task(self._beat())
        stages = asyncio.create_task(self._stages.run(STAGES_GRACE_SECONDS), name="stages")
        stages.add_done_callback(lambda _: self._wake.set())
        log.debug("worker started", worker=self.name)
        try:
            while not self._stop.is_set() and not stages.done():
                await self._wait(self._tick if await self._take() else _TROUBLE_SECONDS)
        finally:
            beat.cancel()
            await self._drain(grace)
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
        self._stop.set()
        self._turn.stop()
        self._wake.set()

    async def first_polls(self) -> None:
        """Return when all feeds that were due at the start have been polled."""
        await self._idle.wait()

    @property
    def in_flight(self) -> int:
        """The number of hosts that have their turn now."""
        return len(self._hosts)

    async def run_once(self, among: Sequence[str] | None = None) -> int:
        """Give every due host, or those of `among`, one turn; let the stages handle waiting messages.

        Returns the number of polled feeds. Raises StoreError.
        """
        free, now = self._most - self.in_flight, self._clock()
        turns: list[asyncio.Task[int]] = []
        while (wanted := min(AT_A_TIME, free - len(turns))) > 0:
            leases = await self._schedule.take(now, wanted, self._lease_seconds, among)
            turns += (self._start(lease) for lease in leases)
            if len(leases) < wanted:
                break
        ends = await asyncio.gather(*turns, return_exceptions=True)
        await self._stages.run_once()
        return sum(end for end in ends if isinstance(end, int))

    async def delivered(self) -> None:
        """Return when all posts polled until now are in the timelines. Raises StoreError."""
        await self._stages.delivered()

    async def _take(self) -> bool:
        """Start turns of hosts that are due; False if the store can't be reached.

        Starts none while the next stages are full.
        """
        free = self._most - len(self._hosts)
        if free <= 0 or self._turn.rests:
            return True
        try:
            if not await self._stages.has_room():
                return True
            wanted = min(free, AT_A_TIME)
            leases = await self._schedule.take(self._clock(), wanted, self._lease_seconds)
        except StoreError as error:
            log.warning("the schedule can't be read", error=str(error))
            return False
        except Exception:
            # A bug, or corrupt data: the stages continue.
            log.exception("the schedule can't be read")
            return False
        for lease in leases:
            self._start(lease)
        if len(leases) == wanted:
            self._wake.set()  # there may be more
        if not self._hosts:
            self._idle.set()
        return True

    def _start(self, lease: HostLease) -> asyncio.Task[int]:
        task = asyncio.create_task(self._turn.of(lease), name=f"host {lease.host}")
        self._hosts.add(task)
        HOSTS_IN_FLIGHT.set(len(self._hosts))
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[int]) -> None:
        self._hosts.discard(task)
        HOSTS_IN_FLIGHT.set(len(self._hosts))
        self._wake.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("polling a host failed", exc_info=task.exception())

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _drain(self, grace: float) -> None:
        if not (tasks := set(self._hosts)):
            return
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=HAND_BACK_SECONDS)

    async def _beat(self) -> None:
        while True:
            try:
                await self._presence.beat(self.name, self._clock())
            except StoreError:
                pass  # other parts log it
            except Exception:
                log.exception("a worker can't send its heartbeat")
            await asyncio.sleep(BEAT_SECONDS)
