"""The bounded cache: every cache in a process has a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key, at most `most` together; those set or touched longest ago are dropped first.

    Each value counts as 1, or as much as `weight` says, for example its bytes; one heavier than `most` isn't kept. A
    value's weight must not change. `get` and `touch` are those of `OrderedDict`, because pages use them for each item.
    """

    def __init__(self, most: int, weight: Callable[[V], int] = lambda _: 1) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()
        self._most, self._weight, self._held = most, weight, 0
        self.get = self._values.get
        self.touch = self._values.move_to_end

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key)
        self._values[key] = value
        self._held += self._weight(value)
        while self._held > self._most:
            self._held -= self._weight(self._values.popitem(last=False)[1])

    def update(self, values: Mapping[K, V]) -> None:
        """Set several values, the last one as the latest."""
        for key, value in values.items():
            self[key] = value

    def pop(self, key: K) -> V | None:
        """Drop the value of the key; returns it, or None if there is none."""
        if key in self._values:
            self._held -= self._weight(self._values[key])
        return self._values.pop(key, None)

    def clear(self) -> None:
        """Drop everything."""
        self._values.clear()
        self._held = 0
