"""A small HTTP/1.1 server on loopback whose every byte a test decides. One request for each connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

LARGEST_BODY = 1 << 20


@dataclass(frozen=True)
class Request:
    """One request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def form(self) -> dict[str, str]:
        """The fields of an urlencoded body; the first of those with one name."""
        pairs = parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        return dict(reversed(pairs))

    def all(self, name: str) -> list[str]:
        """Every value that the body has by this name."""
        pairs = parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        return [value for key, value in pairs if key == name]

    @property
    def bearer(self) -> str | None:
        """The token of the Authorization header."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" and token.strip() else None


@dataclass(frozen=True)
class Reply:
    """What to send. Header values leave as they are, line breaks too. `hang`: nothing is sent, the connection stays."""

    body: bytes = b""
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    hang: bool = False
    drop: bool = False


Answering = Callable[[Request], Awaitable[Reply]]


@dataclass
class Listening:
    """Where a server listens; `down()` and `up()` take its port away and give it back."""

    answer: Answering
    host: str
    tls: ssl.SSLContext | None = None
    port: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def base(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._connected, self.host, self.port, ssl=self.tls, limit=1 << 18)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse connections from now on, and end those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            request = await _read(reader)
            reply = await self.answer(request)
            if reply.hang:
                await reader.read()
            elif not reply.drop:
                writer.write(_bytes(reply, request.method))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the other side left, or the test is over
        finally:
            self._writers.discard(writer)
            writer.close()


@asynccontextmanager
async def listening(
    answer: Answering, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listening]:
    """A running server on a free port; it ends with the block."""
    made = Listening(answer, host, tls)
    await made.up()
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            await made.down()


def json_reply(value: Mapping[str, Any], status: int = 200, *headers: tuple[str, str]) -> Reply:
    """A JSON object, not to be kept."""
    fields = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *headers]
    return Reply(json.dumps(value).encode(), status, fields)


def form_reply(value: Mapping[str, Any]) -> Reply:
    """The same as an urlencoded form, as older servers answer."""
    fields = [("Content-Type", "application/x-www-form-urlencoded"), ("Cache-Control", "no-store")]
    return Reply(urlencode({name: str(v) for name, v in value.items()}).encode(), 200, fields)


def html_reply(text: str, status: int = 200, *headers: tuple[str, str]) -> Reply:
    """A page."""
    return Reply(text.encode(), status, [("Content-Type", "text/html; charset=utf-8"), *headers])


def redirect_reply(location: str, status: int = 302) -> Reply:
    """A redirect to `location`, taken as it is."""
    return Reply(b"", status, [("Location", location), ("Cache-Control", "no-store")])


async def _read(reader: asyncio.StreamReader) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields[name.lower()] = value.strip()
    length = min(int(fields.get("content-length", "0") or 0), LARGEST_BODY)
    return Request(method, target, fields, await reader.readexactly(length) if length else b"")


def _bytes(reply: Reply, method: str) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Because"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    lines += [f"Content-Length: {len(reply.body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + (b"" if method == "HEAD" else reply.body)
