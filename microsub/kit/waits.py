"""Waiting: for some time or an event, and for Redis, of which the log tells the beginning and the end alone."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from microsub.errors import StoreError

log = structlog.get_logger(__name__)


class Waits:
    """Which steps wait, of those that are tried again and again."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()

    def failed(self, step: str, error: StoreError) -> None:
        """Redis could not serve the step; said for the first one alone."""
        if not self._waiting:
            log.warning("changes of the configuration wait for Redis", reason=str(error))
        self._waiting.add(step)

    def went_well(self, step: str) -> None:
        """The step was served; said when it was the last one to wait."""
        if self._waiting == {step}:
            log.info("the configuration goes on: Redis answers again")
        self._waiting.discard(step)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait until `stop` is set, or for `seconds`."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def first(one: asyncio.Event, other: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the two is set, or the time is over where there is a limit."""
    tasks = [asyncio.ensure_future(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
