"""Health: whether Redis accepts writes, a worker has a recent heartbeat, and hubs deliver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from microsub.base.errors import StoreError
from microsub.configuration.effective import Status
from microsub.feeds import PushState
from microsub.redis.engine import Engine
from microsub.redis.presence import Presence, RedisState, ServerReply

WORKER_SILENCE = 60.0
"""Seconds without a heartbeat after which a worker counts as gone."""

PROBE_SECONDS = 5.0
"""How long the result of one probing write is reused, however many requests there are."""

PATIENCE = 1.5
"""Seconds that Redis has to answer; /health takes at most two."""

WorkerState = Literal["ok", "silent", "unknown"]
BackendState = Literal["ok", "refused", "lost"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The working parts; `worker_age` is seconds since a worker's last heartbeat, or None.

    `reason` explains a problem with Redis in a sentence that is safe to publish. `backend` is `refused` while
    backend.json is invalid and the previous configuration stays active, and `lost` while Redis has lost its data and
    the file isn't applied again yet. `engine` is that of the data, None if it is unknown. `push` is the state of hubs
    (`websub.store.push_state`), None if the server subscribes to none; then posts come from polls. `doubts` are
    warnings about settings of Redis, as of the first check.
    """

    redis: RedisState
    worker: WorkerState
    worker_age: float | None = None
    reason: str | None = None
    backend: BackendState = "ok"
    dead_letters: int = 0
    push: PushState | None = None
    engine: Engine | None = None
    doubts: Sequence[str] = ()

    @property
    def status(self) -> Literal["ok", "degraded", "failing"]:
        """The overall state; `degraded`: stored data can be read, or part of it, but not everything is written."""
        if self.redis in {"full", "no standby", "incomplete"} or (self.backend == "lost" and self.redis == "ok"):
            return "degraded"
        return "ok" if self.redis == self.worker == "ok" else "failing"

    @property
    def redis_is(self) -> Mapping[str, bool]:
        """The state of Redis for metrics; several values can be true at the same time."""
        return {
            "reachable": self.redis not in {"unreachable", "incomplete"},
            "writable": self.redis == "ok",
            "full": self.redis == "full",
        }


class Health:
    """Reads the newest heartbeat from Redis, asks every server for a reply, and probes writes now and then.

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
        self._engine: Engine | None = None
        self._doubts: Sequence[str] = ()
        self._refusals: list[ServerReply] = []
        """Problems of the last probing write."""

    async def check(self, now: float) -> HealthReport:
        """The health at `now`, within two seconds. An unreachable store is reported, never raised."""
        status = self._status()
        backend: BackendState = "lost" if status.lost else "refused" if status.problems else "ok"
        signs, (state, reason) = await asyncio.gather(self._signs_of(now), self._redis(now))
        if signs is None:
            # With the heartbeats, one master of a cluster is away, or Redis was lost since it answered.
            return HealthReport("unreachable" if state == "ok" else state, "unknown", None, reason, backend)
        last, letters, push = signs
        age = None if last is None else max(0.0, now - last)
        worker: WorkerState = "ok" if age is not None and age <= WORKER_SILENCE else "silent"
        shown = None if age is None else round(age, 1)
        parts = (state, worker, shown, reason, backend, letters, push, self._engine, self._doubts)
        return HealthReport(*parts)

    async def _signs_of(self, now: float) -> tuple[float | None, int, PushState | None] | None:
        """The last heartbeat, the number of dead letters and the state of hubs; None if Redis doesn't tell."""
        try:
            async with asyncio.timeout(PATIENCE):
                last, letters = await self._signs.last_sign(), await self._signs.dead_letters()
                if self._engine is None:
                    self._engine, self._doubts = await self._signs.engine(), await self._signs.doubts()
                return last, letters, await self._push(now) if self._push is not None else None
        except (StoreError, TimeoutError):
            return None

    async def _redis(self, now: float) -> ServerReply:
        """The state of all servers together; writes are probed if the last result is old."""
        write = abs(now - self._probed) >= PROBE_SECONDS
        if write:
            self._probed = now
        servers = await self._signs.servers(PATIENCE, write=write)
        away = [reason or "" for state, reason in servers if state == "unreachable"]
        if away:
            self._engine = None  # another one may come back
            self._probed = float("-inf")  # nothing was learnt about writes
            return "unreachable" if len(away) == len(servers) else "incomplete", "; ".join(away)
        if write:
            self._refusals = [server for server in servers if server[0] != "ok"]
        return self._refusals[0] if self._refusals else ("ok", None)
