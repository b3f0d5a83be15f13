"""A Redis that counts its round trips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from microsub.redis.protocol import Arg, Command, Redis, Script


class CountingRedis:
    """Passes everything on; `trips` is how often something was sent, a pipeline once."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.trips = 0

    async def command(self, *parts: Arg) -> Any:
        self.trips += 1
        return await self._redis.command(*parts)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        self.trips += 1
        return await self._redis.pipeline(commands)

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        self.trips += 1
        return await self._redis.script(script, keys, args)

    async def scripts(self, calls: Sequence[tuple[Script, Sequence[str], Sequence[Arg]]]) -> list[Any]:
        self.trips += 1
        return await self._redis.scripts(calls)

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        return self._redis.scan(count)

    async def aclose(self) -> None:
        await self._redis.aclose()
