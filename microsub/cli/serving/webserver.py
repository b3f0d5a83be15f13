"""The web server at a port: uvicorn, with time limits for slow clients and an end in two steps."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence

import uvicorn

from microsub.base.settings import Network
from microsub.cli.serving.webport import bounded, look_at_all

GRACE = 8
"""Seconds that requests have to end, and a worker too (`polling.worker`). Shutdown takes ten seconds at most."""


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, and with time limits for slow clients."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop. Connections that the kernel has accepted for us by now are answered too, instead of reset."""
        copies = [one.dup() for one in sockets or ()]
        for listening in self.servers:
            listening.close()
        for copy in copies:
            await self._take_waiting(copy)
            copy.close()
        await super().shutdown(sockets)

    async def _take_waiting(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        for _ in range(self.config.backlog):
            with contextlib.suppress(ConnectionError):
                try:
                    connection, _ = listener.accept()
                except BlockingIOError:
                    return
                connection.setblocking(False)
                state = self.lifespan.state
                protocol = self.config.http_protocol_class(self.config, self.server_state, state)  # type: ignore[call-arg]
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(lambda protocol=protocol: protocol, connection)  # type: ignore[misc]

    async def on_tick(self, counter: int) -> bool:  # ten times a second
        if counter % 10 == 0:
            look_at_all(list(self.server_state.connections), asyncio.get_running_loop().time())
        return await super().on_tick(counter)


@contextlib.asynccontextmanager
async def serving(
    app: object, listener: socket.socket, stop: asyncio.Event, proxies: Sequence[Network] = (), most: int = 0
) -> AsyncIterator[None]:
    """Serve an ASGI app on `listener` within the block; sets `stop` if the server dies.

    Headers from `proxies` about a client's address and scheme are trusted. Any other network may have `most`
    connections (0: any number).
    """
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # any ASGI callable
        http=bounded(most, proxies),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[str(network) for network in proxies],
        timeout_graceful_shutdown=GRACE,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    task.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        server.should_exit = True
        await task
