"""Bodies that are too long, too slow, or of another kind than their headers declare."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

from tests.hostile.case import Case
from tests.hostile.publisher import Act, Asked, chunked
from tests.support.polling import dated, rss

GOOD = rss(dated(3))
XML = "Content-Type: application/rss+xml"
MIB = 1024 * 1024


def _deflated(wbits: int) -> bytes:
    """50 MiB of zeros, compressed a thousand times smaller."""
    squeeze = zlib.compressobj(9, wbits=wbits)
    parts = [squeeze.compress(bytes(MIB)) for _ in range(50)]
    return b"".join([*parts, squeeze.flush()])


def sends(body: bytes, *lines: str) -> Act:
    """Answers 200 with that body."""

    async def act(visit: Asked) -> None:
        await visit.reply(body, *(lines or (XML,)))

    return act


def bomb(coding: str, wbits: int) -> Act:
    """A small body that decompresses to a large one."""

    async def act(visit: Asked) -> None:
        await visit.reply(_deflated(wbits), XML, f"Content-Encoding: {coding}")

    return act


async def members(visit: Asked) -> None:
    """Many gzip streams, one after the other, each of 1 MiB of zeros."""
    await visit.reply(gzip.compress(bytes(MIB)) * 300, XML, "Content-Encoding: gzip")


async def empty_members(visit: Asked) -> None:
    """4 MiB of empty gzip streams."""
    member = gzip.compress(b"")
    await visit.reply(member * (4 * MIB // len(member)) + gzip.compress(GOOD), XML, "Content-Encoding: gzip")


async def endless(visit: Asked) -> None:
    await visit.head(XML)
    while True:
        await visit.send(b"x" * 65_536)


async def endless_chunks(visit: Asked) -> None:
    await visit.head(XML, "Transfer-Encoding: chunked")
    while True:
        await visit.send(chunked([b"<item>" * 10_000]))


async def endless_compressed(visit: Asked) -> None:
    await visit.head(XML, "Content-Encoding: gzip")
    squeeze = zlib.compressobj(9, wbits=31)
    while True:
        await visit.send(squeeze.compress(bytes(8 * MIB)) or b"")


async def trickle(visit: Asked) -> None:
    """One byte every 0.2 seconds, until the body is complete."""
    await visit.head(XML, f"Content-Length: {len(GOOD)}")
    for byte in GOOD:
        await visit.send(bytes([byte]))
        await asyncio.sleep(0.2)


async def crumbs(visit: Asked) -> None:
    """One byte per chunk, as fast as possible: a chunk costs the reader as much as 1,000 bytes do."""
    await visit.head(XML, "Transfer-Encoding: chunked")
    many = chunked([b"x"] * 10_000)
    while True:
        await visit.send(many)


async def small_chunks(visit: Asked) -> None:
    """Sixteen bytes per chunk, as fast as possible: a body of the maximum length would take half a minute."""
    await visit.head(XML, "Transfer-Encoding: chunked")
    many = chunked([b"x" * 16] * 10_000)
    while True:
        await visit.send(many)


async def chunks_of_extensions(visit: Asked) -> None:
    """Small chunks with long chunk extensions, as fast as possible."""
    await visit.head(XML, "Transfer-Encoding: chunked")
    many = b"6;" + b"x" * 8000 + b"\r\n<item>\r\n"
    while True:
        await visit.send(many * 10)


async def endless_trailers(visit: Asked) -> None:
    await visit.head(XML, "Transfer-Encoding: chunked")
    await visit.send(chunked([GOOD]) + b"0\r\n")
    while True:
        await visit.send(b"X-More: and more\r\n" * 1000)


def lying_length(said: int) -> Act:
    async def act(visit: Asked) -> None:
        await visit.head(XML, f"Content-Length: {said}")
        await visit.send(GOOD)

    return act


def lengths(*lines: str) -> Act:
    async def act(visit: Asked) -> None:
        await visit.head(XML, *lines)
        await visit.send(GOOD)

    return act


async def cut_gzip(visit: Asked) -> None:
    await visit.reply(gzip.compress(GOOD)[:-20], XML, "Content-Encoding: gzip")


async def broken_gzip(visit: Asked) -> None:
    squeezed = bytearray(gzip.compress(GOOD))
    squeezed[40:60] = b"\xff" * 20
    await visit.reply(bytes(squeezed), XML, "Content-Encoding: gzip")


def bare(data: bytes) -> bytes:
    """Deflate without zlib's header and checksum, as some servers send it."""
    return zlib.compress(data, wbits=-15)


