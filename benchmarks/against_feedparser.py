"""Parsing, sanitising and normalising compared with `feedparser.parse` with its defaults, in one run and one process.

Our side does every step: sniffing, parsing, sanitising, absolute URLs, text, post types. feedparser's side is one call
of the library. The real feeds are in a folder, by default the corpus next to the clone; one HTML-heavy document is
generated. `python -m benchmarks.against_feedparser [FOLDER]` measures only this.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import feedparser

from benchmarks.report import aligned
from microsub.formats.parse import parse

RUNS = 7
CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "feeds"
"""Real feeds, which this repository may not publish: a folder next to the clone, which may be missing."""

AIM_FEEDS, AIM_HTML = 3.0, 5.5


@dataclass(frozen=True, slots=True)
class Line:
    """One set of documents: milliseconds of processor time for all of them, medians over the runs.

    `ratio` is the median of each run's ratio: our speed as a multiple of feedparser's.
    """

    name: str
    documents: int
    size: int
    theirs: float
    ours: float
    ratio: float
    lowest: float
    highest: float
    aim: float

    @property
    def met(self) -> bool:
        """Whether our side reached the required speed."""
        return self.ratio >= self.aim


def html_heavy(entries: int = 30) -> bytes:
    """An RSS feed with long articles in HTML."""
    paragraph = (
        '<p class="x" style="a">The <em>harbour</em> was <a href="/tide?x=1&amp;y=2">late</a>, and so was '
        "<strong>the <code>ferry</code></strong>.</p><ul><li>gulls</li><li>ropes</li></ul>"
        '<figure><img src="/pier.jpg" alt="the pier" width="600" height="400"><figcaption>Pier</figcaption></figure>'
    )
    items = "".join(
        f"<item><title>Day {n}</title><link>https://harbour.example/{n}</link><guid>{n}</guid>"
        f"<description><![CDATA[{paragraph * 12}]]></description></item>"
        for n in range(entries)
    )
    return f"<rss version='2.0'><channel><title>Harbour</title>{items}</channel></rss>".encode()


def line(name: str, documents: Sequence[bytes], aim: float, runs: int = RUNS) -> Line:
    """Measure one set of documents. The two sides alternate, so that noise affects both equally."""
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(runs):
        theirs.append(_milliseconds(lambda: [feedparser.parse(body) for body in documents]))
        ours.append(_milliseconds(lambda: [parse(body, "https://reader.example/", None) for body in documents]))
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    return Line(
        name=name,
        documents=len(documents),
        size=sum(map(len, documents)),
        theirs=median(theirs),
        ours=median(ours),
        ratio=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        aim=aim,
    )


def _milliseconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000


def compare(folder: Path = CORPUS, runs: int = RUNS) -> list[Line]:
    """Measure the feeds of the folder, if it exists, and the HTML-heavy document."""
    found = []
    if folder.is_dir():
        found.append(line("real feeds", [path.read_bytes() for path in sorted(folder.iterdir())], AIM_FEEDS, runs))
    found.append(line("an HTML-heavy feed", [html_heavy()], AIM_HTML, runs))
    return found


HEAD = ("", "documents", "KB", "feedparser ms", "ours ms", "times as fast", "(min-max)", "aim")


def table(lines: Sequence[Line]) -> str:
    """The comparison as a Markdown table."""
    rows = [
        (
            one.name,
            f"{one.documents}",
            f"{one.size / 1000:,.0f}",
            f"{one.theirs:.1f}",
            f"{one.ours:.1f}",
            f"{one.ratio:.2f}",
            f"({one.lowest:.2f}-{one.highest:.2f})",
            f"{one.aim:g} {'met' if one.met else 'MISSED'}",
        )
        for one in lines
    ]
    return aligned([HEAD, *rows])


def in_short(lines: Sequence[Line]) -> str:
    """The ratios as a Markdown list of one item."""
    found = " and ".join(f"{one.ratio:.1f} times as fast on {one.name}" for one in lines)
    other = "[feedparser](https://github.com/kurtmckee/feedparser)"
    return f"- Parsing, sanitising and converting to jf2, compared with {other}: {found}."


def left_out(folder: Path = CORPUS) -> str:
    """The reason why the comparison has no real feeds; empty if it has some."""
    return "" if folder.is_dir() else f"Real feeds are left out: there is no folder {folder}."


def document(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The figures for programs."""
    return [asdict(one) for one in lines]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS, help="a folder of feeds (default: %(default)s)")
    chosen = parser.parse_args().folder
    sys.stdout.write("\n".join(filter(None, (table(compare(chosen)), left_out(chosen)))) + "\n")
