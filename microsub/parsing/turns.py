"""Who is next where many wait: the one who has used the least processor time (start-time fair queueing). Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

_MOST_KEYS = 1000
"""Keys with nothing waiting that are remembered, at least: those that have used most."""


class Turns(Generic[T]):
    """Waiting jobs, in the order in which their keys take turns; jobs of one key are first come, first served.

    `expected` (seconds) is what a job is taken to use until `used` says better, so that a key with several jobs under
    way isn't taken for one that has used nothing.
    """

    def __init__(self, expected: float) -> None:
        self._expected = expected
        self._waiting: dict[str, deque[T]] = {}
        self._used: dict[str, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, job: T, keys: Sequence[str]) -> str:
        """Let a job wait for that one of `keys` which has used least, and return that key.

        Who comes after a while of nothing begins where the others are: idleness saves nothing up.
        """
        key = min(keys, key=self._standing)
        if key not in self._waiting:
            self._used[key] = self._standing(key)
            self._waiting[key] = deque()
        self._waiting[key].append(job)
        return key

    def next(self) -> T | None:
        """Take the next job."""
        if not self._waiting:
            return None
        key = min(self._waiting, key=self._used.__getitem__)
        self._now = max(self._now, self._used[key])
        self._used[key] += self._expected
        job = self._waiting[key].popleft()
        if not self._waiting[key]:
            del self._waiting[key]
        if len(self._used) > 2 * _MOST_KEYS + len(self._waiting):
            most = sorted(self._used, key=self._used.__getitem__)[-_MOST_KEYS:]
            self._used = {name: self._used[name] for name in {*most, *self._waiting}}
        return job

    def used(self, key: str, seconds: float) -> None:
        """Charge a key for a job that has ended, with the processor time that it took."""
        if key in self._used:
            self._used[key] += seconds - self._expected

    def remove(self, job: T) -> bool:
        """Take a job out that nobody waits for any more; False where it doesn't wait here."""
        for key, jobs in self._waiting.items():
            if job in jobs:
                jobs.remove(job)
                if not jobs:
                    del self._waiting[key]
                return True
        return False

    def clear(self) -> list[T]:
        """Take all jobs out."""
        jobs = [job for waiting in self._waiting.values() for job in waiting]
        self._waiting.clear()
        return jobs

    def _standing(self, key: str) -> float:
        return max(self._used.get(key, 0.0), self._now)
