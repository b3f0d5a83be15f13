"""How well articles are found on the pages of a public benchmark, as F1 by shingles of four words.

    python -m benchmarks.articles FOLDER

FOLDER is a checkout of scrapinghub/article-extraction-benchmark (MIT), which isn't part of this repository: its
`ground-truth.json` and `html/*.html.gz`. The figures are made as its own evaluation makes them.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from microsub.articles import ARTICLE_IN
from microsub.base.errors import ParseError


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """The groups of four words in a row, with their counts."""
    words = re.findall(r"\w+", text)
    found = (tuple(words[at : at + 4]) for at in range(max(1, len(words) - 3)))
    return Counter(shingle for shingle in found if shingle)


def shares(true: str, found: str) -> tuple[float, float]:
    """Precision and recall of one article."""
    wanted, there = shingles(true), shingles(found)
    both = (wanted & there).total()
    if not wanted and not there:
        return 1.0, 1.0
    return both / max(1, there.total()), both / max(1, wanted.total())


def main(folder: Path) -> None:
    """Print the figures."""
    truth = json.loads((folder / "ground-truth.json").read_text())
    begun, rows, missing = time.process_time(), [], 0
    for name, page in truth.items():
        body = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        try:
            text = ARTICLE_IN.do(body, page["url"], "text/html; charset=utf-8", "", "", "").text or ""
        except ParseError:
            text, missing = "", missing + 1
        rows.append((text != "", *shares(page["articleBody"], text)))
    precision = statistics.mean(one for has_any, one, _ in rows if has_any)
    recall = statistics.mean(one for *_, one in rows)
    f1 = 2 * precision * recall / (precision + recall)
    took = time.process_time() - begun
    print(
        f"{len(rows)} pages, {missing} without an article: F1 {f1:.3f}, precision {precision:.3f}, recall {recall:.3f}"
    )
    print(f"{1000 * took / len(rows):.0f} ms of processor time for a page")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
