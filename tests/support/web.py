"""A publisher on 127.0.0.1 that answers as told and remembers what it was asked."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Asked:
    """One request as it arrived; header names in lower case, values byte for byte as latin-1."""

    path: str
    headers: Mapping[str, str]
    at: float
    host: str
    method: str = "GET"
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What to reply. `hang` keeps the connection open after what is sent; `trickle` sends byte by byte."""

    body: bytes = b""
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    hang: bool = False
    head_only_length: int | None = None


Handler = Callable[[Asked], "Answer | Awaitable[Answer]"]


@dataclass
class Publisher:
    """`serve(path, …)` sets what a path answers; `asked` is the log; `in_flight` and `most_in_flight` count."""

    scheme: str = "http"
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    handlers: dict[str, Handler] = field(default_factory=dict)
    in_flight: int = 0
    most_in_flight: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def serve(self, path: str, answer: Answer | Handler) -> str:
        self.handlers[path] = answer if callable(answer) else (lambda _asked, answer=answer: answer)
        return self.url(path)

    def serve_document(
        self, path: str, body: bytes, content_type: str = "application/rss+xml", *, etag: str | None = None
    ) -> str:
        """A document with a validator, answered with 304 when the validator comes back."""
        tag = etag or f'"{hash(body) & 0xFFFFFFFF:x}"'

        def handler(asked: Asked) -> Answer:
            if asked.headers.get("if-none-match") == tag:
                return Answer(status=304, headers=[("ETag", tag)])
            return Answer(body, headers=[("Content-Type", content_type), ("ETag", tag)])

        return self.serve(path, handler)

    def count(self, path: str) -> int:
        return sum(1 for asked in self.asked if asked.path == path)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            method, path = lines[0].split(" ")[:2]
            fields: dict[str, str] = {}
            for line in lines[1:]:
                name, colon, value = line.partition(":")
                if colon:
                    fields[name.lower()] = value.strip(" ")
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            asked = Asked(path, fields, time.monotonic(), fields.get("host", ""), method, body)
            self.asked.append(asked)
            handler = self.handlers.get(path.partition("?")[0], lambda _asked: Answer(b"not here", 404))
            answer = handler(asked)
            if isinstance(answer, Awaitable):
                answer = await answer
            await self._send(writer, answer, with_body=method != "HEAD")
            if answer.hang:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side left, or the test is over
        finally:
            self.in_flight -= 1
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
async def publisher(*, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Publisher]:
    """A running publisher on a free port."""
    site = Publisher(scheme="https" if tls else "http")
    server = await asyncio.start_server(site.handle, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A self-signed certificate for `host`: the server's context, and a client's that trusts it and nothing else."""
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
