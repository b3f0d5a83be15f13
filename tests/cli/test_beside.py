"""The worker beside a server, where its process can't even be started."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from microsub.cli import beside
from microsub.settings import Settings


async def test_a_worker_that_cant_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has no process to give at this moment may have one a second later."""
    tries: list[int] = []

    async def refuse(*_args: Any, **_more: Any) -> None:
        tries.append(len(tries))
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(beside, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    worker = beside.WorkerBeside(Settings(), tmp_path)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(60):
        while len(tries) < 3 and not running.done():
            await asyncio.sleep(0)
        worker.stop()
        await running
    assert len(tries) == 3
