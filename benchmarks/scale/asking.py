"""Sends requests of many readers in turn to a web process, over 8 connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CONNECTIONS = 8
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class RefusedError(Exception):
    """A request was not answered with success."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The number of answered requests, and the bytes of requests and replies, including their heads."""

    count: int
    bytes: int


def get(token: str, query: str) -> bytes:
    """A GET request."""
    return f"GET /microsub?{query} HTTP/1.1\r\nHost: reader\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def post(token: str, form: str) -> bytes:
    """A POST request."""
    kind = "Content-Type: application/x-www-form-urlencoded"
    head = f"POST /microsub HTTP/1.1\r\nHost: reader\r\nAuthorization: Bearer {token}\r\n{kind}\r\n"
    return f"{head}Content-Length: {len(form)}\r\n\r\n{form}".encode()


async def ask(port: int, requests: Iterable[bytes]) -> Answers:
    """Send all requests. Raises RefusedError for the first that fails."""
    waiting = iter(requests)
    found = await asyncio.gather(*(_connection(port, waiting) for _ in range(CONNECTIONS)))
    return Answers(sum(one.count for one in found), sum(one.bytes for one in found))


async def _connection(port: int, requests: Iterator[bytes]) -> Answers:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = size = 0
    try:
        for request in requests:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if not head.startswith(b"HTTP/1.1 200"):
                raise RefusedError(f"{request!r}: {head!r} {body[:500]!r}")
            count += 1
            size += len(request) + len(head) + len(body)
    finally:
        writer.close()
    return Answers(count, size)
