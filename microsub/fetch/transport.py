"""One request and its reply, TLS verified, over a guarded connection or through a proxy.

h11 reads HTTP/1.1 (RFC 9112), and accepts nothing else. Every wait is limited, and network errors become `HopError`.
Connections aren't reused: a host gets at most one request a second, most get one an hour, and a fresh connection means
a fresh check of the address.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import h11
import httpcore
import httpx

from microsub.fetch.network import Guard, nothing_left, out_of_descriptors
from microsub.fetch.targets import HopTarget
from microsub.fetch.values import HEAD_BYTES, FetchSettings, HopError

_AHEAD = 128 * 1024
"""Unread bytes in memory; beyond them, the publisher has to wait."""

_EARLY_ATTEMPT_SECONDS = 3.0
_LEAST_SECONDS = 0.1
_QUOTED = re.compile(r":? (?:bytearray\(|b['\"])")


class Connection(asyncio.Protocol):
    """One connection. `seconds` limits each wait."""

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
        """Send bytes; one request's bytes are few enough to be buffered."""
        assert self._transport is not None
        self._transport.write(data)

    async def read(self, most: int) -> bytes:
        """Read at most `most` bytes; none after the server has closed the connection. Raises HopError."""
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
            raise HopError("protocol", f"the reply was cut off or isn't valid HTTP: {reason_of(self._error)}")
        return b""

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Switch to TLS, the certificate verified for `host`. Raises HopError."""
        assert self._transport is not None
        host = host.removesuffix(".")  # certificates don't contain the root's dot (RFC 6066, 3)
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
            # asyncio's own errors of this kind have no number and no message.
            what = "it closed the connection" if error.errno is None else reason_of(error)
            raise HopError("connect", f"the server can't be reached: {what}") from None
        if secure is None:
            raise HopError("connect", "the server can't be reached: it closed the connection")
        self._transport = secure

    def close(self) -> None:
        """Close the connection at once."""
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
        """See `asyncio.Protocol`: nothing more will be received or sent."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._ended = True
        self._error = exc
        self._wake()


async def connect(
    guard: Guard, host: str, port: int, seconds: float, *, inside: bool = False, web_ports: bool = False
) -> Connection:
    """Connect to the first permitted address of `host` that answers, within `seconds` in total.

    Connects to the very address that was checked; `inside` and `web_ports` are the guard's.
    Raises HopError.
    """
    deadline = time.monotonic() + seconds
    addresses = await guard.addresses(host, port, inside=inside, web_ports=web_ports)
    loop = asyncio.get_running_loop()
    for place, address in enumerate(addresses):
        last = place == len(addresses) - 1
        left = max(_LEAST_SECONDS, deadline - time.monotonic())
        connection = Connection(seconds)
        try:
            async with asyncio.timeout(left if last else min(left, _EARLY_ATTEMPT_SECONDS)):
                await loop.create_connection(lambda connection=connection: connection, str(address), port)  # type: ignore[misc]
        except TimeoutError:
            if last:
                raise HopError("timeout", "the connection was not made in time") from None
        except OSError as error:
            if out_of_descriptors(error):
                raise nothing_left() from None
            if last:
                raise HopError("connect", f"the server can't be reached: {reason_of(error)}") from None
        else:
            return connection
    raise AssertionError("the guard returns one address at least")


