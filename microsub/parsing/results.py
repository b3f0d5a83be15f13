"""Reads values that parser processes wrote as JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter


@cache
def reader(hint: Any) -> Callable[[bytes | bytearray], Any]:
    """A function that reads JSON as a value of that type, and raises ValueError for any other JSON."""
    # pydantic reads the options only from the outermost type.
    adapter = TypeAdapter(list[hint], config=ConfigDict(strict=True, extra="forbid", val_json_bytes="base64"))
    return lambda data: adapter.validate_json(b"".join((b"[", data, b"]")))[0]
