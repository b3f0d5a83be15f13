"""Parameters of a request, in its query or its body, in every form that clients send.

Spec: https://indieweb.org/Microsub-spec, and what clients really do. An array arrives as `entry=a`, `entry=a&entry=b`,
`entry[]=a&entry[]=b`, `entry[0]=a&entry[1]=b`, a JSON scalar or a JSON list; query and body may each hold a part of
the parameters. An empty string counts as absent, because some clients send `after=&before=`.

All errors of this module are InvalidRequest with the parameter, the value found and the expected one.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import orjson
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Receive, Scope

from microsub.base.errors import InvalidRequest, TooLarge, TooManyRequests, TooSlow
from microsub.base.locks import KeyedLocks
from microsub.base.plaintext import shown
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter, network_of
from microsub.base.texts import size
from microsub.base.urls import is_secret_name, mask_credentials
from microsub.web.types import FORM

TRUTHS = {"true": True, "1": True, "false": False, "0": False}
"""Parameter values for yes and no, in lower case."""

MAX_PAIRS = 10_000
_LONGEST_TYPE = 1000

Pairs = Iterable[tuple[str, str]]

_INDEXED = re.compile(r"([^\[\]]+)\[([^\[\]]*)\]\Z")


class Params:
    """The parameters of all sources by plain name; every value is a non-empty string."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"Params({', '.join(sorted(self._values))})"

    def text(self, name: str) -> str | None:
        """The value of `name`, or None; equal values count once. Raises for different ones."""
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            for other in values:
                if other != values[0]:
                    found = f"found {_quoted(name, values[0])} and {_quoted(name, other)}"
                    raise InvalidRequest(f"'{name}' has more than one value: {found}, expected one")
        return values[0]

    def need(self, name: str, expected: str) -> str:
        """The value of `name`. Raises an error that says what was `expected` if it is missing."""
        value = self.text(name)
        if value is None:
            raise missing(name, expected)
        return value

    def many(self, name: str) -> list[str]:
        """All different values of `name`, in the client's order."""
        return list(dict.fromkeys(self._values.get(name, ())))

    def every(self, name: str) -> list[str]:
        """All values of `name`, equal ones too, in the client's order."""
        return list(self._values.get(name, ()))


def missing(name: str, expected: str) -> InvalidRequest:
    """The error for a missing parameter."""
    return InvalidRequest(f"'{name}' is missing: found nothing, expected {expected}")


def wrong(name: str, found: str, expected: str) -> InvalidRequest:
    """The error for a parameter with an invalid value."""
    return InvalidRequest(f"'{name}' can't be used: found {_quoted(name, found)}, expected {expected}")


def _quoted(name: str, value: str) -> str:
    """A parameter's value for error messages, which are logged: without secrets."""
    return "***" if is_secret_name(name) else f"'{shown(mask_credentials(value))}'"


def collect(*sources: Pairs) -> Params:
    """Join pairs of name and value; `name[]` and `name[3]` are `name`, in the order of numbers."""
    values: dict[str, list[str]] = {}
    numbered: dict[str, list[tuple[int, str]]] = {}
    for source in sources:
        for name, value in source:
            if not value:
                continue
            if name[-1:] == "]" and (match := _INDEXED.match(name)):
                plain, index = match.groups()
                if index.isdecimal() and len(index) <= 9:
                    numbered.setdefault(plain, []).append((int(index), value))
                    continue
                name = plain  # noqa: PLW2901 - from here on, `entry[]` is `entry`
            known = values.get(name)
            if known is None:
                values[name] = [value]
            else:
                known.append(value)
    for name, entries in numbered.items():
        entries.sort(key=lambda entry: entry[0])
        values.setdefault(name, []).extend(value for _, value in entries)
    return Params(values)


def urlencoded(raw: bytes, most: int = MAX_PAIRS) -> Iterator[tuple[str, str]]:
    """At most that many pairs of a query string or urlencoded body; invalid UTF-8 is replaced."""
    if raw.count(b"&") >= most:
        raise _too_many(most)
    if b"%" not in raw and b"+" not in raw:  # nearly always; decoded at once it costs half
        for plain in raw.decode("utf-8", "replace").split("&"):
            left, _, right = plain.partition("=")
            if right:
                yield left, right
        return
    for pair in raw.split(b"&"):
        name, _, value = pair.partition(b"=")
        if value:
            yield _decode(name), _decode(value)


