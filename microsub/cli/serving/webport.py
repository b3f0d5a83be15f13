"""Limits of the web port: bytes outside of bodies, time, and connections of a client.

httptools buffers heads and trailers until they are complete, and uvicorn waits for them without limit. So this protocol
counts bytes outside of bodies, and gives each connection a time by which the client must send what is due;
`_Server.on_tick` checks all connections once a second. The readers of bodies limit those (`web.params`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
from collections import Counter
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import cast

import httptools
import structlog
from uvicorn._types import ASGI3Application, ASGISendEvent, HTTPResponseBodyEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from microsub.base.rate_limits import network_of
from microsub.base.settings import Network

log = structlog.get_logger(__name__)

HEAD_BYTES = 32 * 1024
"""Bytes of a request line with all headers; the same limit applies to trailers."""
URL_BYTES = 16 * 1024
PIECE = 16 * 1024
"""Bytes given to the parser at once: bytes after the end of a head in the same piece aren't counted."""
PATIENCE = 20.0
"""Seconds within which a head must be complete, a body begin, and a client read some of the response."""
RATE = 2048
"""Bytes per second at which a client must send a body or read a response, after `PATIENCE`."""
SENT_PIECE = 64 * 1024
"""Bytes of a response written at once: the next piece follows when the client has taken most of the one before."""
LARGE, LARGE_RATE = 1024 * 1024, 16 * 1024
"""Responses that take much memory until they are read, and the rate for them."""
HURRY = 2.0
"""Replaces `PATIENCE` while connections use half of the process' file descriptors."""
PARTS, PART_BYTES = 20_000, 64
"""How many parts a body may have, and their average bytes if it has more: a part takes a microsecond."""
PIPELINED = 16
"""How many requests may wait after the one being answered."""
FIRST_REQUEST = 1.0
"""Seconds that a new connection has to begin its request when the server stops; otherwise its client gets no reply."""
LAST_REQUEST = 0.1
"""The same for a connection that was idle: a request may have arrived that isn't read yet."""
RESERVED = 128
"""File descriptors reserved for Redis, publishers and files."""

_NOW_ON = -math.inf
"""For `WebProtocol.due`: the client's time starts at the next check, which saves requests a look at the clock."""


_CONTROLS = bytes({*range(0x20), 0x7F} - {ord("\t")})
"""Characters that headers must not contain (RFC 9110, section 5.5)."""


class _Refused(Exception):
    """Stops the parser and the request."""


class Clients:
    """Connections by network (an IPv4 address or a /64 of IPv6), without those of `proxies`."""

    def __init__(self, most: int, proxies: Sequence[Network] = ()) -> None:
        self._most = most
        self._proxies = proxies
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> str | None:
        """Count a connection; the network it counts for, or None if that is at its limit."""
        network = network_of(address)
        if self._most and self._open[network] >= self._most and not self._is_proxy(address):
            return None
        self._open[network] += 1
        return network

    def leave(self, network: str) -> None:
        """Subtract an ended connection of that network."""
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]

    def _is_proxy(self, address: str) -> bool:
        return any(ip_address(address) in network for network in self._proxies)


