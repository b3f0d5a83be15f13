"""Reads a body within limits; it is decompressed in small pieces, so decompression bombs do no harm."""

from __future__ import annotations

import asyncio
import io
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from microsub.fetch.network import who_asks
from microsub.fetch.transport import Reply
from microsub.fetch.values import HopError

_PIECE = 64 * 1024

_COMPRESSED = 256
"""Bytes that are decompressed at a time, into a quarter of a megabyte at most."""

# Every chunk of a chunked body costs ten microseconds: many tiny chunks would add up to half a minute.
_MANY_CHUNKS = 20_000
_TINY_CHUNK = 64

# Servers that flush while they compress send several streams in a row, but never this many.
_MOST_MEMBERS = 1000


class _Inflate:
    """gzip or deflate. Each call to zlib produces at most `_PIECE` bytes.

    Servers send three formats under the name `deflate`: zlib, raw deflate and gzip; under `gzip` they sometimes send
    plain text. The first bytes show which it is.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._start = b""
        self._zlib: zlib._Decompress | None = None
        self._plain = False
        self._members = 1

    def feed(self, data: bytes, room: int, sink: io.BytesIO) -> None:
        if self._zlib is None and not self._plain:
            self._start += data
            if len(self._start) < 2:
                return
            data, self._start = self._start, b""
            self._sniff(data)
        if self._plain:
            sink.write(data[:room])
        else:
            self._inflate(data, room, sink)

    def finish(self) -> None:
        if self._plain or (self._zlib is not None and self._zlib.eof):
            return
        if self._start or self._zlib is not None:
            raise HopError("encoding", f"the {self._coding} body ends too early")

    def _sniff(self, data: bytes) -> None:
        if data[:2] == b"\x1f\x8b":
            self._zlib = zlib.decompressobj(wbits=31)
        elif self._coding == "gzip":
            self._plain = True
        elif data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0:
            self._zlib = zlib.decompressobj(wbits=15)
        else:
            self._zlib = zlib.decompressobj(wbits=-15)

    def _inflate(self, data: bytes, room: int, sink: io.BytesIO) -> None:
        assert self._zlib is not None
        while room > 0:
            if self._zlib.eof:
                data, self._start = self._start + data, b""
                if len(data) < 2:
                    self._start = data
                    break
                if data[:2] != b"\x1f\x8b":
                    break  # padding after the last member
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise HopError("encoding", f"the {self._coding} body has more than {_MOST_MEMBERS} parts")
                self._zlib = zlib.decompressobj(wbits=31)
            want = min(room, _PIECE)
            try:
                piece = self._zlib.decompress(data, want)
            except zlib.error as error:
                raise HopError("encoding", f"the {self._coding} body is broken: {error}") from None
            sink.write(piece)
            room -= len(piece)
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            if not data and len(piece) < want:
                break  # after a full piece, more output may follow without any input left


class Body:
    """Collects a body of at most `limit` bytes, before and after decompression."""

    def __init__(self, content_encoding: str | None, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._parts = 0
        self._whole = io.BytesIO()  # grows in place, and returns its bytes without a copy
        self._decoder = _decoder(content_encoding)

    @property
    def length(self) -> int:
        """Bytes so far, decompressed."""
        return self._whole.tell()

    @property
    def parts(self) -> int:
        """Number of pieces so far."""
        return self._parts

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The received data in pieces for `feed`: each of them, decompressed, is small compared to a body."""
        size = len(data) if self._decoder is None else _COMPRESSED
        return (data[start : start + size] for start in range(0, len(data), size or 1))

    def feed(self, data: bytes) -> None:
        """Add received data. Raises HopError (`too_large`, `encoding`, `protocol`)."""
        self._received += len(data)
        self._parts += 1
        if self._parts > _MANY_CHUNKS and self._received < _TINY_CHUNK * self._parts:
            raise HopError("protocol", f"the body has tiny chunks: {self._received} bytes in {self._parts} chunks")
        room = self._limit + 1 - self.length
        if self._decoder is None:
            self._whole.write(data[:room])
        else:
            self._decoder.feed(data, room, self._whole)
        if self.length > self._limit or self._received > self._limit:
            raise HopError("too_large", f"the document is larger than {self._limit / 1e6:.2g} MB")

    def finish(self) -> bytes:
        """The whole body. Raises HopError if the compressed stream is incomplete."""
        if self._received and self._decoder is not None:
            self._decoder.finish()
        return self._whole.getvalue()

    def drop(self) -> None:
        """Free the memory."""
        self._whole.close()


