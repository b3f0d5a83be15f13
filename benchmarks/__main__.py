"""`python -m benchmarks`: start a real server, measure it against static bytes, print a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import load, report
from benchmarks.cases import Case, ask, cases, write_marks
from benchmarks.load import Load, Target
from benchmarks.parsing import parse_costs
from benchmarks.report import Line, Round
from benchmarks.world import World, world, yardstick

WARM_SECONDS = 1
SLACK = load.CONNECTIONS
"""Requests that may be under way, unseen, when a round ends."""


def main() -> int:
    """Measure and print. The exit code is 1 when an aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short rounds instead of five")
    parser.add_argument("--items", default="1000,100000,1000000", help="lengths of timelines (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE too")
    parser.add_argument(
        "--update", type=Path, nargs="+", default=[], metavar="PAGE", help="write the table between the marks of PAGE"
    )
    options = parser.parse_args()
    sizes = sorted({int(size) for size in options.items.split(",")})
    if sizes[0] < 1000:
        parser.error("a timeline has at least 1000 items here")
    rounds, seconds = (2, 1) if options.quick else (5, 2)
    print(f"Load: {'wrk' if load.has_wrk() else 'built-in generator'}, {load.CONNECTIONS} connections", file=sys.stderr)
    if not load.has_wrk():
        print("wrk isn't installed (apt install wrk, brew install wrk): the built-in one is used", file=sys.stderr)
    with world(sizes) as there:
        lines = measure(there, rounds, seconds)
        machine = describe(there, rounds, seconds)
    costs = parse_costs(20 if options.quick else 100)
    show(lines, machine, costs)
    if options.json:
        found = report.document(lines, machine, {name: cost[2] for name, cost in costs.items()})
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    for page in options.update:
        figures = f"{_machine_line(machine)}\n\n{report.table(lines)}"
        page.write_text(report.updated(page.read_text(), figures))
    missed = any(one.aim is not None and one.ratio < one.aim for one in lines)
    return int(missed or report.growth(lines).get("timeline page", 1) > 1.3)


def measure(there: World, rounds: int, seconds: float) -> list[Line]:
    """All cases on all shelves, in interleaved rounds, each next to static bytes of the same size."""
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
    """Ask once, verify the answer, and return its size; a mark is taken back."""
    if not case.marks:
        return len(ask(case, there.endpoint))
    lines = (there.folder / f"marks-{case.shelf.size}.txt").read_bytes().splitlines()
    size = len(ask(case, there.endpoint, lines[0]))
    ask(case, there.endpoint, lines[len(lines) // 2])
    return size


def _require_changes(result: Load) -> None:
    """Every mark is of an item in the other state; only requests that the last round left unseen may find it done."""
    if result.counted < result.requests - 4 * SLACK:
        raise load.LoadFailedError(f"only {result.counted} of {result.requests} marks changed something")


def _progress(number: int, rounds: int, case: Case, result: Load, beside: Load) -> None:
    stage = "warm-up" if number < 0 else f"round {number + 1}/{rounds}"
    text = f"{stage}: {case.name}, {case.shelf.size:,} items: {result.rate:,.0f}/s, {result.rate / beside.rate:.2f}"
    print(f"\r  {text:<76}", end="", file=sys.stderr, flush=True)


def describe(there: World, rounds: int, seconds: float) -> dict[str, object]:
    """What the figures were taken on."""
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


def show(lines: Sequence[Line], machine: dict[str, object], costs: dict[str, tuple[int, int, float]]) -> None:
    """Print everything."""
    print(_machine_line(machine))
    print()
    print(report.table(lines))
    print()
    for name, factor in report.growth(lines).items():
        print(f"{name}: the longest timeline costs {factor:.2f} times the shortest")
    for one in lines:
        if one.changed is not None:
            print(f"{one.name}, {one.items:,} items: {one.changed:,} of {one.requests:,} requests changed one item")
    print()
    for name, (size, entries, milliseconds) in costs.items():
        print(f"one parse: {name}, {size:,} bytes, {entries} entries: {milliseconds:.1f} ms")


def _machine_line(machine: dict[str, object]) -> str:
    named = {name: value for name, value in machine.items() if name != "system"}
    return f"{machine['system']}: " + ", ".join(f"{name} {value}" for name, value in named.items())


if __name__ == "__main__":
    sys.exit(main())
