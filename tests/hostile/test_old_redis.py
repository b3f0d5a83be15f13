"""`import ekster` from a hostile Redis ends with an error, in bounded time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from microsub.base.errors import InvalidRequest, MicrosubError
from microsub.redis.protocol import Redis
from microsub.transfer.ekster import store
from microsub.transfer.ekster.store import OldDatabase, open_old

Replies = Callable[[list[bytes]], bytes]


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def array(*parts: bytes) -> bytes:
    return b"*%d\r\n%s" % (len(parts), b"".join(parts))


@asynccontextmanager
async def server(replies: Replies) -> AsyncIterator[str]:
    """The URL of a server that answers commands with the bytes of `replies`; without end where it is `ENDLESS`."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                count = int((await reader.readuntil(b"\r\n"))[1:])
                command = []
                for _ in range(count):
                    length = int((await reader.readuntil(b"\r\n"))[1:])
                    command.append((await reader.readexactly(length + 2))[:-2])
                reply = replies(command)
                writer.write(reply)
                while reply.endswith(ENDLESS):
                    writer.write(ENDLESS * 10_000)
                    await writer.drain()
                while reply.endswith(DRIP):
                    writer.write(b"a")
                    await asyncio.sleep(0.01)
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 26)
    try:
        yield f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
    finally:
        listening.close()


ENDLESS = b"endless!"
DRIP = b"drip!"


def honest(command: list[bytes]) -> bytes:
    """One channel `home` with one item."""
    name, key = command[0].upper(), command[1] if len(command) > 1 else b""
    if name == b"TYPE":
        kinds = {b"channels": b"set", b"zchannel:home:posts": b"zset", b"channel:home:read": b"set"}
        return b"+%s\r\n" % (kinds.get(key) or (b"hash" if key.startswith(b"item:") else b"none"))
    if name == b"SSCAN":
        return array(bulk(b"0"), array(bulk(b"home")) if key == b"channels" else array())
    if name == b"ZSCAN":
        return array(bulk(b"0"), array(bulk(b"item:1"), bulk(b"1700000000")))
    if name == b"HMGET":
        return array(bulk(b"1"), bulk(b"2026-01-01T00:00:00Z"), bulk(b'{"type":"entry","name":"x"}'))
    return b"$-1\r\n" if name == b"GET" else b"+PONG\r\n"


def but(verb: bytes, reply: bytes | Replies) -> Replies:
    """An honest one, with other replies to one command."""

    def answer(command: list[bytes]) -> bytes:
        if command[0].upper() != verb:
            return honest(command)
        return reply(command) if callable(reply) else reply

    return answer


def endless_scan(members: Callable[[int], list[bytes]]) -> Replies:
    numbers: Iterator[int] = itertools.count(1)

    def answer(_: list[bytes]) -> bytes:
        number = next(numbers)
        return array(bulk(b"%d" % number), array(*members(number)))

    return answer


async def read_all(url: str, own: Redis) -> int:
    """Reads everything that the import reads, in its order; the number of items."""
    found = 0
    async with open_old(url, own) as old:
        for uid in await old.channels():
            for walk in (old.read(uid), old.unread(uid)):
                async for members in walk:
                    found += len(await old.items([name for name, _ in members]))
            async for items in old.streamed(uid):
                found += len(items)
    return found


async def test_an_honest_one_is_read(real_redis: Redis) -> None:
    """The test's own server speaks the protocol."""
    async with server(honest) as url:
        assert await read_all(url, real_redis) == 1


CASES: dict[str, Replies] = {
    "a scan without end": but(b"ZSCAN", endless_scan(lambda n: [bulk(b"item:%d" % n), bulk(b"1")])),
    "a scan without members": but(b"ZSCAN", endless_scan(lambda _: [])),
    "a scan of large names": but(b"ZSCAN", endless_scan(lambda n: [bulk(b"%d" % n * 4_000), bulk(b"1")])),
    "channels without end": but(b"SSCAN", endless_scan(lambda n: [bulk(b"%d %d" % (n, m)) for m in range(500)])),
    "a stream without end": lambda command: (
        b"+stream\r\n"
        if command[:2] == [b"TYPE", b"stream:home"]
        else array(*[array(bulk(b"1-1"), array(bulk(b"ID"), bulk(b"x")))] * 500)
        if command[0] == b"XRANGE"
        else honest(command)
    ),
    "a score that is no number": but(b"ZSCAN", array(bulk(b"0"), array(bulk(b"item:1"), bulk(b"soon")))),
    "a member without a score": but(b"ZSCAN", array(bulk(b"0"), array(bulk(b"item:1")))),
    "an invalid cursor": but(b"ZSCAN", array(array(), array())),
    "a number in place of a scan": but(b"ZSCAN", b":7\r\n"),
    "fields that are lists": but(b"HMGET", array(bulk(b"1"), array(), array())),
    "too few fields": but(b"HMGET", array(bulk(b"1"))),
    "a number in place of fields": but(b"HMGET", b":7\r\n"),
    "a value without end": but(b"HMGET", b"*3\r\n$4000000000\r\n" + ENDLESS),
    "an array without end": but(b"HMGET", b"*4000000000\r\n" + bulk(b"x")),
    "lists in lists": but(b"HMGET", b"*1\r\n" * 100_000),
    "an error": but(b"HMGET", b"-ERR \x1b[2Jno\r\n"),
    "an error to DBSIZE": but(b"DBSIZE", b"-ERR no\r\n"),
    "no Redis": but(b"TYPE", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "an end": but(b"TYPE", b""),
    "a value that drips": but(b"HMGET", b"*3\r\n$1000\r\n" + DRIP),
}


@pytest.mark.parametrize("case", CASES)
async def test_impossible_replies_are_errors(real_redis: Redis, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """The error is readable, whatever the reply was."""
    monkeypatch.setattr(store, "MOST_MEMBERS", 2_000)
    monkeypatch.setattr(store, "MOST_TEXT", 1 << 20)
    monkeypatch.setattr(store, "MOST_BYTES", 1 << 20)
    if case in {"an end", "a value that drips", "an array without end"}:
        monkeypatch.setattr(store, "PATIENCE_OF_CALL", 0.5)
    async with server(CASES[case]) as url:
        with pytest.raises(MicrosubError):
            await asyncio.wait_for(read_all(url, real_redis), 60)


async def test_invalid_moments_are_left_out(real_redis: Redis) -> None:
    """An item with an infinite time or with one that isn't a number is imported without a time."""
    scores = b"inf", b"-inf", b"nan", b"1e300"
    members = itertools.chain.from_iterable((bulk(b"item:%s" % score), bulk(score)) for score in scores)
    async with server(but(b"ZSCAN", array(bulk(b"0"), array(*members)))) as url, open_old(url, real_redis) as old:
        found = [at async for batch in old.unread("home") for _, at in batch]
    assert found == [None, None, None, 1e300]


async def test_all_replies_together_have_a_time(monkeypatch: pytest.MonkeyPatch, real_redis: Redis) -> None:
    """The total time limit also holds for many slow replies that each keep their own limit."""

    class Slow:
        async def pipeline(self, _: object) -> list[bytes]:
            await asyncio.sleep(0.05)
            return [b"none"]

    monkeypatch.setattr(store, "PATIENCE", 0.2)
    old, began = OldDatabase(Slow()), time.monotonic()  # type: ignore[arg-type]  # all that is called of it

    async def ask_on() -> None:
        while time.monotonic() < began + 60:
            await old._type("x")

    with pytest.raises(InvalidRequest, match="too slow"):
        await ask_on()