def _decoder(content_encoding: str | None) -> _Inflate | None:
    codings = [part.strip().lower() for part in (content_encoding or "").split(",")]
    codings = [coding for coding in codings if coding not in {"", "identity", "none", "utf-8"}]
    if not codings:
        return None
    coding = codings[0].removeprefix("x-")
    if len(codings) > 1 or coding not in {"gzip", "deflate"}:
        raise HopError("encoding", "the server sent a Content-Encoding that wasn't requested")
    return _Inflate(coding)


# --- room ---------------------------------------------------------------------------------------------------------
#
# Limits the bytes of bodies that one process has in memory, so that two hundred large replies don't fill it.
#
# Small bodies are free. A larger one takes room for every further piece, and returns all of it when the document is
# dropped, whether it was stored or not. If there is no room, reading stops: the publisher's TCP window fills, and
# nothing is lost.
#
# One requester gets at most half of the room: its slow documents could otherwise block everybody else.
#
# Bodies that wait for each other could wait forever. So the oldest one that is still arriving may exceed the limits if
# no other will return room; and it may exceed `total`, within its requester's half, if others don't return room soon.
# The real limit is `total` plus one body, occasionally more.

FREE = 64 * 1024
TOTAL = 16 * 1024 * 1024
PATIENCE = 5.0
"""Seconds that the oldest body waits for other documents that are kept for long."""


_HOLDERS: ContextVar[Sequence[str]] = ContextVar("holders", default=())


@contextmanager
def holding_for(users: Sequence[str]) -> Iterator[None]:
    """Count bodies that arrive in the block for one of these users instead of for the requester."""
    token = _HOLDERS.set(users)
    try:
        yield
    finally:
        _HOLDERS.reset(token)


