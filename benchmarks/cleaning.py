"""`python -m benchmarks.cleaning FOLDER`: run retention and sweep continuously."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.refresh.lines import answer
from microsub import server
from microsub.base.logs import set_up_logs
from microsub.base.settings import Settings
from microsub.cli.serving.process import give_way

_BREATH = 0.1


class Cleaning:
    """Cleans up the data of `folder` in a thread, from `begin` to `end`."""

    def __init__(self, folder: Path) -> None:
        self._settings = Settings(data_dir=folder / "data", backend=folder / "backend.json")
        self._over = threading.Event()
        self._thread = threading.Thread()
        self._rounds = 0

    def begin(self) -> dict[str, Any]:
        """Start, also again after `end`."""
        self._over.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._clean()), daemon=True)
        self._thread.start()
        return {}

    def end(self) -> dict[str, Any]:
        """Stop after the current round; returns the number of rounds since the first start."""
        self._over.set()
        self._thread.join()
        return {"rounds": self._rounds}

    async def _clean(self) -> None:
        async with server.stores.open_stores(self._settings, create=True) as stores:
            while not self._over.is_set():
                await server.jobs.sweeping(stores).run(time.time())
                await server.jobs.retention(self._settings, stores).run(time.time())
                self._rounds += 1
                await asyncio.sleep(_BREATH)


if __name__ == "__main__":
    os.setsid()
    give_way()  # like a worker
    set_up_logs("text", "warning")  # standard output is for the answers
    here = Cleaning(Path(sys.argv[1]))
    answer({"begin": here.begin, "end": here.end})
