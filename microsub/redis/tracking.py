"""Changes as Redis reports them: `CLIENT TRACKING … BCAST`, a connection per server.

https://redis.io/docs/latest/develop/reference/client-side-caching/ describes it. The connection is watched: a silent
server is asked for a reply, and while there is no connection, listeners know that their copies may be out of date.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from microsub.base.errors import MicrosubError
from microsub.base.tasks import cancel_all
from microsub.redis.cluster import Address, look_up, split_url
from microsub.redis.multiplexer import connection_maker
from microsub.redis.protocol import ALIVE

PING_EVERY = 10.0
"""Seconds of silence after which the server is asked for a reply."""

PATIENCE = 10.0
"""Seconds that the server has to answer."""

RETRY_EVERY = 1.0


class Listener(Protocol):
    """A cache of stored data."""

    def tracked(self) -> None:
        """From now on every change is reported; earlier copies may be out of date."""

    def untracked(self) -> None:
        """Changes are not reported any more."""

    def changed(self, names: list[str] | None) -> None:
        """These keys have changed; None stands for all of them."""


class Tracker:
    """Reports changes of keys that begin with `prefix`, from `start` to `aclose`.

    `url` is any that `redis.connect` accepts. In a cluster it listens to every master; changes count as reported only
    while all of them are connected.
    """

    def __init__(
        self,
        url: str,
        prefix: str,
        *,
        ping_every: float = PING_EVERY,
        patience: float = PATIENCE,
        retry_every: float = RETRY_EVERY,
    ):
        self._cluster = "+cluster://" in url
        self._url, self._known = split_url(url) if self._cluster else (url, [])
        self._prefix = prefix
        self._ping_every = ping_every
        self._patience = patience
        self._retry_every = retry_every
        self._task: asyncio.Task[None] | None = None

    def start(self, listener: Listener) -> None:
        """Begin to listen in the background; connects, and reconnects, automatically."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(listener), name="redis-tracking")

    async def aclose(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, listener: Listener) -> None:
        while True:
            try:
                await self._session(listener)
            except (MicrosubError, RedisError, OSError):
                # Users of the store get the error themselves; here it only means that no change is reported.
                pass
            finally:
                listener.untracked()
            await asyncio.sleep(self._retry_every)

    async def _session(self, listener: Listener) -> None:
        """Listen to all masters until one connection breaks or there are other masters."""
        connections: list[AbstractConnection] = []
        try:
            masters = await self._masters()
            for host, port in sorted(masters) or [("", 0)]:
                changes = {"host": host, "port": port} if masters else {}
                connection = connection_maker(self._url, protocol=3, **changes)()
                connections.append(connection)
                await self._subscribe(connection, listener)
            listener.tracked()
            await self._listen(connections, masters)
        finally:
            for connection in connections:
                await connection.disconnect(nowait=True)

    async def _subscribe(self, connection: AbstractConnection, listener: Listener) -> None:
        await connection.connect()  # type: ignore[no-untyped-call]
        # Set before the first report can come.
        connection._get_parser().set_invalidation_push_handler(_Report(listener))  # type: ignore[attr-defined]
        await connection.send_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", self._prefix)
        await connection.read_response()

    async def _listen(self, connections: list[AbstractConnection], masters: set[Address]) -> None:
        """Listen until one connection fails; the tasks of the others end with it."""
        tasks = [asyncio.create_task(self._follow(connection)) for connection in connections]
        if masters:
            tasks.append(asyncio.create_task(self._watch(masters)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel_all(tasks)

    async def _follow(self, connection: AbstractConnection) -> None:
        while True:
            if await self._heard(connection, self._ping_every):
                continue
            await connection.send_command(*ALIVE)
            if not await self._heard(connection, self._patience):
                raise TimeoutError("the server stopped responding")

    async def _heard(self, connection: AbstractConnection, seconds: float) -> bool:
        reply: Any = await connection.read_response(push_request=True, timeout=seconds, disconnect_on_error=False)
        return reply is not None

    async def _watch(self, masters: set[Address]) -> None:
        """Wait until the cluster has other masters."""
        while True:
            await asyncio.sleep(self._ping_every)
            if await self._masters() != masters:
                return

    async def _masters(self) -> set[Address]:
        """Addresses of all masters of a cluster; empty for a single server."""
        if not self._cluster:
            return set()
        layout = await look_up(self._url, self._known)
        # The node of the URL might be down next time.
        self._known = list(dict.fromkeys([*self._known, *layout.masters, *layout.replicas]))
        return set(layout.masters)


class _Report:
    """redis-py's handler of push messages; `read_response` returns its answer."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    async def __call__(self, message: list[Any]) -> bool:
        names = message[1]
        self._listener.changed(None if names is None else [name.decode("utf-8", "replace") for name in names])
        return True
