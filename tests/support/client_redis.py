"""`port.Redis` over an asyncio client of redis-py: what the fake Redis of unit tests can be reached by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from redis.exceptions import NoScriptError, RedisError

from microsub.redis.failures import all_good, translate
from microsub.redis.protocol import Arg, Command, Script

_BATCH = 500
_FAILURES = (RedisError, OSError)


class ClientRedis:
    """Takes over `client` (`redis.asyncio.Redis`, RESP2, not decoding): its reply parsing is switched off, and
    `aclose` closes it.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        client.response_callbacks.clear()

    async def command(self, *args: Arg) -> Any:
        """See `port.Redis.command`."""
        try:
            return await self._client.execute_command(*args)
        except _FAILURES as error:
            raise translate(error) from error

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """See `port.Redis.pipeline`."""
        return all_good(await self._run(commands))

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        """See `port.Redis.script`."""
        return (await self.scripts([(script, keys, args)]))[0]

    async def scripts(self, calls: Sequence[tuple[Script, Sequence[str], Sequence[Arg]]]) -> list[Any]:
        """See `port.Redis.scripts`."""
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
        """See `port.Redis.scan`."""
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
            for start in range(0, len(commands), _BATCH):
                pipeline = self._pipeline()
                for command in commands[start : start + _BATCH]:
                    # Queues the command; a pipeline runs nothing before `execute`.
                    pipeline.execute_command(*command)
                replies += await pipeline.execute(raise_on_error=False)
        except _FAILURES as error:
            raise translate(error) from error
        return replies

    def _pipeline(self) -> Any:
        return self._client.pipeline(transaction=False)

    async def aclose(self) -> None:
        """See `port.Redis.aclose`."""
        await self._client.aclose()
