"""Times of reading in the form in which a channel has them (lua/parts/readings.lua)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from microsub.redis.readings import PIECES, RECORD


def pieces(times: Iterable[tuple[int, float]]) -> dict[int, bytes]:
    """The pieces with these items and their Unix times, by their numbers."""
    found: dict[int, bytes] = defaultdict(bytes)
    for item, at in times:
        found[item % PIECES] += RECORD.pack(item & 0xFFFFFFFF, item >> 32, int(at))
    return found
