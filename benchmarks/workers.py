"""Throughput of two workers compared with one: posts per second from the poll to the timeline, by `microsub work`.

With publishers that answer at once, processors are the limit: two workers then need cores in addition to those of Redis
and the publishers. So there are two measurements: with such publishers, where the result depends on the machine, and
with slow publishers and few requests at a time, where workers could only be slowed down by each other. The processor
time per post shows the effect of more cores: if it is the same with two workers, the work can be divided.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ingesting import place, spent, workers
from benchmarks.refresh.feeds import ENTRIES
from benchmarks.report import aligned

FEEDS = 400
DELAY, AT_ONCE = 0.2, 4
"""Seconds that a slow publisher needs for a reply, and a worker's requests at a time in that case."""

LEAST_GAIN = 1.6
ENOUGH_CORES = 4
"""Cores needed: one for each of two workers, for Redis and for the publishers."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One first load: wall seconds, and processor seconds of each worker and of Redis."""

    seconds: float
    workers: tuple[float, ...]
    redis: float


@dataclass(frozen=True, slots=True)
class Line:
    """Medians over all turns for a number of workers. `share` is the busiest worker's part of all workers' time."""

    publishers: str
    workers: int
    rate: float
    worker_micros: float
    redis_micros: float
    share: float


@dataclass(frozen=True, slots=True)
class Found:
    """All figures."""

    lines: tuple[Line, ...]
    cores: int

    def gain(self, publishers: str) -> float:
        """The throughput of two workers, as a multiple of one worker's."""
        one, two = (line for line in self.lines if line.publishers == publishers)
        return two.rate / one.rate

    def aims(self) -> list[tuple[str, str, bool | None]]:
        """Each aim with its result, and whether it was reached; None if there are too few cores."""
        slow, quick = self.gain("slow"), self.gain("quick")
        enough = quick >= LEAST_GAIN if self.cores >= ENOUGH_CORES else None
        return [
            ("two workers, slow publishers", f"{slow:.2f} times one, of {LEAST_GAIN}", slow >= LEAST_GAIN),
            (f"two workers, quick publishers, {self.cores} cores", f"{quick:.2f} times one, of {LEAST_GAIN}", enough),
        ]

    @property
    def met(self) -> bool:
        """Whether all aims were reached for which the machine has enough cores."""
        return all(met is not False for *_, met in self.aims())


def measure(*, quick: bool) -> Found:
    """Measure each number of workers in turns, each turn from an empty server."""
    with tempfile.TemporaryDirectory(prefix="microsub-workers-") as folder:
        return asyncio.run(_measured(Path(folder), FEEDS // 4 if quick else FEEDS, 1 if quick else 3))


async def _measured(folder: Path, feeds: int, turns: int) -> Found:
    lines = []
    for name, delay, settings in (("slow", DELAY, {"fetch_concurrency": str(AT_ONCE)}), ("quick", 0.0, {})):
        found: dict[int, list[Turn]] = {1: [], 2: []}
        for number in range(turns):
            for count, so_far in found.items():
                so_far.append(await _turn(folder / f"{name}-{number}-{count}", feeds, count, delay, settings))
        lines += [_line(name, count, so_far, feeds * ENTRIES) for count, so_far in found.items()]
    return Found(tuple(lines), os.cpu_count() or 1)


async def _turn(folder: Path, feeds: int, count: int, delay: float, settings: dict[str, str]) -> Turn:
    async with place(folder, feeds, delay=delay, timeline=1) as there:
        with workers(folder, count, **settings) as pids:
            await there.workers(count)
            before, redis, began = [spent(pid) for pid in pids], spent(there.redis_pid), time.perf_counter()
            await there.begin()
            await there.end()
            seconds = time.perf_counter() - began
            used = tuple(spent(pid) - start for pid, start in zip(pids, before, strict=True))
            return Turn(seconds, used, spent(there.redis_pid) - redis)


def _line(publishers: str, count: int, turns: list[Turn], posts: int) -> Line:
    return Line(
        publishers,
        count,
        posts / median(turn.seconds for turn in turns),
        median(sum(turn.workers) for turn in turns) / posts * 1e6,
        median(turn.redis for turn in turns) / posts * 1e6,
        median(max(turn.workers) / sum(turn.workers) for turn in turns),
    )


def text(found: Found) -> str:
    """The tables, for the terminal and for pages."""
    head = ("publishers", "workers", "posts/s", "workers' µs per post", "Redis' µs per post", "share of the busier one")
    rows = [
        (
            one.publishers,
            str(one.workers),
            f"{one.rate:,.0f}",
            f"{one.worker_micros:.0f}",
            f"{one.redis_micros:.0f}",
            f"{one.share:.0%}",
        )
        for one in found.lines
    ]
    said = {True: "met", False: "MISSED", None: f"needs {ENOUGH_CORES} cores"}
    aims = [("aim", "reached", ""), *((name, value, said[met]) for name, value, met in found.aims())]
    return f"{aligned([head, *rows])}\n\n{aligned(aims)}"


def document(found: Found) -> dict[str, Any]:
    """The figures for programs."""
    return {**asdict(found), "gain": {name: found.gain(name) for name in ("slow", "quick")}}
