"""A publisher on 127.0.0.1 with given answers, which records requests."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest


@dataclass(frozen=True)
class Asked:
    """One request, and its connection for writing bytes; header names in lower case, values byte for byte as latin-1.
    `target` is the path with its query, `number` counts the requests for it.
    """

    target: str
    headers: Mapping[str, str]
    at: float
    host: str
    method: str
    body: bytes
    reader: asyncio.StreamReader = field(repr=False)
    writer: asyncio.StreamWriter = field(repr=False)
    port: int
    number: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def form(self) -> dict[str, str]:
        """The fields of an urlencoded body; of repeated names the first."""
        return dict(reversed(self._fields))

    def all(self, name: str) -> list[str]:
        """Every value of this name in the body."""
        return [value for key, value in self._fields if key == name]

    @property
    def _fields(self) -> list[tuple[str, str]]:
        return parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)

    @property
    def bearer(self) -> str | None:
        """The token of the Authorization header."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" and token.strip() else None

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, *lines: str, status: str = "200 OK") -> None:
        await self.send("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1"))

    async def reply(self, body: bytes = b"", *lines: str, status: str = "200 OK") -> None:
        await self.head(f"Content-Length: {len(body)}", *lines, status=status)
        await self.send(body)

    async def redirect(self, location: str, status: str = "302 Found") -> None:
        await self.reply(b"", f"Location: {location}", status=status)

    async def hang(self) -> None:
        """Send nothing more until the client leaves."""
        await self.reader.read()

    def reset(self) -> None:
        """Drop the connection as a crash does: with RST, not FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def here(self, path: str, host: str = "elsewhere.test") -> str:
        return f"http://{host}:{self.port}{path}"


@dataclass(frozen=True)
class Answer:
    """A reply; header values are sent unchanged. `hang` keeps the connection open after the reply."""

    body: bytes = b""
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    hang: bool = False
    head_only_length: int | None = None


Handler = Callable[[Asked], "Answer | Awaitable[Answer | None]"]
"""Returns the reply, or None if it has written the reply itself."""


def json_reply(value: Mapping[str, Any], status: int = 200, *headers: tuple[str, str]) -> Answer:
    """A JSON object, not cacheable."""
    fields = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *headers]
    return Answer(json.dumps(value).encode(), status, fields)


def form_reply(value: Mapping[str, Any]) -> Answer:
    """The same as an urlencoded form, as older servers send it."""
    fields = [("Content-Type", "application/x-www-form-urlencoded"), ("Cache-Control", "no-store")]
    return Answer(urlencode({name: str(v) for name, v in value.items()}).encode(), 200, fields)


def html_reply(text: str, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """An HTML page."""
    return Answer(text.encode(), status, [("Content-Type", "text/html; charset=utf-8"), *headers])


def redirect_reply(location: str, status: int = 302) -> Answer:
    """A redirect to `location`, sent unchanged."""
    return Answer(b"", status, [("Location", location), ("Cache-Control", "no-store")])


@dataclass
class Publisher:
    """`serve(path, …)` sets the answer of a path, `otherwise` that of all others; `asked` is the log; `in_flight` and
    `most_in_flight` count requests. While `open` isn't set, requests wait for their answers. `down()` stops the
    server.
    """

    scheme: str = "http"
    host: str = "127.0.0.1"
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    handlers: dict[str, Answer | Handler] = field(default_factory=dict)
    otherwise: Answer | Handler = Answer(b"not here", 404)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    most_in_flight: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    server: asyncio.Server = field(init=False)

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"{self.scheme}://{host or self.host}:{self.port}{path}"

    @property
    def base(self) -> str:
        return self.url("")

    def down(self) -> None:
        """Refuse new connections, and close the open ones."""
        self.server.close()
        for writer in list(self.writers):
            writer.close()

    def serve(self, path: str, answer: Answer | Handler) -> str:
        self.handlers[path] = answer
        return self.url(path)

    def serve_document(
        self, path: str, body: bytes, content_type: str = "application/rss+xml", *, etag: str | None = None
    ) -> str:
        """Serve a document with a validator, and 304 if it is sent back."""
        tag = etag or f'"{hash(body) & 0xFFFFFFFF:x}"'

        def handler(asked: Asked) -> Answer:
            if asked.headers.get("if-none-match") == tag:
                return Answer(status=304, headers=[("ETag", tag)])
            return Answer(body, headers=[("Content-Type", content_type), ("ETag", tag)])

        return self.serve(path, handler)

    def to(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.target == path]

    def count(self, path: str) -> int:
        return len(self.to(path))

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            method, target = lines[0].split(" ")[:2]
            fields: dict[str, str] = {}
            for line in lines[1:]:
                name, colon, value = line.partition(":")
                if colon:
                    fields[name.lower()] = value.strip(" ")
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            at, host, number = time.monotonic(), fields.get("host", ""), 1 + self.count(target)
            asked = Asked(target, fields, at, host, method, body, reader, writer, self.port, number)
            self.asked.append(asked)
            await self.open.wait()
            answer: Any = self.handlers.get(asked.path, self.otherwise)
            if callable(answer):
                answer = answer(asked)
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                await self._send(writer, answer, with_body=method != "HEAD")
                if answer.hang:
                    await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            self.in_flight -= 1
            self.writers.discard(writer)
            with suppress(OSError):
                writer.close()

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer, *, with_body: bool) -> None:
        names = {name.lower() for name, _ in answer.headers}
        lines = [f"HTTP/1.1 {answer.status} Because"]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if "date" not in names:
            lines.append(f"Date: {formatdate(usegmt=True)}")
        if answer.status != 304 and "content-length" not in names:
            length = len(answer.body) if answer.head_only_length is None else answer.head_only_length
            lines.append(f"Content-Length: {length}")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (answer.body if with_body else b""))
        await writer.drain()


@asynccontextmanager
async def publisher(
    otherwise: Answer | Handler = Publisher.otherwise, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Publisher]:
    """A running publisher on a free port."""
    site = Publisher("https" if tls else "http", host, otherwise=otherwise)
    site.open.set()
    site.server = await asyncio.start_server(site.handle, host, 0, ssl=tls, limit=1 << 18)
    site.port = site.server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        site.server.close()


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A self-signed certificate for `host`: the server's context, and one of a client that trusts only this
    certificate.
    """
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the openssl program to make a certificate")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={host}"]
    command += ["-addext", f"subjectAltName=DNS:{host}"]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))
