"""Processor time and memory of the measured processes, as they and Linux report it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.refresh.processes import processor_seconds
from benchmarks.scale.costs import Work
from microsub.redis.protocol import Redis


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of an operation: processor seconds of our process and of Redis, and wall seconds."""

    ours: float
    redis: float
    seconds: float

    def each(self, times: float) -> Work:
        """The cost per operation in microseconds, given their number."""
        return Work(self.ours / times * 1e6, self.redis / times * 1e6)


@dataclass(frozen=True, slots=True)
class Meter:
    """Measures the costs of operations. `pid` is the process that does the work, None for this one."""

    redis: Redis
    pid: int | None = None

    async def spent(self, act: Callable[[], Awaitable[object]]) -> Spent:
        """Run an operation; returns its cost."""
        before = await self._now()
        await act()
        after = await self._now()
        return Spent(*(late - early for late, early in zip(after, before, strict=True)))

    async def _now(self) -> tuple[float, float, float]:
        own = time.process_time() if self.pid is None else processor_seconds(self.pid)
        info = await facts(self.redis, "cpu")
        return own, float(info["used_cpu_user"]) + float(info["used_cpu_sys"]), time.perf_counter()


async def facts(redis: Redis, section: str) -> dict[str, str]:
    """A section of Redis' `INFO`."""
    text = (await redis.command("INFO", section)).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


async def used_memory(redis: Redis) -> int:
    """Bytes that Redis has allocated for data and its overhead."""
    return int((await facts(redis, "memory"))["used_memory"])


async def calls(redis: Redis, name: str) -> int:
    """The number of calls of a command."""
    found = (await facts(redis, "commandstats")).get(f"cmdstat_{name}", "calls=0")
    return int(found.partition("calls=")[2].partition(",")[0])
