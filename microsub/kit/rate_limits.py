"""How often something may happen, by whatever it happens to: counted within the process, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict


class FixedWindow:
    """At most `most` times in each `seconds` for each key; the `keys` that were seen last are remembered."""

    def __init__(self, most: int, seconds: float, keys: int = 10_000) -> None:
        self._most = most
        self._seconds = seconds
        self._keys = keys
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def allows(self, key: str, now: float, weight: int = 1) -> bool:
        """Count one more for the key, or `weight`, at `now` in seconds of any clock; whether it is within the limit."""
        since, count = self._count(key, now)
        self._counts.pop(key, None)
        self._counts[key] = (since, count + weight)
        while len(self._counts) > self._keys:
            self._counts.popitem(last=False)
        return count + weight <= self._most

    def has_room(self, key: str, now: float, weight: int = 1) -> bool:
        """Whether one more for the key, or `weight`, would be within the limit; nothing is counted."""
        return self._count(key, now)[1] + weight <= self._most

    def _count(self, key: str, now: float) -> tuple[float, int]:
        since, count = self._counts.get(key, (now, 0))
        return (now, 0) if now - since >= self._seconds else (since, count)
