"""Whether the product works: Redis answers and takes writes, and a worker gave a sign of life lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from microsub.configuration.sync import Status
from microsub.errors import StoreError, StoreFull

WORKER_SILENCE = 60.0
"""Seconds without a sign of life after which a worker counts as gone."""

PROBE_SECONDS = 5.0
"""For how long the answer to one probing write holds, however often somebody asks."""

RedisState = Literal["ok", "full", "unreachable"]
WorkerState = Literal["ok", "silent", "unknown"]
BackendState = Literal["ok", "refused", "lost"]


class Signs(Protocol):
    """Where the answers come from; both raise StoreError where Redis has none."""

    async def last_sign(self) -> float | None:
        """Unix time of the newest sign of life of any worker; None when there is none."""
        ...

    async def probe(self) -> None:
        """Write next to nothing. Raises StoreFull where Redis refuses it."""
        ...


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What works; `worker_age` is seconds since the last sign of life of any worker, or None without one.

    `reason` says what is known of Redis' trouble, in a sentence that strangers may read. `backend` is about
    backend.json: `refused` while it can't be used and the configuration before it stays active, `lost` while Redis has
    lost its data and the file isn't applied again yet.
    """

    redis: RedisState
    worker: WorkerState
    worker_age: float | None = None
    reason: str | None = None
    backend: BackendState = "ok"

    @property
    def status(self) -> Literal["ok", "degraded", "failing"]:
        """`degraded`: what is there can be read, but nothing is changed and nothing comes in."""
        if self.redis == "full" or (self.backend == "lost" and self.redis == "ok"):
            return "degraded"
        return "ok" if self.redis == self.worker == "ok" else "failing"


class Health:
    """Asks for the newest sign of life, which also shows that Redis answers, and now and then writes a little.

    `status` says what is known of backend.json.
    """

    def __init__(self, signs: Signs, status: Callable[[], Status] = Status) -> None:
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
            last = await self._signs.last_sign()
            await self._probe(now)
        except StoreError:
            return HealthReport("unreachable", "unknown")
        redis: RedisState = "ok" if self._refusal is None else "full"
        if last is None:
            return HealthReport(redis, "silent", reason=self._refusal)
        age = max(0.0, now - last)
        return HealthReport(redis, "ok" if age <= WORKER_SILENCE else "silent", round(age, 1), self._refusal)

    async def _probe(self, now: float) -> None:
        """Renew what is known of writes where that is old. Who asks meanwhile gets the answer before."""
        if abs(now - self._probed) < PROBE_SECONDS:
            return
        self._probed = now
        try:
            await self._signs.probe()
            self._refusal = None
        except StoreFull as error:
            self._refusal = str(error)
