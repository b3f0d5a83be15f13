"""The body of a POST as parameters: size limit, then urlencoded, multipart or JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Receive, Scope

from microsub.errors import InvalidRequest, TooLarge
from microsub.kit.http.params import MAX_PAIRS, Pairs, json_object, shown, urlencoded

MAX_BODY = 1 << 20
"""Bytes of a request body. A thousand entries to be marked take a fiftieth of it."""

UNCHECKED_BODY = 1 << 16
"""Bytes that are taken apart for somebody who hasn't shown a good token yet."""


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A body as it was read, and the type that it was declared with."""

    content: bytes
    content_type: str


async def read_body(scope: Scope, receive: Receive) -> RequestBody:
    """Read the body. Raises TooLarge over `MAX_BODY` (before reading, where the length is declared)."""
    length = content_type = b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            length = value
    if length.isdigit() and int(length) > MAX_BODY:
        raise _too_large()
    return RequestBody(await _read(receive), content_type.decode("latin-1"))


async def body_pairs(body: RequestBody) -> Pairs:
    """Split a body into pairs by its declared type; without one it is urlencoded. Raises InvalidRequest.

    A large one may take some tenths of a second: it is split in a thread, and nobody else waits.
    """
    if not body.content:
        return ()
    if len(body.content) <= UNCHECKED_BODY:
        return await _pairs(body.content, body.content_type)
    return await asyncio.to_thread(lambda: asyncio.run(_all_pairs(body)))


async def _all_pairs(body: RequestBody) -> Pairs:
    return list(await _pairs(body.content, body.content_type))


async def _read(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidRequest("the body is incomplete: the connection was closed before its end")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY:
            raise _too_large()
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _pairs(body: bytes, content_type: str) -> Pairs:
    kind = content_type.partition(";")[0].strip().lower()
    if kind in {"", "application/x-www-form-urlencoded", "text/plain"}:
        return urlencoded(body.strip())
    if kind == "application/json" or kind.endswith("+json"):
        return json_object(body)
    if kind == "multipart/form-data":
        return await _multipart(body, content_type)
    raise InvalidRequest(
        f"the Content-Type of the body can't be used: found '{shown(kind)}', expected "
        "application/x-www-form-urlencoded, multipart/form-data or application/json"
    )


async def _multipart(body: bytes, content_type: str) -> Iterable[tuple[str, str]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    headers = Headers({"content-type": content_type})
    parser = MultiPartParser(headers, stream(), max_files=10, max_fields=MAX_PAIRS, max_part_size=MAX_BODY)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not multipart/form-data as its Content-Type says: {error}") from None
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def _too_large() -> TooLarge:
    return TooLarge(f"the body is too large: found more than {MAX_BODY} bytes, expected at most that")
