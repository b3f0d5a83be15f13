"""A body, bounded: decompressed piece by piece, so that a bomb is never expanded beyond the limit."""

from __future__ import annotations

import io
import zlib
from typing import Protocol

from microsub.fetch.values import HopError

_PIECE = 64 * 1024

# Every chunk of a chunked body costs some fifty microseconds. One byte each would cost minutes of everybody's time.
_MANY_CRUMBS = 20_000
_CRUMB = 4

# Servers that flush while they compress send several streams, one behind the other; never this many.
_MOST_MEMBERS = 1000


class _Decoder(Protocol):
    def feed(self, data: bytes, room: int, sink: io.BytesIO) -> None: ...
    def finish(self) -> None: ...


class _Identity:
    def feed(self, data: bytes, room: int, sink: io.BytesIO) -> None:
        sink.write(data[:room])

    def finish(self) -> None:
        return


class _Inflate:
    """gzip or deflate. Each call to zlib may produce `_PIECE` bytes at most.

    Servers send three things under the name `deflate`: zlib's format, the bare one, and plain text; under `gzip`
    they sometimes send plain text too. The first bytes tell.
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
                    break  # padding behind the last member
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
                break  # a full piece may have more behind it without any input left


class Body:
    """Collects a body of at most `limit` bytes, before and after decompression."""

    def __init__(self, content_encoding: str | None, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._parts = 0
        self._whole = io.BytesIO()  # grows in place, and gives its bytes away without a copy
        self._decoder = _decoder(content_encoding)

    @property
    def length(self) -> int:
        """Bytes so far, decompressed."""
        return self._whole.tell()

    @property
    def parts(self) -> int:
        """How many pieces have arrived."""
        return self._parts

    def feed(self, data: bytes) -> None:
        """Take what arrived. Raises HopError: `too_large` at the first byte over the limit, `encoding`, `protocol`."""
        self._received += len(data)
        self._parts += 1
        if self._parts > _MANY_CRUMBS and self._received < _CRUMB * self._parts:
            raise HopError("protocol", f"the body comes in crumbs: {self._received} bytes in {self._parts} chunks")
        self._decoder.feed(data, self._limit + 1 - self.length, self._whole)
        if self.length > self._limit or self._received > self._limit:
            raise HopError("too_large", f"the document is larger than {self._limit} bytes")

    def finish(self) -> bytes:
        """The whole body. Raises HopError when the compressed stream isn't complete."""
        if self._received:
            self._decoder.finish()
        return self._whole.getvalue()


def _decoder(content_encoding: str | None) -> _Decoder:
    codings = [part.strip().lower() for part in (content_encoding or "").split(",")]
    codings = [coding for coding in codings if coding not in {"", "identity", "none", "utf-8"}]
    if not codings:
        return _Identity()
    coding = codings[0].removeprefix("x-")
    if len(codings) > 1 or coding not in {"gzip", "deflate"}:
        raise HopError("encoding", f"the server sent the Content-Encoding '{coding[:40]}', which we didn't ask for")
    return _Inflate(coding)
