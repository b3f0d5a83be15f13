"""Many writes at once: commands are packed here and sent in large pieces; replies are only checked for errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import redis

PIECE = 1024 * 1024
"""Bytes that are sent before replies are read."""


def part(value: str | bytes) -> bytes:
    """One argument in wire form; several can be joined and reused."""
    data = value.encode() if isinstance(value, str) else value
    return b"$%d\r\n%s\r\n" % (len(data), data)


def command(count: int, *parts: bytes) -> bytes:
    """A command with `count` arguments that were packed by `part`."""
    return b"*%d\r\n%s" % (count, b"".join(parts))


class Bulk:
    """One connection for writing."""

    def __init__(self, connection: redis.Connection) -> None:
        self._connection = connection

    def run(self, commands: Iterable[bytes]) -> int:
        """Run packed commands; returns their number. Raises the first error that Redis returns."""
        total = waiting = size = 0
        piece: list[bytes] = []
        for one in commands:
            piece.append(one)
            size += len(one)
            waiting += 1
            if size >= PIECE:
                self._send(piece, waiting)
                total += waiting
                piece, waiting, size = [], 0, 0
        self._send(piece, waiting)
        return total + waiting

    def _send(self, piece: list[bytes], waiting: int) -> None:
        if not waiting:
            return
        self._connection.send_packed_command([b"".join(piece)])  # type: ignore[no-untyped-call]
        for _ in range(waiting):
            self._connection.read_response()  # raises if it is an error


@contextmanager
def bulk(url: str) -> Iterator[Bulk]:
    """A connection to the Redis at `url`."""
    client = redis.Redis.from_url(url)
    connection = client.connection_pool.get_connection()
    try:
        yield Bulk(connection)
    finally:
        client.connection_pool.release(connection)
        client.close()
