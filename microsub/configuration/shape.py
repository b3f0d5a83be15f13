"""The form of backend.json, as pydantic checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from microsub.configuration.model import Backend


@cache
def adapter() -> Any:
    """pydantic's view of `Backend`, used for the check and the JSON Schema."""
    return TypeAdapter(Backend)


def check_shape(document: Any) -> Iterator[Mapping[str, Any]]:
    """pydantic's errors for an expanded document: `type`, `loc`, `input` and `ctx` of each."""
    try:
        adapter().validate_python(_whole(document))
    except ValidationError as error:
        yield from error.errors(include_url=False)


def _whole(part: Any) -> Any:
    """`part` with 5.0 as 5, because JSON has one kind of number."""
    if isinstance(part, Mapping):
        return {key: _whole(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_whole(value) for value in part]
    return int(part) if isinstance(part, float) and part.is_integer() else part
