"""`python -m benchmarks`: a real server against static bytes, parsing, refreshing, fan-out, hubs; prints tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import (
    against_feedparser,
    busy,
    fanout,
    large_account,
    load,
    pushing,
    report,
    searching,
    streams,
    workers,
)
from benchmarks.cases import Case, ask, cases, write_marks
from benchmarks.load import Load, Target
from benchmarks.parsing import parse_costs
from benchmarks.refresh import compare
from benchmarks.refresh import report as refresh_report
from benchmarks.report import Line, Round
from benchmarks.world import World, world, yardstick

WARM_SECONDS = 1
SLACK = load.CONNECTIONS
"""Maximum number of requests that are open, and therefore uncounted, when a round ends."""


PARTS = {
    "pages": "bench",
    "parsing": "bench parsing",
    "refresh": "bench refresh",
    "fanout": "bench fanout",
    "workers": "bench workers",
    "busy": "bench busy",
    "search": "bench search",
    "push": "bench push",
    "streams": "bench streams",
    "account": "bench account",
}
"""The parts of the benchmark in order, and the marks of their results in the documentation."""

SHORT = " in short"


@dataclass(frozen=True, slots=True)
class Part:
    """The result of a part of the benchmark.

    `text` is for the terminal; `figures` is written between the marks called `mark` in documentation pages; `short`, a
    list of the most important figures, between the marks of the same name followed by `SHORT`; `data` is for programs;
    `met` is whether all aims were reached.
    """

    text: str
    data: dict[str, Any]
    met: bool = True
    mark: str | None = None
    figures: str = ""
    short: str = ""

    @property
    def marked(self) -> dict[str, str]:
        """The texts for the documentation, by the names of their marks."""
        found = {} if self.mark is None else {self.mark: self.figures, self.mark + SHORT: self.short}
        return {name: text for name, text in found.items() if text}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. The exit code is 1 if an aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="few short rounds")
    parser.add_argument("--items", default="1000,100000,1000000", help="lengths of timelines (default: %(default)s)")
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="FOLDER",
        default=against_feedparser.CORPUS,
        help="real feeds to parse beside feedparser (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE too")
    parser.add_argument(
        "--update", type=Path, nargs="+", default=[], metavar="PAGE", help="write the tables between the marks of PAGE"
    )
    options = parser.parse_args(arguments)
    sizes = sorted({int(size) for size in options.items.split(",")})
    if sizes[0] < 1000:
        parser.error("a timeline has at least 1000 items here")
    wanted = options.parts.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    marks = [name for part, mark in PARTS.items() if part in wanted for name in (mark, mark + SHORT)]
    for page in options.update:
        if why := report.why_not_updated(page, marks):
            parser.error(f"--update: {why}")
    acts: dict[str, Callable[[], Part]] = {
        "pages": lambda: pages(sizes, quick=options.quick),
        "parsing": lambda: parsing(options.corpus, quick=options.quick),
        "refresh": lambda: refreshing(quick=options.quick),
        "fanout": lambda: fanning_out(quick=options.quick),
        "workers": lambda: working_together(quick=options.quick),
        "busy": lambda: reading_meanwhile(quick=options.quick),
        "search": lambda: search(quick=options.quick),
        "push": lambda: push(quick=options.quick),
        "streams": lambda: listening(quick=options.quick),
        "account": lambda: following_much(quick=options.quick),
    }
    measured: dict[str, Part] = {}
    for name in (name for name in PARTS if name in wanted):
        measured[name] = acts[name]()
        print(measured[name].text, end="\n\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps({name: part.data for name, part in measured.items()}, indent=1) + "\n")
    figures = {name: text for part in measured.values() for name, text in part.marked.items()}
    for page in options.update:
        if report.why_not_updated(page, list(figures)):
            print(f"{page} stays as it is: what it shows was left out here", file=sys.stderr)
        else:
            page.write_text(report.all_updated(page.read_text(), figures))
    return int(not all(part.met for part in measured.values()))


def pages(sizes: Sequence[int], *, quick: bool) -> Part:
    """Measure readers' requests against static bytes."""
    rounds, seconds = (2, 1) if quick else (5, 2)
    print(f"Load: {'wrk' if load.has_wrk() else 'built-in generator'}, {load.CONNECTIONS} connections", file=sys.stderr)
    if not load.has_wrk():
        print("wrk isn't installed (apt install wrk, brew install wrk): the built-in one is used", file=sys.stderr)
    with world(sizes) as there:
        lines = measure(there, rounds, seconds)
        machine = describe(there, rounds, seconds)
    missed = any(one.aim is not None and one.ratio < one.aim for one in lines)
    return Part(
        text=as_text(lines, machine),
        data=report.document(lines, machine),
        met=not missed
        and report.growth(lines).get(report.PAGE, 1) <= 1.3
        and (report.beside_page(lines) or 1) >= report.LEAST_OF_PAGE,
        mark=PARTS["pages"],
        figures=f"{_machine_line(machine)}\n\n{report.table(lines)}",
        short=report.in_short(lines),
    )


