"""A guarded connection: bytes out, bytes in, with an end to every wait; network errors become `HopError`.

No connection is kept for a second request: a host is asked at most once a second, most of them once an hour, and a
fresh connection means a fresh check of the address.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time

from microsub.fetch.network import Guard, nothing_left, out_of_descriptors
from microsub.fetch.values import HopError

_AHEAD = 128 * 1024
"""Bytes that may lie here unread; beyond them the publisher has to wait."""

_EARLY_ATTEMPT_SECONDS = 3.0
_LEAST_SECONDS = 0.1


class Wire(asyncio.Protocol):
    """One connection. `seconds` is how long each wait may last."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def write(self, data: bytes) -> None:
        """Send bytes; those of one request are few enough to be buffered."""
        assert self._transport is not None
        self._transport.write(data)

    async def read(self, most: int) -> bytes:
        """Some bytes, `most` of them at most; none when the server has ended the connection. Raises HopError."""
        if not self._received and not self._ended:
            await self._more()
        if self._received:
            data = bytes(self._received[:most])
            del self._received[:most]
            if self._paused and len(self._received) < _AHEAD and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            return data
        if self._error is not None:
            raise HopError("protocol", f"the reply broke off or is no HTTP: {reason_of(self._error)}")
        return b""

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on with TLS, the certificate verified for `host`. Raises HopError."""
        assert self._transport is not None
        host = host.removesuffix(".")  # the root's dot stands in no certificate (RFC 6066, 3)
        try:
            async with asyncio.timeout(self._seconds):
                secure = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        except TimeoutError:
            raise HopError("timeout", "the connection was not made in time") from None
        except ssl.SSLCertVerificationError as error:
            raise HopError("tls", f"TLS failed: the certificate is not valid ({error.verify_message})") from None
        except ssl.SSLError as error:
            raise HopError("tls", f"TLS failed: {error.reason or error}") from None
        except OSError as error:
            # asyncio's own errors of this kind have no number and say nothing.
            what = "it ended the connection" if error.errno is None else reason_of(error)
            raise HopError("connect", f"the server can't be reached: {what}") from None
        if secure is None:
            raise HopError("connect", "the server can't be reached: it ended the connection")
        self._transport = secure

    def close(self) -> None:
        """End the connection, whatever is still under way."""
        if self._transport is not None:
            self._transport.close()
            self._transport.abort()

    async def _more(self) -> None:
        waiter = self._waiter = self._loop.create_future()
        # Cheaper than a timeout of its own for every wait.
        timer = self._loop.call_later(self._seconds, _late, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = transport  # type: ignore[assignment]  # of a stream, so it is one

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += data
        if len(self._received) >= _AHEAD and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """See `asyncio.Protocol`: nothing more will come, and nothing more is to be sent."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._ended = True
        self._error = exc
        self._wake()


async def connect(
    guard: Guard, host: str, port: int, seconds: float, *, inside: bool = False, web_ports: bool = False
) -> Wire:
    """Connect to the first permitted address of `host` that answers; `seconds` are for all of them together.

    The address that was checked is the one that is connected to; `inside` and `web_ports` are the guard's.
    Raises HopError.
    """
    deadline = time.monotonic() + seconds
    addresses = await guard.addresses(host, port, inside=inside, web_ports=web_ports)
    loop = asyncio.get_running_loop()
    for place, address in enumerate(addresses):
        last = place == len(addresses) - 1
        left = max(_LEAST_SECONDS, deadline - time.monotonic())
        wire = Wire(seconds)
        try:
            async with asyncio.timeout(left if last else min(left, _EARLY_ATTEMPT_SECONDS)):
                await loop.create_connection(lambda wire=wire: wire, str(address), port)  # type: ignore[misc]
        except TimeoutError:
            if last:
                raise HopError("timeout", "the connection was not made in time") from None
        except OSError as error:
            if out_of_descriptors(error):
                raise nothing_left() from None
            if last:
                raise HopError("connect", f"the server can't be reached: {reason_of(error)}") from None
        else:
            return wire
    raise AssertionError("the guard returns one address at least")


def reason_of(error: Exception) -> str:
    """What the system says; asyncio's own words name the address, which isn't for everybody."""
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def _late(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(HopError("timeout", "the server sent nothing in time"))
