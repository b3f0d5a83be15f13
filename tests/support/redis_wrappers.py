"""Wrappers of a Redis connection: one counts round trips, one acts between them, one is killed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from redis.exceptions import NoScriptError, RedisError

from microsub.redis.cluster import ClusterRedis
from microsub.redis.multiplexer import all_good, translate
from microsub.redis.protocol import Arg, Command, Redis, ScriptCall


class Wrapped:
    """A Redis whose subclasses decide the result of each round trip."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.is_cluster = redis.is_cluster

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        """`run` executes it; name (a script's own name, if any) and arguments are those of the first call."""
        return await run()

    async def command(self, *args: Any) -> Any:
        return await self._trip(args[0], args, lambda: self._redis.command(*args))

    async def pipeline(self, commands: Any) -> Any:
        name, args = (commands[0][0], commands[0]) if commands else ("", ())
        return await self._trip(name, args, lambda: self._redis.pipeline(commands))

    async def script(self, call: Any) -> Any:
        script, _, args = call
        return await self._trip(script.name, args, lambda: self._redis.script(call))

    async def scripts(self, calls: Any) -> Any:
        name, args = (calls[0][0].name, calls[0][2]) if calls else ("", ())
        return await self._trip(name, args, lambda: self._redis.scripts(calls))

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        return self._redis.scan(count)

    async def aclose(self) -> None:
        await self._redis.aclose()


class WholeCluster(ClusterRedis):
    """A connection to a cluster on which commands about all keys concern those of every master, not of any one."""

    async def command(self, *args: Arg) -> Any:
        if args[0] not in {"FLUSHDB", "KEYS"}:
            return await super().command(*args)
        replies = [await master.command(*args) for master in await self.masters()]
        return [key for found in replies for key in found] if args[0] == "KEYS" else replies[0]


class CountingRedis(Wrapped):
    """`trips` counts the round trips; a pipeline is one."""

    trips = 0

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        self.trips += 1
        return await run()


class InRow(Wrapped):
    """Records the round trips that wait for one another.

    `rows` has the names of the calls that left together: of those that began before any of them was answered. So a
    pipeline is one trip, and so are concurrent calls. Redis is so far away that the event loop takes `TURNS` meanwhile,
    in which tasks that wait for no reply can start. Another connection `beside` records together with this one.
    """

    TURNS = 20

    def __init__(self, redis: Redis, beside: InRow | None = None) -> None:
        super().__init__(redis)
        self.rows: list[list[str]] = beside.rows if beside else []
        self._open: set[int] = beside._open if beside else set()

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        if not name:
            return await run()
        if not self._open:
            self.rows.append([])
            self._open.add(len(self.rows))
        self.rows[-1].append(f"{name} {args}"[:110])
        for _ in range(self.TURNS):
            await asyncio.sleep(0)
        try:
            return await run()
        finally:
            self._open.clear()


class Between(Wrapped):
    """Acts as another process at the worst moment: `before(name, args)` runs before each call."""

    def __init__(self, redis: Redis, before: Callable[[str, Any], Awaitable[None]]) -> None:
        super().__init__(redis)
        self._before = before

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        if name:
            await self._before(name, args)
        return await run()


def once(name: str, act: Callable[[], Awaitable[object]]) -> Callable[[str, Any], Awaitable[None]]:
    """Run `act` before the first call with this name, optionally with its first argument: `item_end condemn`."""
    done = False

    async def before(called: str, args: Any) -> None:
        nonlocal done
        if name in {called, f"{called} {args[0]}" if args else ""} and not done:
            done = True
            await act()

    return before


class KilledError(BaseException):
    """The process was killed: nothing may catch this."""


async def die(*_args: Any, **_named: Any) -> Any:
    """A call that kills the process."""
    raise KilledError


