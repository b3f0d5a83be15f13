"""Parsing, sanitising and normalising beside `feedparser.parse` with its defaults, in one run and one process.

Our side does all of it: sniffing, parsing, cleaning, absolute URLs, text, post types. Theirs is what the library does
by itself. `python -m benchmarks.against_feedparser FOLDER` takes the feeds of a folder; one HTML-heavy document is made
here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import feedparser

from microsub.formats.parse import parse

RUNS = 7


def html_heavy(entries: int = 30) -> bytes:
    """An RSS feed whose entries are long marked-up articles."""
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


def ratio(documents: Sequence[bytes], runs: int = RUNS) -> tuple[float, float]:
    """Median milliseconds for all documents: theirs, ours. The two take turns, so that noise hits both alike."""
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(runs):
        theirs.append(_milliseconds(lambda: [feedparser.parse(body) for body in documents]))
        ours.append(_milliseconds(lambda: [parse(body, "https://reader.example/", None) for body in documents]))
    return median(theirs), median(ours)


def _milliseconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000


def table(folder: Path | None) -> str:
    """The comparison as text."""
    sets: dict[str, list[bytes]] = {"HTML-heavy feed, 30 entries": [html_heavy()]}
    if folder is not None and folder.is_dir():
        files = sorted(folder.iterdir())
        sets = {f"{len(files)} real feeds": [path.read_bytes() for path in files]} | sets
    lines = [f"{'':<30}{'feedparser':>12}{'ours':>10}{'ratio':>8}"]
    for name, documents in sets.items():
        theirs, ours = ratio(documents)
        lines.append(f"{name:<30}{theirs:>9.1f} ms{ours:>7.1f} ms{theirs / ours:>8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of feeds")
    sys.stdout.write(table(parser.parse_args().folder) + "\n")
