"""From rounds to figures: medians, ratios to static bytes of the same round, and a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.load import Load


@dataclass(frozen=True, slots=True)
class Round:
    """One measurement of a case and the static bytes measured next to it."""

    case: Load
    static: Load


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one case on one timeline: medians over the rounds, latencies in milliseconds.

    `ratio` is the median of the rounds' own ratios to static bytes, `lowest` and `highest` the extremes; `changed` is
    how many of `requests` reported a change, for the case that writes.
    """

    name: str
    items: int
    size: int
    rate: float
    p50: float
    p99: float
    ratio: float
    lowest: float
    highest: float
    static_rate: float
    aim: float | None
    requests: int
    changed: int | None


def line(name: str, items: int, size: int, rounds: Sequence[Round], aim: float | None, *, counts: bool) -> Line:
    """Sum up the rounds of one case whose replies are `size` bytes long."""
    ratios = [one.case.rate / one.static.rate for one in rounds]
    return Line(
        name=name,
        items=items,
        size=size,
        rate=median(one.case.rate for one in rounds),
        p50=median(one.case.p50 for one in rounds),
        p99=median(one.case.p99 for one in rounds),
        ratio=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        static_rate=median(one.static.rate for one in rounds),
        aim=aim,
        requests=sum(one.case.requests for one in rounds),
        changed=sum(one.case.counted for one in rounds) if counts else None,
    )


def growth(lines: Sequence[Line]) -> dict[str, float]:
    """For each case: how many times slower it is on the longest timeline than on the shortest, by ratio to static."""
    shortest, longest = min(one.items for one in lines), max(one.items for one in lines)
    if shortest == longest:
        return {}
    by = {(one.name, one.items): one.ratio for one in lines}
    return {name: by[name, shortest] / by[name, longest] for name, items in by if items == shortest}


HEAD = ("", "items", "bytes", "requests/s", "p50 ms", "p99 ms", "of static", "(min-max)", "static/s", "aim")


def table(lines: Sequence[Line]) -> str:
    """The figures as a Markdown table, which reads well in a terminal too."""
    rows = [HEAD]
    for one in lines:
        aim = "" if one.aim is None else f"{one.aim:.2f} {'met' if one.ratio >= one.aim else 'MISSED'}"
        rows.append(
            (
                one.name,
                f"{one.items:,}",
                f"{one.size:,}",
                f"{one.rate:,.0f}",
                f"{one.p50:.2f}",
                f"{one.p99:.2f}",
                f"{one.ratio:.2f}",
                f"({one.lowest:.2f}-{one.highest:.2f})",
                f"{one.static_rate:,.0f}",
                aim,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    text = [_row(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|"
    return "\n".join([text[0], rule, *text[1:]])


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"


BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def updated(page: str, figures: str) -> str:
    """A page of the documentation with new figures between its marks. Raises ValueError when it has none."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"found no '{BEGIN} … {END}'")
    return f"{head}{BEGIN}\n{figures}\n{END}{tail}"


def document(lines: Sequence[Line], machine: dict[str, Any], parsing: dict[str, float]) -> dict[str, Any]:
    """Everything as one JSON object."""
    return {
        "machine": machine,
        "lines": [asdict(one) for one in lines],
        "growth": growth(lines),
        "parse_milliseconds": parsing,
    }
