"""Health: Redis answers and takes writes, a worker gave a sign of life lately, and what hubs deliver comes in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
PushState = Literal["ok", "late", "silent"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What works; `worker_age` is seconds since a worker's last sign of life, or None.

    `reason` says what is known of Redis' trouble, in a sentence that strangers may read. `backend` is about
    backend.json: `refused` while it can't be used and the configuration before it stays active, `lost` while Redis has
    lost its data and the file isn't applied again yet. `push` is about hubs (`push.store.push_state`), None where none
    is asked; posts come by polls then.
    """

    redis: RedisState
    worker: WorkerState
    worker_age: float | None = None
    reason: str | None = None
    backend: BackendState = "ok"
    dead_letters: int = 0
    push: PushState | None = None

    @property
    def status(self) -> Literal["ok", "degraded", "failing"]:
        """`degraded`: what is there can be read, but nothing is changed and nothing comes in."""
        if self.redis == "full" or (self.backend == "lost" and self.redis == "ok"):
            return "degraded"
        return "ok" if self.redis == self.worker == "ok" else "failing"


class Health:
    """Asks Redis for the newest sign of life, and now and then writes a little.

    `status` says what is known of backend.json, `push` how hubs fare, where any are asked.
    """

    def __init__(
        self,
        signs: Presence,
        status: Callable[[], Status] = Status,
        push: Callable[[float], Awaitable[PushState]] | None = None,
    ) -> None:
        self._signs = signs
        self._status = status
        self._push = push
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
            push = await self._push(now) if self._push is not None else None
            await self._probe(now)
        except StoreError:
            return HealthReport("unreachable", "unknown")
        redis: RedisState = "ok" if self._refusal is None else "full"
        if last is None:
            return HealthReport(redis, "silent", reason=self._refusal, dead_letters=letters, push=push)
        age = max(0.0, now - last)
        state: WorkerState = "ok" if age <= WORKER_SILENCE else "silent"
        return HealthReport(redis, state, round(age, 1), self._refusal, dead_letters=letters, push=push)

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