class _Answer(RequestResponseCycle):
    """uvicorn's response cycle, which writes a complete response at once.

    uvicorn writes head and body separately, and inspects each header three times. This saves a tenth of the time of a
    timeline's page.
    """

    protocol: WebProtocol
    _start: HTTPResponseStartEvent | None = None
    """The start message, kept until a part of the body arrives, as ASGI requires."""

    async def send(self, message: ASGISendEvent) -> None:
        """See ASGI."""
        if message["type"] == "http.response.start" and not self.response_started:
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None and message["type"] == "http.response.body" and self._is_whole(start, message):
            self._send_at_once(start, message.get("body", b""))
            return
        if start is not None:
            await super().send(start)
        body = message.get("body", b"") if message["type"] == "http.response.body" else b""
        if message["type"] == "http.response.body" and len(body) > SENT_PIECE:
            await self._send_pieces(body, more_body=message.get("more_body", False))
        else:
            self.protocol.written += len(body)
            await super().send(message)

    async def _send_pieces(self, body: bytes, *, more_body: bool) -> None:
        """Write a large part as its client takes it, so that it isn't in memory a second time."""
        self.protocol.is_large = len(body) >= LARGE
        try:
            for start in range(0, len(body), SENT_PIECE):
                piece, is_last = body[start : start + SENT_PIECE], start + SENT_PIECE >= len(body)
                self.protocol.written += len(piece)
                await super().send({"type": "http.response.body", "body": piece, "more_body": more_body or not is_last})
                if self.disconnected:
                    return
        finally:
            self.protocol.is_large = False

    def _is_whole(self, start: HTTPResponseStartEvent, message: HTTPResponseBodyEvent) -> bool:
        """Whether this part is the whole body, and the connection stays open."""
        size = len(message.get("body", b""))
        if size > SENT_PIECE or message.get("more_body") or not self.keep_alive:
            return False
        if self.disconnected or self.flow.write_paused:
            return False
        headers, length = start.get("headers", ()), b"%d" % size
        is_told = (b"content-length", length) in headers and (b"connection", b"close") not in headers
        return is_told and self.scope["method"] != "HEAD"

    def _send_at_once(self, start: HTTPResponseStartEvent, body: bytes) -> None:
        lines = [b"%b: %b" % header for header in (*self.default_headers, *start["headers"])]
        text = b"".join(lines)
        if text.translate(None, _CONTROLS) != text:
            raise RuntimeError("a header of the answer has control characters")
        head = STATUS_LINE[start["status"]] + b"\r\n".join(lines) + b"\r\n\r\n"
        self.protocol.written += len(body)
        self.transport.writelines((head, body))
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.message_event.set()
        self.on_response()


class WebProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits; `due` is the loop's time by which the client must act."""

    clients = Clients(0)

    network: str | None = None
    _answered: RequestResponseCycle | None = None
    url = b""
    due = _NOW_ON
    _loose = 0
    """Bytes outside of bodies since the last complete head, chunk or message."""
    _parts = _bytes = 0
    """How many parts of the body have arrived so far, and their bytes."""
    _is_leaving = False
    _refusal: HTTPStatus | None = None
    written = 0
    """Bytes of responses on this connection so far."""
    is_large = False
    """Whether the response being sent is large."""
    _taken: tuple[float, int] | None = None
    """When the client's reading was last measured, and how many bytes it had taken then; None: it has all of them."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""  # clients of a Unix socket have no address
        self.network = self.clients.enter(address) if address else None
        if len(self.connections) > _most_connections() or (address and self.network is None):
            log.debug("a connection was refused: there are too many", address=address)
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Subtract the connection."""
        if self.network is not None:
            self.clients.leave(self.network)
            self.network = None
        self._end_answer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; refuse a head or trailers that are too long."""
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)] if len(data) > PIECE else (data,)
        for piece in pieces:
            self._loose += len(piece)
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:
                return  # upgrades aren't supported: the request is answered normally
            except httptools.HttpParserError:
                self._refuse(self._refusal or HTTPStatus.BAD_REQUEST)
                return
            if self._loose > HEAD_BYTES:
                long_url = len(self.url) > URL_BYTES
                self._refuse(
                    HTTPStatus.REQUEST_URI_TOO_LONG if long_url else HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                )
                return

    def on_headers_complete(self) -> None:
        """Start the request, if its head is small enough."""
        if len(self.url) > URL_BYTES:
            self._refusal = HTTPStatus.REQUEST_URI_TOO_LONG
            raise _Refused
        # The byte count can include other requests' bytes, so the exact size is computed only if it matters.
        if self._loose > HEAD_BYTES and self._head_size() > HEAD_BYTES:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _Refused
        if [name for name, _ in self.headers].count(b"host") > 1:
            # A proxy in front may have used the other one (RFC 9112, section 3.2).
            self._refusal = HTTPStatus.BAD_REQUEST
            raise _Refused
        if len(self.pipeline) >= PIPELINED:
            self._refusal = HTTPStatus.TOO_MANY_REQUESTS
            raise _Refused
        self._loose = self._parts = self._bytes = 0
        super().on_headers_complete()
        self.headers = []  # for trailers, which aren't part of the request's headers
        if not self.pipeline:
            self.due = _NOW_ON

        if self._is_leaving:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Answer the request that has begun, or begins at this moment, and close. Replaces uvicorn's method."""
        self._is_leaving = True
        if self._is_idle():
            self.loop.call_later(FIRST_REQUEST if self.cycle is None else LAST_REQUEST, self._leave)
        else:
            self.cycle.keep_alive = False

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _leave(self) -> None:
        if self._is_idle():
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body and set the time for the next, unless the response is finished.

        Too many small parts end the request.
        """
        self._loose = max(0, self._loose - len(body))
        self._parts += 1
        self._bytes += len(body)
        if self._parts > PARTS and self._bytes < PART_BYTES * self._parts:
            raise _Refused
        if not self.cycle.response_complete:
            self.due += len(body) / RATE
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._loose = 0

    def on_message_complete(self) -> None:
        """Handle the end of a request: now the server must act, or the client with its next one."""
        self._loose = 0
        if self.cycle.response_complete:
            self.due = _NOW_ON
        else:
            self.due = math.inf
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Handle the end of a response: now the client must act, unless its next request is here.

        Replaces uvicorn's method, which closes idle connections after five seconds. Many clients and proxies use the
        same time, and lose a request sent at that moment. `due` limits the time anyway.
        """
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        ours = self.pipeline or not (self.cycle.response_complete or self.cycle.more_body)
        self.due = math.inf if ours else _NOW_ON

    def look(self, now: float, *, hurry: bool) -> None:
        """Close the connection of a late client; in a `hurry` it has less time. `now`: loop's time."""
        if self.due == _NOW_ON or self.flow.read_paused:  # it may not send while reading is paused
            self.due = max(self.due, now + PATIENCE)
        elif now > self.due - (PATIENCE - HURRY if hurry else 0):
            self.due = math.inf
            if self._loose:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()
        unsent = self.transport.get_write_buffer_size()
        taken = self.written - unsent
        if not unsent:
            self._taken = None
        elif self._taken is None:
            self._taken = now, taken
        elif now - self._taken[0] > PATIENCE:
            if taken - self._taken[1] < PATIENCE * (LARGE_RATE if self.is_large else RATE):
                self.transport.abort()
            self._taken = now, taken

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Remember which request is being answered: uvicorn only knows the latest."""
        self._answered = cycle
        cycle.__class__ = _Answer  # uvicorn has no option to use another class
        cast(_Answer, cycle).protocol = self
        super()._start_asgi_task(cycle, app)

    def _end_answer(self) -> None:
        """Stop the application from writing: the client is gone."""
        for cycle in (self._answered, self.cycle):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse(self, status: HTTPStatus) -> None:
        """Send `status` if the client expects a response, and close."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not (cycle.response_started or self.pipeline):
            text = status.phrase.encode()
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain\r\nconnection: close\r\n"
            self.transport.write(b"%scontent-length: %d\r\n\r\n%s" % (head.encode(), len(text), text))
        self._end_answer()
        self.transport.close()


def bounded(most: int, proxies: Sequence[Network] = ()) -> type[WebProtocol]:
    """The protocol of one server: `most` connections for each network (0: any number)."""
    logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)
    return type("WebProtocol", (WebProtocol,), {"clients": Clients(most, proxies)})


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Drop uvicorn's error about incomplete responses: we abort them on purpose, as for slow clients."""
    return record.msg != "ASGI callable returned without completing response."


def look_at_all(connections: Iterable[object], now: float) -> None:
    """Close one server's connections to late clients. `now` is the loop's time."""
    found = [one for one in connections if isinstance(one, WebProtocol)]
    hurry = len(found) > _most_connections() / 2
    for one in found:
        one.look(now, hurry=hurry)


def _most_connections() -> float:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if descriptors == resource.RLIM_INFINITY else max(RESERVED, descriptors - RESERVED)
