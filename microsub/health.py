"""Health: whether Redis accepts writes, a worker has a recent heartbeat, and hubs deliver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal

from microsub.configuration.sync import Status
from microsub.errors import StoreError, StoreFull
from microsub.redis.presence import Presence

WORKER_SILENCE = 60.0
"""Seconds without a heartbeat after which a worker counts as gone."""

PROBE_SECONDS = 5.0
"""How long the result of one probing write is reused, however many requests there are."""

RedisState = Literal["ok", "full", "unreachable"]
WorkerState = Literal["ok", "silent", "unknown"]
BackendState = Literal["ok", "refused", "lost"]
PushState = Literal["ok", "late", "silent"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What works; `worker_age` is seconds since a worker's last heartbeat, or None.

    `reason` explains a problem with Redis in a sentence that is safe to publish. `backend` is `refused` while
    backend.json is invalid and the previous configuration stays active, and `lost` while Redis has lost its data and
    the file isn't applied again yet. `push` is the state of hubs (`push.store.push_state`), None if the server
    subscribes to none; then posts come from polls.
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
        """The overall state; `degraded`: stored data can be read, but nothing is written."""
        if self.redis == "full" or (self.backend == "lost" and self.redis == "ok"):
            return "degraded"
        return "ok" if self.redis == self.worker == "ok" else "failing"


class Health:
    """Reads the newest heartbeat from Redis, and probes writes now and then.

    `status` returns the state of backend.json, `push` that of hubs, if the server subscribes to any.
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
        """The health at `now`. An unreachable store is reported, never raised."""
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
        """Probe writes if the last result is old; concurrent callers get the last result."""
        if abs(now - self._probed) < PROBE_SECONDS:
            return
        self._probed = now
        try:
            await self._signs.probe()
            self._refusal = None
        except StoreFull as error:
            self._refusal = str(error)