GZIP, DEFLATE = "Content-Encoding: gzip", "Content-Encoding: deflate"
JSON = json.dumps(
    {"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{"id": "1", "content_text": "a"}]}
).encode()

CASES = {
    "gzip-bomb": Case(bomb("gzip", 31), "too_large"),
    "deflate-bomb": Case(bomb("deflate", 15), "too_large"),
    "raw-deflate-bomb": Case(bomb("deflate", -15), "too_large"),
    "gzip-bomb-in-members": Case(members, "too_large"),
    "gzip-of-empty-members": Case(empty_members, "encoding", "parts"),
    "gzip-bomb-without-end": Case(endless_compressed, "too_large"),
    "brotli-nobody-asked-for": Case(
        sends(b"\x8b\x01\x80abc\x03", XML, "Content-Encoding: br"), "encoding", "Content-Encoding"
    ),
    "zstd-nobody-asked-for": Case(sends(b"\x28\xb5\x2f\xfd", XML, "Content-Encoding: zstd"), "encoding"),
    "coding-upon-coding": Case(sends(gzip.compress(gzip.compress(GOOD)), XML, GZIP + ", gzip"), "encoding"),
    "coding-with-a-long-name": Case(sends(GOOD, XML, "Content-Encoding: " + "x" * 30_000), "encoding"),
    "endless-body": Case(endless, "too_large"),
    "endless-chunks": Case(endless_chunks, "too_large"),
    "a-byte-at-a-time": Case(trickle, "timeout", brief=True),
    "a-byte-in-each-chunk": Case(crumbs, "protocol", "tiny chunks"),
    "some-bytes-in-each-chunk": Case(small_chunks, "protocol", "tiny chunks"),
    "chunks-of-extensions": Case(chunks_of_extensions, "protocol", "chunk extensions"),
    "trailers-without-end": Case(endless_trailers, "protocol"),
    "length-too-long": Case(lying_length(len(GOOD) + 1000), "protocol"),
    "length-too-short": Case(lying_length(len(GOOD) - 300)),
    "length-zero": Case(lying_length(0), "parse", "empty"),
    "length-negative": Case(lengths("Content-Length: -5"), "protocol"),
    "length-no-number": Case(lengths("Content-Length: many"), "protocol"),
    "length-beyond-numbers": Case(lengths("Content-Length: 99999999999999999999"), "protocol"),
    "lengths-that-differ": Case(lengths("Content-Length: 5", "Content-Length: 7"), "protocol"),
    "gzip-that-is-plain": Case(sends(GOOD, XML, GZIP), posts=3),
    "gzip-cut-off": Case(cut_gzip, "encoding", "too early"),
    "gzip-damaged": Case(broken_gzip, "encoding", "broken"),
    "gzip-with-litter": Case(sends(gzip.compress(GOOD) + b"\0" * 5000, XML, GZIP), posts=3),
    "deflate-without-a-head": Case(sends(bare(GOOD), XML, DEFLATE), posts=3),
    "deflate-that-is-plain": Case(sends(GOOD, XML, DEFLATE), "encoding", "broken"),
    "deflate-of-one-byte": Case(sends(b"\x78", XML, DEFLATE), "encoding", "too early"),
    "deflate-that-is-gzip": Case(sends(gzip.compress(GOOD), XML, DEFLATE), posts=3),
    "plain-that-is-gzip": Case(sends(gzip.compress(GOOD)), "parse"),
    "empty-200": Case(sends(b""), "parse", "empty"),
    "type-of-a-picture": Case(sends(GOOD, "Content-Type: image/png"), posts=3),
    "type-of-80-kib": Case(sends(GOOD + b"\xe9", "Content-Type: text/xml; charset=" + " " * 80_000 + "!"), posts=3),
    "type-of-nothing": Case(sends(GOOD, "Content-Type: ;;;=\xff"), posts=3),
    "json-called-html": Case(sends(JSON, "Content-Type: text/html"), posts=1),
    "zip-called-rss": Case(sends(b"PK\x03\x04" + bytes(range(256)) * 2000), "parse"),
    "page-without-posts": Case(sends(b"<!doctype html><p>Hello", "Content-Type: text/html"), "parse"),
}