class Room:
    """A process's room for bodies, for any number of event loops. Shares may be dropped in any thread."""

    def __init__(self, total: int = TOTAL, free: int = FREE) -> None:
        self._total = total
        self._free = free
        self._used: Counter[str] = Counter()
        self._arriving: dict[int, str] = {}
        self._arrived: Counter[str] = Counter()
        self._lock = threading.RLock()  # a share may be dropped during another one's turn
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._used.total()

    def share(self, keys: Sequence[str] = ("",)) -> Share:
        """The room of one body, counted for the least used of `keys`; freed with its last reference."""
        return Share(self, min(keys, key=self._used.__getitem__))

    def _may(self, share: Share, size: int) -> bool:
        if not self._arrived.total() and self._is_oldest(share):
            return True
        if self.used + size > self._total:
            return False
        if self._is_within_half(share.key, size):
            return True
        return not self._arrived[share.key] and self._is_oldest_of_its_user(share)

    def _is_oldest(self, share: Share) -> bool:
        return next(iter(self._arriving), None) == id(share)

    def _is_oldest_of_its_user(self, share: Share) -> bool:
        return next((one for one, key in self._arriving.items() if key == share.key), None) == id(share)

    def _is_next(self, share: Share, size: int) -> bool:
        """Whether no other body has waited longer, except those of users who use their half."""
        waiting = (one for one, key in self._arriving.items() if self._is_within_half(key))
        return self._is_within_half(share.key, size) and next(waiting, None) == id(share)

    def _is_within_half(self, key: str, size: int = 0) -> bool:
        return self._used[key] + size <= self._total // 2

    async def _take(self, share: Share, size: int) -> None:
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + PATIENCE
        with self._lock:
            self._arriving.setdefault(id(share), share.key)
        while True:
            with self._lock:
                if self._may(share, size) or (loop.time() >= patient_until and self._is_next(share, size)):
                    self._used[share.key] += size
                    share.held += size
                    return
                turn = asyncio.Event()
                self._waiting[turn] = loop
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(max(patient_until, loop.time() + 1.0)):
                        await turn.wait()
            finally:
                with self._lock:
                    del self._waiting[turn]

    def _settle(self, share: Share) -> None:
        with self._lock:
            if id(share) in self._arriving:
                del self._arriving[id(share)]
                self._arrived[share.key] += 1
                share.settled = True
        self._wake()

    def _give_back(self, share: Share) -> None:
        with self._lock:
            self._used[share.key] -= share.held
            self._arriving.pop(id(share), None)
            self._arrived[share.key] -= share.settled
            for counts in (self._used, self._arrived):
                if not counts[share.key]:
                    del counts[share.key]
            share.held, share.settled = 0, False
        self._wake()

    def _wake(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            waiting = list(self._waiting.items())
        for turn, loop in waiting:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(turn.set)


class Share:
    """The room that one body takes, for the user `key`."""

    def __init__(self, room: Room, key: str) -> None:
        self._room = room
        self.key = key
        self._size = 0
        self.held = 0
        self.settled = False

    async def grow(self, size: int) -> None:
        """Take room for `size` more bytes; waits until it is available."""
        self._size += size
        over = self._size - self._room._free - self.held
        if over > 0:
            await self._room._take(self, over)

    def fits(self, size: int) -> bool:
        """Whether `grow` would not wait."""
        over = self._size + size - self._room._free - self.held
        return over <= 0 or self._room._may(self, over)

    def settle(self) -> None:
        """Mark the body as complete: it won't grow, and will be dropped independently of others."""
        self._room._settle(self)

    def close(self) -> None:
        """Free the room now."""
        self._room._give_back(self)

    def __del__(self) -> None:
        # A caller can't forget to free a document's room.
        self._room._give_back(self)


# --- reading ------------------------------------------------------------------------------------------------------

_YIELD_EVERY = 64
"""Pieces of a body between two yields to the event loop: one read from the network may contain many."""

_LONGEST_WAIT_FOR_ROOM = 60.0


async def read_body(
    reply: Reply, fields: Mapping[str, str], limit: int, room: Room, clock: asyncio.Timeout
) -> tuple[bytes, Share]:
    """The whole body, at most `limit` bytes after decompression, and its room.

    Raises HopError. While it waits for room, `clock` is paused.
    """
    body = Body(fields.get("content-encoding"), limit)
    share = room.share(_HOLDERS.get() or (who_asks(),))
    try:
        async for part in reply.parts:
            for piece in body.pieces(part):
                before = body.length
                body.feed(piece)
                await _wait_for_room(share, body.length - before, clock)
                if body.parts % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        share.settle()
        return body.finish(), share
    except BaseException:
        body.drop()  # the error's traceback would keep it in memory for a while
        share.close()
        raise


async def _wait_for_room(share: Share, size: int, clock: asyncio.Timeout) -> None:
    """Take room for received data; waiting doesn't count against the publisher's time."""
    if share.fits(size):
        await share.grow(size)
        return
    end, start = clock.when(), time.monotonic()
    clock.reschedule(None)
    try:
        async with asyncio.timeout(_LONGEST_WAIT_FOR_ROOM):
            await share.grow(size)
    except TimeoutError:
        raise HopError("timeout", "there was no memory free for this document; it will be fetched again") from None
    finally:
        clock.reschedule(None if end is None else end + time.monotonic() - start)
