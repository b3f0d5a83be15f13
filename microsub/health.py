"""Health: Redis answers and takes writes, and a worker gave a sign of life lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from microsub.configuration.sync import Status
from microsub.errors import StoreError, StoreFull
from microsub.redis.presence import Presence

WORKER_SILENCE = 60.0
"""Seconds without a sign of life after which a worker counts as gone."""

PROBE_SECONDS = 5.0
"""For how long the answer to one probing write holds, however often somebody asks."""

RedisState = Literal["ok", "full", "unreachable"]
WorkerState = Literal["ok", "silent", "unknown"]
BackendState = Literal["ok", "refused", "lost"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What works; `worker_age` is seconds since a worker's last sign of life, or None.

    `reason` says what is known of Redis' trouble, in a sentence that strangers may read. `backend` is about
    backend.json: `refused` while it can't be used and the configuration before it stays active, `lost` while Redis has
    lost its data and the file isn't applied again yet.
    """

    redis: RedisState
    worker: WorkerState
    worker_age: float | None = None
    reason: str | None = None
    backend: BackendState = "ok"
    dead_letters: int = 0

    @property
    def status(self) -> Literal["ok", "degraded", "failing"]:
        """`degraded`: what is there can be read, but nothing is changed and nothing comes in."""
        if self.redis == "full" or (self.backend == "lost" and self.redis == "ok"):
            return "degraded"
        return "ok" if self.redis == self.worker == "ok" else "failing"


class Health:
    """Asks Redis for the newest sign of life, and now and then writes a little.

    `status` says what is known of backend.json.
    """

    def __init__(self, signs: Presence, status: Callable[[], Status] = Status) -> None:
        self._signs = signs
        self._status = status
        self._probed = float("-inf")
        self._refusal: str | None = None

    async def check(self, now: float) -> HealthReport:
        """Look now. Never raises for a store that can't be reached: that is the answer."""
        status = self._status()
        backend: BackendState = "lost" if status.lost else "refused" if status.problems else "ok"
        return replace(await self._check(now), backend=backend)

    async def _check(self, now: float) -> HealthReport:
        try:
            last, letters = await self._signs.last_sign(), await self._signs.dead_letters()
            await self._probe(now)
        except StoreError:
            return HealthReport("unreachable", "unknown")
        redis: RedisState = "ok" if self._refusal is None else "full"
        if last is None:
            return HealthReport(redis, "silent", reason=self._refusal, dead_letters=letters)
        age = max(0.0, now - last)
        state: WorkerState = "ok" if age <= WORKER_SILENCE else "silent"
        return HealthReport(redis, state, round(age, 1), self._refusal, dead_letters=letters)

    async def _probe(self, now: float) -> None:
        """Probe writes again where the last answer is old; others get that meanwhile."""
        if abs(now - self._probed) < PROBE_SECONDS:
            return
        self._probed = now
        try:
            await self._signs.probe()
            self._refusal = None
        except StoreFull as error:
            self._refusal = str(error)
