"""One request over one guarded connection, TLS verified; network errors become `HopError`.

No connection is kept for a second request: a host is asked at most once a second, most of them once an hour, and a
fresh connection means a fresh check of the address.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpcore
import httpx

from microsub.fetch.network import Guard, GuardedBackend, HeadBound
from microsub.fetch.values import HEAD_BYTES, HopError


class GuardedTransport(httpx.AsyncBaseTransport):
    """Direct connections through a `GuardedBackend`, or an outgoing proxy behind the guard's check of the target."""

    def __init__(
        self,
        guard: Guard,
        *,
        proxy: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        head: int = HEAD_BYTES,
    ) -> None:
        self._guard = guard
        self._ssl = ssl_context if ssl_context is not None else httpx.create_ssl_context()
        self._backend = GuardedBackend(guard, head)
        self._proxy = None if proxy is None else _proxy_pool(proxy, self._ssl)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request`; the reply's stream is bytes as they came. Raises HopError."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        core = httpcore.Request("GET", url, headers=request.headers.raw, extensions=request.extensions)
        connection: httpcore.AsyncHTTPConnection | None = None
        if self._proxy is None:
            connection = httpcore.AsyncHTTPConnection(
                url.origin, ssl_context=self._ssl, network_backend=self._backend, keepalive_expiry=0.0
            )
        try:
            with _as_hop_failure():
                if connection is None:
                    assert self._proxy is not None
                    await self._guard.addresses(url.host.decode("ascii"), url.origin.port, all_must_pass=True)
                    reply = await self._proxy.handle_async_request(core)
                else:
                    reply = await connection.handle_async_request(core)
        except BaseException:
            if connection is not None:
                await connection.aclose()
            raise
        stream = reply.extensions.get("network_stream")
        if isinstance(stream, HeadBound):
            stream.head_is_complete()
        return httpx.Response(reply.status, headers=reply.headers, stream=_Stream(reply, connection))

    async def aclose(self) -> None:
        """Close what the proxy's pool holds."""
        if self._proxy is not None:
            await self._proxy.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, reply: httpcore.Response, connection: httpcore.AsyncHTTPConnection | None) -> None:
        self._reply = reply
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_hop_failure():
            async for part in self._reply.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._reply.aclose()
        if self._connection is not None:
            await self._connection.aclose()


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
        raise HopError("connect", f"the server can't be reached: {_root(error)}") from None
    except httpcore.ProxyError as error:
        raise HopError("connect", f"the outgoing proxy refused: {error}") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
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
        if isinstance(link, OSError) and link.strerror and not isinstance(link, ssl.SSLError):
            return link.strerror
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
