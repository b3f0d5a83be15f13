"""`python -m benchmarks.scale`: unit costs, a prediction for many users, and its check."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchmarks import report as pages
from benchmarks.__main__ import this_machine
from benchmarks.scale import observing, polls, report
from benchmarks.scale.costs import Costs, Memory, Polling, Reading, Upkeep, Work
from benchmarks.scale.model import Habits, Keeping, Machines
from benchmarks.scale.observing import Observed
from benchmarks.scale.plan import size_for

SMALL = 500
"""Users of the population on which the unit costs are measured."""
USERS = 10_000
LEAST = 20
TABLES = ("scale costs", "scale model", "scale limits", "scale levers")
CHECK = "scale check"
"""The marks in pages between which the tables are written; the last one only after a measurement."""

Assumed = tuple[Habits, Keeping, Machines]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, predict, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--users", type=int, default=USERS, help="the population to load (default: %(default)s)")
    parser.add_argument("--small", type=int, default=SMALL, help="the one that unit costs are taken from (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="1,000 users against 100, in two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE too")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="measure nothing: take the costs from such a FILE")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=NUMBER", help=f"assume otherwise: {', '.join(_names())}"
    )
    parser.add_argument("--update", type=Path, nargs="+", default=[], metavar="PAGE", help="write the tables into PAGE")
    options = parser.parse_args(arguments)
    try:
        assumed = _assumed(options.set)
    except ValueError as error:
        parser.error(str(error))
    users, small = (1_000, 100) if options.quick else (options.users, options.small)
    if min(users, small) < LEAST:
        parser.error(f"a population has {LEAST} users at least")
    if not options.costs and not Path("/proc/self/stat").exists():
        parser.error("measuring needs Linux; --costs takes the figures of another machine")
    shown = TABLES if options.costs else (*TABLES, CHECK)
    for page in options.update:
        if why := pages.why_not_updated(page, shown):
            parser.error(f"--update: {why}")
    if options.costs:
        tables = _predicted(costs_from(json.loads(options.costs.read_text())["costs"]), assumed)
    else:
        costs, found = measure(users, small)
        tables = _predicted(costs, assumed)
        line = report.check_line(found)
        tables[CHECK] = f"{this_machine()}. {line}\n\n{report.check_table(found, costs)}"
        if options.json:
            options.json.write_text(json.dumps(report.document(costs, found), indent=1) + "\n")
    print("\n\n".join(tables.values()))
    for page in options.update:
        page.write_text(pages.all_updated(page.read_text(), tables))
    return 0


def measure(users: int, small: int) -> tuple[Costs, Observed]:
    """Measure unit costs on a small population and a publisher, and a large population."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="microsub-scale-") as name:
        folder = Path(name)
        tls = polls.handshake(folder)
        asked = polls.polled(folder / "polls")
        known = observing.sets(folder / "sets")
        units = observing.observe(size_for(small), folder / "small")
        costs = observing.costs(units, asked, tls, known)
        found = observing.observe(size_for(users), folder / "large")
    print(f"\n  {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return costs, found


def _predicted(costs: Costs, assumed: Assumed) -> dict[str, str]:
    texts = (
        report.cost_tables(costs),
        report.model_table(costs, *assumed),
        report.limits_table(costs, *assumed),
        report.levers_table(costs, *assumed),
    )
    return dict(zip(TABLES, texts, strict=True))


def costs_from(data: dict[str, Any]) -> Costs:
    """Costs, as written by `--json`."""
    parts: dict[str, Any] = {"delivery": Work(**data["delivery"])}
    kinds: dict[str, Any] = {"memory": Memory, "polling": Polling, "reading": Reading, "upkeep": Upkeep}
    for name, kind in kinds.items():
        values = {key: Work(**value) if isinstance(value, dict) else value for key, value in data[name].items()}
        parts[name] = kind(**values)
    return Costs(**parts)


def _names() -> list[str]:
    return [one.name for kind in (Habits, Keeping, Machines) for one in fields(kind) if one.name != "kinds"]


def _assumed(texts: Sequence[str]) -> Assumed:
    """The assumptions, but for those that are given. Raises ValueError."""
    given: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in _names():
            raise ValueError(f"'{name}' is nothing that is assumed; there are {', '.join(_names())}")
        given[name] = float(value)
    habits, keeping, machines = (
        replace(kind(), **{one.name: given[one.name] for one in fields(kind) if one.name in given})  # type: ignore[arg-type]
        for kind in (Habits, Keeping, Machines)
    )
    return habits, keeping, machines  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
