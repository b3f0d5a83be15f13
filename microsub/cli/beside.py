"""A worker in a process of its own beside a server: what comes in doesn't take the server's time away from readers.

The process gets its settings as environment variables, and a pipe at its standard input that this one holds open: it
ends when we do, however we end. One that ends before, or can't be started, is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from microsub import metrics
from microsub.settings import Settings, variables

log = structlog.get_logger(__name__)

END_SECONDS = 9.5
"""For the worker to end after it was asked to. It does in less, unless it is frozen or lost; and ten seconds are all
there is.
"""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds until a worker that ended is started again; each pause is twice the last, until one has lived for so long."""


class WorkerBeside:
    """The hold on the process, whichever it is at the moment."""

    def __init__(self, settings: Settings, figures: Path) -> None:
        self._variables = variables(settings) | {metrics.FOLDER_VARIABLE: str(figures)}
        self._figures = figures
        self._process: Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The number of the process; None between two."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Ask it to end, and start no other."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    async def run(self) -> None:
        """Keep one running until `stop`."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                code = await self._one()
            except OSError as error:  # no process or no memory for one at this moment
                log.error("the worker can't be started and is tried again", why=str(error), seconds=pause)  # noqa: TRY400
            else:
                if self._stopping.is_set():
                    return
                pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else pause
                log.error("the worker has ended and is started again", exit_code=code, seconds=pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _one(self) -> int:
        """Run one process to its end; its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "microsub.cli.worker_process"),
            env=os.environ | self._variables,
            stdin=PIPE,
            stdout=DEVNULL,
            start_new_session=True,  # Ctrl-C at a terminal is ours to handle
        )
        self._process = process
        if self._stopping.is_set():  # while it was being started
            self.stop()
        try:
            return await process.wait()
        finally:
            self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()
            metrics.forget(process.pid, self._figures)


@contextlib.asynccontextmanager
async def worker_beside(settings: Settings) -> AsyncIterator[WorkerBeside]:
    """Have a worker beside us within the block; it ends within some ten seconds. Its metrics are added to ours."""
    with tempfile.TemporaryDirectory(prefix="microsub-metrics-") as folder, metrics.added(Path(folder)) as figures:
        worker = WorkerBeside(settings, figures)
        running = asyncio.create_task(worker.run(), name="worker beside")
        try:
            yield worker
        finally:
            worker.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await running
