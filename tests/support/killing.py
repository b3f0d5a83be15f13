"""A process that dies between two round trips to Redis, and comes back to do the same again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from microsub.redis.protocol import Redis


class KilledError(BaseException):
    """The process is gone: nothing may catch this."""


class Killing:
    """A Redis whose client is killed before its nth round trip, or just after the server did it.

    With another `error` it is Redis that fails, from that trip on.
    """

    error: type[BaseException] = KilledError

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.trips = 0
        self.kill_at: int | None = None
        self.after = False

    async def _trip(self, run: Callable[[], Awaitable[Any]]) -> Any:
        self.trips += 1
        if self.kill_at is not None and self.trips >= self.kill_at:
            if self.after and self.trips == self.kill_at:
                await run()
            raise self.error
        return await run()

    async def command(self, *args: Any) -> Any:
        return await self._trip(lambda: self._redis.command(*args))

    async def pipeline(self, commands: Any) -> Any:
        return await self._trip(lambda: self._redis.pipeline(commands))

    async def script(self, script: Any, keys: Any, args: Any = ()) -> Any:
        return await self._trip(lambda: self._redis.script(script, keys, args))

    async def scripts(self, calls: Any) -> Any:
        return await self._trip(lambda: self._redis.scripts(calls))

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        return self._redis.scan(count)

    async def aclose(self) -> None:
        await self._redis.aclose()


async def killed_anywhere(
    redis: Killing,
    prepare: Callable[[], Awaitable[object]],
    act: Callable[[], Awaitable[object]],
    state: Callable[[], Awaitable[object]],
    again: Callable[[], Awaitable[object]] | None = None,
) -> int:
    """Assert that `act`, killed before or after any of its round trips, leads with `again` (`act` itself, where none
    is given) to the state that it leads to undisturbed; how many round trips it takes.
    """
    await redis.command("FLUSHDB")
    await prepare()
    begun = redis.trips
    await act()
    steps = redis.trips - begun
    wanted = await state()
    for step in range(1, steps + 1):
        for redis.after in (False, True):
            await redis.command("FLUSHDB")
            await prepare()
            redis.kill_at = redis.trips + step
            with pytest.raises(KilledError):
                await act()
            redis.kill_at = None
            await (again or act)()
            place = f"killed {'after' if redis.after else 'before'} step {step} of {steps}"
            found = await state()
            assert found == wanted, f"{place}: {found}, expected {wanted}"
    return steps
