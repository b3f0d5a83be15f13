"""Delivery of one new post to all followers of its feed: from the poll that found it to the last timeline.

Thousands of users have one channel each, with realistic lengths, unread and read items, some of them full. All users
follow one feed, some also follow two smaller ones. A worker receives the post as it does from a poll, with empty caches
for the feed and its followers: polls of a feed are minutes apart, so cached values have expired by then. Then the usual
stages run: the post is stored, the next stage is notified and reads the list of followers, and limits, filters and
timelines follow. In addition, the last stage is measured alone, with a cached list of followers.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.followers import HOME, Followers, Turn
from benchmarks.latency import VERDICTS, Compared, asking, comparison, pages, waiting_table
from benchmarks.report import aligned
from benchmarks.world import rewritten, web
from microsub.base.settings import Settings
from microsub.cli.serving.process import NICENESS
from microsub.server.stores import open_stores

FOLLOWERS = (100, 1_000, 10_000)

MOST_SECONDS = 0.5
MOST_GROWTH = 1.5
MOST_BYTES = 340
MOST_WAITING = 3.0

ROUNDS, SECONDS = 24, 1.25
"""Turns of readers, and the seconds of each, idle and during a fan-out."""


@dataclass(frozen=True, slots=True)
class Way:
    """The turns of one kind: medians in seconds, and the extremes. `stored` is 0 for the last stage alone."""

    seconds: float
    lowest: float
    highest: float
    worker: float
    redis: float
    stored: float

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Way:
        """The result of single turns."""
        seconds = [turn.seconds for turn in turns]
        return cls(
            median(seconds),
            min(seconds),
            max(seconds),
            median(turn.worker for turn in turns),
            median(turn.redis for turn in turns),
            median(turn.stored for turn in turns),
        )


@dataclass(frozen=True, slots=True)
class Line:
    """The results of one feed: `whole` from the poll to the last timeline, `last` for the last stage alone."""

    followers: int
    whole: Way
    last: Way

    @property
    def each(self) -> float:
        """Microseconds of wall time that the last stage needs per channel."""
        return self.last.seconds / self.followers * 1e6


@dataclass(frozen=True, slots=True)
class Found:
    """All figures. `bytes_per_id` is the memory of an id in a timeline, in all its sets and with their keys; `waits`
    compares readers' waiting times on an idle server and during a fan-out.
    """

    lines: tuple[Line, ...]
    ids: int
    bytes_per_id: float
    waits: Compared

    @property
    def growth(self) -> float:
        """The cost of a channel for the largest feed, relative to the smallest."""
        return self.lines[-1].each / self.lines[0].each

    def aims(self) -> list[tuple[str, str, bool | None]]:
        """Each aim, its result, and whether it was reached; None if the machine is too uneven to decide."""
        last = self.lines[-1]
        return [
            (
                f"from the poll to {last.followers:,} channels, seconds",
                f"{last.whole.seconds:.3f} of {MOST_SECONDS}",
                last.whole.seconds < MOST_SECONDS,
            ),
            (
                f"a channel at {last.followers:,} followers, of one at {self.lines[0].followers:,}",
                f"{self.growth:.2f} of {MOST_GROWTH}",
                self.growth <= MOST_GROWTH,
            ),
            ("bytes per id and timeline", f"{self.bytes_per_id:.0f} of {MOST_BYTES}", self.bytes_per_id <= MOST_BYTES),
            (
                "p99 of a page during it, of an idle server's",
                f"{self.waits.slower:.1f} of {MOST_WAITING:.0f}",
                self.waits.within(MOST_WAITING),
            ),
        ]

    @property
    def met(self) -> bool:
        """Whether no aim was missed."""
        return all(met is not False for *_, met in self.aims())


def measure(*, quick: bool) -> Found:
    """Fill a Redis, measure deliveries, and delete everything."""
    followers = tuple(number // 10 for number in FOLLOWERS) if quick else FOLLOWERS
    with tempfile.TemporaryDirectory(prefix="microsub-fanout-") as folder:
        return asyncio.run(_measured(Path(folder), followers, 5 if quick else 9, 4 if quick else ROUNDS))


async def _measured(folder: Path, followers: Sequence[int], turns: int, rounds: int) -> Found:
    (folder / "backend.json").write_text("{}")
    async with open_stores(Settings(data_dir=folder / "data", backend=folder / "backend.json"), create=True) as stores:
        there = Followers(stores)
        ids, size = await there.fill(followers)
        lines = [await _line(there, number, turns) for number in followers]
        token = await there.token()
        with web(folder) as (endpoint, _), asking() as others:
            url = f"{endpoint}?action=timeline&channel={HOME}"
            loop = asyncio.get_running_loop()

            async def idle() -> list[float]:
                await rewritten(stores.redis)  # a fan-out may have caused a rewrite
                return await loop.run_in_executor(others, pages, url, token, SECONDS)

            async def busy() -> list[float]:
                reader = loop.run_in_executor(others, pages, url, token, SECONDS)
                while not reader.done():
                    await there.last_stage(followers[-1], check=False)
                return await reader

            await idle()  # also starts the reader's process, before this process lowers its own priority
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # like a worker, which must not slow down pages
            waits = await comparison(idle, busy, rounds)
        return Found(tuple(lines), ids, size / ids, waits)


async def _line(there: Followers, followers: int, turns: int) -> Line:
    """Measure `turns` posts of a feed in each way, one after the other; the first of each isn't counted."""
    whole = [await there.whole(followers) for _ in range(turns + 1)][1:]
    last = [await there.last_stage(followers) for _ in range(turns + 1)][1:]
    return Line(followers, Way.of(whole), Way.of(last))


def text(found: Found) -> str:
    """The tables, for the terminal and for pages."""
    head = (
        *("followers", "poll to timelines, s", "(min-max)", "until stored, ms"),
        *("last stage, s", "(min-max)", "µs per channel", "of it worker's CPU", "Redis' CPU"),
    )
    rows = [
        (
            f"{one.followers:,}",
            f"{one.whole.seconds:.3f}",
            f"{one.whole.lowest:.3f}-{one.whole.highest:.3f}",
            f"{one.whole.stored * 1e3:.0f}",
            f"{one.last.seconds:.3f}",
            f"{one.last.lowest:.3f}-{one.last.highest:.3f}",
            f"{one.each:.0f}",
            f"{one.last.worker / one.followers * 1e6:.0f}",
            f"{one.last.redis / one.followers * 1e6:.0f}",
        )
        for one in found.lines
    ]
    aims = [("aim", "reached", ""), *((name, value, VERDICTS[met]) for name, value, met in found.aims())]
    return "\n\n".join(aligned(rows) for rows in ([head, *rows], waiting_table({"fan-out": found.waits}), aims))


def in_short(found: Found) -> str:
    """The time for the feed with most followers, as a Markdown list of one item."""
    most = found.lines[-1]
    return (
        f"- A new post is in the timelines of {most.followers:,} followers {most.whole.seconds:.2f} s after a poll has "
        "found it."
    )


def document(found: Found) -> dict[str, Any]:
    """The figures for programs."""
    return {**asdict(found), "growth": found.growth, "slower": found.waits.slower}