def parsing(corpus: Path, *, quick: bool) -> Part:
    """Measure the cost of one parse, and parsing compared with feedparser."""
    costs = parse_costs(20 if quick else 100)
    lines = [
        f"one parse: {name}, {size:,} bytes, {entries} entries: {milliseconds:.1f} ms"
        for name, (size, entries, milliseconds) in costs.items()
    ]
    found = against_feedparser.compare(corpus, 3 if quick else 15)
    figures = f"{this_machine()}, feedparser {version('feedparser')}\n\n{against_feedparser.table(found)}"
    if why := against_feedparser.left_out(corpus):
        figures += f"\n\n{why}"
    return Part(
        text="\n".join([*lines, "", figures]),
        data={
            "parse_milliseconds": {name: cost[2] for name, cost in costs.items()},
            "beside_feedparser": against_feedparser.document(found),
        },
        met=all(one.met for one in found),
        mark=PARTS["parsing"],
        figures=figures,
        short=against_feedparser.in_short(found),
    )


def refreshing(*, quick: bool) -> Part:
    """Measure refreshing 200 feeds with our worker and with `reader`."""
    if not compare.can_compare():
        return Part("refresh: left out; it needs Linux, and `reader`, which `make bench` installs", {})
    found = compare.compare(1 if quick else 5)
    figures = f"{this_machine()}, reader {found.reader}\n\n{refresh_report.table(found.lines)}\n\n"
    figures += refresh_report.memory_line(found.memory)
    return Part(
        text=figures,
        data=refresh_report.document(found.lines, found.memory),
        met=all(one.met for one in found.lines),
        mark=PARTS["refresh"],
        figures=figures,
        short=refresh_report.in_short(found.lines),
    )


def fanning_out(*, quick: bool) -> Part:
    """Measure the time to deliver one post to all followers."""
    found = fanout.measure(quick=quick)
    figures = f"{this_machine()}\n\n{fanout.text(found)}"
    return Part(
        text=figures,
        data=fanout.document(found),
        met=found.met,
        mark=PARTS["fanout"],
        figures=figures,
        short=fanout.in_short(found),
    )


def working_together(*, quick: bool) -> Part:
    """Compare two workers with one."""
    if not compare.is_linux():
        return Part("workers: left out; it needs Linux", {})
    found = workers.measure(quick=quick)
    figures = f"{this_machine()}\n\n{workers.text(found)}"
    return Part(figures, workers.document(found), met=found.met, mark=PARTS["workers"], figures=figures)


def reading_meanwhile(*, quick: bool) -> Part:
    """Measure readers' waiting times while feeds are polled."""
    if not compare.is_linux():
        return Part("busy: left out; it needs Linux", {})
    found = busy.measure(quick=quick)
    figures = f"{this_machine()}\n\n{busy.text(found)}"
    return Part(
        figures,
        busy.document(found),
        met=all(one.met is not False for one in found),
        mark=PARTS["busy"],
        figures=figures,
    )


def search(*, quick: bool) -> Part:
    """Measure the cost of the index of posts, and the time of searches."""
    if not compare.is_linux():
        return Part("search: left out; it needs Linux", {})
    found = searching.measure(quick=quick)
    figures = f"{this_machine()}\n\n{searching.text(found)}"
    return Part(figures, searching.document(found), met=found.met, mark=PARTS["search"], figures=figures)


def push(*, quick: bool) -> Part:
    """Measure the time from a hub's delivery until the post is in timelines."""
    found = pushing.measure(quick=quick)
    figures = f"{this_machine()}\n\n{pushing.text(found)}"
    return Part(figures, pushing.document(found), met=found.met, mark=PARTS["push"], figures=figures)


def listening(*, quick: bool) -> Part:
    """Measure the cost of a thousand open event streams."""
    if not compare.is_linux():
        return Part("streams: left out; it needs Linux", {})
    found = streams.measure(quick=quick)
    figures = f"{this_machine()}\n\n{streams.text(found)}"
    return Part(figures, streams.document(found), met=found.met, mark=PARTS["streams"], figures=figures)


