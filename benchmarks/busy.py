"""What a reader waits for a page while the server works hardest: first loads of hundreds of feeds, and cleaning up.

Once with a web process and a worker that are started apart, once with `serve`, which starts its own worker. The
server's own retention and sweep run now and then; here a process like a worker (`benchmarks.cleaning`)
runs them all the time.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.ingesting import Place, place, server, workers
from benchmarks.latency import Waiting, asking, pages
from benchmarks.refresh.lines import child
from benchmarks.report import aligned
from benchmarks.shelves import HOME

FEEDS = 600
MOST_WAITING = 3.0
FORMS = ("web and work", "serve")
_PIECE = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One form of the server. `rate` is how many posts per second came in meanwhile."""

    form: str
    idle: Waiting
    busy: Waiting
    rate: float

    @property
    def slower(self) -> float:
        """How many times longer the slowest hundredth of the readers wait."""
        return self.busy.p99 / self.idle.p99

    @property
    def met(self) -> bool:
        """Whether that is little enough."""
        return self.slower <= MOST_WAITING


def measure(*, quick: bool) -> list[Line]:
    """Both forms, each from nothing."""
    with tempfile.TemporaryDirectory(prefix="microsub-busy-") as folder:
        return asyncio.run(_measured(Path(folder), FEEDS // 3 if quick else FEEDS, 2.0 if quick else 6.0))


async def _measured(folder: Path, feeds: int, seconds: float) -> list[Line]:
    lines = []
    for number, form in enumerate(FORMS):
        async with place(folder / str(number), feeds) as there:
            with ExitStack() as stack:
                others = stack.enter_context(asking())
                endpoint = stack.enter_context(server(there.folder, "serve" if form == "serve" else "web"))
                if form != "serve":
                    stack.enter_context(workers(there.folder, 1))
                await there.workers(1)
                lines.append(await _line(form, there, others, f"{endpoint}?action=timeline&channel={HOME}", seconds))
    return lines


async def _line(form: str, there: Place, others: Executor, url: str, seconds: float) -> Line:
    loop = asyncio.get_running_loop()
    token = there.shelf.token
    await loop.run_in_executor(others, pages, url, token, _PIECE)
    idle = await loop.run_in_executor(others, pages, url, token, seconds)
    busy: list[float] = []
    with child(
        [sys.executable, "-m", "benchmarks.cleaning", str(there.folder)], there.folder / "cleaning.log"
    ) as cleaning:
        cleaning.ask("begin")
        began = time.perf_counter()
        await there.begin()
        ingest = asyncio.create_task(there.end())
        while not ingest.done():
            busy += await loop.run_in_executor(others, pages, url, token, _PIECE / 4)
        await ingest
        rate = there.entries / (time.perf_counter() - began)
        rounds = cleaning.ask("end")["rounds"]
    if not rounds:
        raise RuntimeError("nothing was cleaned up meanwhile")
    return Line(form, Waiting.of(idle), Waiting.of(busy), rate)


def text(lines: list[Line]) -> str:
    """The table, for the terminal and for pages."""
    head = ("", "idle p50 ms", "p99 ms", "busy p50 ms", "p99 ms", "requests", "posts/s", "p99 busy / idle", "aim")
    rows = [
        (
            one.form,
            f"{one.idle.p50:.1f}",
            f"{one.idle.p99:.1f}",
            f"{one.busy.p50:.1f}",
            f"{one.busy.p99:.1f}",
            f"{one.busy.requests:,}",
            f"{one.rate:,.0f}",
            f"{one.slower:.1f}",
            f"{MOST_WAITING:g} {'met' if one.met else 'MISSED'}",
        )
        for one in lines
    ]
    return aligned([head, *rows])


def document(lines: list[Line]) -> dict[str, Any]:
    """The figures for programs."""
    return {"lines": [{**asdict(one), "slower": one.slower} for one in lines]}
