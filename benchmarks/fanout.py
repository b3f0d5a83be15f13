"""One new post to all who follow its feed: from the poll that has found it to the last timeline that holds it.

Thousands of users have a channel each, of lengths as they occur, unread and read, some of them full. All of them follow
one feed, some of them two smaller ones too. A worker is handed the post as a poll hands it on, and knows nothing of the
feed and its followers: between two polls of a feed lie minutes, after which what was remembered of them has lapsed. The
stages take it from there: the post is stored, the next stage is told, the list of followers is read, and limits,
filters and the timelines come. Beside that the last stage is measured alone, with a list that is remembered.
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
from microsub.cli.serving.process import NICENESS
from microsub.settings import Settings
from microsub.wiring.stores import open_stores

FOLLOWERS = (100, 1_000, 10_000)

MOST_SECONDS = 0.5
MOST_GROWTH = 1.5
MOST_BYTES = 340
MOST_WAITING = 3.0

ROUNDS, SECONDS = 24, 1.25
"""Turns of readers, and how long they ask in each, idle and meanwhile."""


@dataclass(frozen=True, slots=True)
class Way:
    """So many turns of one kind: medians in seconds, and the extremes. `stored` is 0 where the last stage is alone."""

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
    """One feed: `whole` is the way from the poll to the last timeline, `last` that of the last stage alone."""

    followers: int
    whole: Way
    last: Way

    @property
    def each(self) -> float:
        """Microseconds of wall time per channel that the last stage takes."""
        return self.last.seconds / self.followers * 1e6


@dataclass(frozen=True, slots=True)
class Found:
    """All figures. `bytes_per_id` is what an id costs in a timeline, in all its sets and with their keys; `waits` how
    long readers wait while nothing happens, and during a fan-out.
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
        """Each aim, its result, and whether it was reached; None if the machine is too uneven to tell."""
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
    """Fill a Redis, deliver, and throw everything away."""
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
                await rewritten(stores.redis)  # which a fan-out may have brought about
                return await loop.run_in_executor(others, pages, url, token, SECONDS)

            async def busy() -> list[float]:
                reader = loop.run_in_executor(others, pages, url, token, SECONDS)
                while not reader.done():
                    await there.last_stage(followers[-1], check=False)
                return await reader

            await idle()  # which also starts the reader's process, with the priority that it shall have
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # as a worker, who gives way to those who wait for a page
            waits = await comparison(idle, busy, rounds)
        return Found(tuple(lines), ids, size / ids, waits)


async def _line(there: Followers, followers: int, turns: int) -> Line:
    """So many posts of a feed by each way, one after the other; the first of each goes by."""
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
    """How long the most followers wait, as a Markdown list of one item."""
    most = found.lines[-1]
    return (
        f"- A new post is in the timelines of {most.followers:,} followers {most.whole.seconds:.2f} s after a poll has "
        "found it."
    )


def document(found: Found) -> dict[str, Any]:
    """The figures for programs."""
    return {**asdict(found), "growth": found.growth, "slower": found.waits.slower}