def following_much(*, quick: bool) -> Part:
    """Measure the web interface for a user with many follows."""
    found = large_account.measure(quick=quick)
    figures = f"{this_machine()}\n\n{large_account.text(found)}"
    return Part(figures, large_account.document(found), met=found.met, mark=PARTS["account"], figures=figures)


def measure(there: World, rounds: int, seconds: float) -> list[Line]:
    """Measure all cases on all shelves, in interleaved rounds, each next to static bytes of the same size."""
    asked = [case for shelf in there.shelves for case in cases(shelf)]
    marks = {shelf.size: write_marks(shelf, there.folder) for shelf in there.shelves}
    sizes = {case: _checked(case, there) for case in asked}
    skips = {shelf.size: 0 for shelf in there.shelves}
    found: dict[Case, list[Round]] = {case: [] for case in asked}
    with yardstick(sorted(set(sizes.values())), there.folder) as static:
        for number in range(-1, rounds):
            for case in asked:
                length = WARM_SECONDS if number < 0 else seconds
                beside = load.run(Target(f"{static}/{sizes[case]}"), length)
                skip = skips[case.shelf.size]
                result = load.run(case.target(there.endpoint, there.folder, skip), length)
                if case.marks:
                    _require_changes(result)
                    skips[case.shelf.size] = (skip + result.requests + SLACK) % marks[case.shelf.size]
                if number >= 0:
                    found[case].append(Round(result, beside))
                _progress(number, rounds, case, result, beside)
        for case in asked:
            if not case.marks and case.name != "channel list":  # marking has changed the counts
                ask(case, there.endpoint)
    print(file=sys.stderr)
    return [
        report.line(case.name, case.shelf.size, sizes[case], found[case], case.aim, counts=case.marks) for case in asked
    ]


def _checked(case: Case, there: World) -> int:
    """Send one request, verify the reply and return its size. A mark is undone afterwards."""
    if not case.marks:
        return len(ask(case, there.endpoint))
    lines = (there.folder / f"marks-{case.shelf.size}.txt").read_bytes().splitlines()
    size = len(ask(case, there.endpoint, lines[0]))
    ask(case, there.endpoint, lines[len(lines) // 2])
    return size


def _require_changes(result: Load) -> None:
    """Check that every mark changed an item, except marks of the last round that aren't counted yet."""
    if result.counted < result.requests - 4 * SLACK:
        raise load.LoadFailedError(f"only {result.counted} of {result.requests} marks changed something")


def _progress(number: int, rounds: int, case: Case, result: Load, beside: Load) -> None:
    stage = "warm-up" if number < 0 else f"round {number + 1}/{rounds}"
    text = f"{stage}: {case.name}, {case.shelf.size:,} items: {result.rate:,.0f}/s, {result.rate / beside.rate:.2f}"
    print(f"\r  {text:<76}", end="", file=sys.stderr, flush=True)


def describe(there: World, rounds: int, seconds: float) -> dict[str, object]:
    """The machine and versions of the measurement."""
    return {
        "python": platform.python_version(),
        "redis": there.redis_version,
        "redis_memory": there.memory,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": "wrk" if load.has_wrk() else "built-in",
        "connections": load.CONNECTIONS,
        "rounds": rounds,
        "seconds": seconds,
    }


def as_text(lines: Sequence[Line], machine: dict[str, object]) -> str:
    """All measurements against static bytes, for the terminal."""
    found = [_machine_line(machine), "", report.table(lines), ""]
    for name, factor in report.growth(lines).items():
        found.append(f"{name}: the longest timeline costs {factor:.2f} times the shortest")
    beside = report.beside_page(lines)
    if beside is not None:
        met = "met" if beside >= report.LEAST_OF_PAGE else "MISSED"
        found.append(f"a page by a foreign token, of one by ours: {beside:.2f} of {report.LEAST_OF_PAGE} {met}")
    for one in lines:
        if one.changed is not None:
            found.append(
                f"{one.name}, {one.items:,} items: {one.changed:,} of {one.requests:,} requests changed one item"
            )
    return "\n".join(found)


def this_machine() -> str:
    """The machine and versions of the measurement, in one line."""
    return f"{platform.system()} {platform.machine()}: python {platform.python_version()}, processors {os.cpu_count()}"


def _machine_line(machine: dict[str, object]) -> str:
    named = {name: value for name, value in machine.items() if name != "system"}
    return f"{machine['system']}: " + ", ".join(f"{name} {value}" for name, value in named.items())


if __name__ == "__main__":
    sys.exit(main())
