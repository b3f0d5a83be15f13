"""Whether the product works: Redis answers, and a worker gave a sign of life lately."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from microsub.errors import StoreError

WORKER_SILENCE = 60.0
"""Seconds without a sign of life after which a worker counts as gone."""

LastSign = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What works; `worker_age` is seconds since the last sign of life of any worker, or None without one."""

    redis: bool
    worker: bool
    worker_age: float | None = None

    @property
    def healthy(self) -> bool:
        """Whether everything is there that feeds and readers need."""
        return self.redis and self.worker


class Health:
    """Asks for the time of the newest sign of life of any worker, which also shows that Redis answers."""

    def __init__(self, last_sign: LastSign) -> None:
        self._last_sign = last_sign

    async def check(self, now: float) -> HealthReport:
        """Look now. Never raises for a store that can't be reached: that is the answer."""
        try:
            last = await self._last_sign()
        except StoreError:
            return HealthReport(redis=False, worker=False)
        if last is None:
            return HealthReport(redis=True, worker=False)
        age = max(0.0, now - last)
        return HealthReport(redis=True, worker=age <= WORKER_SILENCE, worker_age=round(age, 1))
