"""A Redis between whose round trips something else happens: what another process does at the worst moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from microsub.redis.protocol import Redis


class Between:
    """A Redis before whose calls something else happens: `before(name, args)`, where a script's name is its own."""

    def __init__(self, redis: Redis, before: Callable[[str, Any], Awaitable[None]]) -> None:
        self._redis = redis
        self._before = before

    async def command(self, *args: Any) -> Any:
        await self._before(args[0], args)
        return await self._redis.command(*args)

    async def pipeline(self, commands: Any) -> Any:
        if commands:
            await self._before(commands[0][0], commands[0])
        return await self._redis.pipeline(commands)

    async def script(self, script: Any, keys: Any, args: Any = ()) -> Any:
        await self._before(script.name, args)
        return await self._redis.script(script, keys, args)

    async def scripts(self, calls: Any) -> Any:
        if calls:
            await self._before(calls[0][0].name, calls[0][2])
        return await self._redis.scripts(calls)

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        return self._redis.scan(count)


def once(name: str, act: Callable[[], Awaitable[object]]) -> Callable[[str, Any], Awaitable[None]]:
    """Do `act` before the first call of that name."""
    done = False

    async def before(called: str, _args: Any) -> None:
        nonlocal done
        if called == name and not done:
            done = True
            await act()

    return before
