"""The body of a POST as parameters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from microsub.base.errors import InvalidRequest, TooLarge, TooSlow
from microsub.web import params
from microsub.web.params import MAX_BODY, RequestBody, body_pairs, collect, read_body

BOUNDARY = "xYzZY"


async def read(*chunks: bytes, content_type: str | None = None, length: int | None = None) -> dict[str, list[str]]:
    headers = []
    if content_type is not None:
        headers.append((b"content-type", content_type.encode()))
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request"})

    async def receive() -> Any:
        return messages.pop(0)

    params = collect(await body_pairs(await read_body({"headers": headers}, receive)))
    return {name: params.many(name) for name in ("action", "entry", "name") if params.many(name)}


FORM = "application/x-www-form-urlencoded"
EXPECTED = {"action": ["timeline"], "entry": ["1", "2"], "name": ["ü & x"]}


@pytest.mark.parametrize("content_type", [FORM, f"{FORM};charset=UTF-8", FORM.upper(), None, "", "text/plain"])
async def test_urlencoded_with_and_without_a_type(content_type: str | None) -> None:
    """A body without Content-Type is urlencoded."""
    body = b"action=timeline&entry[]=1&entry[]=2&name=%C3%BC+%26+x"
    assert await read(body, content_type=content_type) == EXPECTED


@pytest.mark.parametrize("content_type", [None, FORM, "application/json", "multipart/form-data", "image/png"])
async def test_an_empty_body_holds_nothing(content_type: str | None) -> None:
    """Some clients send everything in the query, and still declare a type."""
    assert await read(b"", content_type=content_type) == {}


async def test_other_types_are_refused() -> None:
    """The message has the type found and the accepted ones."""
    with pytest.raises(InvalidRequest, match="found 'application/xml', expected application/x-www-form-urlencoded"):
        await read(b"<x/>", content_type="application/xml")


@pytest.mark.parametrize("content_type", ["multipart/form-data", f"multipart/form-data; boundary={BOUNDARY}"])
async def test_broken_multipart_is_an_error_of_the_request(content_type: str) -> None:
    """Without its boundary, or with invalid content."""
    with pytest.raises(InvalidRequest, match="not multipart/form-data"):
        await read(b"--nonsense\r\n\r\nx", content_type=content_type)


@pytest.mark.parametrize("charset", ["utf-8", "utf-7", "unicode_escape", "punycode", "undefined", "none such"])
async def test_a_multipart_body_is_utf_8(charset: str) -> None:
    """The declared charset is ignored: some decode to half characters, which can't be stored, or fail."""
    body = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="name"\r\n\r\n+2AA-\\ud800\r\n--{BOUNDARY}--'
    kind = f"multipart/form-data; boundary={BOUNDARY}; charset={charset}"
    assert await read(body.encode(), content_type=kind) == {"name": ["+2AA-\\ud800"]}


async def test_a_declared_length_over_the_limit_is_refused_unread() -> None:
    """The error doesn't wait for the body."""
    with pytest.raises(
        TooLarge, match="the body is too large: it has more than 1 MiB, which is the most that this server takes"
    ):
        await read(length=MAX_BODY + 1)


async def test_a_body_that_grows_over_the_limit_is_refused() -> None:
    """The declared length doesn't matter."""
    with pytest.raises(TooLarge):
        await read(*[b"x" * (MAX_BODY // 2)] * 3, length=5)


async def test_a_broken_connection_is_not_a_shorter_request() -> None:
    """Half of a list of entries must not be treated as the complete list."""

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(InvalidRequest, match="incomplete"):
        await read_body({"headers": []}, receive)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-www-form-urlencoded", b"&".join(b"entry%%5B%d%%5D=%%41" % n for n in range(9_000))),
        ("application/json", json.dumps({"entry": ["A"] * 30 + ["B" * 100_000]}).encode()),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="entry[]"\r\n\r\nA\r\n' * 5_000 + b"--b--\r\n",
        ),
    ],
)
async def test_a_large_body_doesnt_block_the_event_loop(content_type: str, body: bytes) -> None:
    """The event loop runs while it is parsed; the result is the same."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = list(await body_pairs(RequestBody(body, content_type)))
    beside.cancel()
    assert found[0][1] == "A"
    assert turns


async def test_a_body_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its sender could keep a place that others wait for, such as one of four for lists of feeds."""
    monkeypatch.setattr(params, "BODY_SECONDS", 0.01)
    arrived = iter([{"type": "http.request", "body": b"a", "more_body": True}])

    async def receive() -> Any:
        for part in arrived:
            return part
        await asyncio.Event().wait()

    with pytest.raises(TooSlow, match="not complete after"):
        await read_body({"headers": []}, receive)
