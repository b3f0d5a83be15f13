"""`python -m benchmarks.cluster`: the cost of a call on one Redis, on a Redis Cluster, and with replicas."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import redis.asyncio
import uvloop
from redis.asyncio.cluster import RedisCluster

from microsub.redis.cluster import ClusterRedis
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis, Script
from tests.support.cluster import running_cluster, running_server

READ = Script("read", "return redis.call('GET', KEYS[1])")
WRITE = Script("write", "return redis.call('SET', KEYS[1], ARGV[1])")
KEYS = [f"user:{{u{number}}}" for number in range(64)]
CALLERS, CALLS = 8, 16_000


async def main() -> None:
    """Print a row for each kind of connection."""
    folder = Path(tempfile.mkdtemp(prefix="microsub-bench-"))
    print("|                       | reads/s | µs of processor | writes/s | µs of processor |")
    print("|-----------------------|--------:|----------------:|---------:|----------------:|")
    with running_server(folder / "single") as single:
        await _row("one Redis", Multiplexed(f"redis://127.0.0.1:{single.port}"))
        await _redis_py(redis.asyncio.Redis(port=single.port, protocol=2))
    with running_cluster(folder / "cluster") as cluster:
        await _row("cluster, no replicas", ClusterRedis(cluster.url))
        await _redis_py(RedisCluster.from_url(cluster.url.replace("+cluster", ""), protocol=2))
    with running_cluster(folder / "replicas", replicas=1) as cluster:
        await _row("cluster with replicas", ClusterRedis(cluster.url))


async def _row(name: str, connection: Redis) -> None:
    async def call(script: Script, key: str) -> None:
        await connection.script((script, [key], ["1"]))

    await _print(name, call)
    await connection.aclose()


async def _redis_py(client: Any) -> None:
    """A redis-py client for comparison, which takes a connection from a pool for each call."""
    scripts = {script.name: client.register_script(script.text) for script in (READ, WRITE)}

    async def call(script: Script, key: str) -> None:
        await scripts[script.name](keys=[key], args=["1"])

    await _print("the same by redis-py", call)
    await client.aclose()


async def _print(name: str, call: Callable[[Script, str], Awaitable[None]]) -> None:
    cells: list[str] = []
    for script in (WRITE, READ):
        rate, cost = await _measure(call, script)
        cells = [f"{rate:>7,.0f} | {cost:>15.1f}", *cells]
    print(f"| {name:<21} | {cells[0]} |  {cells[1]} |")


async def _measure(call: Callable[[Script, str], Awaitable[None]], script: Script) -> tuple[float, float]:
    """Calls per second, and microseconds of this process's processor time per call."""

    async def caller(first: int) -> None:
        for number in range(CALLS // CALLERS):
            await call(script, KEYS[(first + number * CALLERS) % len(KEYS)])

    for key in KEYS:
        await call(script, key)
    began, spent = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller(first) for first in range(CALLERS)))
    return CALLS / (time.perf_counter() - began), (time.process_time() - spent) / CALLS * 1e6


if __name__ == "__main__":
    uvloop.run(main())
