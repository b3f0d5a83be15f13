"""A connection of our own: order, limits of what is read ahead, and what is said of failures."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from microsub.fetch.network import Guard
from microsub.fetch.values import HopError
from microsub.fetch.wire import Wire, connect, reason_of

LOOPBACK = (ip_network("127.0.0.0/8"),)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def wired(serve: Serve, seconds: float = 10) -> AsyncIterator[Wire]:
    """A wire to a server that does `serve` with its connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        wire = await connect(Guard(here, LOOPBACK), "blog.example", server.sockets[0].getsockname()[1], seconds)
        try:
            yield wire
        finally:
            wire.close()


class Pausing(asyncio.Transport):
    """A transport that says whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


async def test_what_is_not_read_stays_with_the_publisher() -> None:
    """A body is read ahead by a little; the rest comes when there is room for it."""
    wire, transport = Wire(10), Pausing()
    wire.connection_made(transport)
    wire.data_received(b"a" * 100_000)
    assert transport.reading
    wire.data_received(b"b" * 100_000)
    assert not transport.reading
    assert await wire.read(65_536) == b"a" * 65_536
    assert not transport.reading
    assert await wire.read(65_536) == b"a" * 34_464 + b"b" * 31_072
    assert transport.reading


async def test_silence_has_an_end() -> None:
    """A server that sends nothing is waited for as long as each wait may last."""
    done = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await done.wait()

    async with wired(serve, seconds=0.05) as wire:
        with pytest.raises(HopError) as found:
            await wire.read(10)
        done.set()
    assert found.value.reason == "timeout"


async def test_the_end_of_a_connection_is_no_bytes() -> None:
    """What came before it is read first."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all")

    async with wired(serve) as wire:
        assert await wire.read(2) == b"al"
        assert await wire.read(2) == b"l"
        assert await wire.read(2) == b""


async def test_a_connection_that_is_reset_is_a_broken_reply() -> None:
    """It isn't the same as an end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with wired(serve) as wire:
        wire.write(b"GET")
        with pytest.raises(HopError) as found:
            await wire.read(10)
    assert found.value.reason == "protocol"


async def test_the_words_for_a_failure_name_no_address() -> None:
    """asyncio's own text has the number that was connected to, which isn't for everybody."""
    async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    with pytest.raises(HopError) as found:
        await connect(Guard(here, LOOPBACK), "blog.example", port, 5)
    assert found.value.reason == "connect"
    assert "127.0.0.1" not in found.value.detail
    assert reason_of(ssl.SSLError(1, "wrong version")) != ""


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    """As many sites have an IPv6 address that leads nowhere."""

    async def two(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.9", "127.0.0.1"]

    async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0) as server:
        wire = await connect(Guard(two, LOOPBACK), "blog.example", server.sockets[0].getsockname()[1], 5)
        assert await wire.read(1) == b""
        wire.close()