def reason_of(error: Exception) -> str:
    """The system's error message; asyncio's own contains the address, which isn't for everybody."""
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def _late(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(HopError("timeout", "the server sent nothing in time"))


# --- requests and replies -----------------------------------------------------------------------------------------

Fields = Sequence[tuple[bytes, bytes]]

_READ = 64 * 1024
_LONGEST_HEADER_BLOCK = 100 * 1024
_FRAMING = 3
"""Maximum bytes of a reply on the wire, as a multiple of the largest body: small chunks have a frame each."""

_SERVER_SPOKE_OF_UPGRADE = 101


class Outgoing(NamedTuple):
    """One request of one hop.

    `inside`: it may only go to non-public networks that the admin lists. `web_ports`: only ports 80 and 443 are
    allowed, except in those networks.
    """

    target: HopTarget
    fields: Fields
    method: str = "GET"
    body: bytes = b""
    inside: bool = False
    web_ports: bool = False


class Reply(NamedTuple):
    """A reply whose body hasn't been read yet.

    `parts` yields its bytes as they arrive, and raises HopError; `aclose` closes the connection.
    """

    status: int
    fields: Fields
    parts: AsyncIterator[bytes]
    aclose: Callable[[], Awaitable[None]]


@cache
def _usual_ssl_context() -> ssl.SSLContext:
    """One for all clients: it takes 30 ms to read the certificates of all authorities."""
    return httpx.create_ssl_context()


class HttpClient:
    """Sends requests to publishers, over one connection each, or through an outgoing proxy.

    The guard checks all targets. Raises ValueError for a proxy whose URL is neither http nor https.
    """

    def __init__(self, guard: Guard, settings: FetchSettings, ssl_context: ssl.SSLContext | None) -> None:
        self._guard = guard
        self._ssl = ssl_context if ssl_context is not None else _usual_ssl_context()
        self._ssl.set_alpn_protocols(["http/1.1"])
        self._settings = settings
        self._proxy = None if settings.proxy is None else _proxy_pool(settings.proxy, self._ssl)

    async def ask(self, request: Outgoing, idle: float) -> Reply:
        """Send `request`; no wait lasts longer than `idle` seconds. Raises HopError."""
        target, bounds = request.target, {"inside": request.inside, "web_ports": request.web_ports}
        if self._proxy is not None:
            await self._guard.addresses(target.host, target.port, all_must_pass=True, **bounds)
            return await _proxied(self._proxy, request, idle)
        connection = await connect(self._guard, target.host, target.port, idle, **bounds)
        try:
            if target.scheme == "https":
                await connection.secure(self._ssl, target.host)
            return await self._reply(connection, request)
        except BaseException:
            connection.close()
            raise

    async def aclose(self) -> None:
        """Close the proxy's pool; other replies close their own connections."""
        if self._proxy is not None:
            await self._proxy.aclose()

    async def _reply(self, connection: Connection, request: Outgoing) -> Reply:
        """Read the head of the reply; it must be complete within the limit, 1xx replies included."""
        incoming = _Incoming(connection, HEAD_BYTES, "the headers are too long")
        with _as_hop_failure():
            connection.write(_written(incoming.http, request))
        while isinstance(event := await incoming.event(), h11.InformationalResponse):
            if event.status_code == _SERVER_SPOKE_OF_UPGRADE:
                break
        if not isinstance(event, h11.Response):
            raise HopError("protocol", "the server replied to another kind of request")
        # Chunk extensions and trailers aren't part of the body.
        incoming.left = _FRAMING * self._settings.body + HEAD_BYTES
        incoming.too_much = "the chunk extensions or trailers of the body are too long"

        async def parts() -> AsyncIterator[bytes]:
            while isinstance(event := await incoming.event(), h11.Data):
                yield bytes(event.data)

        async def close() -> None:
            connection.close()

        return Reply(event.status_code, list(event.headers), parts(), close)


class _Incoming:
    """A publisher's reply as h11 events: at most `left` bytes, else the failure `too_much`."""

    def __init__(self, connection: Connection, left: int, too_much: str) -> None:
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEADER_BLOCK)
        self.left = left
        self.too_much = too_much
        self._connection = connection

    async def event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while True:
            with _as_hop_failure():
                event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self.left <= 0:
                raise HopError("protocol", self.too_much)
            data = await self._connection.read(min(_READ, self.left))
            if not data and self.http.their_state is h11.SEND_RESPONSE:
                raise HopError(
                    "protocol",
                    "the reply was cut off or isn't valid HTTP: Server disconnected without sending a response.",
                )
            self.left -= len(data)
            with _as_hop_failure():
                self.http.receive_data(data)


async def _proxied(pool: httpcore.AsyncHTTPProxy, request: Outgoing, idle: float) -> Reply:
    waits = {"connect": idle, "read": idle, "write": idle, "pool": None}
    with _as_hop_failure():
        reply = await pool.handle_async_request(
            httpcore.Request(
                request.method,
                request.target.url,
                headers=list(request.fields),
                content=request.body,
                extensions={"timeout": waits},
            )
        )

    async def parts() -> AsyncIterator[bytes]:
        with _as_hop_failure():
            async for part in reply.aiter_stream():
                yield part

    return Reply(reply.status, reply.headers, parts(), reply.aclose)


def _written(http: h11.Connection, request: Outgoing) -> bytes:
    """The bytes of a request; h11 refuses smuggled headers and requests."""
    method, path = request.method.encode("ascii"), request.target.path.encode("ascii")
    events: list[h11.Event] = [h11.Request(method=method, target=path, headers=list(request.fields))]
    if request.body:
        events.append(h11.Data(data=request.body))
    return b"".join(http.send(event) or b"" for event in (*events, h11.EndOfMessage()))


def _proxy_pool(proxy: str, ssl_context: ssl.SSLContext) -> httpcore.AsyncHTTPProxy:
    url = httpx.URL(proxy)
    if url.scheme not in {"http", "https"}:
        raise ValueError(f"an outgoing proxy must be http or https: found '{url.scheme}'")
    auth = (url.username.encode(), url.password.encode()) if url.username or url.password else None
    return httpcore.AsyncHTTPProxy(
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"),
        proxy_auth=auth,
        ssl_context=ssl_context,
        max_connections=None,
        max_keepalive_connections=0,
    )


@contextmanager
def _as_hop_failure() -> Iterator[None]:
    try:
        yield
    except httpcore.TimeoutException as error:
        what = "connection was not made" if isinstance(error, httpcore.ConnectTimeout) else "server sent nothing"
        raise HopError("timeout", f"the {what} in time") from None
    except httpcore.ConnectError as error:
        problem = _tls_problem(error)
        if problem is not None:
            raise HopError("tls", f"TLS failed: {problem}") from None
        raise HopError("connect", f"the outgoing proxy can't be reached: {_root(error)}") from None
    except httpcore.ProxyError as error:
        raise HopError("connect", f"the outgoing proxy refused the request: {error}") from None
    except (h11.ProtocolError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        # h11 quotes the invalid input, which may contain a secret.
        problem = _QUOTED.split(str(error))[0] or type(error).__name__
        raise HopError("protocol", f"the reply was cut off or isn't valid HTTP: {problem}") from None


def _tls_problem(error: BaseException) -> str | None:
    for link in _chain(error):
        if isinstance(link, ssl.SSLCertVerificationError):
            return f"the certificate is not valid ({link.verify_message})"
        if isinstance(link, ssl.SSLError):
            return link.reason or str(link)
    return None


def _root(error: BaseException) -> str:
    for link in _chain(error):
        if isinstance(link, OSError) and link.errno is not None and not isinstance(link, ssl.SSLError):
            return reason_of(link)
    return str(error) or type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(10):
        if link is None:
            return
        yield link
        if isinstance(link, BaseExceptionGroup):
            yield from link.exceptions
        link = link.__cause__ or link.__context__
