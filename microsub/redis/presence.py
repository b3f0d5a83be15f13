"""Heartbeats of workers, the state of every Redis server for /health, and sums over all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Literal

from redis.exceptions import RedisError

from microsub.base.errors import StoreError, StoreFull, StoreUnconfirmed
from microsub.model.moments import CLOCKS_DIFFER
from microsub.redis import keys
from microsub.redis.cluster import ClusterRedis
from microsub.redis.connect import doubts, engine_of
from microsub.redis.engine import Engine
from microsub.redis.multiplexer import SILENT, Multiplexed
from microsub.redis.protocol import ALIVE, Redis
from microsub.redis.replies import texts

SIGN_SECONDS = 60
"""Seconds for which a heartbeat counts. Workers send them several times as often."""

TO_COME = "-to-come"
"""Suffix of the name of a worker that is about to start."""

_FORGET_AFTER = 24 * 3600.0
COUNTS_KEPT = 86_400


RedisState = Literal["ok", "full", "no standby", "incomplete", "unreachable"]
"""`full`: no writes; `no standby`: too few replicas confirm writes; `incomplete`: a cluster lacks some masters."""

_PROBES = [keys.probe(str(number)) for number in range(500)]
"""Keys, one on each master of a cluster that has more than a few slots."""


ServerReply = tuple[RedisState, str | None]
"""The state of one server, and the reason of a problem in a sentence that is safe to publish."""


class Presence:
    """Writes and reads the workers' heartbeats; times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def beat(self, worker: str, now: float) -> None:
        """Write a heartbeat of `worker`."""
        await self._redis.pipeline(
            [
                ("ZADD", keys.workers(), f"{now:.3f}", worker),
                ("ZREMRANGEBYSCORE", keys.workers(), "-inf", f"({now - _FORGET_AFTER:.3f}"),
                # Heartbeats of a clock that was ahead: live workers send new ones.
                ("ZREMRANGEBYSCORE", keys.workers(), f"({now + CLOCKS_DIFFER:.3f}", "+inf"),
            ]
        )

    async def leave(self, worker: str) -> None:
        """Note that `worker` ended properly."""
        await self._redis.command("ZREM", keys.workers(), worker)

    async def last_sign(self) -> float | None:
        """The time of the newest heartbeat of any worker, or None."""
        found = await self._redis.command("ZREVRANGE", keys.workers(), 0, 0, "WITHSCORES")
        return float(found[1]) if found else None

    async def servers(self, seconds: float, *, write: bool) -> list[ServerReply]:
        """The state of every server, all asked at the same time, within `seconds`.

        `write`: write a few bytes to each as well; without it, only `unreachable` and `ok` are distinguished.
        """
        if not isinstance(self._redis, ClusterRedis):
            return [await _state(self._redis, keys.probe("0") if write else None, "Redis", seconds)]
        try:
            async with asyncio.timeout(seconds):
                masters = await self._redis.one_each(_PROBES)
        except (StoreError, TimeoutError):
            return [("unreachable", "no node of the Redis Cluster can be reached")]
        asking = (
            _state(master, key if write else None, f"the Redis at {master.name}", seconds) for master, key in masters
        )
        return await asyncio.gather(*asking)

    async def engine(self) -> Engine | None:
        """See `connect.engine_of`."""
        return await engine_of(self._redis)

    async def doubts(self) -> list[str]:
        """See `connect.doubts`."""
        return await doubts(self._redis)

    async def dead_letters(self) -> int:
        """The number of messages kept because all attempts to handle them failed."""
        return int(await self._redis.command("XLEN", keys.stream("dead")))

    async def alive(self, now: float) -> list[str]:
        """Names of the workers with a current heartbeat."""
        found = await self._redis.command("ZRANGEBYSCORE", keys.workers(), f"{now - SIGN_SECONDS:.3f}", "+inf")
        return texts(found)


async def _state(redis: Redis, key: str | None, name: str, seconds: float) -> ServerReply:
    """The state of one server, called `name`; `key` is written, if given."""
    writing = _failure(redis.command("SET", key, "", "EX", SIGN_SECONDS), seconds) if key else asyncio.sleep(0)
    silent, refused = await asyncio.gather(_failure(redis.command(*ALIVE), seconds), writing)
    if silent is not None:
        is_late, server = isinstance(silent, TimeoutError), redis if isinstance(redis, Multiplexed) else None
        if server is not None and (server.is_accepted if is_late else server.outage.why == SILENT):
            return "unreachable", f"{name} accepts connections, but doesn't reply"
        why = f"doesn't answer within {seconds:g} s" if is_late else "can't be reached"
        return "unreachable", f"{name} {why}"
    if isinstance(refused, StoreFull):
        return "full", str(refused)
    # Waiting for replicas delays all later writes on the same connection.
    if isinstance(refused, StoreUnconfirmed | TimeoutError):
        return "no standby", f"{name} has too few replicas that confirm changes, so changes get 503"
    return ("ok", None) if refused is None else ("unreachable", f"{name} can't be reached")


async def _failure(call: Awaitable[object], seconds: float) -> StoreError | TimeoutError | None:
    """The error of a command, if the server is the reason; TimeoutError after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await call
    except (StoreError, TimeoutError) as error:
        return error
    except RedisError:  # it refuses this command alone, as while a slot moves
        return None
    return None


class ProcessCounts:
    """Sums over all processes of a server; a name is a sample of a metric (`metrics.counts`)."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, more: Mapping[str, float]) -> None:
        """Add to the sums."""
        if more:
            key = keys.process_counts()
            adding = [("HINCRBYFLOAT", key, name, repr(value)) for name, value in more.items()]
            await self._redis.pipeline([*adding, ("EXPIRE", key, COUNTS_KEPT)])

    async def read(self) -> dict[str, float]:
        """All sums."""
        found = await self._redis.command("HGETALL", keys.process_counts())
        return {name.decode(): float(value) for name, value in zip(found[::2], found[1::2], strict=True)}
