"""The interface to Redis that the stores need: one connection, a cluster or a fake.

Replies are as Redis sends them: bytes, int, None and lists of these; nothing is decoded. A Redis error raises:
`StoreFull` for `OOM` and `MISCONF`, `StoreUnavailable` when the connection is lost, `Refusal` for a bug of ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from redis.exceptions import ResponseError

Refusal = ResponseError
"""Redis refuses a command, for example because the key has another type."""
Arg = str | bytes | int | float
Command = tuple[Arg, ...]

READS = frozenset(
    (
        *("CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL"),
        *("HKEYS", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "HVALS", "INFO", "KEYS", "MEMORY", "MGET", "OBJECT", "PING"),
        *("ROLE", "SCAN", "SCARD", "SCRIPT", "SISMEMBER", "SMEMBERS", "SMISMEMBER", "SSCAN", "STRLEN", "TIME", "TTL"),
        *("PTTL", "TYPE", "XINFO", "XLEN", "XPENDING", "XRANGE", "XREAD", "XREVRANGE", "ZCARD", "ZCOUNT", "ZLEXCOUNT"),
        *("ZINTER", "ZMSCORE", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE"),
        *("ZRANK", "ZREVRANGE", "ZREVRANGEBYSCORE", "ZREVRANK"),
        *("ZSCAN", "ZSCORE"),
    )
)
"""Commands that change no key: sending one twice does no harm. All other commands count as writes."""

ALIVE: Command = ("DBSIZE",)
"""A command that every Redis carries out that can be read.

ECHO works while it still loads its data, and PING is refused (MISCONF) while its disk is full.
"""

_CALLS = re.compile(r"redis\.p?call\((?:'(\w+)')?")


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script: its text, its SHA-1 as Redis knows it, and a name for errors and metrics.

    `writes` is False if the text calls only `READS`.
    """

    name: str
    text: str
    sha: str = field(init=False)
    writes: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())
        object.__setattr__(self, "writes", not READS.issuperset(_CALLS.findall(self.text)))


ScriptCall = tuple[Script, Sequence[str], Sequence[Arg]]
"""A script with its keys and arguments."""


class Redis(Protocol):
    """A connection to Redis; each command or script uses one slot, so that it can be a cluster."""

    @property
    def is_cluster(self) -> bool:
        """Whether the keys of a script must share a slot."""

    async def command(self, *args: Arg) -> Any:
        """Run one command; its first key decides the node."""
        ...

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Run independent commands in one round trip where possible; replies in order.

        The first error is raised after all have run.
        """
        ...

    async def script(self, call: ScriptCall) -> Any:
        """Run a script whose keys share a slot, by its SHA; unknown scripts are loaded."""
        ...

    async def scripts(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Run independent script calls, as `pipeline` does."""
        ...

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        """The names of all keys, on every node, in batches of about `count`.

        A key that exists throughout the scan is included; a key may occur repeatedly.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
