"""Figures from turns: medians, ratios of the two programs' turns in the same repeat, and tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.report import aligned


@dataclass(frozen=True, slots=True)
class Step:
    """One of the four refreshes. `mode` is the publisher's; `status` is the expected one of all replies; `aim` is our
    worker's required speed, as a multiple of the other program's.
    """

    name: str
    mode: str
    status: int
    aim: float


STEPS = (
    Step("first load", "validators", 200, 2),
    Step("all 304", "validators", 304, 1),
    Step("unchanged, no validators", "bare", 200, 10),
    Step("one new entry each", "news", 200, 2),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One refresh of all feeds by one program: wall seconds, and seconds of processor time of its own processes.

    `beside` is the processor time of the database's process, if it has one.
    """

    seconds: float
    processor: float
    beside: float = 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """The turns of both programs in the same step of the same repeat."""

    ours: Turn
    theirs: Turn


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one step: medians of seconds over the repeats; `ratio` is the median of each repeat's ratio."""

    name: str
    feeds: int
    ours: float
    ours_processor: float
    redis_processor: float
    theirs: float
    theirs_processor: float
    workers: int
    ratio: float
    lowest: float
    highest: float
    aim: float

    @property
    def met(self) -> bool:
        """Whether our worker reached the required speed."""
        return self.ratio >= self.aim


def line(step: Step, feeds: int, workers: int, pairs: Sequence[Pair]) -> Line:
    """Sum up the repeats of one step, in which the other program had that many threads."""
    ratios = [pair.theirs.seconds / pair.ours.seconds for pair in pairs]
    return Line(
        name=step.name,
        feeds=feeds,
        ours=median(pair.ours.seconds for pair in pairs),
        ours_processor=median(pair.ours.processor for pair in pairs),
        redis_processor=median(pair.ours.beside for pair in pairs),
        theirs=median(pair.theirs.seconds for pair in pairs),
        theirs_processor=median(pair.theirs.processor for pair in pairs),
        workers=workers,
        ratio=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        aim=step.aim,
    )


def fastest(trials: Mapping[int, Sequence[float]]) -> list[int]:
    """The best number of threads for each step, given the seconds of each step by number of threads."""
    steps = range(len(next(iter(trials.values()))))
    return [min(trials, key=lambda workers: trials[workers][step]) for step in steps]


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak memory of each process over all repeats, in bytes. `parsers` are our worker's children."""

    worker: int
    parsers: int
    redis: int
    reader: int


def most(found: Sequence[Memory]) -> Memory:
    """The peaks over all repeats."""
    return Memory(*(max(getattr(one, name) for one in found) for name in ("worker", "parsers", "redis", "reader")))


HEAD = (
    "",
    "ours s",
    "feeds/s",
    "cpu s",
    "Redis cpu s",
    "reader s",
    "feeds/s",
    "cpu s",
    "times as fast",
    "(min-max)",
    "aim",
)


def table(lines: Sequence[Line]) -> str:
    """The figures as a Markdown table."""
    rows = [HEAD]
    for one in lines:
        rows.append(
            (
                one.name,
                f"{one.ours:.2f}",
                f"{one.feeds / one.ours:,.0f}",
                f"{one.ours_processor:.2f}",
                f"{one.redis_processor:.2f}",
                f"{one.theirs:.2f}",
                f"{one.feeds / one.theirs:,.0f}",
                f"{one.theirs_processor:.2f}",
                f"{one.ratio:.1f}",
                f"({one.lowest:.1f}-{one.highest:.1f})",
                f"{one.aim:g} {'met' if one.met else 'MISSED'}",
            )
        )
    return aligned(rows)


def in_short(lines: Sequence[Line]) -> str:
    """The ratios as a Markdown list of one item."""
    found = ", ".join(f"{one.ratio:.1f} ({one.name})" for one in lines)
    return (
        f"- Fetching, parsing and storing {lines[0].feeds} feeds, compared with "
        f"[reader](https://github.com/lemon24/reader), a good feed library on SQLite; times as fast: {found}."
    )


def memory_line(memory: Memory) -> str:
    """The memory peaks as a sentence."""
    return (
        f"Peak memory: our worker {_mib(memory.worker)}, its parser process {_mib(memory.parsers) or 'not needed'}, "
        f"Redis {_mib(memory.redis)}; reader {_mib(memory.reader)}."
    )


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.0f} MiB" if size else ""


def document(lines: Sequence[Line], memory: Memory) -> dict[str, Any]:
    """Everything as one JSON object."""
    return {"lines": [asdict(one) for one in lines], "peak_bytes": asdict(memory)}
