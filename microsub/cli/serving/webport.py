"""Bounds of the web port: bytes beside a body, time, and connections of a client.

httptools keeps what stands before and behind a body until it is whole, and uvicorn waits for it without end. So the
protocol here counts bytes that belong to no body, and gives every connection a time by which the client has to have
sent what is due; `_Server.on_tick` looks at all of them once a second. Bodies are bounded by who reads them
(`kit.http.params`).
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

import httptools
import structlog
from uvicorn._types import ASGI3Application, ASGISendEvent, HTTPResponseBodyEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from microsub.kit.rate_limits import network_of
from microsub.settings import Network

log = structlog.get_logger(__name__)

HEAD_BYTES = 32 * 1024
"""Bytes of a request line with all headers; as many of trailers."""
URL_BYTES = 16 * 1024
PIECE = 16 * 1024
"""Bytes that the parser is given at once: what stands behind the end of a head in the same piece isn't counted."""
PATIENCE = 20.0
"""Seconds in which a whole head has to come, a body has to begin, and something of an answer has to be taken."""
RATE = 2048
"""Bytes a second that a body has to come with, and an answer has to be taken with, after `PATIENCE`."""
HURRY = 2.0
"""Takes the place of `PATIENCE` while half of the process' file descriptors are connections."""
PARTS, PART_BYTES = 20_000, 64
"""Parts of a body, and bytes that they have on average where there are more: a part takes a microsecond."""
PIPELINED = 16
"""Requests that may wait behind the one that is being answered."""
RESERVED = 128
"""File descriptors that connections leave to Redis, publishers and files."""

_NOW_ON = -math.inf
"""For `WebProtocol.due`: the client's time begins with the next look at it. So requests don't ask for the time."""


_CONTROLS = bytes({*range(0x20), 0x7F} - {ord("\t")})
"""What no header may have (RFC 9110, section 5.5)."""


class _Refused(Exception):
    """Ends the parser, and the request with it."""


class Clients:
    """Connections by network (an IPv4 address or a /64 of IPv6), without those of `proxies`."""

    def __init__(self, most: int, proxies: Sequence[Network] = ()) -> None:
        self._most = most
        self._proxies = proxies
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> str | None:
        """Count a connection; the network that it counts for, or None where that has its limit."""
        network = network_of(address)
        if self._most and self._open[network] >= self._most and not self._is_proxy(address):
            return None
        self._open[network] += 1
        return network

    def leave(self, network: str) -> None:
        """One connection of that network has ended."""
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]

    def _is_proxy(self, address: str) -> bool:
        return any(ip_address(address) in network for network in self._proxies)


class _Answer(RequestResponseCycle):
    """uvicorn's answer to a request, but one that is there as a whole leaves in one piece.

    uvicorn writes head and body by themselves, and looks at each header three times. A page of a timeline takes a tenth
    less time so.
    """

    _start: HTTPResponseStartEvent | None = None
    """The beginning, until something of the body is there, as ASGI demands."""

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
        await super().send(message)

    def _is_whole(self, start: HTTPResponseStartEvent, message: HTTPResponseBodyEvent) -> bool:
        """Whether this part is all of the body, and the connection goes on as it is."""
        if message.get("more_body") or not self.keep_alive or self.disconnected or self.flow.write_paused:
            return False
        headers, length = start.get("headers", ()), b"%d" % len(message.get("body", b""))
        is_told = (b"content-length", length) in headers and (b"connection", b"close") not in headers
        return is_told and self.scope["method"] != "HEAD"

    def _send_at_once(self, start: HTTPResponseStartEvent, body: bytes) -> None:
        lines = [b"%b: %b" % header for header in (*self.default_headers, *start["headers"])]
        text = b"".join(lines)
        if text.translate(None, _CONTROLS) != text:
            raise RuntimeError("a header of the answer has control characters")
        head = STATUS_LINE[start["status"]] + b"\r\n".join(lines) + b"\r\n\r\n"
        self.transport.writelines((head, body))
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.message_event.set()
        self.on_response()


class WebProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds; `due` is the loop's time by which the client must act."""

    clients = Clients(0)

    network: str | None = None
    _answered: RequestResponseCycle | None = None
    url = b""
    due = _NOW_ON
    _loose = 0
    """Bytes received since the last whole head, chunk or message that belong to no body."""
    _parts = _bytes = 0
    """Parts in which a body has come so far, and their bytes."""
    _refusal: HTTPStatus | None = None
    _unsent: tuple[float, int] | None = None
    """When the client was last found to take the answer, and how many bytes waited then."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""  # a Unix socket, whose clients nobody can tell apart
        self.network = self.clients.enter(address) if address else None
        if len(self.connections) > _most_connections() or (address and self.network is None):
            log.debug("a connection was refused: there are too many", address=address)
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        if self.network is not None:
            self.clients.leave(self.network)
            self.network = None
        self._end_answer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and refuse what has no end."""
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)] if len(data) > PIECE else (data,)
        for piece in pieces:
            self._loose += len(piece)
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:
                return  # there is nothing to upgrade to: the request is answered as any
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
        # Counted by bytes it may hold parts of other requests: exactly only where it matters.
        if self._loose > HEAD_BYTES and self._head_size() > HEAD_BYTES:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _Refused
        if [name for name, _ in self.headers].count(b"host") > 1:
            # A server in front may have gone by the other one (RFC 9112, section 3.2).
            self._refusal = HTTPStatus.BAD_REQUEST
            raise _Refused
        if len(self.pipeline) >= PIPELINED:
            self._refusal = HTTPStatus.TOO_MANY_REQUESTS
            raise _Refused
        self._loose = self._parts = self._bytes = 0
        super().on_headers_complete()
        self.headers = []  # trailers end here: the request has its own list, which they aren't a part of
        if not self.pipeline:
            self.due = _NOW_ON

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, and give the next one its time; none where the answer is out.

        Many small ones end the request.
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
        """The end of a chunk."""
        self._loose = 0

    def on_message_complete(self) -> None:
        """The end of a request: now it's our turn, or the client's with the next one."""
        self._loose = 0
        if self.cycle.response_complete:
            self.due = _NOW_ON
        else:
            self.due = math.inf
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """The end of an answer: the client's turn, unless it has sent the next request already.

        In place of uvicorn's own, which gives every idle connection a timer of five seconds. Many clients and proxies
        keep theirs for as long, and lose the request that meets the end; and `due` bounds the time in any case.
        """
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        ours = self.pipeline or not (self.cycle.response_complete or self.cycle.more_body)
        self.due = math.inf if ours else _NOW_ON

    def look(self, now: float, *, hurry: bool) -> None:
        """End the connection of a late client; in a `hurry` it has less time. `now`: loop's time."""
        if self.due == _NOW_ON or self.flow.read_paused:  # it may not send while reading is paused
            self.due = max(self.due, now + PATIENCE)
        elif now > self.due - (PATIENCE - HURRY if hurry else 0):
            self.due = math.inf
            if self._loose:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            self._unsent = None
        elif self._unsent is None:
            self._unsent = now, unsent
        elif now - self._unsent[0] > PATIENCE:
            if self._unsent[1] - unsent < PATIENCE * RATE:
                self.transport.abort()
            self._unsent = now, unsent

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Remember which request is answered: uvicorn knows only the one that came last."""
        self._answered = cycle
        cycle.__class__ = _Answer  # uvicorn has no way to name another class for it
        super()._start_asgi_task(cycle, app)

    def _end_answer(self) -> None:
        """Let the application write no more: nobody would get it."""
        for cycle in (self._answered, self.cycle):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with `status` where the client expects an answer, and close."""
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
    """Not that an answer was broken off: ours are on purpose, where a client is too slow or the feed was deleted."""
    return record.msg != "ASGI callable returned without completing response."


def look_at_all(connections: Iterable[object], now: float) -> None:
    """End the connections of one server whose clients are late. `now` is the loop's time."""
    found = [one for one in connections if isinstance(one, WebProtocol)]
    hurry = len(found) > _most_connections() / 2
    for one in found:
        one.look(now, hurry=hurry)


def _most_connections() -> float:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if descriptors == resource.RLIM_INFINITY else max(RESERVED, descriptors - RESERVED)
