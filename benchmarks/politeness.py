"""`python -m benchmarks.politeness`: thirty days of polling, simulated in a minute, compared with a fixed schedule.

The product's own planning functions poll ten thousand feeds with different habits; random numbers are seeded, the
clock is virtual.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.publishers import DAY, HABITS, HOSTER, habit_of, hosts_of
from benchmarks.simulation import Tally, adaptive, fixed, play
from microsub.polling.plan import PollPolicy

_CHUNK = 200


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the simulation. `every` is the fixed schedule's interval in minutes."""

    feeds: int = 10_000
    days: int = 30
    seed: int = 1
    every: float = 60

    @property
    def seconds(self) -> float:
        """The simulated time."""
        return self.days * DAY


@dataclass(frozen=True, slots=True)
class Compared:
    """The same publishers under both schedules."""

    size: Size
    adaptive: Tally
    fixed: Tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and print."""
    usual = Size()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.politeness", description=__doc__)
    parser.add_argument("--feeds", type=int, default=usual.feeds, help="default: %(default)s")
    parser.add_argument("--days", type=int, default=usual.days, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=usual.seed, help="default: %(default)s")
    parser.add_argument(
        "--every", type=float, default=usual.every, metavar="MINUTES", help="the fixed schedule (default: %(default)s)"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE too")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the tables between the marks of PAGE")
    options = parser.parse_args(arguments)
    if options.update and (why := report.why_not_updated(options.update, ["bench"])):
        parser.error(f"--update: {why}")
    if options.feeds < len(HABITS) or options.days < 3:
        parser.error(f"{len(HABITS)} feeds and 3 days are the least")
    size = Size(options.feeds, options.days, options.seed, options.every)
    begun = time.perf_counter()
    found = compare(size, options.processes)
    print("\n".join(table(found)))
    told = f"{size.feeds:,} feeds, {size.days} days, seed {size.seed}"
    print(f"\n{told}; {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    if options.update:
        figures = "\n".join([f"{told}.", "", *table(found)])
        options.update.write_text(report.updated(options.update.read_text(), figures))
    if options.json:
        options.json.write_text(json.dumps(document(found), indent=1) + "\n")
    return 0


def compare(size: Size, processes: int = 1) -> Compared:
    """Simulate all hosts under both schedules. The result doesn't depend on the number of processes."""
    together = [number for number in range(size.feeds) if habit_of(number, size.feeds) is HOSTER]
    alone = sorted(set(range(size.feeds)) - set(together))
    jobs = [together, *(alone[at : at + _CHUNK] for at in range(0, len(alone), _CHUNK))]
    found = Compared(size, Tally(), Tally())
    if processes == 1:
        _gather(found, (_job(numbers, size) for numbers in jobs))
    else:
        with ProcessPoolExecutor(processes) as pool:
            _gather(found, pool.map(_job, jobs, [size] * len(jobs)))
    return found


def _gather(found: Compared, pairs: Iterable[tuple[Tally, Tally]]) -> None:
    for ours, theirs in pairs:
        found.adaptive.add(ours)
        found.fixed.add(theirs)


def _job(numbers: Sequence[int], size: Size) -> tuple[Tally, Tally]:
    end = size.seconds
    return (
        play(hosts_of(numbers, size.feeds, end, size.seed), adaptive(PollPolicy()), end, push=True),
        play(hosts_of(numbers, size.feeds, end, size.seed), fixed(size.every * 60), end, push=False),
    )


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which that part of the sorted `values` is; 0 if there are none."""
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def quantiles(late: Iterable[float]) -> tuple[float, float, float]:
    """Median, p90 and p99."""
    ordered = array("d", sorted(late))
    return quantile(ordered, 0.5), quantile(ordered, 0.9), quantile(ordered, 0.99)


def document(found: Compared) -> dict[str, object]:
    """All figures: seconds of lateness, requests."""
    return {
        "feeds": found.size.feeds,
        "days": found.size.days,
        "seed": found.size.seed,
        **{name: _figures(tally, found.size) for name, tally in _both(found)},
    }


def _figures(tally: Tally, size: Size) -> dict[str, object]:
    return {
        "requests per day": tally.total / size.days,
        "conditional": tally.conditional / tally.total,
        "not modified": tally.not_modified / tally.total,
        "failures": tally.failures,
        "busiest host, day": tally.busiest_day,
        "busiest host, minute": tally.busiest_minute,
        "closest requests": tally.closest,
        "asked after 410": tally.after_gone,
        "asked before Retry-After": tally.too_early,
        "habits": {
            habit.name: {
                "feeds": tally.feeds[habit.name],
                "requests per feed and day": tally.requests[habit.name] / tally.feeds[habit.name] / size.days,
                "lateness": quantiles(tally.late.get(habit.name, ())),
            }
            for habit in HABITS
            if tally.feeds[habit.name]
        },
    }


def active(tally: Tally) -> list[float]:
    """Lateness of all posts of active feeds."""
    return [late for habit in HABITS if habit.active for late in tally.late.get(habit.name, ())]


def table(found: Compared) -> list[str]:
    """The figures as two Markdown tables."""
    ours, theirs, days = found.adaptive, found.fixed, found.size.days
    lines = [f"| | adaptive | every {found.size.every:g} minutes |", "|---|--:|--:|"]
    for name, ask in _rows(days):
        lines.append(f"| {name} | {ask(ours)} | {ask(theirs)} |")
    lines += [
        "",
        "| habit | feeds | requests per feed and day | fixed | posts late by, median / p90 / p99 | fixed |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for habit in HABITS:
        cells = [habit.name, f"{ours.feeds[habit.name]:,}"]
        for tell in (_rate, _late_by):
            cells += [tell(ours, habit.name, days), tell(theirs, habit.name, days)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _rows(days: int) -> tuple[tuple[str, Callable[[Tally], str]], ...]:
    return (
        ("requests per day", lambda tally: f"{tally.total / days:,.0f}"),
        ("of these conditional", lambda tally: f"{tally.conditional / tally.total:.1%}"),
        ("answered with 304", lambda tally: f"{tally.not_modified / tally.total:.1%}"),
        ("answered with 503 or 410", lambda tally: f"{tally.failures / days:,.0f} a day"),
        ("posts of active feeds, late by, median / p90 / p99", lambda tally: _lateness(active(tally))),
        ("busiest host, requests on its busiest day", lambda tally: f"{tally.busiest_day:,}"),
        ("busiest host, requests in its busiest minute", lambda tally: f"{tally.busiest_minute}"),
        ("shortest time from request to request, one host", lambda tally: f"{tally.closest:.2f} s"),
        ("requests after a 410", lambda tally: f"{tally.after_gone:,}"),
        ("requests before a `Retry-After` was over", lambda tally: f"{tally.too_early:,}"),
    )


def _rate(tally: Tally, habit: str, days: int) -> str:
    return f"{tally.requests[habit] / max(1, tally.feeds[habit]) / days:.1f}"


def _late_by(tally: Tally, habit: str, _days: int) -> str:
    return _lateness(tally.late.get(habit, ()))


def _lateness(late: Sequence[float]) -> str:
    return " / ".join(map(_span, quantiles(late))) if late else "–"


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _both(found: Compared) -> tuple[tuple[str, Tally], tuple[str, Tally]]:
    return ("adaptive", found.adaptive), ("fixed", found.fixed)


if __name__ == "__main__":
    sys.exit(main())
