"""A load generator for machines without wrk: raw sockets, keep-alive, one request in flight per connection.

    python -m benchmarks.generator URL SECONDS CONNECTIONS [--header 'Name: value']… [--bodies FILE] [--skip N]

Prints the same JSON line as `report.lua`. It supports only what the servers under test send: HTTP/1.1 with
`Content-Length`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop


class Asker(asyncio.Protocol):
    """One connection: sends the next request as soon as a reply is complete, until the deadline."""

    def __init__(self, requests: Iterator[bytes], deadline: float, finished: asyncio.Future[None]) -> None:
        self.requests = requests
        self.deadline = deadline
        self.finished = finished
        self.latencies: list[float] = []
        self.failed = 0
        self.counted = 0
        self._buffer = b""
        self._missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop has a class of its own
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a failure if the connection breaks before the deadline."""
        if not self.finished.done():
            self.failed += 1
            self.finished.set_result(None)

    def _ask(self) -> None:
        self._sent = time.perf_counter()
        if self._sent >= self.deadline:
            if not self.finished.done():
                self.finished.set_result(None)
            self.transport.close()
            return
        self._buffer = b""
        self._missing = -1
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        """Collect one reply; only its head is kept, and the body of a short reply."""
        if self._missing < 0:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            start = head.index(b"content-length:") + 15
            self._missing = int(head[start:].split(b"\r\n", 1)[0]) - (len(self._buffer) - end - 4)
        else:
            self._missing -= len(data)
            if len(self._buffer) < 4096:
                self._buffer += data
        if self._missing == 0:
            self.latencies.append(time.perf_counter() - self._sent)
            self.failed += not self._buffer.startswith(b"HTTP/1.1 200")
            self.counted += b'"updated":1' in self._buffer
            self._ask()


def request_texts(url: str, headers: list[str], bodies: list[bytes] | None, skip: int) -> Iterator[bytes]:
    """The requests to send, endlessly: one GET, or one POST per body, in a cycle."""
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    common = "".join(f"{line}\r\n" for line in (f"Host: {parts.netloc}", *headers))
    if bodies is None:
        return itertools.repeat(f"GET {path} HTTP/1.1\r\n{common}\r\n".encode())
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    texts = [f"POST {path} HTTP/1.1\r\n{common}{form}Content-Length: {len(b)}\r\n\r\n".encode() + b for b in bodies]
    return itertools.islice(itertools.cycle(texts), skip % len(texts), None)


def _same(asker: Asker) -> Asker:
    return asker


async def generate(url: str, seconds: float, connections: int, requests: Iterator[bytes]) -> dict[str, int]:
    """Send requests to `url`'s host for `seconds`, and count; latencies in microseconds."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    started = time.perf_counter()
    askers = []
    for _ in range(connections):
        asker = Asker(requests, started + seconds, loop.create_future())
        await loop.create_connection(partial(_same, asker), parts.hostname or "", parts.port or 80)
        askers.append(asker)
    await asyncio.gather(*(asker.finished for asker in askers))
    elapsed = time.perf_counter() - started
    latencies = sorted(latency for asker in askers for latency in asker.latencies) or [0.0]
    return {
        "requests": sum(len(asker.latencies) for asker in askers),
        "microseconds": round(elapsed * 1e6),
        "p50": round(latencies[len(latencies) // 2] * 1e6),
        "p99": round(latencies[len(latencies) * 99 // 100] * 1e6),
        "failed": sum(asker.failed for asker in askers),
        "counted": sum(asker.counted for asker in askers),
    }


def main() -> None:
    """Read the arguments, generate the load and print the line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator")
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    parser.add_argument("connections", type=int)
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--bodies", type=Path)
    parser.add_argument("--skip", type=int, default=0)
    options = parser.parse_args()
    bodies = options.bodies.read_bytes().splitlines() if options.bodies else None
    requests = request_texts(options.url, options.header, bodies, options.skip)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(generate(options.url, options.seconds, options.connections, requests))
    print(json.dumps(found, separators=(",", ":")))


if __name__ == "__main__":
    main()
