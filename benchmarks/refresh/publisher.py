"""`python -m benchmarks.refresh.publisher FEEDS [DELAY]`: that many feeds, one on each loopback address from 127.0.1.1
on, whose replies take DELAY seconds.

All replies are prepared in memory, so that serving costs almost nothing. Requests (`lines`): `urls`; `mode` sets a mode
(`MODES`) and resets the counts; `served` returns replies by status since then; `traffic` returns bytes since then. Both
are those of feeds: pages and icons, for which a reader's server asks too, aren't there.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

from benchmarks.refresh.feeds import ENTRIES, content_type, document

MODES = {"validators": (ENTRIES, True), "bare": (ENTRIES, False), "news": (ENTRIES + 1, True)}
"""By name: the number of the newest post, and whether replies have validators and requests with them get 304."""

_END = b"\r\n\r\n"
_SENT_TAG = re.compile(rb"\r\nif-none-match: *([^\r]+)\r\n", re.IGNORECASE)
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_CLOSES = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Replies:
    """The replies of one feed in one mode; `tag` is empty without validators."""

    whole: bytes
    same: bytes
    tag: bytes


class Publisher:
    """All feeds, and their current mode."""

    def __init__(self, hosts: list[str], port: int, now: datetime) -> None:
        bases = [f"http://{host}:{port}" for host in hosts]
        self.urls = [f"{base}/{number}" for number, base in enumerate(bases)]
        self.served: Counter[int] = Counter()
        self.traffic = 0
        """Bytes of requests and replies since the mode was set."""
        self._of = dict(zip(hosts, range(len(hosts)), strict=True))
        self._replies = {
            name: [_replies(number, base, newest, now, tagged) for number, base in enumerate(bases)]
            for name, (newest, tagged) in MODES.items()
        }
        self._mode = self._replies["validators"]

    def number(self, host: str) -> int:
        """The number of the feed at that address."""
        return self._of[host]

    def enter(self, mode: str) -> None:
        """Set the mode of all feeds."""
        self._mode = self._replies[mode]
        self.served.clear()
        self.traffic = 0

    def reply(self, number: int, request: bytes) -> bytes:
        """The reply of one feed's host to the head of a request."""
        if not request.startswith(b"GET /%d " % number):
            return _MISSING
        replies = self._mode[number]
        sent = _SENT_TAG.search(request)
        if replies.tag and sent is not None and sent[1].strip() == replies.tag:
            self.served[304] += 1
            return self._counted(request, replies.same)
        self.served[200] += 1
        return self._counted(request, replies.whole)

    def _counted(self, request: bytes, reply: bytes) -> bytes:
        self.traffic += len(request) + len(b"\r\n") + len(reply)
        return reply


def _replies(number: int, base: str, newest: int, now: datetime, tagged: bool) -> Replies:
    body = document(number, base, newest, now)
    tag = f'"{number}-{newest}"' if tagged else ""
    fields = [f"Date: {format_datetime(now, usegmt=True)}", "Server: benchmark"]
    if tagged:
        fields += [f"ETag: {tag}", f"Last-Modified: {format_datetime(now, usegmt=True)}"]
    head = "\r\n".join(fields)
    whole = f"HTTP/1.1 200 OK\r\n{head}\r\nContent-Type: {content_type(number)}\r\nContent-Length: {len(body)}\r\n\r\n"
    return Replies(whole.encode() + body, f"HTTP/1.1 304 Not Modified\r\n{head}\r\n\r\n".encode(), tag.encode())


class _Connection(asyncio.Protocol):
    def __init__(self, publisher: Publisher, delay: float) -> None:
        self._publisher = publisher
        self._delay = delay
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._number = self._publisher.number(transport.get_extra_info("sockname")[0])

    def data_received(self, data: bytes) -> None:
        self._received += data
        while _END in self._received:
            head, _, self._received = self._received.partition(_END)
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._reply, head)
            else:
                self._reply(head)

    def _reply(self, head: bytes) -> None:
        self._transport.write(self._publisher.reply(self._number, head + b"\r\n"))
        if _CLOSES.search(head + b"\r\n"):
            self._transport.close()


def listeners(count: int) -> list[socket.socket]:
    """One listening socket on each of `count` loopback addresses, all with the same port."""
    hosts = [f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(count)]
    first = socket.create_server((hosts[0], 0), backlog=64)
    port = first.getsockname()[1]
    return [first, *(socket.create_server((host, port), backlog=64) for host in hosts[1:])]


async def serve(count: int, delay: float = 0.0) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    sockets = listeners(count)
    hosts = [one.getsockname()[0] for one in sockets]
    now = datetime.now(UTC).replace(microsecond=0)
    publisher = Publisher(hosts, sockets[0].getsockname()[1], now)
    for one in sockets:
        await loop.create_server(lambda: _Connection(publisher, delay), sock=one)

    def mode(name: str) -> dict[str, Any]:
        publisher.enter(name)
        return {}

    acts: dict[str, Callable[..., dict[str, Any]]] = {
        "urls": lambda: {"urls": publisher.urls},
        "mode": mode,
        "traffic": lambda: {"bytes": publisher.traffic},
        "served": lambda: {str(status): count for status, count in publisher.served.items()},
    }
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        details = json.loads(line)
        print(json.dumps(acts[details.pop("do")](**details)), flush=True)


def main() -> None:
    """Run the publisher, on uvloop if it is installed."""
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))


if __name__ == "__main__":
    main()
