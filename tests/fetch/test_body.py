"""Reading of bodies with a size limit, in every content coding."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import pytest

from microsub.fetch.body import Body
from microsub.fetch.values import HopError

TEXT = random.Random(7).randbytes(5_000) + b"<item/>" * 18_000


def bare(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


CODINGS = {
    "none": (None, TEXT),
    "identity": ("identity", TEXT),
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("X-GZIP", gzip.compress(TEXT)),
    "two gzip members": ("gzip", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
    "gzip with padding": ("gzip", gzip.compress(TEXT) + b"\0" * 20),
    "invalid gzip": ("gzip", TEXT),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "bare deflate": ("deflate", bare(TEXT)),
    "a charset for a coding": ("UTF-8", TEXT),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("step", [1, 7, 4096, 10_000_000])
def test_a_body_survives_any_slicing(coding: str, step: int) -> None:
    """The document is the same, however the bytes are split into chunks."""
    name, data = CODINGS[coding]
    if step == 1 and len(data) > 50_000:
        step = 997
    body = Body(name, len(TEXT))
    for start in range(0, len(data), step):
        body.feed(data[start : start + step])
    assert body.finish() == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_is_not_expanded(coding: str) -> None:
    """A body of 100 kB that expands to 100 MB fails at the limit, with little more memory than the limit."""
    data = gzip.compress(bytes(100_000_000), 1) if coding == "gzip" else zlib.compress(bytes(100_000_000), 1)
    body = Body(coding, 1_000_000)
    tracemalloc.start()
    with pytest.raises(HopError) as failure:
        body.feed(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert failure.value.reason == "too_large"
    assert peak < 4_000_000


def test_the_limit_is_exact() -> None:
    """A body of exactly the limit passes, one more byte fails, compressed or not; endless empty padding fails too."""
    for name, pack in ((None, bytes), ("gzip", gzip.compress)):
        body = Body(name, 1000)
        body.feed(pack(bytes(1000)))
        assert len(body.finish()) == 1000
        with pytest.raises(HopError):
            Body(name, 1000).feed(pack(bytes(1001)))
    body = Body("gzip", 1000)
    with pytest.raises(HopError):
        body.feed(gzip.compress(b"") * 100)


def test_an_empty_body_is_empty() -> None:
    """An empty body is read as empty, whatever its content coding."""
    assert Body("gzip", 10).finish() == b""
