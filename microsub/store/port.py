"""What the stores need of Redis, and no more: the seam between one connection, a pool, a cluster and a fake.

Replies are as Redis sends them: bytes, int, None and lists of these; nothing is decoded. A Redis error raises:
`StoreFull` for `OOM` and `MISCONF`, `StoreUnavailable` when the connection is lost, `redis.ResponseError` for a bug of
ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Arg = str | bytes | int | float
Command = tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script: its text, its SHA-1 as Redis knows it, and a name for errors and metrics."""

    name: str
    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


class Redis(Protocol):
    """A way to talk to Redis. One key (or one slot) per command and script, so that every form serves a cluster too."""

    async def command(self, *args: Arg) -> Any:
        """Run one command; its first key decides the node."""
        ...

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Run independent commands in one round trip where possible, without a transaction; replies in order.

        The first error is raised after all have run.
        """
        ...

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        """Run a script whose keys share a slot, by its SHA, loading it where Redis doesn't know it yet."""
        ...

    async def scripts(self, calls: Sequence[tuple[Script, Sequence[str], Sequence[Arg]]]) -> list[Any]:
        """Run independent script calls in one round trip where possible; replies in order, first error raised."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
