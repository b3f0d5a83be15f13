"""Any input gives parameters, or an error of the request; never anything else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import orjson
from hypothesis import given
from hypothesis import strategies as st

from microsub.api import arguments
from microsub.base.errors import RequestError
from microsub.model.reader import Cursor
from microsub.web import actions
from microsub.web.params import Params, body_pairs, collect, json_object, read_body, urlencoded

names = st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=1, max_size=8)
values = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
kinds = st.sampled_from(
    ["", "application/json", "multipart/form-data", "multipart/form-data; boundary=b", "text/plain", "x/y"]
) | st.text(st.characters(max_codepoint=255), max_size=20)


def read_everything(params: Params) -> None:
    for read in (
        actions.channel_in,
        actions.channel_or_global,
        actions.entries_in,
        arguments.name,
        arguments.page_query,
        actions.url_in,
    ):
        with suppress(RequestError):
            read(params)


@given(st.binary(max_size=300))
def test_any_query(raw: bytes) -> None:
    """Bytes of all kinds, through all arguments."""
    read_everything(collect(urlencoded(raw)))


@given(st.binary(max_size=400) | st.builds(b"--b\r\n%b\r\n--b--".__mod__, st.binary(max_size=300)), kinds)
def test_any_body(raw: bytes, kind: str) -> None:
    """Bytes of all kinds, under all types."""
    messages: list[Any] = [{"type": "http.request", "body": raw}]

    async def receive() -> Any:
        return messages.pop()

    async def read() -> Params:
        return collect(
            await body_pairs(await read_body({"headers": [(b"content-type", kind.encode("latin-1"))]}, receive))
        )

    with suppress(RequestError):
        read_everything(asyncio.run(read()))


@given(st.dictionaries(names, st.lists(values, max_size=4)))
def test_json_and_forms_mean_the_same(document: dict[str, list[str]]) -> None:
    """A JSON object of lists and its urlencoded form give the same parameters."""
    form = urlencode([(name, value) for name, found in document.items() for value in found]).encode()
    one, two = collect(json_object(orjson.dumps(document))), collect(urlencoded(form))
    for name, found in document.items():
        assert one.many(name) == two.many(name) == list(dict.fromkeys(found))


@given(st.text(max_size=60))
def test_any_cursor(text: str) -> None:
    """It decodes to a cursor that encodes to the same place, or is refused."""
    with suppress(RequestError):
        cursor = Cursor.decode(text, "after")
        assert Cursor.decode(cursor.encode(), "after") == cursor


@given(st.integers(0, 10**10), st.integers(0, 999999), st.integers(1, 10**18))
def test_cursors_are_url_safe_and_come_back(seconds: int, fraction: int, item: int) -> None:
    """Every place has a cursor that needs no encoding."""
    cursor = Cursor(f"{seconds}.{fraction:06d}", str(item))
    assert set(cursor.encode()) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
    assert Cursor.decode(cursor.encode(), "after") == cursor
