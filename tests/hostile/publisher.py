"""A publisher that writes bytes, not HTTP: what a case does to its visitor is a function of the connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Visit:
    """One request and the connection to answer it on. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int
    number: int

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
        """Say nothing more until the visitor leaves."""
        await self.reader.read()

    def reset(self) -> None:
        """Drop the connection as a crash does: with RST, not FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def here(self, path: str, host: str = "elsewhere.test") -> str:
        return f"http://{host}:{self.port}{path}"


Act = Callable[[Visit], Awaitable[None]]


@dataclass
class Publisher:
    """`acts` says what each path does; other paths serve a good feed. `visits` is the log of all requests.

    While `open` isn't set, visitors wait for their answer.
    """

    acts: dict[str, Act] = field(default_factory=dict)
    visits: list[Visit] = field(default_factory=list)
    good: bytes = b""
    port: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def to(self, path: str) -> list[Visit]:
        return [visit for visit in self.visits if visit.path == path]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = (line.partition(":")[::2] for line in lines[1:] if line)
            headers = {name.lower(): value[1:] for name, value in fields}
            path = lines[0].split(" ")[1]
            visit = Visit(path, headers, reader, writer, self.port, 1 + len(self.to(path)))
            self.visits.append(visit)
            await self.open.wait()
            await self.acts.get(path.partition("?")[0], self._good)(visit)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass  # the visitor left, or the test is over
        finally:
            with suppress(OSError):
                writer.close()

    async def _good(self, visit: Visit) -> None:
        await visit.reply(self.good, "Content-Type: application/rss+xml")


@asynccontextmanager
async def publisher(
    acts: dict[str, Act], *, good: bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Publisher]:
    """A running publisher on 127.0.0.1."""
    site = Publisher(acts, good=good)
    site.open.set()
    server = await asyncio.start_server(site.handle, "127.0.0.1", 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


def chunked(parts: Iterable[bytes]) -> bytes:
    """Parts as the chunks of a body, without its end."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
