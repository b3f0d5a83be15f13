"""The worker: takes hosts that are due and gives them their turns. Any number of workers share one schedule.

A host belongs to one worker while its lease lasts, so it gets one request at a time and no feed is polled twice; a
worker that dies gives its hosts back by letting the leases run out, one that stops hands them back at once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from microsub.errors import StoreError
from microsub.metrics import HOSTS_IN_FLIGHT
from microsub.polling.host_turn import HAND_BACK_SECONDS, LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from microsub.delivery.stages import Stages
    from microsub.feeds.store.queue import HostLease, Schedule
    from microsub.polling.host_turn import Turn
    from microsub.redis.presence import Presence

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.5
BEAT_SECONDS = 10.0
GRACE_SECONDS = 6.0
"""For polls in flight. Ten seconds after it was asked to, a worker has stopped."""

STAGES_GRACE_SECONDS = 1.0
"""For the stages, when the last poll has ended: whatever they leave is another worker's."""

AT_A_TIME = 16
"""Hosts that are begun together. Hundreds at once would do each step of their polls in the same turn of the loop, and
whoever else needs it, a reader's request in the same process, would wait for all of them.
"""

STAGES_END_SECONDS = 2.0
"""After which the stages aren't waited for, when Redis doesn't answer: others take over by themselves."""

_TROUBLE_SECONDS = 5.0


def worker_name() -> str:
    """A name that no other worker has, and that tells people where this one runs."""
    return f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(3)}"


class Worker:
    """Polls what is due, `hosts_at_once` hosts at a time, and runs the stages that the news go through."""

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
        self._hosts: set[asyncio.Task[int]] = set()

    async def run(self, grace: float = GRACE_SECONDS) -> None:
        """Poll until `stop`; then let polls in flight end for `grace` seconds, and hand back what is left."""
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
        """Take nothing new; `run` returns soon."""
        self._stop.set()
        self._turn.stop()
        self._wake.set()

    def wake(self) -> None:
        """Something has become due: look at once instead of at the next tick."""
        self._wake.set()

    @property
    def in_flight(self) -> int:
        """How many hosts have their turn right now."""
        return len(self._hosts)

    async def run_once(self, among: Sequence[str] | None = None) -> int:
        """Give every host that is due one turn, or those of `among`, and let the stages handle all that waits.

        Returns how many feeds were polled. Raises StoreError.
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
        """Return when what was polled until now stands in the timelines. Raises StoreError."""
        await self._stages.delivered()

    async def _take(self) -> bool:
        """Start turns of hosts that are due; False when the store can't be asked.

        While the stages behind are full nobody is asked for more.
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
            # A bug, or a hand in Redis: the stages go on, and so do we when it is mended.
            log.exception("the schedule can't be read")
            return False
        for lease in leases:
            self._start(lease)
        if len(leases) == wanted:
            self._wake.set()  # there may be more
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
            log.error("the turn of a host broke off", exc_info=task.exception())

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _drain(self, grace: float) -> None:
        tasks = set(self._hosts)
        if not tasks:
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
                pass  # whoever needs Redis says so
            except Exception:
                log.exception("a worker can't give signs of life")
            await asyncio.sleep(BEAT_SECONDS)
