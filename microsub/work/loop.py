"""The one loop of durable work: claim, do at most so many at once, send heartbeats, and drain."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import structlog

from microsub.base.errors import StoreError

Claim = TypeVar("Claim")
Task = asyncio.Task[int]
Take = Callable[[int], Awaitable[Sequence[Claim]]]

HAND_BACK_SECONDS = 1.5
"""Seconds that cancelled work has to end, and then the store to take its claims back."""

log = structlog.get_logger(__name__)


class Loop(ABC, Generic[Claim]):
    """Does claimed work, at most `at_once` pieces at a time, `batch` of them begun together.

    A claim lasts `lease` seconds without a heartbeat. Heartbeats are sent every third of that, none if it is 0. Work
    whose claim is lost is cancelled, also if the store was away for so long that others may have it. After an error
    the loop waits for `trouble` seconds, and after it was woken for `wake_delay`, so that several wakes count as one.
    """

    def __init__(
        self,
        name: str,
        *,
        at_once: int,
        lease: float,
        batch: int | None = None,
        trouble: float = 2.0,
        wake_delay: float = 0.0,
    ) -> None:
        self.name = name
        self.stopping = False
        self._most = at_once
        self.lease = lease
        self._batch = batch or at_once
        self.trouble = trouble
        self._wake_delay = wake_delay
        self._wake = asyncio.Event()
        self._in_progress: dict[Task, tuple[Claim, float]] = {}
        self._keeper: asyncio.Task[None] | None = None

    @abstractmethod
    async def take(self, room: int) -> Sequence[Claim]:
        """Claim at most `room` pieces of work; fewer mean that there are no more now."""

    @abstractmethod
    async def keep(self, claims: Sequence[Claim]) -> Sequence[bool]:
        """Send a heartbeat for claims; returns for each whether it still belongs to this process."""

    @abstractmethod
    async def do(self, claim: Claim) -> int:
        """Do the work, which may be a repetition, and end its claim last; returns how much was done."""

    @abstractmethod
    async def hand_back(self, claims: Sequence[Claim]) -> None:
        """Release claims whose work was cancelled, for others to take at once."""

    @abstractmethod
    def pause(self) -> float:
        """Seconds until the next look for work, unless the loop is woken."""

    async def ready(self) -> bool:
        """Whether `run` may claim work now."""
        return True

    @property
    def in_flight(self) -> int:
        """The number of claims in progress."""
        return len(self._in_progress)

    @property
    def claims(self) -> list[Claim]:
        """The claims in progress."""
        return [claim for claim, _ in self._in_progress.values()]

    def wake(self) -> None:
        """Look for work at once instead of after the pause."""
        self._wake.set()

    def stop(self) -> None:
        """Claim no more; `run` returns soon."""
        self.stopping = True
        self._wake.set()

    async def run(self, grace: float = 0.0) -> None:
        """Work until `stop`; then give work in progress `grace` seconds, and hand the rest back."""
        try:
            while not self.stopping:
                self._wake.clear()
                try:
                    for task in await self._fill(self.take, self.ready):
                        task.add_done_callback(_report)
                    pause = self.pause()
                except StoreError as error:
                    log.warning("work paused because of Redis; it will be retried", work=self.name, error=str(error))
                    pause = self.trouble
                except Exception:
                    # A bug, or a key of a wrong type: other work continues, and this does once it is repaired.
                    log.exception("work can't be claimed; it will be retried", work=self.name)
                    pause = self.trouble
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                        await asyncio.sleep(0 if self.stopping else self._wake_delay)
        finally:
            await self._drain(grace)

    async def run_round(self, take: Take[Claim] | None = None) -> int | None:
        """Do the work that `take`, or else `self.take`, claims now; returns how much, or None if there was nothing.

        Takes as much as there is room for. Raises the first error, StoreError among others, after all has ended.
        """
        tasks = await self._fill(take or self.take)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end
        return sum(end for end in ends if isinstance(end, int)) if tasks else None

    async def run_until_idle(self, take: Take[Claim] | None = None) -> int:
        """Do all work there is, and the work that it leads to; returns how much. Raises as `run_round` does."""
        done = 0
        while (more := await self.run_round(take)) is not None:
            done += more
        return done

    async def _fill(self, take: Take[Claim], ready: Callable[[], Awaitable[bool]] | None = None) -> list[Task]:
        """Begin as much work as there is room for."""
        begun: list[Task] = []
        while not self.stopping and (wanted := min(self._most - self.in_flight, self._batch)) > 0:
            if ready is not None and not await ready():
                break
            claims = await take(wanted)
            begun += map(self._start, claims)
            if len(claims) < wanted:
                break
        return begun

    def _start(self, claim: Claim) -> Task:
        task = asyncio.create_task(self.do(claim), name=f"{self.name} {claim}")
        self._in_progress[task] = (claim, time.monotonic())
        task.add_done_callback(self._ended)
        if self._keeper is None and self.lease:
            self._keeper = asyncio.create_task(self._keep(), name=f"{self.name} keeper")
        return task

    def _ended(self, task: Task) -> None:
        self._in_progress.pop(task, None)
        self._wake.set()
        if not self._in_progress and self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None

    async def _keep(self) -> None:
        """Send heartbeats for the claims in progress, and cancel the work of lost ones."""
        while True:
            await asyncio.sleep(self.lease / 3)
            mine, now = dict(self._in_progress), time.monotonic()
            try:
                kept: Sequence[bool] | None = await self.keep([claim for claim, _ in mine.values()])
            except Exception as error:
                if not isinstance(error, StoreError):
                    log.exception("heartbeats can't be sent", work=self.name)
                kept = None
            for (task, (claim, since)), is_kept in zip(mine.items(), kept or [False] * len(mine), strict=True):
                if task not in self._in_progress:
                    continue
                if is_kept:
                    self._in_progress[task] = (claim, now)
                elif kept is not None or now - since >= self.lease * 2 / 3:
                    log.warning("work was cancelled: its claim was lost", work=task.get_name())
                    task.cancel()

    async def _drain(self, grace: float) -> None:
        if not (mine := {task: claim for task, (claim, _) in self._in_progress.items()}):
            return
        _, late = await asyncio.wait(mine, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=HAND_BACK_SECONDS)
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(HAND_BACK_SECONDS):
                    await self.hand_back([mine[task] for task in late])


def _report(task: Task) -> None:
    """Log the failure of work that nobody waits for."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, StoreError) and error.passing:
        log.warning("work was interrupted: Redis is unavailable", work=task.get_name(), error=str(error))
    elif error is not None:
        log.error("work failed", work=task.get_name(), exc_info=error)
