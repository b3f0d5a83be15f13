"""Times of reading in the form in which a channel has them (lua/parts/readings.lua)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from microsub.redis.readings import PIECES, RECORD

_LONGEST, _PARTS = 500, 4


def pieces(times: Iterable[tuple[int, float]]) -> dict[str, bytes]:
    """The pieces with these items and their Unix times, by their names."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for item, at in times:
        found[str(item % PIECES)].append((item, int(at)))
    return dict(one for name, items in found.items() for one in _divided(name, items, PIECES))


def _divided(name: str, items: list[tuple[int, int]], step: int) -> Iterator[tuple[str, bytes]]:
    if len(items) <= _LONGEST:
        yield name, b"".join(RECORD.pack(item & 0xFFFFFFFF, item >> 32, at) for item, at in items)
        return
    yield name, b""
    for part in range(_PARTS):
        if some := [one for one in items if one[0] // step % _PARTS == part]:
            yield from _divided(f"{name}.{part}", some, _PARTS * step)
