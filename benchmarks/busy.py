"""A reader's waiting time for a page under the heaviest load: first polls of hundreds of feeds, and clean-up.

Measured twice: with a separate web process and worker, and with `serve`, which starts its own worker. The server runs
retention and sweep only occasionally; here a process like a worker (`benchmarks.cleaning`) runs them continuously. The
feeds are polled in portions, between which the server is idle.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.ingesting import Place, place, serving, workers
from benchmarks.latency import VERDICTS, Compared, asking, comparison, pages, waiting_table
from benchmarks.refresh.lines import Child, child
from benchmarks.report import aligned
from benchmarks.shelves import HOME
from benchmarks.world import rewritten

FEEDS, TURNS = 900, 12
"""The number of feeds polled for the first time, and of portions; each portion takes a second or two."""

SECONDS = 1.3
"""Seconds for which a reader sends requests to the idle server in each turn."""

MOST_WAITING = 3.0
ELSEWHERE = 19
"""The niceness of the publisher, because in production it is on another machine and takes no processor time here."""

FORMS = ("web and work", "serve")
_LONG = 300.0
_BREATH = 0.2
"""Seconds after the last posts in which a worker finishes the remaining work."""


@dataclass(frozen=True, slots=True)
class Line:
    """The results of one form of the server. `rate`: posts per second that were stored meanwhile."""

    form: str
    waits: Compared
    rate: float

    @property
    def met(self) -> bool | None:
        """Whether waiting times are short enough; None if the machine is too uneven to decide."""
        return self.waits.within(MOST_WAITING)


def measure(*, quick: bool) -> list[Line]:
    """Measure both forms, each from an empty server."""
    with tempfile.TemporaryDirectory(prefix="microsub-busy-") as folder:
        return asyncio.run(_measured(Path(folder), *(150, 2) if quick else (FEEDS, TURNS)))


async def _measured(folder: Path, feeds: int, turns: int) -> list[Line]:
    lines = []
    for number, form in enumerate(FORMS):
        async with place(folder / str(number), feeds, niceness=ELSEWHERE) as there:
            with ExitStack() as stack:
                others = stack.enter_context(asking())
                endpoint = stack.enter_context(serving(there.folder, "serve" if form == "serve" else "web"))
                if form != "serve":
                    stack.enter_context(workers(there.folder, 1))
                await there.workers(1)
                url = f"{endpoint}?action=timeline&channel={HOME}"
                command = [sys.executable, "-m", "benchmarks.cleaning", str(there.folder)]
                cleaning = stack.enter_context(child(command, there.folder / "cleaning.log"))
                reading = _Reading(there, others, url, cleaning, turns)
                lines.append(await reading.line(form, turns))
    return lines


class _Reading:
    """A reader of one server, which is idle or polls the next portion of the feeds."""

    def __init__(self, there: Place, others: Executor, url: str, cleaning: Child, turns: int) -> None:
        self._there = there
        self._others = others
        self._url = url
        self._cleaning = cleaning
        self._portions = portions(len(there.feeds), turns)
        self._rounds = 0
        self._seconds = 0.0

    async def line(self, form: str, turns: int) -> Line:
        """Measure the waiting times idle and busy, in turn."""
        await self._pages(SECONDS)
        waits = await comparison(self._idle, self._busy, turns)
        if not self._rounds:
            raise RuntimeError("nothing was cleaned up meanwhile")
        return Line(form, waits, self._there.entries / self._seconds)

    async def _pages(self, seconds: float, until: str = "") -> list[float]:
        loop, token = asyncio.get_running_loop(), self._there.shelf.token
        return await loop.run_in_executor(self._others, pages, self._url, token, seconds, until)

    async def _idle(self) -> list[float]:
        await asyncio.sleep(_BREATH)
        await rewritten(self._there.stores.redis)  # new posts may have caused a rewrite
        return await self._pages(SECONDS)

    async def _busy(self) -> list[float]:
        first, last = next(self._portions)
        over = self._there.folder / f"over-{last}"
        self._cleaning.ask("begin")
        began = time.perf_counter()
        await self._there.begin(self._there.feeds[first:last])
        reader = asyncio.create_task(self._pages(_LONG, str(over)))
        await self._there.end(last)
        self._seconds += time.perf_counter() - began
        over.touch()
        took = await reader
        self._rounds = self._cleaning.ask("end")["rounds"]
        return took


def portions(feeds: int, turns: int) -> Iterator[tuple[int, int]]:
    """The start and end of each of `turns` equal portions."""
    return ((feeds * turn // turns, feeds * (turn + 1) // turns) for turn in range(turns))


def text(lines: list[Line]) -> str:
    """The tables, for the terminal and for pages."""
    aims = [
        ("aim: p99 busy / idle", "posts/s meanwhile", "reached", ""),
        *(
            (one.form, f"{one.rate:,.0f}", f"{one.waits.slower:.1f} of {MOST_WAITING:g}", VERDICTS[one.met])
            for one in lines
        ),
    ]
    return f"{aligned(waiting_table({one.form: one.waits for one in lines}))}\n\n{aligned(aims)}"


def document(lines: list[Line]) -> dict[str, Any]:
    """The figures for programs."""
    return {"lines": [{**asdict(one), "slower": one.waits.slower} for one in lines]}
