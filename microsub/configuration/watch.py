"""When backend.json is looked at, and when what apps change is written into it: again and again, until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import Protocol

import structlog

from microsub.configuration.file import BackendFile
from microsub.errors import StoreError
from microsub.kit.waits import Waits, first, pause

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a lease holds, and how often it is asked for; how long a file that can't be read may still be
    in the middle of being written; how long to wait after an API change for more of them, and at most; how often to
    look for changes that other processes made through the API; how long to wait after Redis was away, and after a bug.
    """

    lease: float = 30.0
    retry: float = 0.2
    settle: float = 0.3
    quiet: float = 2.0
    longest_quiet: float = 10.0
    compare: float = 5.0
    after_failure: float = 1.0
    after_bug: float = 60.0


class Steps(Protocol):
    """What is needed of `configuration.Configuration`."""

    async def look(self) -> str: ...  # noqa: D102
    async def write_back(self) -> bool: ...  # noqa: D102
    async def watch_data(self) -> None: ...  # noqa: D102


class InStep:
    """Calls the steps of one process when there is reason to."""

    def __init__(self, steps: Steps, file: BackendFile, timing: Timing, *, write_back: bool) -> None:
        self._steps = steps
        self._file = file
        self._timing = timing
        self._writes_back = write_back
        self._touched = asyncio.Event()
        self._waits = Waits()

    def touched(self) -> None:
        """Tell that something was changed through the API. Never blocks."""
        self._touched.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep both in step until `stop` is set. Redis being away is logged and waited for; after a bug, which is
        logged as one, the next edit of the file or the next change through the API is tried again.
        """
        tasks = [asyncio.create_task(self._follow_file(stop)), asyncio.create_task(self._follow_data(stop))]
        if self._writes_back:
            tasks.append(asyncio.create_task(self._follow_api(stop)))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_file(self, stop: asyncio.Event) -> None:
        async for _ in self._file.changes(stop):
            await self._look_until_done(stop)

    async def _look_until_done(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                outcome = await self._steps.look()
                self._waits.went_well("look")
                if outcome != "busy":
                    return
                await pause(stop, self._timing.retry)
            except StoreError as error:
                self._waits.failed("look", error)
                await pause(stop, self._timing.after_failure)
            except Exception:
                log.exception(
                    "backend.json was not applied, because of a bug; its next edit will be", file=str(self._file.path)
                )
                return

    async def _follow_data(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._steps.watch_data()
                self._waits.went_well("watch")
            except StoreError as error:
                self._waits.failed("watch", error)
            except Exception:
                log.exception("whether Redis still has its data isn't known, because of a bug")
            await pause(stop, self._timing.compare)

    async def _follow_api(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._wait_for_changes(stop)
            if stop.is_set():
                break
            try:
                await self._steps.write_back()
                self._waits.went_well("write back")
            except StoreError as error:
                self._waits.failed("write back", error)
                await pause(stop, self._timing.after_failure)
            except Exception:
                log.exception("API changes were not written back, because of a bug", file=str(self._file.path))
                await pause(stop, self._timing.after_bug)
        with contextlib.suppress(StoreError):
            await self._steps.write_back()

    async def _wait_for_changes(self, stop: asyncio.Event) -> None:
        """Return a while after the last of several changes, or when it is time to look for those of others."""
        await first(stop, self._touched, self._timing.compare)
        latest = time.monotonic() + self._timing.longest_quiet
        while self._touched.is_set() and not stop.is_set() and time.monotonic() < latest:
            self._touched.clear()
            await first(stop, self._touched, self._timing.quiet)