def empty_names(raw: bytes) -> set[str]:
    """The plain names with an empty or no value in a query string."""
    found = set()
    for pair in raw.split(b"&") if raw else ():
        name, _, value = pair.partition(b"=")
        if not value:
            text = _decode(name)
            match = _INDEXED.match(text)
            found.add(match[1] if match else text)
    return found


def json_object(raw: bytes) -> Iterator[tuple[str, str]]:
    """Pairs of a JSON body, whose members are scalars or lists of scalars; null is absent."""
    if raw.count(b",") >= 2 * MAX_PAIRS:  # parsing longer lists blocks the process for a tenth of a second
        raise _too_many()
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}, expected an object with the parameters") from None
    if not isinstance(document, dict):
        raise InvalidRequest(f"invalid body: found a JSON {_kind(document)}, expected an object")
    if sum(len(value) if isinstance(value, list) else 1 for value in document.values()) > MAX_PAIRS:
        raise _too_many()
    for name, value in document.items():
        for member in value if isinstance(value, list) else (value,):
            if member is not None:
                yield name, _scalar(name, member)


def _too_many(most: int = MAX_PAIRS) -> InvalidRequest:
    return InvalidRequest(f"too many parameters: found more than {most}, expected fewer")


def _decode(raw: bytes) -> str:
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    if b"%" in raw:
        raw = unquote_to_bytes(raw)
    return raw.decode("utf-8", "replace")


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise InvalidRequest(
        f"'{shown(name)}' can't be used: found a JSON {_kind(value)}, expected a string or a list of strings"
    )


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case dict():
            return "object"
        case list():
            return "list"
        case str():
            return "string"
    return "number"


MAX_BODY = 1 << 20
"""Maximum bytes of a request body. A thousand entries to mark take a fiftieth of it."""

UNCHECKED_BODY = 1 << 16
"""Maximum bytes that are parsed before the token is checked."""

UNCHECKED_PARTS = 1 << 13
"""The same for a multipart body, which takes eight times as long."""

LARGE_BODIES_AT_ONCE = RateLimit("large request bodies that are being received", "user", 16, AT_ONCE)
"""Bodies over `UNCHECKED_BODY`: until it is complete, one takes a megabyte, for up to `BODY_SECONDS`."""


def large_body(limiter: RateLimiter, user: str) -> AbstractContextManager[None]:
    """Hold a slot of the user for the block, in which a large body is received. Raises TooManyRequests."""
    refusal = TooManyRequests("too many large bodies are being sent at once: try again in a few seconds", 5)
    return limiter.holding((LARGE_BODIES_AT_ONCE, user), refusal=refusal)


FEW_PAIRS = 32
"""Pairs that are made at once: less work than the rest of a request."""
_PIECE = 500
"""Pairs of a piece, which take a millisecond."""
_turns = KeyedLocks()

_MULTIPART = "multipart/form-data"


class RequestBody(NamedTuple):
    """A request's body and its declared type."""

    content: bytes
    content_type: str


BODY_SECONDS = 120.0
"""Maximum time for a whole body, which may keep others waiting. 16 MiB need 140 KB a second."""


async def read_body(scope: Scope, receive: Receive, most: int = MAX_BODY) -> RequestBody:
    """Read the body. Raises TooLarge over `most` bytes, before reading if that is declared, and TooSlow."""
    content_type = _header(scope, b"content-type")
    if most < declared_length(scope) < math.inf:
        raise too_large(most)
    try:
        content = await _read(receive, most)
    except TimeoutError:
        raise TooSlow(f"the body was not complete after {BODY_SECONDS:g} seconds") from None
    return RequestBody(content, content_type.decode("latin-1"))


def declared_length(scope: Scope) -> float:
    """The bytes of the body as the request declares them; infinite if it doesn't."""
    length = _header(scope, b"content-length")
    return int(length) if length.isdigit() else math.inf


def _header(scope: Scope, name: bytes) -> bytes:
    found: list[bytes] = [value for given, value in scope["headers"] if given == name]
    return found[-1] if found else b""


