"""Limits of a connection: bytes, time, and the number per address."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from microsub.base.settings import Network
from microsub.cli.serving import webport, webserver
from tests.support.waiting import PATIENCE, wait_until

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


class Port:
    """A server of one application, with the requests that it got and its connections."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.scopes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.disconnected = 0
        self.answer = b"fine"
        self.app: Callable[..., Any] | None = None
        self.clients = webport.Clients(0)

    async def __call__(self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if self.app is not None:
            await self.app(scope, receive, send)
            return
        self.scopes.append(scope)
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected += 1
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        length = str(len(self.answer)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": self.answer})

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def told(self, sent: bytes) -> bytes:
        """Everything that comes back on a connection of its own, until the server closes it."""
        reader, writer = await self.connect()
        writer.write(sent)
        try:
            return await asyncio.wait_for(reader.read(), PATIENCE)
        finally:
            writer.close()


@asynccontextmanager
async def serving(most: int = 0, proxies: tuple[Network, ...] = ()) -> AsyncIterator[Port]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = Port(listener.getsockname()[1])
        bounded = webport.bounded

        def watched(*arguments: Any) -> type[webport.WebProtocol]:
            made = bounded(*arguments)
            port.clients = made.clients
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(webserver, "bounded", watched)
            async with webserver.serving(port, listener, asyncio.Event(), proxies, most):
                yield port


def status(answer: bytes) -> str:
    return answer.partition(b"\r\n")[0].decode()


HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", "414", id="a long URL"),
        pytest.param(b"GET /" + b"a" * 40_000, "414", id="a URL without end"),
        pytest.param(HEAD + b"a: b\r\n" * 7_000 + b"\r\n", "431", id="many headers"),
        pytest.param(HEAD + b"a: b\r\n" * 7_000, "431", id="headers without end"),
        pytest.param(HEAD + b"a: " + b"b" * 40_000, "431", id="a value without end"),
        pytest.param(HEAD + b"a" * 40_000, "431", id="a name without end"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\n" + b"a: b\r\n" * 10_000, "431", id="trailers without end"),
        pytest.param(CHUNKED + b"1;" + b"a" * 60_000, "431", id="a chunk's extension without end"),
        pytest.param(b"nonsense\r\n\r\n", "400", id="no HTTP"),
        pytest.param(HEAD + b"HOST: b\r\n\r\n", "400", id="two hosts"),
    ],
)
async def test_request_lines_and_headers_are_bounded(sent: bytes, expected: str) -> None:
    """The URL by 16 KiB, all by 32 KiB; the answer names the limit, and the application gets no request."""
    async with serving() as port:
        assert status(await port.told(sent)).split()[1] == expected
        assert not port.bodies


async def test_a_head_in_pieces_is_counted_as_one() -> None:
    """Each piece alone is far below the limit."""
    async with serving() as port:
        _, writer = await port.connect()
        writer.write(HEAD)
        while not writer.transport.is_closing():
            writer.write(b"a: b\r\n" * 100)
            await asyncio.sleep(0)
        assert not port.scopes


async def test_honest_requests_are_accepted() -> None:
    """A large body, in the smallest chunks; many requests in a row; a head just below the limit."""
    async with serving() as port:
        reader, writer = await port.connect()
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n" + b"b" * 1_000_000)
        writer.write(CHUNKED + b"1\r\nc\r\n" * 20_000 + b"0\r\n\r\n")
        writer.write(HEAD + b"a: " + b"d" * 31_000 + b"\r\nContent-Length: 0\r\n\r\n")
        await wait_until(lambda: len(port.bodies) == 3)
        assert [len(body) for body in port.bodies] == [1_000_000, 20_000, 0]
        writer.write((HEAD + b"Content-Length: 0\r\n\r\n") * 10 + HEAD + b"Connection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), PATIENCE)).count(b"200 OK") == 14


async def test_a_body_in_parts_of_a_byte_is_refused() -> None:
    """A million bytes, each in a chunk of its own, took a second of the serving process."""
    async with serving() as port:
        assert status(await port.told(CHUNKED + b"1\r\nc\r\n" * 20_001)).split()[1] == "400"
        assert not port.bodies
        _, writer = await port.connect()
        writer.write(CHUNKED + (b"64\r\n" + b"c" * 100 + b"\r\n") * 30_000 + b"0\r\n\r\n")
        await wait_until(lambda: len(port.bodies) == 1)
        assert len(port.bodies[0]) == 3_000_000


async def test_trailers_are_no_headers() -> None:
    """Only headers from the head are found."""
    async with serving() as port:
        await port.told(HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n")
        assert [name for name, _ in port.scopes[0]["headers"]] == [b"host", b"connection", b"transfer-encoding"]


async def test_heads_are_sent_with_and_without_bodies() -> None:
    """HEAD, 204, an answer in parts, an empty one in chunks, and a client that waits for 100 before its body."""

    async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        path = scope["path"]
        sent = (await receive()).get("body", b"")
        headers = {"/parts": [], "/none": []}.get(path, [(b"content-length", b"4")])
        await send({"type": "http.response.start", "status": 204 if path == "/none" else 200, "headers": headers})
        if path == "/parts":
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await send({"type": "http.response.body", "body": b"two", "more_body": True})
        body = {"/parts": b"", "/none": b""}.get(path, sent or b"fine")
        await send({"type": "http.response.body", "body": body})

    asked = b"POST /asked HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    async with serving() as port:
        port.app = app
        reader, writer = await port.connect()
        writer.write(asked)
        first = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        writer.write(b"body")
        rest = b"HEAD /head HTTP/1.1\r\nHost: h\r\n\r\nGET /none HTTP/1.1\r\nHost: h\r\n\r\n"
        writer.write(rest + b"GET /parts HTTP/1.1\r\nHost: h\r\n\r\n")
        writer.write(b"HEAD /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answers = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answers)
    assert statuses == [b"200", b"200", b"204", b"200", b"200"]
    assert answers.count(b"body") == 1
    assert b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" in answers


@pytest.mark.parametrize("length", [b"4", b"5"])
async def test_no_header_ends_its_line(length: bytes) -> None:
    """An application that sends such a header gets an error, whether the answer is complete or not."""

    async def app(_: object, __: object, send: Callable[..., Any]) -> None:
        headers = [(b"content-length", length), (b"location", b"/\r\nset-cookie: a=b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"fine"})

    async with serving() as port:
        port.app = app
        answer = await port.told(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not answer or status(answer).split()[1] == "500"
        assert b"set-cookie" not in answer


async def test_pipelined_requests_are_limited() -> None:
    """Ten thousand at once are refused, instead of kept."""
    async with serving() as port:
        with contextlib.suppress(ConnectionError):  # closed while more is being sent
            await port.told(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 8_000)
        assert len(port.scopes) <= webport.PIPELINED + 1


async def test_an_answer_that_is_broken_off_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """Its client sees that bytes are missing, and the log has no line about it."""

    async def answer(_: dict[str, Any], __: Callable[..., Any], send: Callable[..., Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with serving() as port:
        port.app = answer
        assert (await port.told(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")).endswith(b"half")
    assert caplog.text == ""


def test_the_answer_of_a_refused_connection_ends_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """An application still answers the first of many requests on a closed connection: no traceback in the log."""

    async def refused_meanwhile() -> None:
        async with serving() as port:
            going_on = asyncio.Event()

            async def answer(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
                await going_on.wait()
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"x"})
                port.bodies.append(b"answered")

            port.app = answer
            await port.told(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
            going_on.set()
            await wait_until(lambda: port.bodies or caplog.records)

    # The event loop of the server: asyncio's own accepts writes to a closed connection.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(refused_meanwhile())
    assert not [record for record in caplog.records if record.exc_info]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits for 0.2 seconds."""
    monkeypatch.setattr(webport, "PATIENCE", 0.2)


PARTS = (
    (b"", ""),
    (b"\r\n", "408"),
    (b"GET / HT", "408"),
    (HEAD, "408"),
    (HEAD + b"Content-Length: 10\r\n\r\nabc", ""),
    (CHUNKED + b"1\r\na\r\n", ""),
    (HEAD + b"Content-Length: 0\r\n\r\n" + HEAD, "200"),
    (HEAD + b"Content-Length: 0\r\n\r\n", "200"),
)
"""Parts of requests, and their answers."""


@pytest.mark.usefixtures("hasty")
async def test_incomplete_requests_time_out() -> None:
    """The connection is closed, and an application that waits for the body is notified."""
    async with serving() as port:
        replies = await asyncio.gather(*(port.told(sent) for sent, _ in PARTS))
        for (sent, expected), reply in zip(PARTS, replies, strict=True):
            assert expected in status(reply), sent
        assert len(port.bodies) + port.disconnected == len(port.scopes) == 4


async def test_an_idle_connection_outlives_those_of_clients() -> None:
    """Clients and uvicorn both keep one for 5 seconds: a request sent as the server closes it would be lost."""

    class Kept(webport.WebProtocol):
        def on_response_complete(self) -> None:
            super().on_response_complete()
            timers.append(self.timeout_keep_alive_task)

    timers: list[asyncio.TimerHandle | None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webport, "WebProtocol", Kept)
        async with serving() as port:
            _, writer = await port.connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await wait_until(lambda: timers)
            writer.close()
    assert timers == [None]  # so that only `PATIENCE` ends it


@pytest.mark.usefixtures("hasty")
async def test_a_dripping_body_is_ended() -> None:
    """Although each pause is shorter than the time limit."""
    async with serving() as port:
        _, writer = await port.connect()
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")

        async def drip() -> None:
            while not port.disconnected:
                writer.write(b"a")
                await asyncio.sleep(0.02)

        await asyncio.wait_for(drip(), PATIENCE)
        writer.close()


@pytest.mark.usefixtures("hasty")
async def test_unread_answers_time_out() -> None:
    """Data that can't be sent is discarded with the connection."""
    async with serving() as port:
        port.answer = b"x" * 50_000_000
        with socket.create_connection(("127.0.0.1", port.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await wait_until(lambda: port.bodies)
            await wait_until(lambda: not port.clients._open)


@asynccontextmanager
async def large_reply() -> AsyncIterator[tuple[asyncio.StreamReader, webport.WebProtocol]]:
    """A client that has requested a large reply, of which it has read nothing, and the server's end."""
    made: list[webport.WebProtocol] = []

    class Watched(webport.WebProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webport, "WebProtocol", Watched)
        async with serving() as port:
            port.answer = b"x" * 20_000_000
            reader, writer = await port.connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await wait_until(lambda: made and made[0].flow.write_paused)
            yield reader, made[0]
            writer.close()


async def test_a_large_reply_is_written_as_its_client_reads() -> None:
    """It was written at once, and was in memory until then, however slowly its client read."""
    async with large_reply() as (reader, protocol):
        assert protocol.transport.get_write_buffer_size() < 4 * webport.SENT_PIECE
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 20000000" in head
        assert len(await reader.readexactly(20_000_000)) == 20_000_000
        assert protocol.written == 20_000_000


async def test_a_steady_reader_gets_a_large_reply_whole() -> None:
    """The buffer stays as full as it was: only what the client has taken counts."""
    async with large_reply() as (reader, protocol):
        at, left = asyncio.get_running_loop().time(), 20_000_000
        protocol.look(at, hurry=False)
        while left > 0:
            before = protocol.written
            while left > 0 and protocol.written - before < 2 * webport.PATIENCE * webport.LARGE_RATE:
                left -= len(await reader.read(100_000))
            at += webport.PATIENCE + 1
            if left > 0:
                protocol.look(at, hurry=False)
            assert not protocol.transport.is_closing()


@pytest.mark.parametrize(("rate", "is_over"), [(webport.LARGE_RATE - 2000, True), (webport.LARGE_RATE + 2000, False)])
async def test_a_large_reply_has_a_minimum_rate(rate: int, *, is_over: bool) -> None:
    """16 KiB a second, since it takes memory until it is read."""
    async with large_reply() as (_, protocol):
        at = asyncio.get_running_loop().time()
        protocol.look(at, hurry=False)
        protocol.written += int(webport.PATIENCE * rate)  # as if the client had taken that much
        protocol.look(at + webport.PATIENCE + 1, hurry=False)
        assert protocol.transport.is_closing() == is_over


async def test_connections_of_an_address_are_limited() -> None:
    """One more is refused at once; when one of them ends, there is room for another."""
    async with serving(most=3) as port:
        held = [await port.connect() for _ in range(3)]
        assert "429" in status(await port.told(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
        held[0][1].close()
        close = HEAD + b"Connection: close\r\n\r\n"

        async def answered() -> bool:
            return "200" in status(await port.told(close))

        await wait_until(answered)
        for _, writer in held[1:]:
            writer.close()


async def test_a_listed_proxy_has_any_number() -> None:
    """It connects for all its users."""
    async with serving(most=3, proxies=(LOOPBACK,)) as port:
        held = [await port.connect() for _ in range(20)]
        assert "200" in status(await port.told(HEAD + b"Connection: close\r\n\r\n"))
        for _, writer in held:
            writer.close()


def test_a_network_of_ipv6_is_one_address() -> None:
    """A client with one address of a /64 has all of them."""
    clients = webport.Clients(2)
    entered = [clients.enter(f"2001:db8:0:1::{host}") for host in range(3)]
    assert entered == ["2001:db8:0:1::/64", "2001:db8:0:1::/64", None]
    assert clients.enter("2001:db8:0:2::1") is not None


async def test_a_stopping_server_answers_accepted_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that it never saw, and one whose first request comes late; an idle one is closed."""
    request, shutdown = HEAD + b"Content-Length: 0\r\n\r\n", webserver._Server.shutdown
    unseen: list[socket.socket] = []

    async def stop(server: webserver._Server, sockets: list[socket.socket] | None = None) -> None:
        # The loop accepts nothing between this and the end of the listening socket.
        unseen.append(socket.create_connection(("127.0.0.1", port.port)))
        unseen[0].sendall(request)
        asyncio.get_running_loop().call_later(0.02, late.write, request)
        await shutdown(server, sockets)

    monkeypatch.setattr(webserver._Server, "shutdown", stop)
    async with serving() as port:
        idle, sends = await port.connect()
        sends.write(request)
        await idle.readuntil(b"fine")
        fresh, late = await port.connect()
        await wait_until(lambda: sum(port.clients._open.values()) == 2)
    for answered in (unseen[0].recv(1000), await fresh.read()):
        assert status(answered).split()[1] == "200"
        assert b"connection: close" in answered
    assert await idle.read() == b""
    unseen[0].close()
    with pytest.raises(ConnectionError):
        await port.connect()
