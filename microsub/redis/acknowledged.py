"""Changes that a replica has too before they count as made: `port.Redis` for one server that has replicas.

Redis answers before its replicas have heard anything, and a replica that takes over knows nothing of the last moments.
So every write is followed by `WAIT` (https://redis.io/docs/latest/commands/wait/) in the same packet; it costs the way
to the replica and back, and no further round trip. Writes have a connection of their own, because Redis keeps back
whatever comes behind a `WAIT` on the same one, and reads shall not wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from microsub.errors import StoreUnavailable
from microsub.logs import LibraryLogger
from microsub.redis.failures import all_good
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import READS, Arg, Command, Script

log = LibraryLogger(__name__)

WAIT_SECONDS = 1.0
"""How long replicas may take for what is written. They answer at once unless something is wrong."""

# What is lost of these the next call finds again: a message goes to another consumer.
_HARMLESS = READS | {"XREADGROUP", "XAUTOCLAIM", "XCLAIM"}

Call = tuple[Script, Sequence[str], Sequence[Arg]]


class Acknowledged:
    """`port.Redis` for a single server; `changes` as in `Multiplexed`.

    A write returns when `replicas` of them have it, else it raises StoreUnavailable: then it was made, and may be lost
    again. None stands for one, as long as there is one that keeps up.
    """

    def __init__(self, url: str, replicas: int | None, **changes: Any) -> None:
        self._asked_for = replicas
        self._wanted = replicas
        self._reads = Multiplexed(url, **changes)
        self._writes = Multiplexed(url, **changes)

    def look_again(self) -> None:
        """Replicas may have come or gone: with the next write the server is asked."""
        self._wanted = self._asked_for

    async def command(self, *args: Arg) -> Any:
        """See `port.Redis.command`."""
        if self._wanted == 0 or args[0] in _HARMLESS:
            return await self._reads.command(*args)
        return all_good(await self._written([args]))[0]

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """See `port.Redis.pipeline`."""
        return all_good(await self.run(commands))

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        """See `port.Redis.script`."""
        if self._wanted == 0 or not script.writes:
            return await self._reads.script(script, keys, args)
        return all_good(await self.run_scripts([(script, keys, args)]))[0]

    async def scripts(self, calls: Sequence[Call]) -> list[Any]:
        """See `port.Redis.scripts`."""
        return all_good(await self.run_scripts(calls))

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """As `pipeline`, errors among the replies as values."""
        if all(command[0] in _HARMLESS for command in commands):
            return await self._reads.run(commands)
        return await self._written(commands)

    async def run_scripts(self, calls: Sequence[Call]) -> list[Any]:
        """As `scripts`, errors among the replies as values."""
        run = self._written if any(script.writes for script, _, _ in calls) else self._reads.run
        commands: list[Command] = [("EVALSHA", script.sha, len(keys), *keys, *args) for script, keys, args in calls]
        replies = await run(commands)
        unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            missing = {calls[index][0].sha: calls[index][0] for index in unknown}.values()
            await self._reads.pipeline([("SCRIPT", "LOAD", script.text) for script in missing])
            again = await run([commands[index] for index in unknown])
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        return replies

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        """See `port.Redis.scan`."""
        return self._reads.scan(count)

    async def aclose(self) -> None:
        """See `port.Redis.aclose`."""
        await self._reads.aclose()
        await self._writes.aclose()

    async def _written(self, commands: Sequence[Command]) -> list[Any]:
        wanted = self._wanted
        if wanted is None:
            wanted = self._wanted = await self._replicas()
        if not wanted:
            return await self._reads.run(commands)
        *replies, have = await self._writes.run([*commands, ("WAIT", wanted, int(WAIT_SECONDS * 1000))])
        if isinstance(have, int) and have >= wanted:
            return replies
        if all(isinstance(reply, Exception) for reply in replies):
            return replies  # nothing was written, so there is nothing to lose
        self.look_again()
        if self._asked_for is None and not await self._replicas():
            log.warning("a master has lost its last replica; new writes are not replicated")
            return replies
        raise StoreUnavailable(f"written, but of {wanted} replicas only {have} had it within {WAIT_SECONDS:g} s")

    async def _replicas(self) -> int:
        """How many to wait for where nobody said: one, if one is connected and has caught up."""
        try:
            role = await self._reads.command("ROLE")
        except ResponseError:  # a rented Redis may forbid it
            return 0
        return int(role[0] == b"master" and len(role[2]) > 0)
