"""Name look-up and connections, guarded: the address that was checked is the address that is connected to.

A name is resolved once per connection, here, and the socket is opened to the resulting number. Nothing behind this
module looks the name up again, so an answer that changes in between (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import httpcore
import structlog

from microsub.fetch.addresses import Address, may_connect, parse_address
from microsub.fetch.values import HopError, Network

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Name and port to addresses as text, best first. Raises OSError when there are none. The seam for tests."""

_MOST_ATTEMPTS = 4
_EARLY_ATTEMPT_SECONDS = 3.0

log = structlog.get_logger(__name__)


class ThreadedResolver:
    """The system's own look-up, in daemon threads of its own.

    A name server that doesn't answer holds a thread for many seconds. These threads are none of the shared pool's, at
    most `width` at a time, and they don't hold up the end of the process.
    """

    def __init__(self, width: int = 64) -> None:
        self._free = asyncio.Semaphore(width)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Addresses of `host`, in the system's order of preference."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def finish(addresses: list[str], error: Exception | None) -> None:
            self._free.release()
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

        def look_up() -> None:
            addresses: list[str] = []
            error: Exception | None = None
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
            except (OSError, UnicodeError) as problem:
                error = problem
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, addresses, error)

        try:
            threading.Thread(target=look_up, name=f"resolve {host}"[:60], daemon=True).start()
        except RuntimeError as error:
            self._free.release()
            raise OSError(str(error)) from None  # the machine has no thread left for it
        return await answer


class Guard:
    """Turns host names into addresses that may be connected to."""

    def __init__(self, resolver: Resolver, allowed: tuple[Network, ...]) -> None:
        self._resolver = resolver
        self._allowed = allowed

    async def addresses(self, host: str, port: int, *, all_must_pass: bool = False) -> list[Address]:
        """The permitted addresses of `host`, a few at most. Raises HopError (`dns`, `blocked`).

        `all_must_pass` refuses a name as soon as one of its addresses is forbidden: for a proxy, which will choose
        among them itself.
        """
        literal = parse_address(host)
        found = [literal] if literal is not None else await self._look_up(host, port)
        good = [address for address in found if may_connect(address, self._allowed)]
        if not good or (all_must_pass and len(good) < len(found)):
            bad = next(address for address in found if address not in good)
            # The reason is shown to whoever asked for the URL, who shall not learn where names inside lead to.
            log.info("a forbidden address was not connected to", host=host, address=str(bad))
            raise HopError("blocked", f"{host} has no public address (see MICROSUB_ALLOW_PRIVATE_NETWORKS)")
        return good[:_MOST_ATTEMPTS]

    async def _look_up(self, host: str, port: int) -> list[Address]:
        try:
            texts = await self._resolver(host, port)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise HopError("dns", f"the host name {host} can't be resolved: {reason}") from None
        found = [address for address in map(parse_address, texts) if address is not None]
        if not found:
            raise HopError("dns", f"the host name {host} has no address")
        return found


class HeadBound(httpcore.AsyncNetworkStream):
    """A connection on which a reply's headers must be complete within `limit` bytes.

    httpcore bounds one header block, but reads any number of 1xx replies before the final one.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream, limit: int) -> None:
        self._stream = stream
        self._left: int | None = limit

    def head_is_complete(self) -> None:
        """From now on the bytes are the body's, which has its own limit."""
        self._left = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Read some bytes. Raises HopError (`protocol`) where the headers don't end."""
        if self._left is None:
            return await self._stream.read(max_bytes, timeout)
        if self._left <= 0:
            raise HopError("protocol", "the headers don't end")
        data = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
    ) -> httpcore.AsyncNetworkStream:
        """The same with TLS."""
        secure = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return HeadBound(secure, self._left or 0)

    def get_extra_info(self, info: str) -> Any:
        """What the connection knows of itself."""
        return self._stream.get_extra_info(info)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """The network as httpcore sees it, with the guard in front of every connection."""

    def __init__(self, guard: Guard, head: int) -> None:
        self._guard = guard
        self._head = head
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first permitted address that answers; `timeout` is for all of them together."""
        deadline = time.monotonic() + (timeout if timeout is not None else 10.0)
        addresses = await self._guard.addresses(host, port)
        for place, address in enumerate(addresses):
            last = place == len(addresses) - 1
            left = max(0.1, deadline - time.monotonic())
            try:
                plain = await self._plain.connect_tcp(
                    str(address),
                    port,
                    timeout=left if last else min(left, _EARLY_ATTEMPT_SECONDS),
                    local_address=local_address,
                    socket_options=socket_options,
                )
                return HeadBound(plain, self._head)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if last:
                    raise
        raise AssertionError("the guard returns one address at least")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never: no document lies there."""
        raise HopError("blocked", "unix sockets are not for fetching")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