class Killing(Wrapped):
    """A Redis whose client is killed just after the server has executed its nth round trip.

    A kill before a round trip leaves what a kill after the previous one leaves. With another `error`, Redis fails from
    the nth round trip on.
    """

    error: type[BaseException] = KilledError
    trips = 0
    kill_at: int | None = None
    steps = 0

    @contextlib.contextmanager
    def dying(self, step: int) -> Iterator[None]:
        """Kill the block after that round trip; with 0 it lives, and `steps` is the number of its round trips."""
        begun = self.trips
        self.kill_at = begun + step if step else None
        try:
            yield
        finally:
            self.kill_at = None
        if not step:
            self.steps = self.trips - begun

    def each_step(self) -> Iterator[int]:
        """0, and then the round trips that `dying` has counted with it."""
        yield 0
        yield from range(1, self.steps + 1)

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        self.trips += 1
        if self.kill_at is not None and self.trips >= self.kill_at:
            if self.error is KilledError and self.trips == self.kill_at:
                with contextlib.suppress(RedisError):  # the reply is lost
                    await run()
            raise self.error
        return await run()


async def killed_anywhere(
    redis: Killing,
    prepare: Callable[[], Awaitable[object]],
    act: Callable[[], Awaitable[object]],
    state: Callable[[], Awaitable[object]],
    again: Callable[[], Awaitable[object]] | None = None,
) -> int:
    """Assert that `act`, killed after any round trip and followed by `again` (default: `act`), leads to the
    same state as without a kill; returns the number of round trips.
    """
    await redis.command("FLUSHDB")
    await prepare()
    with redis.dying(0):
        await act()
    wanted = await state()
    for step in range(1, redis.steps + 1):
        await redis.command("FLUSHDB")
        await prepare()
        with pytest.raises(KilledError), redis.dying(step):
            await act()
        await (again or act)()
        found = await state()
        assert found == wanted, f"killed after step {step} of {redis.steps}: {found}, expected {wanted}"
    return redis.steps


_BATCH = 500
_FAILURES = (RedisError, OSError)


def _skip_without_command(reply: object) -> None:
    if unknown := isinstance(reply, RedisError) and re.match("unknown command '([^']+)'", str(reply)):
        pytest.skip(f"fakeredis doesn't have the command {unknown[1].upper()}")


class ClientRedis:
    """Takes over `client` (`redis.asyncio.Redis`, RESP2, not decoding): its reply parsing is switched off, and
    `aclose` closes it. Round trips run in the order in which they begin, as on the product's connections.

    A command that the server behind `client` doesn't have skips the test that needs it.
    """

    is_cluster = False

    def __init__(self, client: Any) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        client.response_callbacks.clear()

    async def command(self, *args: Arg) -> Any:
        """See `Redis.command`."""
        try:
            async with self._turn:
                return await self._client.execute_command(*args)
        except _FAILURES as error:
            _skip_without_command(error)
            raise translate(error) from error

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """See `Redis.pipeline`."""
        return all_good(await self._run(commands))

    async def script(self, call: ScriptCall) -> Any:
        """See `Redis.script`."""
        return (await self.scripts([call]))[0]

    async def scripts(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """See `Redis.scripts`."""
        commands: list[Command] = [("EVALSHA", script.sha, len(keys), *keys, *args) for script, keys, args in calls]
        replies = await self._run(commands)
        unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            for script in {calls[index][0].sha: calls[index][0] for index in unknown}.values():
                await self.command("SCRIPT LOAD", script.text)
            again = await self._run([commands[index] for index in unknown])
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        return all_good(replies)

    async def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        """See `Redis.scan`."""
        cursor: Any = b"0"
        while True:
            cursor, found = await self.command("SCAN", cursor, "COUNT", count)
            if found:
                yield found
            if int(cursor) == 0:
                return

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        """The replies in order, errors among them as values."""
        replies: list[Any] = []
        try:
            async with self._turn:
                for start in range(0, len(commands), _BATCH):
                    pipeline = self._pipeline()
                    for command in commands[start : start + _BATCH]:
                        # This queues the command; a pipeline runs nothing before `execute`.
                        pipeline.execute_command(*command)
                    replies += await pipeline.execute(raise_on_error=False)
        except _FAILURES as error:
            raise translate(error) from error
        for reply in replies:
            _skip_without_command(reply)
        return replies

    def _pipeline(self) -> Any:
        return self._client.pipeline(transaction=False)

    async def aclose(self) -> None:
        """See `Redis.aclose`."""
        await self._client.aclose()
