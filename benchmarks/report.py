"""Figures from rounds: medians, ratios to static bytes of the same round, and a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
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

    `ratio` is the median of each round's ratio to static bytes, `lowest` and `highest` are the extremes; `changed` is
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
    """By case: how many times slower it is on the longest timeline than on the shortest, by ratio to static bytes."""
    shortest, longest = min(one.items for one in lines), max(one.items for one in lines)
    if shortest == longest:
        return {}
    by = {(one.name, one.items): one.ratio for one in lines}
    return {name: by[name, shortest] / by[name, longest] for name, items in by if items == shortest}


PAGE, FOREIGN = "timeline page", "page, foreign token"
LEAST_OF_PAGE = 0.95
"""The minimum speed of a page with another provider's token, relative to our own token: at most 5 % slower."""


def beside_page(lines: Sequence[Line]) -> float | None:
    """The speed of a page with another provider's token, relative to our own token: the median over all lengths.

    None if one of the two wasn't measured.
    """
    by = {(one.name, one.items): one.ratio for one in lines}
    found = [
        by[FOREIGN, items] / ratio for (name, items), ratio in by.items() if name == PAGE and (FOREIGN, items) in by
    ]
    return median(found) if found else None


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
    return aligned(rows)


_IN_SHORT = {
    PAGE: "A page of 20 posts",
    "channel list": "The list of 50 channels, with counts",
    "mark read": "Marking one item as read",
}


def in_short(lines: Sequence[Line]) -> str:
    """The figures of the most frequent requests on the longest timeline, as a Markdown list."""
    longest = max(one.items for one in lines)
    return "\n".join(
        f"- {_IN_SHORT[one.name]}, in timelines of {one.items:,}: {one.rate:,.0f} requests a second, 99 % within "
        f"{one.p99:.1f} ms; {one.ratio:.2f} of the rate at which the same stack serves static bytes."
        for one in lines
        if one.items == longest and one.name in _IN_SHORT
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the header first, as a Markdown table that is aligned in plain text too."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = [_row(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|"
    return "\n".join([text[0], rule, *text[1:]])


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"


def updated(page: str, figures: str, name: str = "bench") -> str:
    """A documentation page with new figures between its marks of that name. Raises ValueError if it has none."""
    first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"found no '{first} … {last}'")
    return f"{head}{first}\n{figures}\n{last}{tail}"


def why_not_updated(page: Path, names: Sequence[str]) -> str | None:
    """Why a page has no marks for any of these names, as an error message; None if it has.

    Call it before measuring, so that minutes of work aren't lost because marks are missing.
    """
    try:
        text = page.read_text()
    except (OSError, UnicodeDecodeError) as error:
        return f"{page} can't be read: {getattr(error, 'strerror', None) or 'it is no text'}"
    begun = [name for name in names if f"<!-- {name} -->" in text]
    if not begun:
        return f"{page} has no marks for what is measured; expected {' or '.join(_marks(name) for name in names)}"
    halved = [name for name in begun if f"<!-- /{name} -->" not in text.partition(f"<!-- {name} -->")[2]]
    return f"{page}: found the first mark alone, expected {' and '.join(map(_marks, halved))}" if halved else None


def _marks(name: str) -> str:
    return f"'<!-- {name} --> … <!-- /{name} -->'"


def all_updated(page: str, figures: Mapping[str, str]) -> str:
    """A page with new figures for all parts for which it has marks. Raises ValueError if it has no marks."""
    known = [name for name in figures if f"<!-- {name} -->" in page]
    if not known:
        raise ValueError(f"found no marks of {', '.join(figures)}")
    for name in known:
        page = updated(page, figures[name], name)
    return page


def document(lines: Sequence[Line], machine: dict[str, Any]) -> dict[str, Any]:
    """All measurements against static bytes as one JSON object."""
    return {"machine": machine, "lines": [asdict(one) for one in lines], "growth": growth(lines)}
