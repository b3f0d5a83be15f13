"""What tests share: waiting on conditions, servers, invented values, the check of what they leave in Redis."""

from __future__ import annotations

import os
from pathlib import Path

THOROUGH = os.environ.get("TEST_MATRIX") == "1"
"""`make test-matrix`: all that can runs on fakeredis, a real Redis and a Redis Cluster, on four times the inputs."""

SHARED_CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
"""Real feeds and pages with facts about them; the folder may be missing."""

_TIMES = float(os.environ.get("TEST_TIMES", "4" if THOROUGH else "1"))
EXPLORES = THOROUGH or "TEST_TIMES" in os.environ
"""Generated inputs are new in each run."""


def examples(usual: int) -> int:
    """How many generated inputs a test takes, or for how many seconds: `TEST_TIMES=10` makes them ten times as many."""
    return max(1, round(usual * _TIMES))