async def body_pairs(body: RequestBody, client: str = "", most: int = MAX_PAIRS) -> Pairs:
    """At most that many pairs of a body of the client by its declared type; without a type it is urlencoded.

    A large body may take some tenths of a second, so it is split in a thread.
    """
    if not body.content:
        return ()
    if len(body.content) > (UNCHECKED_PARTS if is_multipart(body) else UNCHECKED_BODY):
        async with _turn(client):
            return await asyncio.to_thread(lambda: asyncio.run(_all_pairs(body, most)))
    if is_multipart(body):
        async with _turn(client):
            return await _pairs(body.content, body.content_type, most)
    return await in_turn(client, await _pairs(body.content, body.content_type, most))


async def in_turn(client: str, pairs: Pairs) -> list[tuple[str, str]]:
    """The pairs that a client sent. Many are made in pieces, between which others' requests go on.

    Eighty bodies of ten thousand pairs at once kept everybody else's page for half a minute.
    """
    left = iter(pairs)
    found = list(islice(left, FEW_PAIRS))
    if len(found) == FEW_PAIRS:
        async with _turn(client):
            while some := list(islice(left, _PIECE)):
                found += some
                await asyncio.sleep(0)
    return found


@asynccontextmanager
async def _turn(client: str) -> AsyncIterator[None]:
    """The turn of a client's network with one of its bodies: a network with many of them delays only itself."""
    async with _turns.of(network_of(client)), _turns.of(""):
        await asyncio.sleep(0)  # for otherwise all that begin in the same round find it free, one after the other
        yield


def is_multipart(body: RequestBody) -> bool:
    """Whether the body was declared as multipart/form-data."""
    return _kind_of(body.content_type) == _MULTIPART


def _kind_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


async def _all_pairs(body: RequestBody, most: int) -> Pairs:
    return list(await _pairs(body.content, body.content_type, most))


async def _read(receive: Receive, most: int) -> bytes:
    chunks, count, ends = list[bytes](), 0, time.monotonic() + BODY_SECONDS
    while True:
        # Most bodies are one part, and cost no timer; the server itself limits the time until the first part.
        message = await (asyncio.wait_for(receive(), ends - time.monotonic()) if chunks else receive())
        if message["type"] == "http.disconnect":
            raise InvalidRequest("the body is incomplete: the connection was closed before its end")
        chunk: bytes = message.get("body", b"")
        count += len(chunk)
        if count > most:
            raise too_large(most)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _pairs(body: bytes, content_type: str, most: int) -> Pairs:
    if len(content_type) > _LONGEST_TYPE:
        raise InvalidRequest(f"the Content-Type of the body has more than {_LONGEST_TYPE} characters")
    kind = _kind_of(content_type)
    if kind in {"", FORM, "text/plain"}:
        return urlencoded(body.strip(), most)
    if kind == "application/json" or kind.endswith("+json"):
        return json_object(body)
    if kind == _MULTIPART:
        return (await _multipart(body, content_type))[0]
    raise InvalidRequest(
        f"unsupported Content-Type of the body: found '{shown(kind)}', expected "
        "application/x-www-form-urlencoded, multipart/form-data or application/json"
    )


FormWithFiles = tuple[Sequence[tuple[str, str]], Sequence[tuple[str, bytes]]]
"""The fields and files of a form, in their order."""


async def form_with_files(body: RequestBody, client: str, most: int) -> FormWithFiles:
    """The non-empty fields and at most `most` files of a multipart body of the client.

    Raises InvalidRequest. Runs in a thread, because ten megabytes take some tenths of a second.
    """
    content_type = body.content_type[:_LONGEST_TYPE]
    async with _turn(client):
        return await asyncio.to_thread(lambda: asyncio.run(_multipart(body.content, content_type, most)))


async def _multipart(body: bytes, content_type: str, most: int = 10) -> FormWithFiles:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    # UTF-8 for every declared charset: some decode to characters that can't be stored.
    _, options = parse_options_header(content_type)
    headers = Headers(raw=[(b"content-type", b'multipart/form-data; boundary="%b"' % options.get(b"boundary", b""))])
    parser = MultiPartParser(headers, stream(), max_files=most, max_fields=MAX_PAIRS, max_part_size=MAX_BODY)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not multipart/form-data as its Content-Type says: {error}") from None
    fields, files = [], []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.append((name.partition("[")[0], await value.read()))
        elif value:
            fields.append((name, value))
    await form.close()
    return fields, files


def too_large(most: int) -> TooLarge:
    """The error for a body of more than `most` bytes."""
    return TooLarge(f"the body is too large: it has more than {size(most)}, which is the most that this server takes")
