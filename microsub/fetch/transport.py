"""One request and its reply, TLS verified: directly over a guarded connection, or through an outgoing proxy.

HTTP/1.1 is RFC 9112; h11 reads it, which takes nothing that isn't.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import h11
import httpcore
import httpx

from microsub.fetch.network import Guard
from microsub.fetch.targets import Target
from microsub.fetch.values import FetchLimits, HopError
from microsub.fetch.wire import Wire, connect, reason_of

Fields = Sequence[tuple[bytes, bytes]]

_READ = 64 * 1024
_LONGEST_HEADER_BLOCK = 100 * 1024
_FRAMING = 3
"""How many times the bytes of the largest body a reply may take on the wire: chunks may be small, and have a frame."""

_SERVER_SPOKE_OF_UPGRADE = 101


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request of one hop. `inside` says that it may go to networks that the admin lists, and not to public ones;
    `web_ports` that it goes to ports 80 and 443 alone, but in those networks.
    """

    target: Target
    fields: Fields
    method: str = "GET"
    body: bytes = b""
    inside: bool = False
    web_ports: bool = False


class Reply(Protocol):
    """A reply whose body hasn't been read yet."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def fields(self) -> Fields:
        """The headers as they came."""
        ...

    def parts(self) -> AsyncIterator[bytes]:
        """The body, bytes as they come. Raises HopError."""
        ...

    async def aclose(self) -> None:
        """End the connection."""
        ...


class Carrier(Protocol):
    """What brings requests to publishers."""

    async def ask(self, request: Outgoing, idle: float) -> Reply:
        """Send `request`; no wait lasts longer than `idle` seconds. Raises HopError."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class Direct:
    """A connection to the publisher for every request, behind the guard."""

    def __init__(self, guard: Guard, ssl_context: ssl.SSLContext, limits: FetchLimits) -> None:
        self._guard = guard
        self._ssl = ssl_context
        self._ssl.set_alpn_protocols(["http/1.1"])
        self._limits = limits

    async def ask(self, request: Outgoing, idle: float) -> Reply:
        """See `Carrier.ask`."""
        target = request.target
        wire = await connect(
            self._guard, target.host, target.port, idle, inside=request.inside, web_ports=request.web_ports
        )
        try:
            if target.scheme == "https":
                await wire.secure(self._ssl, target.host)
            http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEADER_BLOCK)
            with _as_hop_failure():
                wire.write(_written(http, request))
            response = await self._response(http, wire)
        except BaseException:
            wire.close()
            raise
        return _DirectReply(http, wire, response, _FRAMING * self._limits.body + self._limits.head)

    async def _response(self, http: h11.Connection, wire: Wire) -> h11.Response:
        """The final reply's head, which must be complete within the limit, whatever goes before it."""
        left = self._limits.head
        while True:
            with _as_hop_failure():
                event = http.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                if left <= 0:
                    raise HopError("protocol", "the headers don't end")
                data = await wire.read(min(_READ, left))
                if not data and http.their_state is h11.SEND_RESPONSE:
                    raise HopError(
                        "protocol",
                        "the reply broke off or is no HTTP: Server disconnected without sending a response.",
                    )
                left -= len(data)
                with _as_hop_failure():
                    http.receive_data(data)
            elif not isinstance(event, h11.InformationalResponse) or event.status_code == _SERVER_SPOKE_OF_UPGRADE:
                raise HopError("protocol", "the reply is none to such a request")

    async def aclose(self) -> None:
        """Nothing to do: every reply ends its own connection."""


class _DirectReply:
    """`most` is how many bytes may come, whatever is in them: extensions of chunks and trailers are no body."""

    def __init__(self, http: h11.Connection, wire: Wire, response: h11.Response, most: int) -> None:
        self._http = http
        self._wire = wire
        self._left = most
        self.status = response.status_code
        self.fields: Fields = list(response.headers)

    async def parts(self) -> AsyncIterator[bytes]:
        while True:
            with _as_hop_failure():
                event = self._http.next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif event is h11.NEED_DATA:
                data = await self._wire.read(_READ)
                self._left -= len(data)
                if self._left < 0:
                    raise HopError("protocol", "there is more around the body than may be in it")
                with _as_hop_failure():
                    self._http.receive_data(data)
            else:
                return

    async def aclose(self) -> None:
        self._wire.close()


class Proxied:
    """An outgoing proxy behind the guard's check of the target."""

    def __init__(self, guard: Guard, ssl_context: ssl.SSLContext, proxy: str) -> None:
        self._guard = guard
        self._pool = _proxy_pool(proxy, ssl_context)

    async def ask(self, request: Outgoing, idle: float) -> Reply:
        """See `Carrier.ask`."""
        target = request.target
        await self._guard.addresses(
            target.host, target.port, all_must_pass=True, inside=request.inside, web_ports=request.web_ports
        )
        waits = {"connect": idle, "read": idle, "write": idle, "pool": None}
        with _as_hop_failure():
            asked = httpcore.Request(
                request.method,
                target.url,
                headers=list(request.fields),
                content=request.body,
                extensions={"timeout": waits},
            )
            return _ProxiedReply(await self._pool.handle_async_request(asked))

    async def aclose(self) -> None:
        """Close what the pool holds."""
        await self._pool.aclose()


class _ProxiedReply:
    def __init__(self, reply: httpcore.Response) -> None:
        self._reply = reply
        self.status = reply.status
        self.fields: Fields = reply.headers

    async def parts(self) -> AsyncIterator[bytes]:
        with _as_hop_failure():
            async for part in self._reply.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._reply.aclose()


def carrier(guard: Guard, *, proxy: str | None, ssl_context: ssl.SSLContext | None, limits: FetchLimits) -> Carrier:
    """How requests go out: through the proxy where there is one. Raises ValueError for a proxy of another kind."""
    context = ssl_context if ssl_context is not None else httpx.create_ssl_context()
    return Direct(guard, context, limits) if proxy is None else Proxied(guard, context, proxy)


def _written(http: h11.Connection, request: Outgoing) -> bytes:
    """The bytes of a request; h11 refuses whatever would be more than one header, or more than one request."""
    method, path = request.method.encode("ascii"), request.target.path.encode("ascii")
    events: list[h11.Event] = [h11.Request(method=method, target=path, headers=list(request.fields))]
    if request.body:
        events.append(h11.Data(data=request.body))
    return b"".join(http.send(event) or b"" for event in (*events, h11.EndOfMessage()))


def _proxy_pool(proxy: str, ssl_context: ssl.SSLContext) -> httpcore.AsyncHTTPProxy:
    url = httpx.URL(proxy)
    if url.scheme not in {"http", "https"}:
        raise ValueError(f"an outgoing proxy is http or https, found '{url.scheme}'")
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
        raise HopError("connect", f"the outgoing proxy refused: {error}") from None
    except (h11.ProtocolError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        raise HopError("protocol", f"the reply broke off or is no HTTP: {error or type(error).__name__}") from None


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
