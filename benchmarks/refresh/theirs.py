"""`python -m benchmarks.refresh.theirs DATABASE`, with a Python that has `reader`: refreshes feeds on request.

Requests (`lines`): `follow`; `refresh` with a number of threads returns its duration; `state` returns the number of
entries.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from reader import make_reader  # type: ignore[import-not-found]  # installed in .venv-bench

from benchmarks.refresh.lines import answer


def main() -> None:
    """Answer requests until standard input ends."""
    reader = make_reader(sys.argv[1])

    def follow(urls: list[str]) -> dict[str, Any]:
        for url in urls:
            reader.add_feed(url)
        return {}

    def refresh(workers: int) -> dict[str, Any]:
        began = time.perf_counter()
        reader.update_feeds(workers=workers, scheduled=False)
        return {"seconds": time.perf_counter() - began}

    def state() -> dict[str, Any]:
        return {"feeds": reader.get_feed_counts(broken=False).total, "entries": reader.get_entry_counts().total}

    answer({"follow": follow, "refresh": refresh, "state": state})
    reader.close()


if __name__ == "__main__":
    main()
