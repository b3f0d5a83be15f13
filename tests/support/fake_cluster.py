"""Nodes of a Redis Cluster that answer what a test tells them to: for moments that a real one is hard to bring to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import hiredis

Answer = Callable[[Sequence[bytes]], Awaitable[bytes | None]]
"""From a command to the bytes of its reply; None closes the connection."""


class FakeCluster:
    """`masters` are the ports of those that hold slots, in equal parts, as every node says; `asked` what they heard."""

    def __init__(self) -> None:
        self.masters: list[int] = []
        self.asked: list[tuple[int, bytes]] = []

    @asynccontextmanager
    async def node(self, answer: Answer) -> AsyncIterator[int]:
        """The port of a node that answers as `answer` does, but for the question who holds what."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            parser = hiredis.Reader()
            writers.append(writer)
            try:
                while data := await reader.read(65536):
                    parser.feed(data)
                    while (command := parser.gets()) is not False:
                        if command[0] == b"CLUSTER":
                            reply: bytes | None = self._slots()
                        else:
                            self.asked.append((port, b" ".join(command[:2])))
                            reply = await answer(command)
                        if reply is None:
                            return
                        writer.write(reply)
            except ConnectionError:
                return
            finally:
                writer.close()

        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        try:
            yield port
        finally:
            server.close()
            for writer in writers:
                writer.close()

    def heard(self, command: bytes) -> int:
        """How many commands began so."""
        return sum(text.startswith(command) for _, text in self.asked)

    def _slots(self) -> bytes:
        reply = b"*%d\r\n" % len(self.masters)
        size = 16384 // max(1, len(self.masters))
        for place, port in enumerate(self.masters):
            last = 16383 if place + 1 == len(self.masters) else (place + 1) * size - 1
            reply += b"*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\nx\r\n" % (place * size, last, port)
        return reply
